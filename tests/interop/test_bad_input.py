"""What no client should send: its connection is closed, and the process goes on serving others."""

import socket
import struct

import pytest

from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import encode_request
from tests.lab.cluster.stack import Stack
from tests.support.cluster_admin import ClusterAdmin

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TIMEOUT_S = 10


def _handshake(mechanism: str) -> bytes:
    body = codecs.request(ApiKey.SASL_HANDSHAKE, 1).encode(types.SaslHandshakeRequest(mechanism=mechanism))
    return encode_request(ApiKey.SASL_HANDSHAKE, 1, 1, "bad", body)


def _authenticate(token: bytes) -> bytes:
    body = codecs.request(ApiKey.SASL_AUTHENTICATE, 2).encode(types.SaslAuthenticateRequest(auth_bytes=token))
    return encode_request(ApiKey.SASL_AUTHENTICATE, 2, 2, "bad", body)


def _frame(api_key: int, version: int, body: bytes) -> bytes:
    frame = struct.pack(">hhih", api_key, version, 3, -1) + body
    return struct.pack(">i", len(frame)) + frame


BAD = {
    "garbage": b"\x00\x00\x00\x10" + bytes(range(200, 216)),
    "http": b"GET / HTTP/1.1\r\nHost: penstock\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "length of 2 GiB": b"\x7f\xff\xff\xff",
    "negative length": b"\xff\xff\xff\xff",
    "length of 100 MiB before authentication": struct.pack(">i", 100 << 20),
    "unknown api": _frame(9999, 0, b""),
    "metadata before authentication": _frame(ApiKey.METADATA, 1, b"\x00\x00\x00\x00"),
    "token cut short": _handshake("PLAIN") + _authenticate(b"admin")[:-3],
    "plain without password": _handshake("PLAIN") + _authenticate(b"\x00admin"),
    "scram nonsense": _handshake("SCRAM-SHA-256") + _authenticate(b"n,,m=,=,="),
    "unknown mechanism": _handshake("GSSAPI"),
    "hostile count": _frame(ApiKey.SASL_HANDSHAKE, 1, b"\x7f\xff"),
}


def _closed_after(address: str, data: bytes) -> bool:
    """Send, give up sending, and see the other end close."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection:
        connection.sendall(data)
        if data == BAD["token cut short"]:
            connection.shutdown(socket.SHUT_WR)
        try:
            while connection.recv(65_536):
                continue
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        return True


@pytest.mark.spec("O6", "A7")
@pytest.mark.parametrize("name", BAD)
def test_bad_input_closes_its_own_connection_and_no_other(
    stack: Stack, cluster_admin: ClusterAdmin, name: str
) -> None:
    assert _closed_after(stack.entrance().bootstrap, BAD[name])

    assert cluster_admin.client.list_topics(timeout=TIMEOUT_S).brokers
    assert stack.proxy.returncode is None


@pytest.mark.spec("O2", "O6", "A7")
def test_bad_input_leaves_a_log_line_and_a_metric(stack: Stack) -> None:
    admin = stack.users["admin"]
    login = _handshake("PLAIN") + _authenticate(f"\0{admin.name}\0{admin.password}".encode())
    before = _protocol_errors(stack)

    _closed_after(stack.entrance().bootstrap, BAD["length of 2 GiB"])
    _closed_after(stack.entrance().bootstrap, login + BAD["unknown api"])

    assert _protocol_errors(stack) == before + 2
    assert "a request of 2147483647 bytes" in stack.proxy.log_text()
    assert "9999" in stack.proxy.log_text()


def _protocol_errors(stack: Stack) -> float:
    series = stack.metrics().items()
    return sum(value for name, value in series if name.startswith("penstock_protocol_errors_total"))
