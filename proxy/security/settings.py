"""Settings that authorizers have in common, as texts in, as values out; ValueError names the key."""

from collections.abc import Mapping

from proxy.security.authorizer import SUPER_USERS
from proxy.security.principal import parse_principal


def super_users(settings: Mapping[str, str]) -> frozenset[str]:
    """`super.users`: "User:a;User:b"; each as its text."""
    users = [user.strip() for user in (settings.get(SUPER_USERS) or "").split(";") if user.strip()]
    for user in users:
        try:
            parse_principal(user)
        except ValueError as error:
            raise ValueError(f"{SUPER_USERS}: {error}") from error
    return frozenset(users)


def yes_or_no(settings: Mapping[str, str], key: str, *, default: bool) -> bool:
    """true or false, in any case; not set: the default. Anything else is an error, unlike in Kafka."""
    text = str(settings.get(key) or default).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"{key}: expected true or false, got {text!r}")
    return text == "true"
