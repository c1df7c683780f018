"""Request and response headers, against the codecs of their schemas and against Kafka's bytes."""

import pytest

from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.errors import WireError
from proxy.wire.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_response,
    response_body_offset,
)

EVERY_VERSION = [(key, version) for key in ApiKey for version in codecs.request_versions(key, unstable=True)]

pytestmark = pytest.mark.spec("E1")


@pytest.mark.parametrize(
    ("written_by_kafka", "version"),
    [("000300080000004d000661646dc3af6e", 8), ("0003000c0000004d000661646dc3af6e00", 12)],
)
def test_a_header_that_kafka_wrote_is_read_and_written_alike(written_by_kafka: str, version: int) -> None:
    header = bytes.fromhex(written_by_kafka)
    length = (len(header) + 4).to_bytes(4, "big")

    read = decode_request_header(header + b"body")

    assert read == RequestHeader(ApiKey.METADATA, version, 77, "admïn", len(header))
    assert encode_request(ApiKey.METADATA, version, 77, "admïn", b"body") == length + header + b"body"


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "é" * 200])
def test_request_headers_are_those_of_the_schema(client_id: str | None) -> None:
    for key, version in EVERY_VERSION:
        codec = codecs.data("RequestHeader", 2 if codecs.is_flexible(key, version) else 1)
        message = t.RequestHeader(
            request_api_key=key, request_api_version=version, correlation_id=-7, client_id=client_id
        )
        expected = codec.encode(message)

        assert encode_request(key, version, -7, client_id, b"")[4:] == expected
        assert decode_request_header(expected) == RequestHeader(key, version, -7, client_id, len(expected))


def test_response_headers_are_those_of_the_schema() -> None:
    for key, version in EVERY_VERSION:
        is_tagged = codecs.is_flexible(key, version) and key != ApiKey.API_VERSIONS
        expected = codecs.data("ResponseHeader", int(is_tagged)).encode(t.ResponseHeader(correlation_id=9))

        assert encode_response(key, version, 9, b"body")[4:] == expected + b"body"
        assert decode_response_header(key, version, expected + b"body") == (9, len(expected))
        assert response_body_offset(key, version) == len(expected)


def test_the_answer_to_api_versions_never_has_tagged_fields_in_its_header() -> None:
    assert encode_response(ApiKey.API_VERSIONS, 3, 1, b"") == b"\x00\x00\x00\x04\x00\x00\x00\x01"


def test_tagged_fields_of_headers_are_skipped() -> None:
    tags = b"\x02\x00\x03abc\x81\x01\x00"
    request = bytes.fromhex("0003000c0000004dffff") + tags
    response = b"\x00\x00\x00\x09" + tags

    assert decode_request_header(request + b"body").body_offset == len(request)
    assert decode_response_header(ApiKey.METADATA, 12, response + b"body") == (9, len(response))


def test_a_header_is_read_from_inside_a_receive_buffer() -> None:
    frame = encode_request(ApiKey.METADATA, 12, 77, "c", b"body")

    header = decode_request_header(memoryview(bytearray(b"..." + frame)), 7)

    assert header == RequestHeader(ApiKey.METADATA, 12, 77, "c", 7 + 10 + 1 + 1)


@pytest.mark.spec("A7")
def test_an_unknown_api_is_still_told_by_its_header() -> None:
    request = bytes.fromhex("03e7000000000001000163") + b"???"

    assert decode_request_header(request) == RequestHeader(999, 0, 1, "c", 11)


@pytest.mark.spec("O6")
@pytest.mark.parametrize(
    ("request_bytes", "complaint"),
    [
        ("", "request header: the bytes end here, after 0"),
        ("0003000c0000004d00", "request header: the bytes end here, after 9"),
        ("0003000c0000004d000561", "request header: a client id of 5 bytes, 1 left"),
        ("0003000c0000004dfffe", "request header: a client id of -2 bytes, 0 left"),
        ("0003000c0000004d0001ff00", "request header: the client id is not UTF-8"),
        ("0003000c0000004dffff", "request header: the bytes end here, after 10"),
        ("0003000c0000004dffff010009", "request header: 9 bytes claimed, 0 left"),
        ("0003000c0000004dffffffffffff07", "request header: the bytes end here, after 15"),
        ("0003000c0000004dffff0201000100", "request header: tagged field 1 is there twice"),
    ],
)
def test_a_malformed_request_header_is_refused(request_bytes: str, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode_request_header(bytes.fromhex(request_bytes))


@pytest.mark.spec("O6")
@pytest.mark.parametrize("response_bytes", ["", "000000", "00000001", "0000000101", "00000001ffffffffff01"])
def test_a_malformed_response_header_is_refused(response_bytes: str) -> None:
    with pytest.raises(WireError, match="response header: "):
        decode_response_header(ApiKey.METADATA, 12, bytes.fromhex(response_bytes))


@pytest.mark.parametrize("client_id", ["x" * 32_768, "\ud800"])
def test_a_client_id_that_does_not_fit_is_refused(client_id: str) -> None:
    with pytest.raises(WireError, match="request header: "):
        encode_request(ApiKey.METADATA, 12, 1, client_id, b"")
