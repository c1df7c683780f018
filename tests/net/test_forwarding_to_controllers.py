"""The proxy's side of forwarding: finding the controller, retrying in time, what the client gets to see."""

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from forwarding import envelope
from forwarding.envelope import AUTHORIZER_NOT_READY
from forwarding.net.forwarder import MAX_OF_PRINCIPAL, TOKEN_TURN_S
from forwarding.net.metrics import MAX_CLIENT_IDS, OTHER_CLIENT_ID, ForwarderMetrics
from proxy.net.kafka.channel import EndpointSettings
from proxy.security.principal import Principal, deserialize
from proxy.session.effects import ControllerResponse
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import decode_request_header, encode_response
from tests.lab.cluster.broker import Broker
from tests.lab.cluster.ports import free_addresses
from tests.support.controllers import (
    a_forwarder,
    acls_request,
    endpoint_of,
    forward,
)
from tests.support.edges import SHOULD_NOT_TAKE_S
from tests.support.every_change import topic_request
from tests.support.fake_broker import FakeBroker, Request
from tests.support.two_sides import limit_request, user_request

DONE = types.CreateAclsResponse(results=[types.CreateAclsResponse.AclCreationResult()])


def answered(
    request: Request, correlation_id: int | None = None, offset: int | None = None, done: Any = DONE
) -> Any:
    """The EnvelopeResponse of a controller that did what was asked."""
    header = decode_request_header(request.message.request_data)
    body = codecs.response(header.api_key, header.api_version).encode(done)
    inner = encode_response(header.api_key, header.api_version, correlation_id or header.correlation_id, body)
    tags = None if offset is None else {envelope.LAST_OFFSET_TAG: offset.to_bytes(8, "big")}
    return types.EnvelopeResponse(response_data=inner[4:], unknown_tags=tags)


def refused(error_code: int) -> Callable[[Request], Any]:
    return lambda _request: types.EnvelopeResponse(error_code=error_code)


def in_turn(*answers: Callable[[Request], Any]) -> dict[int, Any]:
    """A controller that answers one Envelope after another so; the last answer stays."""
    left = list(answers)
    return {ApiKey.ENVELOPE: lambda request: (left.pop(0) if len(left) > 1 else left[0])(request)}


async def sent(*brokers: FakeBroker, timeout_ms: int = 5_000) -> ControllerResponse:
    async with a_forwarder(*(endpoint_of(broker.address) for broker in brokers)) as forwarder:
        reply, _ = await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"), timeout_ms=timeout_ms)
    return reply


def error_of(reply: ControllerResponse) -> tuple[int, bool, Any]:
    return reply.error_code, reply.close, reply.body


@pytest.mark.spec("E1", "E13")
async def test_the_answer_is_the_controllers_response_and_the_offset_it_told() -> None:
    async with FakeBroker(in_turn(lambda request: answered(request, offset=41))) as controller:
        reply = await sent(controller)

    assert (reply.error_code, reply.last_offset, reply.close) == (ErrorCode.NONE, 41, False)
    assert reply.body is not None
    assert codecs.response(ApiKey.CREATE_ACLS, 3).decode_exactly(reply.body) == DONE
    (request,) = controller.received(ApiKey.ENVELOPE)
    assert request.message.unknown_tags[envelope.FORWARD_ID_TAG] == reply.forward_id.encode()


@pytest.mark.spec("E5")
async def test_a_controller_that_is_not_the_active_one_leads_to_the_next() -> None:
    async with (
        FakeBroker(in_turn(refused(ErrorCode.NOT_CONTROLLER))) as standby,
        FakeBroker(in_turn(answered)) as active,
    ):
        reply = await sent(standby, active)

    assert reply.error_code == ErrorCode.NONE
    assert (len(standby.received(ApiKey.ENVELOPE)), len(active.received(ApiKey.ENVELOPE))) == (1, 1)


@pytest.mark.spec("E5")
async def test_a_leader_that_is_known_otherwise_is_tried_before_the_endpoints() -> None:
    async with FakeBroker(in_turn(answered)) as standby, FakeBroker(in_turn(answered)) as active:
        leader = endpoint_of(active.address)
        async with a_forwarder(endpoint_of(standby.address), leader=lambda: leader) as forwarder:
            await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"))
            reached = forwarder.endpoint

    assert (len(active.received(ApiKey.ENVELOPE)), standby.connections) == (1, 0)
    assert reached is not None
    assert reached.address == leader.address


@pytest.mark.spec("E5")
async def test_the_only_endpoint_is_left_for_the_leader_once_that_is_known() -> None:
    known: list[EndpointSettings] = []

    def tells(_request: Request) -> Any:
        known.append(endpoint_of(active.address))
        return types.EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)

    async with FakeBroker(in_turn(tells)) as standby, FakeBroker(in_turn(answered)) as active:
        endpoint = endpoint_of(standby.address)
        async with a_forwarder(endpoint, leader=lambda: known[-1] if known else None) as forwarder:
            reply, _ = await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"))

    assert reply.error_code == ErrorCode.NONE
    assert (len(standby.received(ApiKey.ENVELOPE)), len(active.received(ApiKey.ENVELOPE))) == (1, 1)


@pytest.mark.spec("E5")
async def test_a_leader_that_is_known_wrongly_does_not_keep_the_others_from_being_tried() -> None:
    async with FakeBroker(in_turn(answered)) as active:
        nobody = endpoint_of(free_addresses(1)[0])
        async with a_forwarder(endpoint_of(active.address), leader=lambda: nobody) as forwarder:
            reply, _ = await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"))

    assert reply.error_code == ErrorCode.NONE


@pytest.mark.spec("E5", "O9")
async def test_a_controller_that_is_not_listed_any_more_is_left_for_one_that_is() -> None:
    async with (
        FakeBroker(in_turn(answered)) as first,
        FakeBroker(in_turn(answered)) as second,
        a_forwarder(endpoint_of(first.address)) as forwarder,
    ):
        await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"))
        # One that stays in the list keeps its connection.
        forwarder.follow([endpoint_of(second.address), endpoint_of(first.address)])
        await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"))
        forwarder.follow([endpoint_of(second.address)])
        reply, _ = await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"))

    assert reply.error_code == ErrorCode.NONE
    assert (len(first.received(ApiKey.ENVELOPE)), len(second.received(ApiKey.ENVELOPE))) == (2, 1)
    assert first.connections == 1


@pytest.mark.spec("E5")
async def test_a_lost_connection_is_tried_again_with_the_same_forward_id() -> None:
    async with FakeBroker(in_turn(lambda _: broker.hang_up(), answered)) as broker:
        reply = await sent(broker)

    assert reply.error_code == ErrorCode.NONE
    ids = [r.message.unknown_tags[envelope.FORWARD_ID_TAG] for r in broker.received(ApiKey.ENVELOPE)]
    assert ids == [reply.forward_id.encode()] * 2


@pytest.mark.spec("E5", "S9")
async def test_a_controller_that_is_not_ready_is_asked_again() -> None:
    async with FakeBroker(in_turn(refused(AUTHORIZER_NOT_READY), answered)) as controller:
        reply = await sent(controller)

    assert reply.error_code == ErrorCode.NONE
    assert len(controller.received(ApiKey.ENVELOPE)) == 2


@pytest.mark.spec("S9")
async def test_an_older_peer_is_spoken_to_in_version_0() -> None:
    async with FakeBroker(in_turn(answered), {ApiKey.ENVELOPE: (0, 0)}) as controller:
        await sent(controller)

    assert [r.header.api_version for r in controller.received(ApiKey.ENVELOPE)] == [0]


@pytest.mark.spec("E5", "E6")
@pytest.mark.parametrize(
    "answers",
    [
        (refused(ErrorCode.NOT_CONTROLLER),),
        (refused(AUTHORIZER_NOT_READY),),
        (lambda _request: None,),
    ],
    ids=["not controller", "not ready", "silence"],
)
async def test_retrying_ends_with_the_requests_own_deadline(answers: tuple[Any, ...]) -> None:
    async with FakeBroker(in_turn(*answers)) as controller:
        reply = await sent(controller, timeout_ms=200)

    assert error_of(reply) == (ErrorCode.REQUEST_TIMED_OUT, False, None)


@pytest.mark.spec("E5")
@pytest.mark.parametrize(
    ("answers", "received"),
    [
        pytest.param(in_turn(lambda _request: None), 1, id="silent"),
        pytest.param({ApiKey.API_VERSIONS: lambda _request: None}, 0, id="does not even greet"),
    ],
)
async def test_a_frozen_controller_is_left_for_another(answers: dict[int, Any], received: int) -> None:
    async with (
        FakeBroker(answers) as frozen,
        FakeBroker(in_turn(answered)) as alive,
        a_forwarder(
            endpoint_of(frozen.address), endpoint_of(alive.address), attempt_timeout_ms=100
        ) as forwarder,
    ):
        reply, _ = await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"))

    assert reply.error_code == ErrorCode.NONE
    assert (len(frozen.received(ApiKey.ENVELOPE)), len(alive.received(ApiKey.ENVELOPE))) == (received, 1)


@pytest.mark.spec("E5")
async def test_a_slow_leader_gets_a_request_once() -> None:
    """Kafka's controller would carry it out again: a topic that it has created exists already, then."""

    async def late(request: Request) -> Any:
        await asyncio.sleep(0.4)
        return answered(request)

    async with FakeBroker(in_turn(late)) as controller:
        leader = endpoint_of(controller.address)
        async with a_forwarder(leader, attempt_timeout_ms=100, leader=lambda: leader) as forwarder:
            reply, _ = await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"))

    assert (reply.error_code, reply.attempts) == (ErrorCode.NONE, 1)
    assert len(controller.received(ApiKey.ENVELOPE)) == 1


@pytest.mark.spec("E5")
async def test_a_silent_leader_that_is_lost_is_left() -> None:
    """The log is read there too: that it does not respond to that says that it is frozen."""
    known: list[EndpointSettings] = []
    async with (
        FakeBroker(in_turn(lambda _request: known.clear())) as frozen,
        FakeBroker(in_turn(answered)) as alive,
    ):
        known.append(endpoint_of(frozen.address))
        async with a_forwarder(
            endpoint_of(frozen.address),
            endpoint_of(alive.address),
            attempt_timeout_ms=100,
            leader=lambda: known[0] if known else None,
        ) as forwarder:
            reply, _ = await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"))

    assert reply.error_code == ErrorCode.NONE


@pytest.mark.spec("E5")
async def test_without_any_controller_a_request_times_out() -> None:
    async with FakeBroker({}) as gone:
        address = gone.address

    async with a_forwarder(endpoint_of(address)) as forwarder:
        reply, _ = await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"), timeout_ms=100)

    assert error_of(reply) == (ErrorCode.REQUEST_TIMED_OUT, False, None)


@pytest.mark.spec("E6")
@pytest.mark.parametrize(
    ("error_code", "seen", "close"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR, False),
        (ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, ErrorCode.UNKNOWN_SERVER_ERROR, False),
        (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR, False),
        (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_VERSION, True),
    ],
)
async def test_a_fault_of_forwarding_itself_is_not_shown_as_it_is(
    error_code: ErrorCode, seen: ErrorCode, close: bool
) -> None:
    async with FakeBroker(in_turn(refused(error_code))) as controller:
        reply = await sent(controller)

    assert error_of(reply) == (seen, close, None)
    assert len(controller.received(ApiKey.ENVELOPE)) == 1


@pytest.mark.spec("E6", "O2")
async def test_an_error_of_a_later_release_is_named_by_its_number() -> None:
    with capture_logs() as lines:
        async with FakeBroker(in_turn(refused(4_242))) as controller:
            reply = await sent(controller)

    assert error_of(reply) == (ErrorCode.UNKNOWN_SERVER_ERROR, False, None)
    assert [line["error"] for line in lines if line["log_level"] == "error"] == ["Unknown(4242)"]


@pytest.mark.spec("E6")
@pytest.mark.parametrize(
    "answer",
    [
        lambda request: answered(request, correlation_id=999),
        lambda _request: types.EnvelopeResponse(response_data=None),
        lambda _request: types.EnvelopeResponse(response_data=b"\x00"),
        lambda _request: b"\xff\xff\xff",
    ],
    ids=["another's answer", "no answer", "cut off", "no envelope"],
)
async def test_an_answer_that_makes_no_sense_is_an_unknown_server_error(answer: Any) -> None:
    async with FakeBroker(in_turn(answer)) as controller:
        reply = await sent(controller)

    assert error_of(reply) == (ErrorCode.UNKNOWN_SERVER_ERROR, False, None)


@pytest.mark.spec("E8")
async def test_a_new_controllers_versions_are_told_at_each_connection() -> None:
    told: list[Any] = []
    async with (
        FakeBroker(in_turn(refused(ErrorCode.NOT_CONTROLLER)), {58: (0, 0), 30: (0, 2)}) as old,
        FakeBroker(in_turn(answered), {58: (0, 0), 30: (0, 3)}) as new,
        a_forwarder(
            endpoint_of(old.address), endpoint_of(new.address), on_api_versions=told.append
        ) as forwarder,
    ):
        await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"))
        now = forwarder.controller_api_versions

    assert told == [{58: (0, 0), 30: (0, 2)}, {58: (0, 0), 30: (0, 3)}]
    assert now == told[-1]


@pytest.mark.spec("E8")
async def test_a_listener_may_wait_until_a_controller_has_said_what_it_speaks_or_for_a_time() -> None:
    async with FakeBroker({}) as gone:
        address = gone.address
    async with a_forwarder(endpoint_of(address)) as forwarder:
        assert not await forwarder.reached(50)
    async with (
        FakeBroker(in_turn(answered)) as controller,
        a_forwarder(endpoint_of(controller.address)) as forwarder,
    ):
        assert await forwarder.reached(30_000)
        assert forwarder.controller_api_versions is not None


@pytest.mark.spec("E11")
async def test_forwards_are_counted_by_client_and_retries_by_reason() -> None:
    registry = CollectorRegistry()
    async with (
        FakeBroker(in_turn(refused(AUTHORIZER_NOT_READY), lambda _: broker.hang_up(), answered)) as broker,
        a_forwarder(endpoint_of(broker.address), registry=registry) as forwarder,
    ):
        await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"))

    value = registry.get_sample_value
    assert value("penstock_requests_forwarded_to_controller_total", {"client_id": "admin-client"}) == 1
    retries = "penstock_forwarding_retries_total"
    assert value(retries, {"reason": "AUTHORIZER_NOT_READY"}) == 1
    assert value(retries, {"reason": "connection lost"}) == 1
    assert value("penstock_forwarding_in_flight", {"client_id": "admin-client"}) == 0
    assert value("penstock_forwarding_latency_seconds_count") == 1


@pytest.mark.spec("E11")
async def test_a_request_that_the_controller_has_not_answered_is_in_flight() -> None:
    registry, release = CollectorRegistry(), asyncio.Event()

    async def answered_later(request: Request) -> Any:
        await release.wait()
        return answered(request)

    def in_flight() -> float | None:
        return registry.get_sample_value("penstock_forwarding_in_flight", {"client_id": "admin-client"})

    async with (
        FakeBroker({ApiKey.ENVELOPE: answered_later}) as controller,
        a_forwarder(endpoint_of(controller.address), registry=registry) as forwarder,
        asyncio.timeout(SHOULD_NOT_TAKE_S),
        asyncio.TaskGroup() as tasks,
    ):
        before = in_flight()
        tasks.create_task(forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t")))
        await controller.wait_for(ApiKey.ENVELOPE)
        meanwhile = in_flight()
        release.set()

    assert (before, meanwhile, in_flight()) == (None, 1, 0)


@pytest.mark.spec("E11", "Q10")
async def test_clients_cannot_make_more_series_than_the_limit() -> None:
    registry = CollectorRegistry()
    metrics = ForwarderMetrics(registry)

    for number in range(MAX_CLIENT_IDS + 5):
        metrics.count(f"client-{number}")

    name = "penstock_requests_forwarded_to_controller_total"
    assert registry.get_sample_value(name, {"client_id": OTHER_CLIENT_ID}) == 5


@pytest.mark.spec("E5")
async def test_many_requests_share_one_connection() -> None:
    async with (
        FakeBroker(in_turn(answered)) as controller,
        a_forwarder(endpoint_of(controller.address)) as forwarder,
    ):
        replies = await asyncio.gather(
            *(forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t")) for _ in range(30))
        )

    assert {reply.error_code for reply, _ in replies} == {ErrorCode.NONE}
    assert len({reply.forward_id for reply, _ in replies}) == 30
    assert controller.connections == 1


@pytest.mark.spec("E5", "O8")
async def test_one_principal_with_many_connections_is_not_ahead_of_all_others() -> None:
    senders, other = list[Principal](), Principal("User", "other")

    def noted(request: Request) -> Any:
        senders.append(deserialize(bytes(request.message.request_principal)))
        return answered(request)

    async with (
        FakeBroker({ApiKey.ENVELOPE: noted}) as controller,
        a_forwarder(endpoint_of(controller.address)) as forwarder,
    ):
        await forwarder.reached(5_000)
        flood = [forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t")) for _ in range(200)]
        admin = forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"), principal=other)
        replies = await asyncio.gather(*flood, admin)

    assert {reply.error_code for reply, _ in replies} == {ErrorCode.NONE}
    assert senders.index(other) == MAX_OF_PRINCIPAL


@pytest.mark.spec("E5", "O8")
async def test_a_principal_that_renews_tokens_in_a_loop_gets_few_turns_and_others_all_of_theirs() -> None:
    api_keys = list[int]()

    def noted(request: Request) -> Any:
        api_keys.append(decode_request_header(request.message.request_data).api_key)
        return answered(request, done=DONE if api_keys[-1] == ApiKey.CREATE_ACLS else renewed)

    renewed = types.RenewDelegationTokenResponse(expiry_timestamp_ms=1)
    renewal = types.RenewDelegationTokenRequest(hmac=b"h", renew_period_ms=-1)
    async with (
        FakeBroker({ApiKey.ENVELOPE: noted}) as controller,
        a_forwarder(endpoint_of(controller.address)) as forwarder,
    ):
        await forwarder.reached(5_000)
        since_s = perf_counter()
        async with asyncio.TaskGroup() as tasks:
            flood = [
                tasks.create_task(
                    forward(forwarder, ApiKey.RENEW_DELEGATION_TOKEN, renewal, timeout_ms=30_000)
                )
                for _ in range(MAX_OF_PRINCIPAL + 1)
            ]
            await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
            # Its other requests wait for none of these.
            await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"))
            assert sum(task.done() for task in flood) == MAX_OF_PRINCIPAL

    assert api_keys.count(ApiKey.RENEW_DELEGATION_TOKEN) == MAX_OF_PRINCIPAL + 1
    assert api_keys.index(ApiKey.CREATE_ACLS) <= MAX_OF_PRINCIPAL
    assert perf_counter() - since_s >= TOKEN_TURN_S


@pytest.mark.spec("E5", "O8")
async def test_a_request_that_waits_for_others_of_its_principal_times_out_in_time() -> None:
    async with a_forwarder(endpoint_of(free_addresses(1)[0])) as forwarder, asyncio.TaskGroup() as tasks:
        before = [
            tasks.create_task(forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"), timeout_ms=60_000))
            for _ in range(MAX_OF_PRINCIPAL)
        ]
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            reply, _ = await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"), timeout_ms=200)
        assert not any(each.done() for each in before)
        for each in before:
            each.cancel()

    assert reply.error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.kafka
@pytest.mark.spec("E1")
async def test_a_real_kraft_controller_takes_our_envelope(kafka: Broker, topic_name: str) -> None:
    async with a_forwarder(endpoint_of(kafka.controller)) as forwarder:
        reply, created = await forward(forwarder, ApiKey.CREATE_TOPICS, topic_request(topic_name))
        again, exists = await forward(forwarder, ApiKey.CREATE_TOPICS, topic_request(topic_name))

    assert (reply.error_code, again.error_code, reply.last_offset) == (0, 0, None)
    assert [(result.name, result.error_code) for result in created.topics] == [(topic_name, 0)]
    assert [result.error_code for result in exists.topics] == [ErrorCode.TOPIC_ALREADY_EXISTS]


@pytest.mark.kafka
@pytest.mark.spec("E1", "E2")
async def test_a_real_kraft_controller_stores_a_quota_and_a_credential_we_forward(kafka: Broker) -> None:
    user = user_request("forwarded", "secret")
    async with a_forwarder(endpoint_of(kafka.controller)) as forwarder:
        _, limited = await forward(forwarder, ApiKey.ALTER_CLIENT_QUOTAS, limit_request("forwarded", 1e6))
        _, stored = await forward(forwarder, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, user)

    assert [entry.error_code for entry in limited.entries] == [0]
    assert [(result.user, result.error_code) for result in stored.results] == [("forwarded", 0)]
