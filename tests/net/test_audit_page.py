"""What operators are told of an audit trail in trouble, and what that does to readiness."""

import asyncio
import gc
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from proxy.audit.record import AuditEvent, Author
from proxy.net.audit import delivery
from proxy.net.audit import spool as spool_module
from proxy.net.audit.audit_log import AuditLog
from proxy.net.audit.capacity import DROP_ALL_BUT_ADMIN, AuditPolicy
from proxy.net.audit.delivery import AuditDelivery
from proxy.net.audit.metrics import AuditCollector
from proxy.net.audit.spool import Spool
from proxy.net.pages import audit_page
from proxy.net.runtime.reachability import Backoff
from proxy.wire.error_codes import ErrorCode
from tests.support.controllers import endpoint_of
from tests.support.fake_audit_topic import FakeAuditTopic, Fault
from tests.support.waiting import turns_until

pytestmark = pytest.mark.spec("D3", "O2")

AUTHOR = Author(role="proxy", proxy_id="proxy-1", boot_id="cafe")
NOW_MS = 1_795_348_800_000
FOR_EVER = [Fault(ErrorCode.NOT_ENOUGH_REPLICAS)] * 1_000_000


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "RETRY", Backoff(1, 5))


class Trail:
    """An audit log that ships to a topic in memory, at a clock of the test's."""

    def __init__(self, directory: Path, topic: FakeAuditTopic, policy: AuditPolicy, spool_bytes: int) -> None:
        self.topic = topic
        self.ahead_ms = 0
        sink = AuditDelivery(endpoint_of(topic.broker.address), "audit")
        spool = Spool(directory, spool_bytes)
        self.log = AuditLog(AUTHOR, spool, sink, lambda: NOW_MS + self.ahead_ms, policy)

    async def appends(self, count: int = 1) -> None:
        for _ in range(count):
            self.log.append(AuditEvent(event="authorization", granted=False))
        await self.log.wait_until_durable()

    def numbers(self) -> dict[str, float]:
        registry = CollectorRegistry()
        registry.register(AuditCollector(self.log))
        return {
            sample.name + "".join(f" {value}" for value in sample.labels.values()): sample.value
            for metric in registry.collect()
            for sample in metric.samples
        }

    async def page(self) -> Any:
        return json.loads(await audit_page.audit_page(self.log))


@asynccontextmanager
async def a_trail(
    directory: Path, policy: AuditPolicy = DROP_ALL_BUT_ADMIN, spool_bytes: int = 1 << 30
) -> AsyncIterator[Trail]:
    topic = FakeAuditTopic()
    async with asyncio.timeout(60), topic.broker, asyncio.TaskGroup() as tasks:
        trail = Trail(directory, topic, policy, spool_bytes)
        running = tasks.create_task(trail.log.run())
        yield trail
        running.cancel()
        topic.faults.clear()
        await trail.log.close(5_000)


def told_by(audit: AuditLog) -> str:
    return audit_page.readiness(audit).text(detailed=True).rstrip("\n")


async def test_all_is_well(tmp_path: Path) -> None:
    async with a_trail(tmp_path) as trail:
        await trail.appends(3)
        await turns_until(lambda: not trail.log.unshipped_count)

        assert told_by(trail.log) == "ready"
        page = await trail.page()
        assert (page["concerns"], page["not_shipping"], page["shipped_records"]) == ([], None, 3)


@pytest.mark.spec("O6")
async def test_a_page_leaves_no_objects_in_cycles(tmp_path: Path) -> None:
    async with a_trail(tmp_path) as trail:
        await audit_page.audit_page(trail.log)
        gc.collect()
        await audit_page.audit_page(trail.log)
        assert gc.collect() == 0


async def test_a_topic_that_takes_nothing_is_told_with_its_reason_and_turns_nobody_away(
    tmp_path: Path,
) -> None:
    async with a_trail(tmp_path) as trail:
        trail.topic.fails(*FOR_EVER)
        await trail.appends(5)
        await turns_until(lambda: trail.log.delivery.failure is not None)
        trail.ahead_ms = 3_600_000

        assert audit_page.not_ready(trail.log) is None
        assert await trail.log.allows_change()
        assert told_by(trail.log) == (
            "ready\naudit: not shipping: NOT_ENOUGH_REPLICAS\naudit: behind by 3600 s, 5 records"
        )
        page = await trail.page()
        assert page["not_shipping"]["reason"] == "NOT_ENOUGH_REPLICAS"
        assert page["ship_failures"]["NOT_ENOUGH_REPLICAS"] > 0
        assert (page["oldest_unshipped_ms"], page["unshipped_records"]) == (3_600_000, 5)
        numbers = trail.numbers()
        assert numbers["penstock_audit_ship_failing NOT_ENOUGH_REPLICAS"] == 1
        assert numbers["penstock_audit_ship_failures_total NOT_ENOUGH_REPLICAS"] > 0
        assert numbers["penstock_audit_oldest_unshipped_seconds"] == 3_600

        trail.topic.faults.clear()
        await turns_until(lambda: not trail.log.unshipped_count)
        assert told_by(trail.log) == "ready"
        assert trail.numbers()["penstock_audit_ship_failing NOT_ENOUGH_REPLICAS"] == 0


@pytest.mark.parametrize(
    ("refusing", "not_ready"),
    [
        (("admin",), None),
        (("admin", "denial"), "audit records cannot be written: denial"),
        (("authentication",), "audit records cannot be written: authentication"),
    ],
)
async def test_a_full_spool_makes_unready_only_where_clients_are_refused_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusing: tuple[str, ...], not_ready: str | None
) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_MAX_BYTES", 4_000)
    policy = AuditPolicy(dict.fromkeys(refusing, "refuse"))
    async with a_trail(tmp_path, policy, spool_bytes=100_000) as trail:
        trail.topic.fails(*FOR_EVER)
        while not trail.log.drops.total:
            await trail.appends(10)
        dropped = trail.log.drops.total

        assert audit_page.not_ready(trail.log) == not_ready
        told = told_by(trail.log).splitlines()
        assert told[0] == ("ready" if not_ready is None else f"not ready: {not_ready}")
        assert f"audit: rejecting requests that cannot be recorded: {', '.join(sorted(refusing))}" in told
        assert f"audit: {dropped} records dropped since the start" in told
        page = await trail.page()
        assert page["dropped"] == [{"reason": "spool_full", "class": "denial", "count": dropped}]
        assert page["refused_classes"] == sorted(refusing)
        assert trail.numbers()["penstock_audit_spool_ratio"] > 0.9


async def test_a_spool_that_is_nearly_full_is_told_before_anything_is_dropped(tmp_path: Path) -> None:
    async with a_trail(tmp_path, spool_bytes=100_000) as trail:
        trail.topic.fails(*FOR_EVER)
        while trail.log.capacity.spool_ratio <= audit_page.NEARLY_FULL:
            await trail.appends()

        assert "audit: the spool is 8" in told_by(trail.log)
        assert trail.log.drops.total == 0


async def test_a_segment_that_is_removed_is_told_and_nothing_of_it_is_lost(tmp_path: Path) -> None:
    directory = tmp_path / "spool"
    async with a_trail(directory) as trail:
        trail.topic.fails(*FOR_EVER)
        await trail.appends(3)
        segment = trail.log.spool._path(1)
        await asyncio.to_thread(shutil.rmtree, directory)
        trail.ahead_ms += 1_000
        await turns_until(lambda: bool(trail.log.spool.losses))
        await trail.appends(2)

        told = f"segment {segment} was removed while this process used it: no record is lost"
        assert f"\naudit: {told}" in told_by(trail.log)
        page = await trail.page()
        assert told in page["concerns"]
        assert page["segment_faults"] == [
            {"segment": str(segment), "fault": "removed", "first_lost": None, "last_lost": None}
        ]
        assert trail.numbers()["penstock_audit_segment_faults_total removed"] == 1.0
        trail.topic.faults.clear()
        await turns_until(lambda: not trail.log.unshipped_count)
    events = [json.loads(value)["data"] for value in trail.topic.values]
    assert [event["sequence"] for event in events] == list(range(6))
    assert [event["message"] for event in events if event["event"] == "records_dropped"] == [told]


async def test_records_that_are_lost_with_a_segment_are_told_by_number(tmp_path: Path) -> None:
    async with a_trail(tmp_path) as trail:
        trail.topic.fails(*FOR_EVER)
        await trail.appends(3)
        await trail.log.wait_until_durable()
        await turns_until(lambda: trail.log.delivery.failure is not None)
        segment = trail.log.spool._path(1)
        await turns_until(lambda: not trail.log.spool._unsynced)
        segment.write_bytes(b"")
        trail.ahead_ms += 1_000
        await turns_until(lambda: bool(trail.log.spool.losses))

        assert [(loss.first, loss.last) for loss in trail.log.spool.losses] == [(0, 2)]
        assert trail.numbers()["penstock_audit_lost_records_total"] == 3.0
        assert "records 0 to 2 are lost" in told_by(trail.log)
