"""Finds the principals that proxies have at the controllers.

proxy.gate_setup calls it. A client with such a principal has a proxy's credentials, leaked or by mistake; its
administrative requests are rejected (KIP-590).
"""

from contextlib import suppress
from pathlib import Path

from proxy.config.listener import Listener
from proxy.config.parts import ConfigError
from proxy.config.peer import ControllerPeer
from proxy.config.proxy import ProxyConfig
from proxy.security.principal import ANONYMOUS, USER_TYPE, Principal
from proxy.security.principal_builder import AuthenticationContext


def proxy_principals(config: ProxyConfig) -> frozenset[str]:
    """The principals of `proxy.principals`, and this proxy's own.

    Never ANONYMOUS: without logins all clients have this principal, proxies and administrators included.
    """
    found = {*config.proxy_principals, *_own(config.controller, config.listeners)}
    return frozenset(found - {str(ANONYMOUS)})


def _own(controller: ControllerPeer, listeners: tuple[Listener, ...]) -> set[str]:
    if controller.sasl is not None:
        name = controller.sasl.sasl_login().username
        return {str(Principal(USER_TYPE, name))} if name else set()
    if controller.uses_ssl and controller.ssl is not None and controller.ssl.certificate is not None:
        return _of_certificate(controller.ssl.certificate, listeners)
    return set()


def _of_certificate(path: Path, listeners: tuple[Listener, ...]) -> set[str]:
    """The subject of the certificate, and the principals that the listeners map it to."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    from proxy.security.distinguished_name import rfc2253

    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"controller: ssl: certificate: {path}: {error}") from error
    der = certificate.public_bytes(Encoding.DER)
    found = {str(Principal(USER_TYPE, rfc2253(certificate.subject)))}
    for listener in listeners:
        shown = AuthenticationContext(
            listener=listener.name, security_protocol="SSL", host="", certificate=der
        )
        # If a builder rejects the certificate, no client can log in with it.
        with suppress(Exception):
            found.add(str(listener.principal_builder().build(shown)))
    return found
