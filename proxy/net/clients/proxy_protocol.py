"""PROXY protocol, versions 1 and 2: a load balancer says whose connection it forwards (O14).

The header comes before everything else on the connection, also before TLS. It is read byte for byte, so that
nothing behind it leaves the socket. Source: "The PROXY protocol" by HAProxy Technologies.
"""

import asyncio
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from proxy.quota.connections import same_address
from proxy.session.gate import Networks

MAX_HEADER_BYTES = 4_096
"""Of version 2. The addresses take up to 52 bytes; the rest are extensions (TLVs), which are not read."""
HEADER_TIMEOUT_S = 5.0

_MIN_BYTES = 15
"""The shortest header: `PROXY UNKNOWN` and the end of the line."""
_MAX_LINE_BYTES = 107
_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_FIXED_BYTES = 16
_LOCAL, _PROXY = 0x20, 0x21
_UNSPECIFIED = 0x00
_ADDRESS_BYTES = {0x11: (4, 12), 0x21: (16, 36)}
"""By family and transport (TCP over IPv4, over IPv6), the bytes of an address, and of both with ports."""
_ADDRESS_TYPES = {b"TCP4": IPv4Address, b"TCP6": IPv6Address}
_MAX_PORT = 65_535


class ProxyProtocolError(ValueError):
    """The header is missing or malformed; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Header:
    """A complete header."""

    size_bytes: int
    host: str | None
    """The client's address; None: the balancer speaks for itself, such as in a health check."""


def is_in(host: str, networks: Networks) -> bool:
    """Whether the address is in one of the networks."""
    address = ip_address(same_address(host))
    return any(address in network for network in networks)


async def read_header(client: socket.socket) -> Header | None:
    """Take the header off the socket. None: the client has closed the connection without a byte.

    ProxyProtocolError; OSError.
    """
    needed_bytes = _MIN_BYTES
    while True:
        await readable(client, needed_bytes)
        head = client.recv(MAX_HEADER_BYTES, socket.MSG_PEEK)
        if not head:
            return None
        found = parse(head)
        if isinstance(found, Header):
            client.recv(found.size_bytes)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
            return found
        if len(head) < needed_bytes:
            raise ProxyProtocolError(
                "the connection was closed before its PROXY protocol header was complete"
            )
        needed_bytes = found


async def header_in_time(client: socket.socket) -> Header | None:
    """`read_header`; a header that does not come within HEADER_TIMEOUT_S is missing."""
    try:
        async with asyncio.timeout(HEADER_TIMEOUT_S):
            return await read_header(client)
    except TimeoutError:
        raise ProxyProtocolError(f"no PROXY protocol header within {HEADER_TIMEOUT_S:.0f} s") from None


def parse(head: bytes) -> Header | int:
    """Return the header that the connection begins with, or how many bytes it has at least.

    ProxyProtocolError.
    """
    if _SIGNATURE.startswith(head[: len(_SIGNATURE)]):
        return _binary(head)
    if not head.startswith(b"PROXY "):
        if b"PROXY ".startswith(head):
            return len(head) + 1
        raise ProxyProtocolError("the connection does not begin with a PROXY protocol header")
    end = head.find(b"\r\n", 0, _MAX_LINE_BYTES)
    if end < 0:
        if len(head) >= _MAX_LINE_BYTES:
            raise ProxyProtocolError(f"the line of the PROXY protocol is longer than {_MAX_LINE_BYTES} bytes")
        return len(head) + 1
    return Header(end + 2, _host_of_line(head[:end].split(b" ")))


def _host_of_line(words: list[bytes]) -> str | None:
    if words[1] == b"UNKNOWN":
        return None
    if words[1] not in _ADDRESS_TYPES or len(words) != 6:
        raise ProxyProtocolError(
            "the line of the PROXY protocol is none of `PROXY TCP4`, `TCP6` or `UNKNOWN`"
        )
    try:
        texts = [word.decode("ascii") for word in words[2:]]
        client, _ = (_ADDRESS_TYPES[words[1]](text) for text in texts[:2])
        if b"%" in words[2]:
            raise ValueError("a zone")  # It has none in version 2, and its text could be anything.
        if not all(text.isdigit() and int(text) <= _MAX_PORT for text in texts[2:]):
            raise ValueError("a port")
    except ValueError:
        raise ProxyProtocolError("the line of the PROXY protocol has an invalid address or port") from None
    return str(client)


def _binary(head: bytes) -> Header | int:
    if len(head) < _FIXED_BYTES:
        return _FIXED_BYTES
    command, family = head[12], head[13]
    size_bytes = _FIXED_BYTES + int.from_bytes(head[14:_FIXED_BYTES], "big")
    if command not in (_LOCAL, _PROXY):
        raise ProxyProtocolError(f"unknown version and command of the PROXY protocol: {command:#04x}")
    if size_bytes > MAX_HEADER_BYTES:
        raise ProxyProtocolError(
            f"the PROXY protocol header has {size_bytes} bytes, more than {MAX_HEADER_BYTES}"
        )
    address_bytes = 0
    if command == _PROXY and family != _UNSPECIFIED:
        if family not in _ADDRESS_BYTES:
            raise ProxyProtocolError(f"the PROXY protocol header is not of TCP over IP: {family:#04x}")
        address_bytes, all_bytes = _ADDRESS_BYTES[family]
        if size_bytes < _FIXED_BYTES + all_bytes:
            raise ProxyProtocolError("the PROXY protocol header is too short for its addresses")
    if len(head) < size_bytes:
        return size_bytes
    address = head[_FIXED_BYTES : _FIXED_BYTES + address_bytes]
    return Header(size_bytes, str(ip_address(address)) if address else None)


async def readable(client: socket.socket, size_bytes: int) -> None:
    """Wait until so many bytes can be read, or the client has closed the connection (SO_RCVLOWAT).

    Until then the kernel reports nothing.
    """
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size_bytes)
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(client, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(client)
