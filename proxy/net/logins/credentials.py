"""The SASL mechanisms of a listener, made from its settings, for proxies and controllers; the users of PLAIN.

Made when the process is built. `BUILT_IN` has the constructor of each mechanism;
proxy.security.sasl.exchange loads others. Modules that only OAUTHBEARER or GSSAPI needs are imported when a
listener enables it: at the start, or in the thread of a reload (decision 0065).

proxy.config.users fills the users of PLAIN, by hashed password, and PLAIN exchanges verify with them.
Verifying a hashed password takes tens of ms, so verified passwords are remembered, as an HMAC with a key of
this process.
"""

import hashlib
import hmac
import secrets
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Protocol

from prometheus_client import CollectorRegistry

from proxy.metadata.image import MetadataImage, ScramImage
from proxy.metadata.scram import ScramMechanism
from proxy.net.files.watched_file import FileReloads
from proxy.security.backoff import LoginBackoff
from proxy.security.delegation_tokens import TokenLogins, TokenSecret
from proxy.security.passwords import USUAL_COST, cost_of, dummy_hash, verify_password
from proxy.security.sasl.exchange import Exchange, SaslMechanism, load_mechanism
from proxy.security.sasl.plain import PlainExchange, PlainVerifier, Verified, load_verifier
from proxy.security.sasl.scram import SaltKey, ScramExchange, UsualCredentials
from proxy.session.authentication import SaslListener

if TYPE_CHECKING:
    from proxy.net.logins.kerberos import GssapiSettings
    from proxy.net.logins.oauthbearer import KeySources, OAuthBearerSettings

_MAX_REMEMBERED = 10_000
_KEYED = "keyed$"
_KEY = secrets.token_bytes(32)
"""Never leaves the process."""

SharedKeys = Callable[[], "KeySources"]
"""Returns the identity providers' keys of the process, which the first call makes."""


def keyed_password(password: str) -> str:
    """Return the HMAC of a plain-text password, to be stored beside hashes: equal for equal passwords."""
    return _KEYED + _mark(password)


def _mark(*parts: str) -> str:
    return hmac.digest(_KEY, "\0".join(parts).encode(), hashlib.sha256).hex()


@dataclass(frozen=True, slots=True)
class StoredUser:
    """A user of PLAIN. `password`: its hash, or the result of `keyed_password`."""

    password: str = field(repr=False)
    groups: tuple[str, ...] = ()
    until_ms: int | None = None
    """When it can no longer log in, and its sessions end; None: never."""

    def holds(self, present: "StoredUser | None") -> bool:
        """Whether a session by this entry may go on under the present one: a later end is no change.

        With other groups it may not: `sessions.revoke.immediately` ends the session of who has left a group.
        """
        if present is None or (present.password, present.groups) != (self.password, self.groups):
            return False
        return present.until_ms is None or (self.until_ms is not None and self.until_ms <= present.until_ms)


class PlainUsers:
    """A PlainVerifier over user name -> StoredUser."""

    hashes = True

    def __init__(self, stored: Mapping[str, StoredUser]) -> None:
        self.replace(stored)
        # User -> the hash that was matched, and the HMAC of user and password. Verifying threads write it,
        # one whole entry at a time.
        self._verified: dict[str, tuple[str, str]] = {}

    def replace(self, stored: Mapping[str, StoredUser]) -> None:
        """Replace all users."""
        self._stored = dict(stored)
        # An unknown user costs what most users cost, so that the time does not reveal who exists.
        hashes = (user.password for user in stored.values() if not user.password.startswith(_KEYED))
        costs = Counter(map(cost_of, hashes))
        cost = costs.most_common(1)[0][0] if costs else USUAL_COST
        self.dummy_hash = dummy_hash(cost, secrets.token_bytes(16), secrets.token_bytes(32))

    def remembered(self, username: str, password: str) -> Verified | None:
        """Return a result if this password was verified before, against the hash in effect; else None."""
        matched, mark = self._verified.get(username, ("", ""))
        if not hmac.compare_digest(mark, _mark(username, password)):
            return None
        stored = self._stored.get(username)
        if stored is None or stored.password != matched:
            return None
        return self._verified_now(username, stored)

    def verify(self, username: str, password: str) -> Verified | None:
        """Return a result if this is the user's password, else None. Takes about 50 ms of CPU."""
        # After a restart many connections of one user arrive together: only the first one pays.
        found = self.remembered(username, password)
        if found is not None:
            return found
        stored = self._stored.get(username)
        matches = self._matches(password, self.dummy_hash if stored is None else stored.password)
        if stored is None or not matches:
            return None
        if len(self._verified) >= _MAX_REMEMBERED:
            self._verified.clear()
        self._verified[username] = (stored.password, _mark(username, password))
        return self._verified_now(username, stored)

    def _verified_now(self, username: str, stored: StoredUser) -> Verified:
        return Verified(lambda: stored.holds(self._stored.get(username)), stored.groups, stored.until_ms)

    def _matches(self, password: str, stored: str) -> bool:
        if not stored.startswith(_KEYED):
            return verify_password(password, stored)
        # As slow as the others, though it needs no hashing.
        verify_password(password, self.dummy_hash)
        return hmac.compare_digest(stored, keyed_password(password))


class LoginSettings(Protocol):
    """The login settings of a listener: a part of proxy.config.Listener."""

    @property
    def name(self) -> str: ...
    @property
    def sasl_enabled_mechanisms(self) -> tuple[str, ...]: ...
    @property
    def sasl_server_mechanism_classes(self) -> Mapping[str, str]: ...
    @property
    def sasl_server_mechanism_settings(self) -> Mapping[str, Mapping[str, str]]: ...
    @property
    def sasl_plain_verifier_class(self) -> str | None: ...
    @property
    def sasl_plain_verifier_settings(self) -> Mapping[str, str]: ...
    def checks_scram_nonce(self, *, broker_does: bool) -> bool:
        """Return whether SCRAM clients have to repeat the server's nonce; `broker_does`: as the broker
        wants."""

    def oauthbearer(self) -> "tuple[OAuthBearerSettings, ...]":
        """Return the identity providers; called only if OAUTHBEARER is enabled."""

    def gssapi(self) -> "GssapiSettings":
        """Return the service's key and rules; called only if GSSAPI is enabled."""

    def max_reauth_ms(self, mechanism: str, default_ms: int) -> int:
        """Return connections.max.reauth.ms of a mechanism; `default_ms` is that of the whole process."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The users and keys of a process, shared by its listeners."""

    users: PlainUsers
    image: Callable[[], MetadataImage | None]
    """Returns the image in effect."""
    max_reauth_ms: int = 0
    """connections.max.reauth.ms, unless a listener sets its own."""
    tokens: TokenLogins | None = None
    """None: no logins with delegation tokens."""
    keys: "SharedKeys | None" = None
    """Keys of the trusted identity providers; None: no logins with their tokens."""
    backoff: LoginBackoff | None = None
    """None: failed logins are not delayed."""
    broker_checks_scram_nonce: Callable[[], bool] = lambda: True
    """Returns whether the broker wants SCRAM clients to repeat the server's nonce."""
    random_key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    """Of this process; see proxy.security.sasl.scram.SaltKey."""
    background: list[Callable[[], Coroutine[object, object, None]]] = field(default_factory=list)
    """Tasks of the mechanisms, such as fetching keys, that the process runs until it cancels them."""


@dataclass(frozen=True, slots=True)
class _Mechanism:
    name: str
    new_exchange: Callable[[], Exchange]


def _plain(settings: LoginSettings, credentials: Credentials) -> SaslMechanism:
    verifier: PlainVerifier = credentials.users
    if settings.sasl_plain_verifier_class is not None:
        verifier = load_verifier(settings.sasl_plain_verifier_class, settings.sasl_plain_verifier_settings)
    return _Mechanism("PLAIN", lambda: PlainExchange(verifier))


def _scram(name: str) -> Callable[[LoginSettings, Credentials], SaslMechanism]:
    scram = ScramMechanism.named(name)

    def made(settings: LoginSettings, credentials: Credentials) -> SaslMechanism:
        def image() -> ScramImage:
            return (credentials.image() or MetadataImage.EMPTY).scram

        usual = UsualCredentials(scram)
        tokens = credentials.tokens
        salt_key = SaltKey(None if tokens is None else tokens.unknown_users_key, credentials.random_key)

        def new_exchange() -> Exchange:
            return ScramExchange(
                scram,
                lambda user: image().credential(scram, user),
                secrets.token_urlsafe(24),
                salt_key.of(image()),
                tokens,
                usual.of(image()),
                checks_nonce=settings.checks_scram_nonce(broker_does=credentials.broker_checks_scram_nonce()),
            )

        return _Mechanism(name, new_exchange)

    return made


def key_sources(registry: CollectorRegistry, reloads: FileReloads, now_ms: Callable[[], int]) -> "SharedKeys":
    """Return a function that makes the keys of a process at the first call."""

    @cache
    def made() -> "KeySources":
        from proxy.net.logins.oauthbearer import KeySources

        return KeySources(registry, reloads, now_ms)

    return made


def _oauthbearer(settings: LoginSettings, credentials: Credentials) -> SaslMechanism:
    from proxy.net.logins.oauthbearer import OAuthBearerMechanism
    from proxy.security.sasl.oauthbearer import TrustedProvider

    if credentials.keys is None:
        raise ValueError("sasl.enabled.mechanisms: OAUTHBEARER is not supported here")
    keys = credentials.keys()
    return OAuthBearerMechanism(
        tuple(
            TrustedProvider(keys.of(provider.jwks, credentials.background), provider.policy)
            for provider in settings.oauthbearer()
        )
    )


def _gssapi(settings: LoginSettings, _credentials: Credentials) -> SaslMechanism:
    from proxy.net.logins.kerberos import GssapiMechanism

    return GssapiMechanism(settings.gssapi())


BUILT_IN: Mapping[str, Callable[[LoginSettings, Credentials], SaslMechanism]] = {
    "PLAIN": _plain,
    "SCRAM-SHA-256": _scram("SCRAM-SHA-256"),
    "SCRAM-SHA-512": _scram("SCRAM-SHA-512"),
    "OAUTHBEARER": _oauthbearer,
    "GSSAPI": _gssapi,
}
"""Mechanism -> its constructor. ValueError names a key of the settings that cannot be used."""


def token_logins(secret: TokenSecret | None, image: Callable[[], MetadataImage | None]) -> TokenLogins | None:
    """Return the logins with delegation tokens of the current image; None without a key to verify them."""
    if secret is None:
        return None
    return TokenLogins(secret, lambda: (image() or MetadataImage.EMPTY).tokens)


def sasl_listener(settings: LoginSettings, credentials: Credentials) -> SaslListener:
    """Return the SASL mechanisms of a listener. ValueError names a key that cannot be used."""
    mechanisms = {name: _made(name, settings, credentials) for name in settings.sasl_enabled_mechanisms}
    return SaslListener(
        settings.name,
        tuple(mechanisms),
        lambda name: settings.max_reauth_ms(name, credentials.max_reauth_ms),
        lambda name: mechanisms[name].new_exchange(),
        credentials.backoff,
    )


def _made(name: str, settings: LoginSettings, credentials: Credentials) -> SaslMechanism:
    class_path = settings.sasl_server_mechanism_classes.get(name)
    if class_path is not None:
        return load_mechanism(name, class_path, settings.sasl_server_mechanism_settings.get(name, {}))
    return BUILT_IN[name](settings, credentials)
