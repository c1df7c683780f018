"""PEM files in, ssl contexts out: TLS 1.2 and later, for our listeners and for our own connections.

Asked when a process is put together. Which files, and whether clients need certificates, is configuration.
"""

import ssl
from pathlib import Path

CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class TlsError(Exception):
    """A certificate or key cannot be used; the message names the file."""


def server_context(certificate: Path, key: Path, client_auth: str, ca: Path | None) -> ssl.SSLContext:
    """For a listener. `client_auth`: none, requested or required (ssl.client.auth)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, certificate, key)
    if ca is not None:
        _trust(context, ca)
    context.verify_mode = CLIENT_AUTH[client_auth]
    return context


def client_context(
    ca: Path | None, certificate: Path | None, key: Path | None, endpoint_identification: bool
) -> ssl.SSLContext:
    """For a connection of ours. Without `ca` the system's certificates are trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca is None:
        context.load_default_certs()
    else:
        _trust(context, ca)
    if certificate is not None:
        _load(context, certificate, key)
    context.check_hostname = endpoint_identification
    return context


def _load(context: ssl.SSLContext, certificate: Path, key: Path | None) -> None:
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(f"certificate {certificate} with key {key or certificate}: {error}") from error


def _trust(context: ssl.SSLContext, ca: Path) -> None:
    try:
        context.load_verify_locations(ca)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(f"ca {ca}: {error}") from error
