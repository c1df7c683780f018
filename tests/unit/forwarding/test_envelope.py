"""Envelope: what goes in comes out, in Kafka's bytes, and the client sees no fault of ours as it is."""

from typing import Any

import pytest

from forwarding.envelope import (
    AUTHORIZER_NOT_READY,
    FORWARD_ID_TAG,
    LAST_OFFSET_TAG,
    ClientError,
    ForwardedRequest,
    RejectedEnvelope,
    as_known,
    client_error,
    last_offset,
    unwrap,
    wrap,
    wrap_response,
)
from proxy.security.principal import Principal, deserialize, serialize
from proxy.session.apis.table import FORWARDED
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import decode_response_header, encode_request
from tests.support.acl_filters import acl_filter
from tests.support.controllers import acls_request

ALICE = Principal("User", "alice")
LOOPBACK = bytes([127, 0, 0, 1])


def envelope_of(request: Any, api_key: int, version: int, **changes: Any) -> Any:
    body = codecs.request(api_key, version).encode(request)
    wrapped = wrap(
        api_key,
        version,
        42,
        "admin-1",
        body,
        principal=serialize(ALICE),
        client_address=LOOPBACK,
        forward_id="proxy-1/boot/0",
    )
    for name, value in changes.items():
        setattr(wrapped, name, value)
    return over_the_wire(wrapped)


def over_the_wire(message: Any) -> Any:
    codec = codecs.request(ApiKey.ENVELOPE, 0)
    return codec.decode_exactly(codec.encode(message))


def opened(envelope: Any) -> ForwardedRequest | RejectedEnvelope:
    return unwrap(envelope, deserialize, FORWARDED)


@pytest.mark.spec("E1", "E7")
def test_what_was_wrapped_comes_out_as_if_the_client_had_asked_here() -> None:
    request = acls_request("t")

    forwarded = opened(envelope_of(request, ApiKey.CREATE_ACLS, 3))

    assert isinstance(forwarded, ForwardedRequest)
    assert forwarded.message == request
    assert (forwarded.principal, forwarded.host, forwarded.forward_id) == (
        ALICE,
        "127.0.0.1",
        "proxy-1/boot/0",
    )
    header = forwarded.header
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (
        ApiKey.CREATE_ACLS,
        3,
        42,
        "admin-1",
    )


@pytest.mark.spec("E1")
def test_an_envelope_is_kafkas_byte_for_byte() -> None:
    request_data = encode_request(ApiKey.ALTER_CLIENT_QUOTAS, 0, 7, "c", b"\x00\x00\x00\x00\x00")[4:]
    principal = b"\x00\x00" + b"\x05User" + b"\x06alice" + b"\x00" + b"\x00"

    message = wrap(
        ApiKey.ALTER_CLIENT_QUOTAS,
        0,
        7,
        "c",
        b"\x00\x00\x00\x00\x00",
        principal=serialize(ALICE),
        client_address=LOOPBACK,
        forward_id="f",
    )

    # Compact lengths are one more than the length; 10000 is 0x90 0x4e as a varint, then one byte "f".
    assert codecs.request(ApiKey.ENVELOPE, 0).encode(message) == (
        bytes([len(request_data) + 1])
        + request_data
        + bytes([len(principal) + 1])
        + principal
        + b"\x05\x7f\x00\x00\x01"
        + b"\x01\x90\x4e\x01f"
    )


@pytest.mark.spec("E1")
@pytest.mark.parametrize(
    ("address", "host"),
    [
        (bytes([10, 1, 2, 3]), "10.1.2.3"),
        (bytes(15) + b"\x01", "0:0:0:0:0:0:0:1"),
    ],
)
def test_the_clients_address_is_four_or_sixteen_raw_bytes(address: bytes, host: str) -> None:
    forwarded = opened(
        envelope_of(types.DeleteAclsRequest(), ApiKey.DELETE_ACLS, 3, client_host_address=address)
    )

    assert isinstance(forwarded, ForwardedRequest)
    assert forwarded.host == host


@pytest.mark.spec("E4", "E6", "E7")
@pytest.mark.parametrize(
    ("changes", "error_code"),
    [
        ({"request_principal": None}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": b""}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": b"\x00\x07abc"}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": b"\x00\x00\x7f"}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"client_host_address": b"\x7f\x00\x01"}, ErrorCode.INVALID_REQUEST),
        ({"client_host_address": b""}, ErrorCode.INVALID_REQUEST),
        ({"request_data": b"\x00"}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_data": b"\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff"}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_data": encode_request(30, 99, 1, None, b"")[4:]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_data": encode_request(30, 3, 1, None, b"\xff\xff")[4:]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_data": encode_request(3, 12, 1, None, b"")[4:]}, ErrorCode.INVALID_REQUEST),
        ({"request_data": encode_request(58, 0, 1, None, b"")[4:]}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_envelope_that_cannot_be_opened_is_refused_with_kafkas_code(
    changes: dict[str, Any], error_code: ErrorCode
) -> None:
    refused = opened(envelope_of(types.CreateAclsRequest(), ApiKey.CREATE_ACLS, 3, **changes))

    assert isinstance(refused, RejectedEnvelope)
    assert refused.error_code == error_code
    assert refused.message


@pytest.mark.spec("E1", "E4")
@pytest.mark.parametrize("api_key", [ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS], ids=ApiKey.name_of)
def test_the_number_unknown_in_an_acl_makes_the_request_unreadable(api_key: int) -> None:
    def with_operation(number: int) -> Any:
        request = acls_request("t")
        request.creations[0].operation = number
        if api_key == ApiKey.CREATE_ACLS:
            return opened(envelope_of(request, api_key, 3))
        filters = [acl_filter(operation=number)]
        return opened(envelope_of(types.DeleteAclsRequest(filters=filters), api_key, 3))

    refused = with_operation(0)
    assert isinstance(refused, RejectedEnvelope)
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
    # One that no release defines is an error of its part, by the controller.
    assert isinstance(with_operation(99), ForwardedRequest)


@pytest.mark.spec("E10")
def test_an_envelope_in_an_envelope_is_refused() -> None:
    inner = envelope_of(types.CreateAclsRequest(), ApiKey.CREATE_ACLS, 3)

    refused = opened(envelope_of(inner, ApiKey.ENVELOPE, 0))

    assert refused == RejectedEnvelope(
        ErrorCode.INVALID_REQUEST, "API Envelope is not eligible for forwarding"
    )


@pytest.mark.spec("E1", "E13")
def test_an_answer_carries_the_inner_header_and_the_offset_of_the_change() -> None:
    forwarded = opened(envelope_of(types.CreateAclsRequest(), ApiKey.CREATE_ACLS, 3))
    assert isinstance(forwarded, ForwardedRequest)
    inner = types.CreateAclsResponse(results=[types.CreateAclsResponse.AclCreationResult()])
    codec = codecs.response(ApiKey.ENVELOPE, 0)

    response = codec.decode_exactly(codec.encode(wrap_response(forwarded.header, inner, 1_234)))

    assert response.error_code == ErrorCode.NONE
    assert last_offset(response) == 1_234
    correlation_id, offset = decode_response_header(ApiKey.CREATE_ACLS, 3, response.response_data)
    assert correlation_id == 42
    assert codecs.response(ApiKey.CREATE_ACLS, 3).decode_exactly(response.response_data[offset:]) == inner


@pytest.mark.spec("E13")
@pytest.mark.parametrize("tags", [None, {}, {LAST_OFFSET_TAG: b"short"}, {LAST_OFFSET_TAG + 1: bytes(8)}])
def test_an_answer_without_our_tag_tells_no_offset(tags: dict[int, bytes] | None) -> None:
    assert last_offset(types.EnvelopeResponse(unknown_tags=tags)) is None


@pytest.mark.spec("E1")
def test_a_senders_forward_id_is_not_trusted_to_be_text_or_short() -> None:
    tags = {FORWARD_ID_TAG: b"\xff" * 5_000}

    forwarded = opened(envelope_of(types.CreateAclsRequest(), ApiKey.CREATE_ACLS, 3, unknown_tags=tags))

    assert isinstance(forwarded, ForwardedRequest)
    assert forwarded.forward_id == "�" * 256


@pytest.mark.spec("S9")
@pytest.mark.parametrize(
    ("version", "told"), [(0, ErrorCode.UNKNOWN_SERVER_ERROR), (1, AUTHORIZER_NOT_READY)]
)
def test_authorizer_not_ready_is_told_only_to_senders_that_know_it(version: int, told: int) -> None:
    assert as_known(types.EnvelopeResponse(error_code=AUTHORIZER_NOT_READY), version).error_code == told


@pytest.mark.spec("E6")
@pytest.mark.parametrize(
    ("envelope_error", "seen"),
    [
        (ErrorCode.UNSUPPORTED_VERSION, ClientError(ErrorCode.UNSUPPORTED_VERSION, close=True)),
        (ErrorCode.REQUEST_TIMED_OUT, ClientError(ErrorCode.REQUEST_TIMED_OUT, close=False)),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ClientError(ErrorCode.UNKNOWN_SERVER_ERROR, close=False)),
        (
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
            ClientError(ErrorCode.UNKNOWN_SERVER_ERROR, close=False),
        ),
        (ErrorCode.INVALID_REQUEST, ClientError(ErrorCode.UNKNOWN_SERVER_ERROR, close=False)),
        (AUTHORIZER_NOT_READY, ClientError(ErrorCode.UNKNOWN_SERVER_ERROR, close=False)),
    ],
)
def test_a_set_up_fault_is_not_shown_to_the_client(envelope_error: int, seen: ClientError) -> None:
    assert client_error(envelope_error) == seen
