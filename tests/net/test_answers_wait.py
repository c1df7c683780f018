"""What may leave only once a record is kept: changes that the broker makes, and answers with audit.fsync."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy.audit.record import AuditEvent
from proxy.net.audit import audit_log
from proxy.net.audit.audit_log import AuditLog
from proxy.net.audit.capacity import AuditPolicy
from proxy.net.audit.spool import Spool
from proxy.net.audit.writer import Fsync
from proxy.session.apis.table import TABLE
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.net.test_audit_log_and_http import AUTHOR, NOW_MS, Sink
from tests.net.test_audit_path import SlowDisk
from tests.session.apis.asking import image_with
from tests.session.conversation import gate_with, plain_token, produce, produced, sasl
from tests.support.edges import Client, Edge, a_gate, an_edge, on_uvloop
from tests.support.fake_broker import Answer, FakeBroker

pytestmark = pytest.mark.spec("D3")

PRODUCE, DELETE_RECORDS = ApiKey.PRODUCE, ApiKey.DELETE_RECORDS
FILLER = AuditEvent(event="authorization", granted=False, message="d" * 4_000)


def delete_records(topic: str) -> Any:
    request = t.DeleteRecordsRequest
    partition = request.DeleteRecordsPartition(partition_index=0, offset=5)
    return request(topics=[request.DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=5_000)


def deleted(topic: str) -> Any:
    response = t.DeleteRecordsResponse
    partition = response.DeleteRecordsPartitionResult(partition_index=0, low_watermark=5)
    return response(topics=[response.DeleteRecordsTopicResult(name=topic, partitions=[partition])])


def an_audit_log(directory: Path, **policy: Any) -> tuple[AuditLog, Spool]:
    spool = Spool(directory, 1 << 24)
    by_class = {"admin": "refuse", **policy.pop("by_class", {})}
    settings = AuditPolicy(by_class, fsync=Fsync.NEVER, **policy)
    audit = AuditLog(AUTHOR, spool, Sink(), lambda: NOW_MS, settings)  # type: ignore[arg-type]
    return audit, spool


@asynccontextmanager
async def a_stage(audit: AuditLog, gate: Any = None, **edge: Any) -> AsyncIterator[tuple[Edge, FakeBroker]]:
    answers: dict[int, Answer] = {
        PRODUCE: lambda _request: produced("orders"),
        DELETE_RECORDS: lambda _request: deleted("orders"),
    }
    async with (
        FakeBroker(answers) as broker,
        an_edge(gate or a_gate(), broker.address, trail=audit, **edge) as it,
    ):
        yield it, broker
    await audit.close(1_000)


def hang(audit: AuditLog, spool: Spool) -> SlowDisk:
    """A disk that is inside a write(2) that does not end."""
    disk = SlowDisk(spool)
    while audit.writer.queued_bytes < 200_000:
        audit.append(FILLER)
    return disk


async def produces(client: Client) -> None:
    client.asks(PRODUCE, 9, produce("orders"))
    answer = await client.hears(PRODUCE, 9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


@on_uvloop
async def test_a_change_at_the_broker_waits_for_its_record_and_nobody_waits_with_it(tmp_path: Path) -> None:
    audit, spool = an_audit_log(tmp_path)
    async with a_stage(audit) as (edge, broker):
        disk = hang(audit, spool)
        admin, other = await edge.client(), await edge.client()

        admin.asks(DELETE_RECORDS, 2, delete_records("orders"))
        admin.asks(PRODUCE, 9, produce("orders"))
        await edge.until(lambda: bool(edge.events))
        for _ in range(20):
            await produces(other)
        assert broker.received(DELETE_RECORDS) == []

        disk.answers()
        assert (await admin.hears(DELETE_RECORDS, 2)).topics[0].partitions[0].error_code == ErrorCode.NONE
        await admin.hears(PRODUCE, 9)
        await produces(admin)
        await edge.until(lambda: any(record["method"] == "DeleteRecords" for record in disk.records))


@on_uvloop
async def test_a_change_whose_record_is_not_kept_in_time_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "DURABLE_TIMEOUT_MS", 300)
    audit, spool = an_audit_log(tmp_path)
    async with a_stage(audit) as (edge, broker):
        disk = hang(audit, spool)
        admin, other = await edge.client(), await edge.client()

        admin.asks(DELETE_RECORDS, 2, delete_records("orders"))
        await edge.until(lambda: edge.reasons == ["audit_unavailable"])

        await produces(other)
        assert broker.received(DELETE_RECORDS) == []
        disk.answers()


@on_uvloop
async def test_with_fsync_denial_no_denial_is_told_before_it_is_on_the_disk(tmp_path: Path) -> None:
    audit, _ = an_audit_log(tmp_path, synced=frozenset({"denial"}))
    gate = gate_with(image_with("WRITE TOPIC orders"))
    gate.authorizer.configure({"super.users": "User:root"})
    async with a_stage(audit, gate) as (edge, _):
        client = await edge.client()

        for _ in range(5):
            client.asks(PRODUCE, 9, produce("secret", "hidden"))
        for count in range(1, 6):
            answer = await client.hears(PRODUCE, 9)
            errors = {part.error_code for topic in answer.responses for part in topic.partition_responses}
            assert errors == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
            assert audit.writer._synced_count >= 2 * count


@on_uvloop
async def test_with_fsync_authentication_nobody_is_in_before_the_login_is_on_the_disk(tmp_path: Path) -> None:
    audit, _ = an_audit_log(tmp_path, synced=frozenset({"authentication"}))
    gate = gate_with(image_with("WRITE TOPIC orders"))
    async with a_stage(audit, gate, sasl=sasl()) as (edge, _):
        client = await edge.client()

        assert await client.logs_in(plain_token("alice")) == ErrorCode.NONE
        assert audit.writer._synced_count == 1


def test_every_administrative_request_that_the_broker_carries_out_is_a_change_or_a_question() -> None:
    at_broker = {api.key.name_of(api.key): api for api in TABLE.values() if api.admin in ("broker", "image")}

    assert {name for name, api in at_broker.items() if api.admin == "image"} == {
        name for name in at_broker if name.startswith("Describe")
    }
