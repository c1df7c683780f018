"""Spans of forwards: the proxy's own over all attempts, and the controller's, which is its child."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from structlog.contextvars import get_contextvars

from forwarding import envelope
from forwarding.envelope import Sender
from forwarding.net.forward_spans import FAULT, Serve, traced
from proxy.net.pages.http_server import metrics_page
from proxy.net.telemetry.spans import NO_SPANS
from proxy.security.principal import Principal, serialize
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import decode_request_header
from tests.net.test_forwarding_to_controllers import DONE, answered, in_turn, refused
from tests.support.controllers import a_forwarder, acls_request, endpoint_of, forward
from tests.support.fake_broker import FakeBroker
from tests.support.recorded_spans import RecordedSpan, RecordedSpans

pytestmark = pytest.mark.spec("O12", "E1")

PARENT = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
PROXY = Sender(Principal("User", "proxy-1"), "10.0.0.7", "CONTROLLER", "proxy-1")
ACLS_V = codecs.request_versions(ApiKey.CREATE_ACLS)[-1]


async def test_a_forward_is_one_span_that_the_controller_is_told_of() -> None:
    spans = RecordedSpans()
    async with (
        FakeBroker(in_turn(lambda request: answered(request, offset=41))) as controller,
        a_forwarder(endpoint_of(controller.address), spans=spans) as forwarder,
    ):
        host, _, port = controller.address.rpartition(":")
        reply, _ = await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"))

    (span,) = spans.ended
    assert (span.name, span.kind, span.parent, span.error) == ("Envelope CreateAcls", "client", None, None)
    assert span.attributes == {
        "messaging.system": "kafka",
        "messaging.operation.name": "Envelope",
        "messaging.client.id": "admin-client",
        "network.peer.address": "10.0.0.1",
        "kafka.api.key": ApiKey.CREATE_ACLS,
        "kafka.api.name": "CreateAcls",
        "kafka.api.version": ACLS_V,
        "kafka.correlation_id": 77,
        "kafka.error_code": 0,
        "penstock.forward.id": reply.forward_id,
        "penstock.forward.attempts": 1,
        "penstock.metadata.offset": 41,
        "server.address": host,
        "server.port": int(port),
    }
    (request,) = controller.received(ApiKey.ENVELOPE)
    assert envelope.traceparent(request.message) == span.traceparent
    assert envelope.forward_id(request.message) == reply.forward_id


async def test_attempts_that_were_of_no_use_are_events_of_the_span() -> None:
    spans = RecordedSpans()
    async with (
        FakeBroker(in_turn(refused(ErrorCode.NOT_CONTROLLER), answered)) as controller,
        a_forwarder(endpoint_of(controller.address), spans=spans) as forwarder,
    ):
        await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"))

    (span,) = spans.ended
    assert span.events == [("retry", {"reason": "NOT_CONTROLLER"})]
    assert span.attributes["penstock.forward.attempts"] == 2


async def test_a_forward_that_no_controller_answers_ends_with_the_error_that_the_client_gets() -> None:
    spans = RecordedSpans()
    async with (
        FakeBroker(in_turn(refused(ErrorCode.NOT_CONTROLLER))) as controller,
        a_forwarder(endpoint_of(controller.address), spans=spans) as forwarder,
    ):
        await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"), timeout_ms=200)

    (span,) = spans.ended
    assert (span.error, span.attributes["kafka.error_code"]) == ("REQUEST_TIMED_OUT", 7)


async def test_the_latency_of_a_forward_has_its_span_as_exemplar_and_without_traces_none() -> None:
    for spans, expected in ((RecordedSpans(), {"trace_id": "a" * 32, "span_id": "0" * 16}), (NO_SPANS, None)):
        registry = CollectorRegistry()
        async with (
            FakeBroker(in_turn(answered)) as controller,
            a_forwarder(endpoint_of(controller.address), spans=spans, registry=registry) as forwarder,
        ):
            await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"))
        _, text = await metrics_page(registry, b"application/openmetrics-text")

        families = text_string_to_metric_families(text.decode())  # type: ignore[no-untyped-call]
        exemplars = (sample.exemplar for family in families for sample in family.samples)
        found = [exemplar.labels for exemplar in exemplars if exemplar is not None]
        assert found == ([] if expected is None else [expected])


async def test_without_traces_the_envelope_says_nothing_of_them() -> None:
    async with (
        FakeBroker(in_turn(answered)) as controller,
        a_forwarder(endpoint_of(controller.address)) as forwarder,
    ):
        await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"))

    (request,) = controller.received(ApiKey.ENVELOPE)
    assert set(request.message.unknown_tags) == {envelope.FORWARD_ID_TAG}


def an_envelope(traceparent: str | None = PARENT) -> Any:
    message = envelope.wrap(
        ApiKey.CREATE_ACLS,
        ACLS_V,
        7,
        "app",
        codecs.request(ApiKey.CREATE_ACLS, ACLS_V).encode(acls_request("t")),
        principal=serialize(Principal("User", "alice")),
        client_address=bytes([10, 0, 0, 1]),
        forward_id="proxy-1/boot/3",
        traceparent=traceparent,
    )
    codec = codecs.request(ApiKey.ENVELOPE, 0)
    return codec.decode_exactly(codec.encode(message))


async def test_what_the_controller_logs_of_an_envelope_has_the_ids_of_its_span() -> None:
    seen: list[dict[str, Any]] = []

    async def serve(message: Any, _version: int, _sender: Sender) -> Any:
        seen.append(get_contextvars())
        return envelope.wrap_response(decode_request_header(message.request_data), DONE, 41)

    await served(serve, an_envelope())

    assert seen == [{"trace_id": "a" * 32, "span_id": "0" * 16}]
    assert get_contextvars() == {}


async def served(serve: Serve, message: Any) -> tuple[Any, RecordedSpan]:
    spans = RecordedSpans()
    response = await traced(spans, serve)(message, 0, PROXY)
    (span,) = spans.ended
    return response, span


async def test_an_envelope_at_the_controller_is_a_child_of_the_proxys_span() -> None:
    async def serve(message: Any, _version: int, _sender: Sender) -> Any:
        return envelope.wrap_response(decode_request_header(message.request_data), DONE, 41)

    message = an_envelope()
    response, span = await served(serve, message)

    assert (span.name, span.kind, span.parent, span.error) == ("Envelope CreateAcls", "server", PARENT, None)
    assert span.attributes == {
        "messaging.system": "kafka",
        "messaging.operation.name": "Envelope",
        "messaging.client.id": "app",
        "network.peer.address": "10.0.0.7",
        "kafka.api.key": ApiKey.CREATE_ACLS,
        "kafka.api.name": "CreateAcls",
        "kafka.api.version": ACLS_V,
        "kafka.correlation_id": 7,
        "kafka.error_code": 0,
        "kafka.request.bytes": len(message.request_data),
        "kafka.response.bytes": len(response.response_data),
        "penstock.forward.id": "proxy-1/boot/3",
        "penstock.listener": "CONTROLLER",
        "penstock.metadata.offset": 41,
        "penstock.sender": "User:proxy-1",
    }


async def test_the_error_of_the_response_inside_is_the_spans() -> None:
    result = types.CreateAclsResponse.AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED)
    failed = types.CreateAclsResponse(results=[result])

    async def serve(message: Any, _version: int, _sender: Sender) -> Any:
        return envelope.wrap_response(decode_request_header(message.request_data), failed, None)

    _, span = await served(serve, an_envelope())

    assert span.error == "SECURITY_DISABLED"


@pytest.mark.parametrize("request_data", [b"", b"\x00", b"\xff" * 40])
async def test_an_envelope_that_cannot_be_opened_has_a_span_that_says_so(request_data: bytes) -> None:
    async def serve(_message: Any, _version: int, _sender: Sender) -> Any:
        return types.EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)

    message = an_envelope(None)
    message.request_data, message.request_principal = request_data, None
    _, span = await served(serve, message)

    assert (span.parent, span.error) == (None, "UNSUPPORTED_VERSION")


async def test_a_fault_of_the_controller_ends_the_span_and_is_raised() -> None:
    async def serve(_message: Any, _version: int, _sender: Sender) -> Any:
        raise ZeroDivisionError

    spans = RecordedSpans()
    with pytest.raises(ZeroDivisionError):
        await traced(spans, serve)(an_envelope(), 0, PROXY)

    assert [span.error for span in spans.ended] == [FAULT]


def test_a_traceparent_of_any_length_is_cut() -> None:
    message = an_envelope("x" * 5_000)

    assert envelope.traceparent(message) == "x" * 64
