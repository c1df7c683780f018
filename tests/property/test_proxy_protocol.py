"""Headers of the PROXY protocol, whole, in pieces, and of any bytes."""

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.net.clients.proxy_protocol import MAX_HEADER_BYTES, Header, ProxyProtocolError, parse

pytestmark = pytest.mark.spec("O14")

SIGNATURE = bytes.fromhex("0d0a0d0a000d0a515549540a")
ADDRESSES = st.ip_addresses()
PORTS = st.integers(0, 65_535)


def line(client: IPv4Address | IPv6Address, port: int) -> bytes:
    return f"PROXY TCP{client.version} {client} {client} {port} 9093\r\n".encode()


def binary(command: int, family: int, rest: bytes) -> bytes:
    return SIGNATURE + bytes((command, family)) + struct.pack(">H", len(rest)) + rest


def of_client(client: IPv4Address | IPv6Address, port: int, extensions: bytes = b"") -> bytes:
    addresses = client.packed + client.packed + struct.pack(">HH", port, 9093)
    return binary(0x21, 0x11 if client.version == 4 else 0x21, addresses + extensions)


HEADERS = st.one_of(
    st.builds(lambda client, port: (line(client, port), str(client)), ADDRESSES, PORTS),
    st.builds(
        lambda client, port, extensions: (of_client(client, port, extensions), str(client)),
        ADDRESSES,
        PORTS,
        st.binary(max_size=200),
    ),
    st.builds(lambda rest: (binary(0x20, 0x00, rest), None), st.binary(max_size=200)),
    st.builds(lambda rest: (binary(0x21, 0x00, rest), None), st.binary(max_size=200)),
    st.just((b"PROXY UNKNOWN\r\n", None)),
    st.just((b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n", None)),
)


@given(header=HEADERS, behind=st.binary(max_size=50))
def test_a_header_names_the_client_and_ends_where_its_bytes_end(
    header: tuple[bytes, str | None], behind: bytes
) -> None:
    data, host = header

    assert parse(data + behind) == Header(len(data), host)
    for end in range(1, len(data)):
        needed_bytes = parse(data[:end])
        assert isinstance(needed_bytes, int)
        assert end < needed_bytes <= len(data)


@given(data=st.one_of(st.binary(max_size=300), st.binary(max_size=300).map(lambda rest: SIGNATURE + rest)))
def test_of_any_bytes_there_is_an_answer(data: bytes) -> None:
    try:
        found = parse(data)
    except ProxyProtocolError:
        return
    if isinstance(found, int):
        assert len(data) < found <= MAX_HEADER_BYTES
    else:
        assert found.size_bytes <= len(data)
        assert found.host is None or ip_address(found.host)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GET / HTTP/1.1\r\n", "does not begin with a PROXY protocol header"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "does not begin with a PROXY protocol header"),
        (b"PROXY " + b"1" * 200, "longer than 107 bytes"),
        (b"PROXY TCP4 10.0.0.1 10.0.0.2 1\r\n", "none of `PROXY TCP4`"),
        (b"PROXY UDP4 10.0.0.1 10.0.0.2 1 2\r\n", "none of `PROXY TCP4`"),
        (b"PROXY TCP4 10.0.0.1  10.0.0.2 1 2\r\n", "none of `PROXY TCP4`"),
        (b"PROXY TCP4 ::1 ::1 1 2\r\n", "invalid address or port"),
        (b"PROXY TCP6 10.0.0.1 10.0.0.2 1 2\r\n", "invalid address or port"),
        (b"PROXY TCP6 fe80::1%2 fe80::2 1 2\r\n", "invalid address or port"),
        (b"PROXY TCP4 10.0.0.01 10.0.0.2 1 2\r\n", "invalid address or port"),
        (b"PROXY TCP4 10.0.0.1 10.0.0.2 1 65536\r\n", "invalid address or port"),
        (b"PROXY TCP4 10.0.0.1 10.0.0.2 -1 2\r\n", "invalid address or port"),
        (b"PROXY TCP4 10.0.0.1 10.0.0.2 \xb2 2\r\n", "invalid address or port"),
        (
            SIGNATURE + b"\x11\x11\0\x0c" + bytes(12),
            "unknown version and command of the PROXY protocol: 0x11",
        ),
        (
            SIGNATURE + b"\x22\x11\0\x0c" + bytes(12),
            "unknown version and command of the PROXY protocol: 0x22",
        ),
        (SIGNATURE + b"\x21\x12\0\x0c" + bytes(12), "not of TCP over IP: 0x12"),
        (SIGNATURE + b"\x21\x31\0\xd8" + bytes(216), "not of TCP over IP: 0x31"),
        (SIGNATURE + b"\x21\x11\0\x0b" + bytes(11), "too short for its addresses"),
        (SIGNATURE + b"\x21\x21\0\x0c" + bytes(12), "too short for its addresses"),
        (SIGNATURE + b"\x20\x00\xff\xff", "has 65551 bytes, more than 4096"),
    ],
)
def test_a_malformed_header_is_an_error_that_says_what_is_wrong(data: bytes, says: str) -> None:
    with pytest.raises(ProxyProtocolError, match=says):
        parse(data)
