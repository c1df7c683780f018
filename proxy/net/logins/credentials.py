"""What logins of a listener are checked against: the mechanisms it offers, made from its settings.

Made when a process is put together, for the proxy's listeners and the controller's. `BUILT_IN` says how each
mechanism is made; others are loaded by proxy.security.sasl.mechanism. What only OAUTHBEARER or GSSAPI needs
is imported once a listener enables it: at the start, or in the thread of a reload (decision 0065).
"""

import secrets
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Protocol

from prometheus_client import CollectorRegistry

from proxy.metadata.image import MetadataImage, ScramImage
from proxy.metadata.scram import ScramMechanism
from proxy.net.files.watched_file import FileReloads
from proxy.net.logins.plain_users import PlainUsers
from proxy.security.backoff import LoginBackoff
from proxy.security.sasl.exchange import Exchange
from proxy.security.sasl.mechanism import SaslMechanism, load_mechanism
from proxy.security.sasl.password_check import load_verifier
from proxy.security.sasl.plain import PlainExchange, PlainVerifier
from proxy.security.sasl.scram import ScramExchange, UsualIterations
from proxy.security.sasl.token import TokenLogins
from proxy.security.token_secret import TokenSecret
from proxy.session.authentication import SaslListener

if TYPE_CHECKING:
    from proxy.net.logins.kerberos import GssapiSettings
    from proxy.net.logins.oauthbearer import KeySources, OAuthBearerSettings


SharedKeys = Callable[[], "KeySources"]
"""The identity providers' keys: made at the first call, the same at each."""


class LoginSettings(Protocol):
    """What proxy.config.Listener tells of the logins of a listener."""

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
    def oauthbearer(self) -> "OAuthBearerSettings":
        """How tokens are checked here; asked only where OAUTHBEARER is enabled."""

    def gssapi(self) -> "GssapiSettings":
        """The service's key and the rules; asked only where GSSAPI is enabled."""

    def max_reauth_ms(self, mechanism: str, default_ms: int) -> int:
        """connections.max.reauth.ms of a mechanism here; `default_ms`: of the whole file."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a process knows about users, for all its listeners."""

    users: PlainUsers
    image: Callable[[], MetadataImage | None]
    """The one in force."""
    max_reauth_ms: int = 0
    """connections.max.reauth.ms where a listener does not say."""
    tokens: TokenLogins | None = None
    """None: nobody logs in with a delegation token."""
    keys: "SharedKeys | None" = None
    """Of the identity providers whose tokens are taken; None: tokens are not taken."""
    backoff: LoginBackoff | None = None
    """None: no login is held."""
    dummy_salt_key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    """See proxy.security.sasl.scram."""
    background: list[Callable[[], Coroutine[object, object, None]]] = field(default_factory=list)
    """What mechanisms have to do while the process runs (fetch keys, say): it runs each to its own end."""


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

    def made(_settings: LoginSettings, credentials: Credentials) -> SaslMechanism:
        def image() -> ScramImage:
            return (credentials.image() or MetadataImage.EMPTY).scram

        iterations = UsualIterations(scram)

        def new_exchange() -> Exchange:
            return ScramExchange(
                scram,
                lambda user: image().credential(scram, user),
                secrets.token_urlsafe(24),
                credentials.dummy_salt_key,
                credentials.tokens,
                iterations.of(image()),
            )

        return _Mechanism(name, new_exchange)

    return made


def key_sources(registry: CollectorRegistry, reloads: FileReloads, now_ms: Callable[[], int]) -> "SharedKeys":
    """Those of one process."""

    @cache
    def made() -> "KeySources":
        from proxy.net.logins.oauthbearer import KeySources

        return KeySources(registry, reloads, now_ms)

    return made


def _oauthbearer(settings: LoginSettings, credentials: Credentials) -> SaslMechanism:
    from proxy.net.logins.oauthbearer import OAuthBearerMechanism

    if credentials.keys is None:
        raise ValueError("sasl.enabled.mechanisms: OAUTHBEARER is not served here")
    how = settings.oauthbearer()
    return OAuthBearerMechanism(credentials.keys().of(how.jwks, credentials.background), how.policy)


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
"""Mechanism -> how a listener's settings and what the process knows make it. ValueError names a bad key."""


def token_logins(secret: TokenSecret | None, image: Callable[[], MetadataImage | None]) -> TokenLogins | None:
    """Logins with the delegation tokens of the image in force; None without a key to prove them with."""
    if secret is None:
        return None
    return TokenLogins(secret, lambda: (image() or MetadataImage.EMPTY).tokens)


def sasl_listener(settings: LoginSettings, credentials: Credentials) -> SaslListener:
    """How those who connect to a listener log in. ValueError names a key that cannot be used."""
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
