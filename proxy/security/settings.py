"""Parses settings that several authorizers have; ValueError names the key."""

from collections.abc import Mapping

from proxy.security.authorizer import SUPER_USERS
from proxy.security.principal import parse_principal


def super_users(settings: Mapping[str, str]) -> frozenset[str]:
    """Parse `super.users`: "User:a;User:b"."""
    users = [user.strip() for user in (settings.get(SUPER_USERS) or "").split(";") if user.strip()]
    for user in users:
        try:
            parse_principal(user)
        except ValueError as error:
            raise ValueError(f"{SUPER_USERS}: {error}") from error
    return frozenset(users)


def parse_boolean(settings: Mapping[str, str], key: str, *, default: bool) -> bool:
    """Parse true or false, in any case; the default if it is not set.

    Anything else is an error, unlike in Kafka.
    """
    text = str(settings.get(key) or default).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"{key}: expected true or false, got {text!r}")
    return text == "true"
