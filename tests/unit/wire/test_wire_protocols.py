"""The names of protocols that are not Kafka's, by the first bytes."""

from struct import unpack

import pytest

from proxy.wire.protocols import in_place_of_a_request, in_place_of_a_response, in_place_of_tls

pytestmark = pytest.mark.spec("O2")

NAMES = {
    b"\x16\x03\x01\x02": "a TLS handshake",
    b"\x16\x03\x03\x00": "a TLS handshake",
    b"\x15\x03\x03\x00": "a TLS alert",
    **dict.fromkeys(
        (
            b"GET /",
            b"HEAD",
            b"POST /",
            b"PUT /",
            b"PATCH",
            b"DELETE",
            b"OPTIONS",
            b"TRACE",
            b"CONNECT",
            b"PRI *",
        ),
        "an HTTP request",
    ),
    b"HTTP/1.0 400": "an HTTP response",
    b"SSH-2.0": "an SSH banner",
    b"PROXY TCP4": "a PROXY protocol header (version 1)",
    b"\r\n\r\n\x00\r\nQUIT\n": "a PROXY protocol header (version 2)",
    b"<html>": "text that begins with '<htm'",
}


@pytest.mark.parametrize(("start", "name"), NAMES.items())
def test_a_protocol_is_named_for_each_side(start: bytes, name: str) -> None:
    request, response, tls = (
        in_place_of_a_request(start),
        in_place_of_a_response(start),
        in_place_of_tls(start),
    )

    assert request is not None
    assert response is not None
    assert request.startswith(f"{name} in place of a Kafka request: ")
    assert response.startswith(f"{name} in place of a Kafka response: ")
    assert tls == (None if start[0] == 0x16 else f"{name} in place of a TLS handshake")


@pytest.mark.parametrize("start", NAMES)
def test_none_of_them_could_be_the_length_of_a_usual_frame(start: bytes) -> None:
    assert unpack(">i", start[:4])[0] > 200 << 20


@pytest.mark.parametrize(
    "start",
    [b"", b"\x16", b"\x16\x03\x01", b"GET", bytes(4), b"\x7f\xff\xff\xff", b"\xff" * 4, b"\x00\x00\x00\x20"],
)
def test_anything_else_is_not_named(start: bytes) -> None:
    assert in_place_of_a_request(start) is None
    assert in_place_of_a_response(start) is None


def test_a_kafka_request_is_named_where_tls_is_awaited() -> None:
    named = in_place_of_tls(b"\x00\x00\x00\x20\x00")

    assert named == (
        "a Kafka request in place of a TLS handshake: this listener uses TLS, and the client does not:"
        " see security.protocol of both"
    )
