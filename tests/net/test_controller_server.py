"""The controller's own endpoint: who may come in, what is served there, and how it closes."""

import asyncio
import gc
import ssl
import sys
import weakref
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from forwarding.envelope import AUTHORIZER_NOT_READY
from forwarding.net import process as controller_process
from forwarding.net.process import forwardable_versions
from proxy.net.files.tls import KeyPair, ServerTls, ServerTlsSettings, client_context
from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings, LoginRejected
from proxy.session.apis.table import FORWARDED
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.broker import Broker
from tests.lab.cluster.certificates import write
from tests.support.controllers import (
    ADMIN,
    a_controller,
    a_controller_and_a_forwarder,
    a_forwarder,
    acl_names,
    acls_request,
    controller_config,
    controller_settings,
    create_acls,
    endpoint_of,
    forward,
    login,
    made_controller,
    plain_sasl,
    plaintext,
    running,
)
from tests.support.decisions import envelope_of, enveloped_response
from tests.support.fake_broker import FakeBroker
from tests.support.relay import Relay
from tests.support.waiting import turns_until

USERS = {"proxy-1": "secret", "mallory": "other"}
LATE_START = {"authorizer": {"early.start.listeners": ()}}


def nowhere() -> EndpointSettings:
    """A broker's address where nobody listens."""
    return endpoint_of("127.0.0.1:1")


async def enveloped(channel: Channel, version: int, request: Any, api_key: int = ApiKey.CREATE_ACLS) -> Any:
    """The EnvelopeResponse to a request of the admin's in an Envelope of that version."""
    wrapped = envelope_of(api_key, request, ADMIN)
    body = codecs.request(ApiKey.ENVELOPE, 0).encode(wrapped)
    raw = await channel.send_body(ApiKey.ENVELOPE, version, "proxy", body)
    return codecs.response(ApiKey.ENVELOPE, 0).decode_exactly(raw)


@pytest.mark.spec("S4", "S9")
async def test_before_the_log_is_loaded_a_sender_is_told_to_wait_in_words_it_knows() -> None:
    made = made_controller(controller_settings(nowhere(), "t"))
    async with (
        running(made, wait=False) as controller,
        await Channel.open(controller.endpoint) as channel,
    ):
        told = [(await enveloped(channel, version, acls_request("t"))).error_code for version in (0, 1)]
        (note,) = made.process.blocked()
        assert note.public == "the metadata log is not loaded: connection refused"

    assert told == [ErrorCode.UNKNOWN_SERVER_ERROR, AUTHORIZER_NOT_READY]
    assert [note.public for note in made.process.blocked()] == ["draining"]


@pytest.mark.spec("E8", "S9")
async def test_a_controller_that_knows_no_broker_yet_offers_what_brokers_carry_out_too() -> None:
    """Else a proxy that reached it in its first moments offered no CreateTopics until it connected again."""
    made = made_controller(controller_settings(nowhere(), "t"))
    async with (
        running(made, wait=False) as controller,
        a_forwarder(controller.endpoint) as forwarder,
    ):
        assert await forwarder.reached(5_000)

        told = forwarder.controller_api_versions or {}

    assert FORWARDED - {ApiKey.UPDATE_FEATURES} <= told.keys()
    assert told[ApiKey.CREATE_TOPICS][1] == codecs.request_versions(ApiKey.CREATE_TOPICS)[-1]


@pytest.mark.spec("E8")
def test_of_what_brokers_carry_out_a_broker_that_is_known_bounds_the_versions() -> None:
    told = forwardable_versions({int(ApiKey.CREATE_TOPICS): (2, 5)})

    assert told[ApiKey.CREATE_TOPICS] == (2, 5)
    assert ApiKey.DELETE_TOPICS not in told
    assert ApiKey.CREATE_ACLS in told


@pytest.mark.spec("S3")
async def test_a_listener_that_is_not_to_start_early_opens_only_when_the_log_is_loaded() -> None:
    made = made_controller(controller_settings(nowhere(), "t", LATE_START))
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(made.process.run())

        await asyncio.wait([run, tasks.create_task(asyncio.sleep(0.3))], return_when="FIRST_COMPLETED")

        assert not made.process.server.listening.is_set()
        assert not run.done()
        made.process.drain()


@pytest.mark.spec("O6")
async def test_a_controller_collects_cycles_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cyclic:
        def __init__(self) -> None:
            self.own = self

    monkeypatch.setattr(controller_process, "COLLECT_INTERVAL_MS", 1)
    made = made_controller(controller_settings(nowhere(), "t", LATE_START))
    gc.freeze()
    gc.disable()
    try:
        cyclic = weakref.ref(Cyclic())
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(made.process.run())
            await turns_until(lambda: cyclic() is None)
            made.process.drain()
    finally:
        gc.enable()
        gc.unfreeze()


@pytest.mark.kafka
@pytest.mark.spec("S4", "S9", "E5")
async def test_a_proxy_that_came_early_is_served_once_the_log_is_loaded(
    kafka: Broker, topic_name: str
) -> None:
    async with Relay(kafka.plaintext) as relay:
        relay.refuse()
        made = made_controller(controller_settings(relay.endpoint, topic_name))
        async with (
            running(made, wait=False) as controller,
            a_forwarder(controller.endpoint) as forwarder,
            asyncio.TaskGroup() as tasks,
        ):
            early = tasks.create_task(create_acls(forwarder, "early"))
            await asyncio.sleep(0.3)
            assert not early.done()
            relay.accept()
            await early

    assert acl_names(made.image) == ["early"]


@pytest.mark.kafka
@pytest.mark.spec("E4", "E10", "R9")
async def test_a_proxy_logs_in_and_a_stranger_does_not(kafka: Broker, topic_name: str) -> None:
    made = made_controller(controller_settings(plaintext(kafka), topic_name), plain_sasl(USERS))
    async with running(made) as controller:
        address = controller.endpoint.address
        async with a_forwarder(endpoint_of(address, sasl=login("proxy-1", "secret"))) as forwarder:
            await create_acls(forwarder, "t")
        with pytest.raises(LoginRejected, match="SASL_AUTHENTICATION_FAILED"):
            await Channel.open(endpoint_of(address, sasl=login("proxy-1", "wrong")))
        with pytest.raises(ChannelError):
            async with await Channel.open(endpoint_of(address)) as channel:
                await enveloped(channel, 0, acls_request("u"))

    assert acl_names(made.image) == ["t"]
    assert [event.principal for event in made.told("authentication")] == ["User:proxy-1"]
    failed = made.told("authentication_failed")
    assert [event.error_code for event in failed] == [
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.ILLEGAL_SASL_STATE,
    ]
    assert {event.listener for event in failed} == {"CONTROLLER"}


@pytest.mark.kafka
@pytest.mark.spec("E4", "E6")
async def test_a_login_without_cluster_action_forwards_nothing(kafka: Broker, topic_name: str) -> None:
    made = made_controller(controller_settings(plaintext(kafka), topic_name), plain_sasl(USERS))
    async with running(made) as controller:
        endpoint = endpoint_of(controller.endpoint.address, sasl=login("mallory", "other"))
        async with a_forwarder(endpoint) as forwarder, await Channel.open(endpoint) as channel:
            reply, _ = await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"))
            raw = await enveloped(channel, 0, acls_request("t"))

    assert reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert raw.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert acl_names(made.image) == []
    assert {(e.principal, e.error_code) for e in made.told("request_refused")} == {
        ("User:mallory", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    }


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.spec("R3", "R5", "R10")
async def test_a_proxy_renews_its_session_while_it_forwards(kafka: Broker, topic_name: str) -> None:
    made = made_controller(controller_settings(plaintext(kafka), topic_name), plain_sasl(USERS, 3_000))
    async with running(made) as controller:
        endpoint = endpoint_of(controller.endpoint.address, sasl=login("proxy-1", "secret"))
        async with a_forwarder(endpoint) as forwarder, asyncio.timeout(10):
            number = 0
            while not made.told("reauthentication"):
                await create_acls(forwarder, f"t{number}")
                number += 1

    assert len(made.told("authentication")) == 1, "one connection all the time"
    assert made.told("session_expired") == []
    assert len(acl_names(made.image)) == number


@pytest.mark.spec("E10")
@pytest.mark.parametrize(
    ("api_key", "request_message"),
    [
        (ApiKey.CREATE_ACLS, acls_request("t")),
        (ApiKey.METADATA, types.MetadataRequest()),
        (ApiKey.PRODUCE, types.ProduceRequest()),
    ],
    ids=["CreateAcls", "Metadata", "Produce"],
)
async def test_the_endpoint_serves_nothing_but_envelopes(api_key: int, request_message: Any) -> None:
    made = made_controller(controller_settings(nowhere(), "t"))
    async with running(made, wait=False) as controller:
        channel = await Channel.open(controller.endpoint)

        with pytest.raises(ChannelError):
            await channel.request(api_key, codecs.request_versions(api_key)[-1], request_message)

    (refused,) = made.told("request_refused")
    assert refused.message is not None
    assert "not served on the controller's endpoint" in refused.message


@pytest.mark.spec("O6")
@pytest.mark.parametrize(
    "data",
    [
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02hi",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00" * 64,
    ],
    ids=["huge", "negative", "short", "http", "zeros"],
)
async def test_garbage_ends_its_own_connection_only(data: bytes) -> None:
    made = made_controller(controller_settings(nowhere(), "t"))
    async with running(made, wait=False) as controller:
        reader, writer = await asyncio.open_connection(controller.endpoint.host, controller.endpoint.port)
        async with await Channel.open(controller.endpoint) as other:
            writer.write(data)
            async with asyncio.timeout(5):
                assert await reader.read() == b""
            assert not other.closed
            assert (await enveloped(other, 1, acls_request("t"))).error_code == AUTHORIZER_NOT_READY
        writer.close()


@pytest.mark.spec("O6")
async def test_a_peer_that_never_says_who_it_is_is_let_go() -> None:
    settings = controller_settings(nowhere(), "t", {"limits": {"login.timeout.ms": 50}})
    made = made_controller(settings, plain_sasl(USERS))
    async with running(made, wait=False) as controller:
        reader, writer = await asyncio.open_connection(controller.endpoint.host, controller.endpoint.port)
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()


@pytest.mark.spec("O6")
async def test_a_controller_rejects_more_connections_than_its_limit_until_a_reload_raises_it() -> None:
    made = made_controller(controller_settings(nowhere(), "t", {"limits": {"max.connections": 1}}))
    async with running(made, wait=False) as controller, await Channel.open(controller.endpoint):
        with pytest.raises(ChannelError):
            await Channel.open(controller.endpoint)
        raised = controller_config(limits={"max.connections": 2})
        controller.process.server.reconfigure(raised, sys.maxsize)
        async with await Channel.open(controller.endpoint):
            pass

    closed = made.process.metrics.connections_closed.labels("too_many_connections")
    assert closed._value.get() == 1


@pytest.mark.spec("E8")
async def test_the_endpoint_offers_what_may_come_in_an_envelope_in_the_brokers_versions() -> None:
    speaks: dict[int, tuple[int, int]] = {ApiKey.CREATE_TOPICS: (2, 5), ApiKey.METADATA: (0, 12)}
    async with FakeBroker({}, speaks) as broker:
        made = made_controller(controller_settings(endpoint_of(broker.address), "t"))
        async with running(made, wait=False) as controller:
            await broker.wait_for(ApiKey.API_VERSIONS)
            async with await Channel.open(controller.endpoint) as channel:
                offered = channel.api_versions

    assert offered[ApiKey.ENVELOPE] == (0, 1)
    assert offered[ApiKey.CREATE_TOPICS] == (2, 5)
    assert offered[ApiKey.CREATE_ACLS] == (1, 3)
    assert ApiKey.DELETE_TOPICS not in offered, "this broker cannot carry it out"
    assert ApiKey.PRODUCE not in offered


@pytest.mark.kafka
@pytest.mark.spec("O3", "E10")
async def test_a_proxy_comes_in_over_tls(kafka: Broker, topic_name: str, tmp_path: Path) -> None:
    files = write(tmp_path)
    tls = ServerTls(ServerTlsSettings(key_pair=KeyPair(files.certificate, files.key)))
    settings = controller_settings(plaintext(kafka), topic_name, tls=tls)
    async with running(made_controller(settings), wait=True) as controller:
        trusting = client_context(files.ca)
        async with a_forwarder(endpoint_of(controller.endpoint.address, ssl=trusting)) as forwarder:
            await create_acls(forwarder, "t")

        distrusting = ssl.create_default_context()
        with pytest.raises(ChannelError, match="CERTIFICATE_VERIFY_FAILED"):
            await Channel.open(endpoint_of(controller.endpoint.address, ssl=distrusting))


@pytest.mark.kafka
@pytest.mark.spec("O4")
async def test_a_drain_lets_the_request_under_way_finish(kafka: Broker, topic_name: str) -> None:
    async with (
        a_controller(plaintext(kafka), topic_name) as controller,
        await Channel.open(controller.endpoint) as channel,
        await Channel.open(controller.endpoint) as idle,
        asyncio.TaskGroup() as tasks,
    ):
        under_way = tasks.create_task(enveloped(channel, 1, acls_request("last")))
        await controller.recorded.wait()
        controller.process.drain()

        assert (await under_way).error_code == ErrorCode.NONE
        await idle.wait_closed()
        await channel.wait_closed()

    assert acl_names(controller.image) == ["last"]


@pytest.mark.kafka
@pytest.mark.spec("E2", "E3", "E4")
async def test_topics_are_made_altered_and_deleted_by_the_broker(kafka: Broker, topic_name: str) -> None:
    create = types.CreateTopicsRequest
    names = [f"{topic_name}-made", topic_name]
    topics = [create.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    alter = types.IncrementalAlterConfigsRequest
    change = alter.AlterableConfig(name="retention.ms", config_operation=0, value="86400000")
    resource = alter.AlterConfigsResource(resource_type=2, resource_name=names[0], configs=[change])
    more = types.CreatePartitionsRequest.CreatePartitionsTopic(name=names[0], count=2, assignments=None)
    async with a_controller_and_a_forwarder(kafka, topic_name) as (_controller, forwarder):
        _, created = await forward(forwarder, ApiKey.CREATE_TOPICS, create(topics=topics, timeout_ms=9_000))
        _, altered = await forward(forwarder, ApiKey.INCREMENTAL_ALTER_CONFIGS, alter(resources=[resource]))
        _, grown = await forward(
            forwarder,
            ApiKey.CREATE_PARTITIONS,
            types.CreatePartitionsRequest(topics=[more], timeout_ms=9_000),
        )
        made = created.topics[0]
        state = types.DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=bytes(made.topic_id))
        _, deleted = await forward(
            forwarder, ApiKey.DELETE_TOPICS, types.DeleteTopicsRequest(topics=[state], timeout_ms=9_000)
        )

    assert [(topic.name, topic.error_code) for topic in created.topics] == [
        (names[0], 0),
        (names[1], ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]
    assert [part.error_code for part in altered.responses] == [0]
    assert [(topic.name, topic.error_code) for topic in grown.results] == [(names[0], 0)]
    assert [(topic.name, topic.error_code) for topic in deleted.responses] == [(names[0], 0)]


@pytest.mark.spec("E12")
async def test_a_proxy_learns_which_transactional_id_its_clients_must_not_use() -> None:
    made = made_controller(controller_settings(nowhere(), "t"))
    async with (
        running(made, wait=False) as controller,
        a_forwarder(controller.endpoint) as forwarder,
    ):
        assert await forwarder.reached(5_000)

        assert forwarder.controller_transactional_id == "t-writer"


@pytest.mark.kafka
@pytest.mark.spec("A7")
async def test_a_controller_keeps_everyone_from_the_log_and_from_its_audit_topic(kafka: Broker) -> None:
    topic = f"own-{uuid4().hex[:8]}"
    request = types.CreatePartitionsRequest
    wanted = [
        request.CreatePartitionsTopic(name=name, count=9)
        for name in (topic, f"{topic}-audit", f"{topic}-other")
    ]
    async with (
        a_controller(plaintext(kafka), topic) as controller,
        await Channel.open(controller.endpoint) as channel,
    ):
        response = await enveloped(
            channel, 0, request(topics=wanted, timeout_ms=5_000), ApiKey.CREATE_PARTITIONS
        )

    answer = enveloped_response(ApiKey.CREATE_PARTITIONS, response)
    assert [(result.name, result.error_code) for result in answer.results] == [
        (topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (f"{topic}-audit", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (f"{topic}-other", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
