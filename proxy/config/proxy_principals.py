"""Finds the principals that proxies have at the controllers, and that this proxy has at the broker.

proxy.app calls it. A client with such a principal at the controllers has a proxy's credentials, leaked
or by mistake; its administrative requests are rejected (KIP-590). With `controller.mode: kraft` the broker
applies its quotas to the principal that the proxy has there.
"""

from contextlib import suppress
from pathlib import Path

from proxy.config.listener import ListenerConfig
from proxy.config.parts import ConfigError
from proxy.config.peer import PeerConfig
from proxy.config.proxy import ProxyConfig
from proxy.error_text import text_of
from proxy.security.principal import ANONYMOUS, USER_TYPE, Principal
from proxy.security.principal_builder import AuthenticationContext


def proxy_principals(config: ProxyConfig) -> frozenset[str]:
    """The principals of `proxy.principals`, and this proxy's own.

    Never ANONYMOUS: without logins all clients have this principal, proxies and administrators included.
    """
    found = {*config.proxy_principals, *_own("controller", config.controller, config.listeners)}
    return frozenset(found - {str(ANONYMOUS)})


def principals_at_broker(config: ProxyConfig) -> frozenset[str]:
    """The principals that the broker may see in place of all clients; none if it sees their users.

    Of a certificate these are its subject and what the listeners map it to, as the broker may have the same
    rules. None too if only a token contains the principal.
    """
    upstream = config.upstream
    if upstream.identity == "user":
        return frozenset()
    if upstream.sasl is None and (upstream.ssl is None or upstream.ssl.certificate is None):
        return frozenset({str(ANONYMOUS)})
    return frozenset(_own("upstream", upstream, config.listeners))


def _own(section: str, peer: PeerConfig, listeners: tuple[ListenerConfig, ...]) -> set[str]:
    if peer.sasl is not None:
        name = peer.sasl.sasl_login().username
        return {str(Principal(USER_TYPE, name))} if name else set()
    if peer.uses_ssl and peer.ssl is not None and peer.ssl.certificate is not None:
        return _of_certificate(section, peer.ssl.certificate, listeners)
    return set()


def _of_certificate(section: str, path: Path, listeners: tuple[ListenerConfig, ...]) -> set[str]:
    """The subject of the certificate, and the principals that the listeners map it to."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    from proxy.security.distinguished_name import rfc2253

    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        subject = rfc2253(certificate.subject)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{section}: ssl: certificate: {path}: {text_of(error)}") from error
    der = certificate.public_bytes(Encoding.DER)
    found = {str(Principal(USER_TYPE, subject))}
    for listener in listeners:
        shown = AuthenticationContext(
            listener=listener.name, security_protocol="SSL", host="", certificate=der
        )
        # If a builder rejects the certificate, no client can log in with it.
        with suppress(Exception):
            found.add(str(listener.principal_builder().build(shown)))
    return found
