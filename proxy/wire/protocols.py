"""Names the protocol of bytes that are no Kafka frame, by the first four of them.

A wrong security.protocol, a wrong port and a load balancer that adds a header are common faults of a setup.
Callers look only at frames whose length is impossible, so that no other frame costs anything: read as a
length, each of these beginnings is more than 200 MB.
"""

from typing import NamedTuple

from proxy.wire.primitives import Buffer


class _Protocol(NamedTuple):
    name: str
    at_listener: str = "only Kafka clients are served here"
    at_peer: str = "the address is not that of a Kafka server"


_TLS = _Protocol(
    "a TLS handshake", "the client uses TLS, and this listener does not: see security.protocol of both"
)
_ALERT = _Protocol("a TLS alert", _TLS.at_listener, "this port is one with TLS: see security.protocol")
_HTTP = _Protocol(
    "an HTTP request", "only Kafka clients are served here; the HTTP port is that of http > bind"
)
_HTTP_RESPONSE = _Protocol("an HTTP response", at_peer="the address is that of an HTTP server")
_SSH = _Protocol("an SSH banner", at_peer="the address is that of an SSH server")
_PROXY_PROTOCOL = "the load balancer sends it, and this listener expects none: switch it off there"

_BEGINNINGS = {
    b"\x16\x03": _TLS,
    b"\x15\x03": _ALERT,
    b"GET ": _HTTP,
    b"HEAD": _HTTP,
    b"POST": _HTTP,
    b"PUT ": _HTTP,
    b"PATC": _HTTP,
    b"DELE": _HTTP,
    b"OPTI": _HTTP,
    b"TRAC": _HTTP,
    b"CONN": _HTTP,
    b"PRI ": _HTTP,
    b"HTTP": _HTTP_RESPONSE,
    b"SSH-": _SSH,
    b"PROX": _Protocol("a PROXY protocol header (version 1)", _PROXY_PROTOCOL),
    b"\r\n\r\n": _Protocol("a PROXY protocol header (version 2)", _PROXY_PROTOCOL),
}


def in_place_of_a_request(start: Buffer) -> str | None:
    """Name what a client sends in place of a request, and the remedy; None: not known, or too few bytes."""
    found = _found(start)
    return None if found is None else f"{found.name} in place of a Kafka request: {found.at_listener}"


def in_place_of_a_response(start: Buffer) -> str | None:
    """Name what a server sends in place of a response, as above."""
    found = _found(start)
    return None if found is None else f"{found.name} in place of a Kafka response: {found.at_peer}"


def in_place_of_tls(start: Buffer) -> str | None:
    """Name what a client sends in place of a TLS handshake; None: it is one, or not known."""
    begins = bytes(start[:4])
    if begins[:1] in (b"", b"\x16"):
        return None
    found = _found(begins)
    if found is not None:
        return f"{found.name} in place of a TLS handshake"
    if len(begins) == 4 and begins[0] == 0:
        return (
            "a Kafka request in place of a TLS handshake: this listener uses TLS, and the client does not:"
            " see security.protocol of both"
        )
    return None


def _found(start: Buffer) -> _Protocol | None:
    begins = bytes(start[:4])
    known = _BEGINNINGS.get(begins) or _BEGINNINGS.get(begins[:2] if len(begins) == 4 else b"")
    if known is None and len(begins) == 4 and begins.isascii() and begins.decode().isprintable():
        return _Protocol(f"text that begins with {begins.decode()!r}")
    return known
