"""A channel: negotiation, login, pipelined requests, time-outs, and what is told when it goes."""

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from proxy.metadata.scram import salted_password
from proxy.net.kafka.channel import (
    MAX_IN_FLIGHT,
    Channel,
    ChannelError,
    ChannelTimeout,
    EndpointSettings,
    LoginRejected,
    UnsupportedVersionError,
)
from proxy.security.sasl import client as sasl_client
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.broker import Broker
from tests.support.controllers import endpoint_of, login
from tests.support.fake_broker import FakeBroker, Request
from tests.support.kafka_fixtures import BROKER_LOGIN

HEARTBEAT = types.HeartbeatRequest(group_id="g", member_id="m")


def beats(error_code: int = 0) -> dict[int, Any]:
    return {ApiKey.HEARTBEAT: lambda _request: types.HeartbeatResponse(error_code=error_code)}


def beats_once(released: asyncio.Event) -> dict[int, Any]:
    """Answers with the generation as error code, and only when it is released."""

    async def beat(request: Request) -> Any:
        await released.wait()
        return types.HeartbeatResponse(error_code=request.message.generation_id)

    return {ApiKey.HEARTBEAT: beat}


@pytest.mark.kafka
@pytest.mark.spec("R9", "E1")
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_channel_logs_in_to_a_real_broker_and_speaks_its_versions(
    kafka: Broker, mechanism: str
) -> None:
    endpoint = endpoint_of(kafka.sasl_plaintext, sasl=login(*BROKER_LOGIN, mechanism))

    async with await Channel.open(endpoint) as channel:
        version = channel.version(ApiKey.METADATA, (0, 12))
        answer = await channel.request(ApiKey.METADATA, version, types.MetadataRequest(topics=[]))

    assert version == 12
    assert [broker.node_id for broker in answer.brokers] == [1]
    assert channel.closed


@pytest.mark.spec("O6", "O8")
async def test_versions_of_more_apis_than_any_broker_has_are_not_decoded() -> None:
    version = types.ApiVersionsResponse.ApiVersion(api_key=3, max_version=12)
    answer = types.ApiVersionsResponse(api_keys=[version] * 10_000)

    async with FakeBroker({ApiKey.API_VERSIONS: lambda _request: answer}) as broker:
        with pytest.raises(ChannelError, match="an ApiVersions response of 70"):
            await Channel.open(endpoint_of(broker.address))


@pytest.mark.kafka
@pytest.mark.spec("O8")
async def test_the_password_of_the_first_login_is_hashed_in_a_thread_and_never_again(
    kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[int]()

    def salted(*arguments: Any) -> bytes:
        threads.append(threading.get_ident())
        return salted_password(*arguments)

    monkeypatch.setattr(sasl_client, "salted_password", salted)
    monkeypatch.setattr(sasl_client, "_salted_passwords", {})
    endpoint = endpoint_of(kafka.sasl_plaintext, sasl=login(*BROKER_LOGIN, "SCRAM-SHA-256"))
    for _ in range(2):
        await (await Channel.open(endpoint)).close()

    assert len(threads) == 1
    assert threads != [threading.get_ident()]


@pytest.mark.kafka
@pytest.mark.spec("R9")
@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        ("SCRAM-SHA-256", "{address}: SCRAM-SHA-256 login as penstock"),
        ("PLAIN", "UNSUPPORTED_SASL_MECHANISM: offered: .*SCRAM-SHA-256"),
    ],
)
async def test_a_rejected_login_is_an_error_that_names_what_to_correct(
    kafka: Broker, mechanism: str, expected: str
) -> None:
    endpoint = endpoint_of(kafka.sasl_plaintext, sasl=login("penstock", "wrong", mechanism))

    with pytest.raises(LoginRejected, match=expected.format(address=kafka.sasl_plaintext)):
        await Channel.open(endpoint)


@pytest.mark.spec("E5")
def test_a_channel_works_on_uvloop_too() -> None:
    async def exchanged() -> int:
        async with (
            FakeBroker(beats(25)) as broker,
            await Channel.open(endpoint_of(broker.address)) as channel,
        ):
            answer = await channel.request(ApiKey.HEARTBEAT, 4, HEARTBEAT)
        return int(answer.error_code)

    assert uvloop.run(exchanged()) == 25


@pytest.mark.spec("O1", "E5")
@pytest.mark.parametrize(
    ("host", "port"),
    [("a..b", 9092), ("x" * 64, 9092), ("a\0b", 9092), ("127.0.0.1", -1), ("127.0.0.1", 65_536)],
)
async def test_an_address_that_nothing_can_have_is_an_error_of_the_channel(host: str, port: int) -> None:
    """A server names any address in its response, and the connection to it must not end the process."""
    with pytest.raises(ChannelError, match="cannot connect") as error:
        await Channel.open(EndpointSettings(host=host, port=port))

    assert f"{host}:{port}" in str(error.value)


@pytest.mark.spec("E5")
async def test_nobody_listening_is_an_error_that_names_the_endpoint() -> None:
    async with FakeBroker({}) as broker:
        address = broker.address

    with pytest.raises(ChannelError, match=f"{address}: cannot connect"):
        await Channel.open(endpoint_of(address))


@pytest.mark.spec("E8")
async def test_a_server_that_does_not_know_our_api_versions_is_asked_in_version_0() -> None:
    def versions(request: Request) -> Any:
        if request.header.api_version > 0:
            return codecs.response(ApiKey.API_VERSIONS, 0).encode(
                types.ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
            )
        key = types.ApiVersionsResponse.ApiVersion
        return types.ApiVersionsResponse(api_keys=[key(api_key=12, min_version=0, max_version=2)])

    async with (
        FakeBroker({ApiKey.API_VERSIONS: versions}) as broker,
        await Channel.open(endpoint_of(broker.address)) as channel,
    ):
        assert channel.api_versions == {12: (0, 2)}


@pytest.mark.spec("E8")
async def test_a_version_nobody_shares_is_an_error_with_both_ranges() -> None:
    async with (
        FakeBroker(beats(), {ApiKey.HEARTBEAT: (0, 2)}) as broker,
        await Channel.open(endpoint_of(broker.address)) as channel,
    ):
        assert channel.version(ApiKey.HEARTBEAT, (0, 4)) == 2
        with pytest.raises(UnsupportedVersionError, match="supports Heartbeat v0-v2, needed v3-v4"):
            channel.version(ApiKey.HEARTBEAT, (3, 4))
        with pytest.raises(UnsupportedVersionError):
            channel.version(ApiKey.FETCH, (4, 12))


@pytest.mark.spec("E5")
async def test_requests_are_pipelined_and_each_gets_its_own_answer() -> None:
    release = asyncio.Event()
    async with (
        FakeBroker(beats_once(release)) as broker,
        await Channel.open(endpoint_of(broker.address)) as channel,
        asyncio.TaskGroup() as tasks,
    ):
        requests = [types.HeartbeatRequest(group_id="g", member_id="m", generation_id=n) for n in range(20)]
        calls = [tasks.create_task(channel.request(ApiKey.HEARTBEAT, 4, request)) for request in requests]
        await broker.wait_for(ApiKey.HEARTBEAT)
        release.set()
        answers = await asyncio.gather(*calls)

    assert [answer.error_code for answer in answers] == list(range(20))


@pytest.mark.spec("E1")
async def test_an_encoded_body_goes_out_as_it_is_with_the_callers_client_id() -> None:
    body = codecs.request(ApiKey.HEARTBEAT, 4).encode(HEARTBEAT)

    async with (
        FakeBroker(beats(25)) as broker,
        await Channel.open(endpoint_of(broker.address)) as channel,
    ):
        answer = await channel.send_body(ApiKey.HEARTBEAT, 4, "somebody", body)

    (request,) = broker.received(ApiKey.HEARTBEAT)
    assert (request.message, request.header.client_id, request.trailing) == (HEARTBEAT, "somebody", b"")
    assert codecs.response(ApiKey.HEARTBEAT, 4).decode_exactly(answer).error_code == 25


@pytest.mark.spec("E5", "O6")
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param(None, "no response to Heartbeat within 100 ms", id="silence"),
        pytest.param(types.HeartbeatResponse(unknown_tags={100: b"x" * 10_000}), "5000", id="too large"),
        pytest.param(b"\x00", "Heartbeat v4 response", id="cannot be read"),
    ],
)
async def test_an_unusable_response_ends_the_connection(answer: Any, says: str) -> None:
    async with FakeBroker({ApiKey.HEARTBEAT: lambda _: answer}) as broker:
        limits = {"request_timeout_ms": 100, "max_response_bytes": 5_000}
        channel = await Channel.open(endpoint_of(broker.address, **limits))

        with pytest.raises(ChannelTimeout if answer is None else ChannelError, match=says):
            await channel.request(ApiKey.HEARTBEAT, 4, HEARTBEAT)

        assert channel.closed


@pytest.mark.spec("E5")
async def test_a_caller_that_gives_up_leaves_the_channel_to_the_others() -> None:
    release = asyncio.Event()
    async with (
        FakeBroker(beats_once(release)) as broker,
        await Channel.open(endpoint_of(broker.address)) as channel,
    ):
        with pytest.raises(ChannelTimeout):
            await channel.request(ApiKey.HEARTBEAT, 4, HEARTBEAT, timeout_ms=20)
        release.set()

        answer = await channel.request(ApiKey.HEARTBEAT, 4, HEARTBEAT)

    assert answer.error_code == HEARTBEAT.generation_id


@pytest.mark.spec("E5", "O8")
async def test_callers_that_give_up_leave_no_more_behind_than_the_limit_while_the_endpoint_is_slow() -> None:
    release = asyncio.Event()

    async def given_up(channel: Channel) -> None:
        with pytest.raises(ChannelTimeout):
            await channel.request(ApiKey.HEARTBEAT, 4, HEARTBEAT, timeout_ms=1)

    async with (
        FakeBroker(beats_once(release)) as broker,
        await Channel.open(endpoint_of(broker.address)) as channel,
        asyncio.TaskGroup() as tasks,
    ):
        await asyncio.gather(*(given_up(channel) for _ in range(MAX_IN_FLIGHT * 3)))
        last = types.HeartbeatRequest(group_id="g", member_id="m", generation_id=7)
        patient = tasks.create_task(channel.request(ApiKey.HEARTBEAT, 4, last))
        release.set()
        answer = await patient

    assert answer.error_code == 7
    assert len(broker.received(ApiKey.HEARTBEAT)) == MAX_IN_FLIGHT + 1


@pytest.mark.spec("E5")
async def test_requests_that_wait_for_room_fail_when_the_connection_goes() -> None:
    async with FakeBroker({ApiKey.HEARTBEAT: lambda _: None}) as broker:
        channel = await Channel.open(endpoint_of(broker.address))
        async with asyncio.TaskGroup() as tasks:
            calls = [tasks.create_task(_failure(channel)) for _ in range(MAX_IN_FLIGHT * 2)]
            await broker.wait_for(ApiKey.HEARTBEAT)
            broker.hang_up()
            failures = await asyncio.wait_for(asyncio.gather(*calls), 5)

    assert {str(failure).split(": ")[1] for failure in failures} == {"Heartbeat"}


@pytest.mark.spec("E5")
async def test_requests_under_way_fail_when_the_connection_goes() -> None:
    async with FakeBroker({ApiKey.HEARTBEAT: lambda _: None}) as broker:
        channel = await Channel.open(endpoint_of(broker.address))
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(_failure(channel))
            await broker.wait_for(ApiKey.HEARTBEAT)
            broker.hang_up()
            assert "connection" in str(await call)

        with pytest.raises(ChannelError):
            await channel.request(ApiKey.HEARTBEAT, 4, HEARTBEAT)


async def _failure(channel: Channel) -> ChannelError:
    with pytest.raises(ChannelError) as caught:
        await channel.request(ApiKey.HEARTBEAT, 4, HEARTBEAT)
    return caught.value


LIFETIME_MS = 1_000
"""As short as it may be: a server refuses a second login within a second."""


def sasl_answers(outcomes: list[int]) -> dict[int, Any]:
    """PLAIN whose logins end as told, one after another; the last outcome stays."""

    def authenticate(_request: Request) -> Any:
        error_code = outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]
        return types.SaslAuthenticateResponse(error_code=error_code, session_lifetime_ms=LIFETIME_MS)

    return {
        ApiKey.SASL_HANDSHAKE: lambda _: types.SaslHandshakeResponse(mechanisms=["PLAIN"]),
        ApiKey.SASL_AUTHENTICATE: authenticate,
        **beats(),
    }


@pytest.mark.slow
@pytest.mark.spec("R10")
async def test_a_channel_logs_in_again_before_its_session_ends_and_holds_requests_back_meanwhile() -> None:
    async with (
        FakeBroker(sasl_answers([0])) as broker,
        await Channel.open(endpoint_of(broker.address, sasl=login("proxy-1", "secret"))) as channel,
    ):
        async with asyncio.timeout(5):
            while len(broker.received(ApiKey.SASL_AUTHENTICATE)) < 2:
                await asyncio.gather(*(channel.request(ApiKey.HEARTBEAT, 4, HEARTBEAT) for _ in range(3)))

    keys = [request.header.api_key for request in broker.requests]
    again = keys.index(ApiKey.SASL_HANDSHAKE, keys.index(ApiKey.SASL_HANDSHAKE) + 1)
    assert keys[again : again + 2] == [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE]
    assert broker.connections == 1


@pytest.mark.slow
@pytest.mark.spec("R10")
async def test_a_channel_whose_second_login_fails_is_closed() -> None:
    async with FakeBroker(sasl_answers([0, ErrorCode.SASL_AUTHENTICATION_FAILED])) as broker:
        channel = await Channel.open(endpoint_of(broker.address, sasl=login("proxy-1", "secret")))

        with pytest.raises(LoginRejected, match="PLAIN login as proxy-1: SASL_AUTHENTICATION_FAILED"):
            await _beat_for_ever(channel)

        await channel.wait_closed()
        assert channel.closed


@pytest.mark.spec("R9")
@pytest.mark.parametrize("error", [FileNotFoundError(2, "No such file"), ValueError("not UTF-8")])
async def test_a_password_that_is_gone_is_a_failed_login(error: Exception) -> None:
    """A process would end by any other exception of a login, with all its clients."""

    def password() -> str:
        raise error

    lacking = replace(login("proxy-1", "secret"), password=password)
    async with FakeBroker(sasl_answers([0])) as broker:
        with pytest.raises(LoginRejected, match="no password to log in with"):
            await Channel.open(endpoint_of(broker.address, sasl=lacking))


async def _beat_for_ever(channel: Channel) -> None:
    async with asyncio.timeout(5):
        while True:
            await channel.request(ApiKey.HEARTBEAT, 4, HEARTBEAT)


@pytest.mark.spec("R9")
async def test_a_password_is_not_in_the_settings_text() -> None:
    assert "hunter2" not in repr(endpoint_of("h:1", sasl=login("u", "hunter2")))


@pytest.mark.spec("O2", "O12")
@pytest.mark.parametrize("body", [b"", b"\0\0", b"\0\0\xff\xff\xff\xff\xff"])
async def test_versions_that_cannot_be_read_are_an_error_of_the_channel(body: bytes) -> None:
    async with FakeBroker({ApiKey.API_VERSIONS: lambda _request: body}) as broker:
        with pytest.raises(ChannelError, match="ApiVersionsResponse v3: api_keys: "):
            await Channel.open(endpoint_of(broker.address))
