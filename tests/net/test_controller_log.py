"""The controller over a real topic: committed is acknowledged, one writer, Kafka's own tool reads the log."""

import asyncio
import re
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from forwarding.controller.records import RECORD_KINDS, key_of
from forwarding.net.log import Fenced, LogUnavailable, MetadataLog, WrittenRecord
from proxy.metadata.acl import Operation
from proxy.metadata.quota_entity import QuotaEntity
from proxy.metadata.scram import ScramMechanism
from proxy.security.principal import Principal
from proxy.wire import metadata_records, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.broker import Broker
from tests.support.controllers import (
    a_controller,
    a_controller_and_a_forwarder,
    a_forwarder,
    acl_creation,
    acl_names,
    acls_request,
    cluster_right,
    controller_settings,
    create_acls,
    endpoint_of,
    forward,
    login,
    made_controller,
    plaintext,
    running,
)
from tests.support.dumped_log import dumped
from tests.support.images import acl_record
from tests.support.lost_answers import LosingTheAnswer, LosingTheRequest
from tests.support.two_sides import limit_request, user_request, withdraw_request

pytestmark = pytest.mark.kafka


@pytest.mark.spec("E12", "E13", "Q8", "Q9", "D1")
async def test_a_change_is_in_force_when_it_is_acknowledged_and_recorded_with_its_offsets(
    kafka: Broker, topic_name: str
) -> None:
    async with a_controller_and_a_forwarder(kafka, topic_name) as (controller, forwarder):
        reply = await create_acls(forwarder, "orders", "payments")
        assert acl_names(controller.image) == ["orders", "payments"]

        changed, _ = await forward(forwarder, ApiKey.ALTER_CLIENT_QUOTAS, limit_request("alice", 9.0))
        assert controller.image.quotas.limit(QuotaEntity(user="alice"), "producer_byte_rate") == 9.0

    first, second = controller.told("forwarded_received")
    assert (first.forward_id, first.first_offset, first.last_offset) == (reply.forward_id, 0, 1)
    assert (first.principal, first.forwarding_principal, first.method, first.error_code, first.host) == (
        "User:admin",
        "User:ANONYMOUS",
        "CreateAcls",
        0,
        "10.0.0.1",
    )
    assert (second.first_offset, second.last_offset) == (3, 3)
    assert changed.last_offset == 3
    (notified,) = controller.told("quota_changed")
    assert notified.message == '{"version":2,"entity_path":"users/alice"}'


@pytest.mark.spec("E12", "Q11")
async def test_a_controller_that_starts_again_has_everything_that_was_acknowledged(
    kafka: Broker, topic_name: str
) -> None:
    async with a_controller_and_a_forwarder(kafka, topic_name) as (controller, forwarder):
        await create_acls(forwarder, "a", "b")
        await forward(
            forwarder, ApiKey.ALTER_CLIENT_QUOTAS, limit_request("alice", 7.0, "consumer_byte_rate")
        )
        _, answered = await forward(
            forwarder, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, user_request("alice", "secret")
        )
        assert [result.error_code for result in answered.results] == [0]
        before = controller.image

    async with a_controller(plaintext(kafka), topic_name) as again:
        after = again.image

    assert (after.acls, after.quotas, after.scram) == (before.acls, before.quotas, before.scram)
    assert after.scram.credential(ScramMechanism.SCRAM_SHA_256, "alice") is not None


@pytest.mark.spec("Q11")
async def test_a_refused_change_leaves_the_log_as_it_was(kafka: Broker, topic_name: str) -> None:
    async with a_controller_and_a_forwarder(kafka, topic_name) as (controller, forwarder):
        before = controller.image

        reply, response = await forward(forwarder, ApiKey.ALTER_CLIENT_QUOTAS, limit_request("alice", -1.0))

        assert [entry.error_code for entry in response.entries] == [ErrorCode.INVALID_REQUEST]
        assert reply.last_offset is None
        assert controller.image is before


@pytest.mark.spec("E12", "S2")
async def test_many_requests_at_once_are_decided_one_after_another(kafka: Broker, topic_name: str) -> None:
    async with (
        a_controller(plaintext(kafka), topic_name) as controller,
        a_forwarder(controller.endpoint) as one,
        a_forwarder(controller.endpoint) as other,
    ):
        replies = await asyncio.gather(
            *(create_acls(forwarder, "same", f"t{n}") for n in range(8) for forwarder in (one, other))
        )

    assert acl_names(controller.image) == sorted(["same", *(f"t{n}" for n in range(8))])
    assert len({reply.last_offset for reply in replies}) == 8 + 1, "the later of two alike writes nothing"


def entry_of(record: Any) -> WrittenRecord:
    return WrittenRecord(b"key", metadata_records.encode_record(record))


@pytest.mark.spec("E12")
async def test_a_controller_that_was_fenced_writes_again_once_it_has_claimed_and_read_the_log(
    kafka: Broker, topic_name: str
) -> None:
    async with a_controller_and_a_forwarder(kafka, topic_name) as (controller, forwarder):
        await create_acls(forwarder, "before")
        # Someone outside the group takes the log: in it, this controller is still the one elected.
        intruder = MetadataLog(plaintext(kafka), topic_name, f"{topic_name}-writer")
        await intruder.claim()
        await intruder.append([entry_of(acl_record(1, "between"))], None)

        await create_acls(forwarder, "after")

        with pytest.raises(Fenced):
            await intruder.append([entry_of(acl_record(2, "too late"))], None)

    assert acl_names(controller.image) == ["after", "before", "between"]
    received = [event.error_code for event in controller.told("forwarded_received")]
    assert received == [0, 0], "the attempt that was fenced is not one that was carried out"


@pytest.mark.spec("E12", "R9")
async def test_a_password_that_is_gone_only_delays_the_claim() -> None:
    """A controller would end by any other exception, at the election that makes it the active one."""

    def password() -> str:
        raise FileNotFoundError(2, "No such file")

    lacking = replace(login("controller-1", "secret"), password=password)
    log = MetadataLog(endpoint_of("127.0.0.1:1", sasl=lacking), "t", "writer")
    with pytest.raises(LogUnavailable, match="no password to log in with: "):
        await log.claim()


@pytest.mark.spec("E12")
async def test_a_fenced_log_says_so(kafka: Broker, topic_name: str) -> None:
    async with a_controller(plaintext(kafka), topic_name):
        first, second = (MetadataLog(plaintext(kafka), topic_name, "one-writer") for _ in range(2))
        await first.claim()
        await second.claim()

        with pytest.raises(Fenced):
            await first.append([entry_of(acl_record(1))], None)

        assert (first.claimed, second.claimed) == (False, True)
        await second.resign()


@pytest.mark.spec("E5", "E12")
async def test_a_standby_takes_over_from_a_controller_that_leaves_and_proxies_find_it(
    kafka: Broker, topic_name: str
) -> None:
    settings = controller_settings(plaintext(kafka), topic_name)
    second = made_controller(settings)
    async with (
        a_controller(plaintext(kafka), topic_name) as first,
        running(second, wait=False),
        a_forwarder(second.endpoint, first.endpoint) as forwarder,
    ):
        await create_acls(forwarder, "a")
        told = [[note.public for note in each.process.blocked()] for each in (first, second)]
        assert told == [[], ["not the active controller: standing by"]]

        first.process.drain()
        await create_acls(forwarder, "b")

    assert second.process.loader.image.acls.count == 2
    assert acl_names(second.image) == ["a", "b"]


@pytest.mark.spec("E12")
@pytest.mark.parametrize("losing", [LosingTheAnswer, LosingTheRequest])
async def test_a_commit_whose_answer_was_lost_is_looked_up_and_happens_exactly_once(
    kafka: Broker, topic_name: str, losing: type[MetadataLog]
) -> None:
    made = made_controller(controller_settings(plaintext(kafka), topic_name))
    async with running(made) as controller, a_forwarder(controller.endpoint) as forwarder:
        await create_acls(forwarder, "other")
        controller.process.processor._log.__class__ = losing

        reply, response = await forward(
            forwarder,
            ApiKey.DELETE_ACLS,
            withdraw_request("other"),
        )

        assert reply.error_code == 0
        # Decided a second time on the new image, the filter would have matched nothing.
        assert [len(result.matching_acls) for result in response.filter_results] == [1]
        assert acl_names(controller.image) == []
        received = controller.told("forwarded_received")
        assert [event.method for event in received] == ["CreateAcls", "DeleteAcls"]
        assert controller.process.metrics.commits_unknown._value.get() == 1


@pytest.mark.spec("E5", "E12")
async def test_a_forward_asked_for_twice_is_carried_out_once(kafka: Broker, topic_name: str) -> None:
    async with a_controller_and_a_forwarder(kafka, topic_name) as (controller, forwarder):
        first, created = await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("once"))
        forwarder._numbers = count(int(first.forward_id.rpartition("/")[2]))
        second, answered = await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("once", "twice"))

    assert (second.forward_id, second.last_offset) == (first.forward_id, first.last_offset)
    assert answered == created
    assert acl_names(controller.image) == ["once"]


@pytest.mark.spec("D3")
async def test_no_change_is_made_that_could_not_be_recorded(kafka: Broker, topic_name: str) -> None:
    room = [True]
    settings = controller_settings(plaintext(kafka), topic_name)

    async def may_record_changes() -> bool:
        return room[0]

    made = made_controller(settings, may_record_changes=may_record_changes)
    async with running(made) as controller, a_forwarder(controller.endpoint) as forwarder:
        await create_acls(forwarder, "a")
        room[0] = False

        _, response = await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("b"))

        assert [result.error_code for result in response.results] == [ErrorCode.UNKNOWN_SERVER_ERROR]
        assert acl_names(controller.image) == ["a"]
        room[0] = True
        await create_acls(forwarder, "c")

    assert acl_names(controller.image) == ["a", "c"]


@pytest.mark.spec("E4")
async def test_one_principal_may_change_acls_by_an_acl_and_another_may_not(
    kafka: Broker, topic_name: str
) -> None:
    alter = cluster_right(Operation.ALTER, "User:carol", "10.0.0.1")
    async with a_controller_and_a_forwarder(kafka, topic_name) as (controller, forwarder):
        await forward(forwarder, ApiKey.CREATE_ACLS, alter)

        outcomes = [
            (await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("x"), Principal("User", name)))[1]
            for name in ("carol", "dave")
        ]

    assert [response.results[0].error_code for response in outcomes] == [
        0,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ]
    denied = [event for event in controller.told("authorization") if not event.granted]
    assert [(event.principal, event.operation, event.rule) for event in denied] == [
        ("User:dave", "ALTER", "default.deny")
    ]


@pytest.mark.slow
@pytest.mark.spec("S1")
async def test_kafkas_own_tool_reads_our_log(
    kafka: Broker, kafka_libs: Path, topic_name: str, tmp_path: Path
) -> None:
    async with a_controller_and_a_forwarder(kafka, topic_name) as (_controller, forwarder):
        request = types.CreateAclsRequest(creations=[acl_creation("orders", "User:alice")])
        await forward(forwarder, ApiKey.CREATE_ACLS, request)
        await forward(forwarder, ApiKey.ALTER_CLIENT_QUOTAS, limit_request("alice", 1024.0))
        await forward(forwarder, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, user_request("alice", "secret"))
        await forward(forwarder, ApiKey.DELETE_ACLS, withdraw_request(None))

    dump = await dumped(kafka, kafka_libs, topic_name, tmp_path)

    for said in (
        '"type":"ACCESS_CONTROL_ENTRY_RECORD","version":0',
        '"resourceName":"orders"',
        '"principal":"User:alice","host":"*","operation":3,"permissionType":3',
        '"type":"CLIENT_QUOTA_RECORD","version":0',
        '"key":"producer_byte_rate","value":1024.0,"remove":false',
        '"type":"USER_SCRAM_CREDENTIAL_RECORD","version":0',
        '"type":"REMOVE_ACCESS_CONTROL_ENTRY_RECORD","version":0',
    ):
        assert said in dump
    assert "Could not" not in dump


def _said_of(record: Any) -> str:
    """As Kafka's tool writes the kind of a record."""
    words = re.findall(r"[A-Z][a-z]+", type(record).__name__)
    return f'"type":"{"_".join(words).upper()}","version":'


@pytest.mark.slow
@pytest.mark.spec("S1")
async def test_kafkas_own_tool_reads_every_kind_of_record_that_we_write(
    kafka: Broker, kafka_libs: Path, topic_name: str, tmp_path: Path
) -> None:
    user = types.ClientQuotaRecord.EntityData(entity_type="user", entity_name=None)
    filled: dict[str, dict[str, Any]] = {
        "AccessControlEntryRecord": {"resource_type": 2, "pattern_type": 3, "principal": "User:a"},
        "ClientQuotaRecord": {"entity": [user], "key": "producer_byte_rate", "value": 1.0},
        "UserScramCredentialRecord": {"name": "a", "mechanism": 1, "iterations": 4096},
        "RemoveUserScramCredentialRecord": {"name": "a", "mechanism": 1},
        "DelegationTokenRecord": {"owner": "User:a", "requester": "User:a", "token_id": "t"},
        "RemoveDelegationTokenRecord": {"token_id": "t"},
        "TopicRecord": {"name": "t"},
        "ConfigRecord": {"resource_type": 2, "resource_name": "t", "name": "owner", "value": "User:a"},
    }
    records = [getattr(types, kind)(**filled.get(kind, {})) for kind in RECORD_KINDS]
    async with a_controller(plaintext(kafka), topic_name):
        log = MetadataLog(plaintext(kafka), topic_name, f"{topic_name}-writer")
        await log.claim()
        wanted = [
            WrittenRecord(key_of(each).encode(), metadata_records.encode_record(each)) for each in records
        ]
        await log.append(wanted, "proxy-1/boot/0")
        await log.resign()

    dump = await dumped(kafka, kafka_libs, topic_name, tmp_path)

    assert [
        kind for kind, each in zip(RECORD_KINDS, records, strict=True) if _said_of(each) not in dump
    ] == []
    assert "Could not" not in dump
