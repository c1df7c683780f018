"""The disk of a proxy's audit spool is full or hangs: what its clients see, and what the trail has.

A proxy of its own whose spool lies on a file system of two megabytes, mounted for it; its calls to that disk
go through tests.support.disk_faults. Everything else is real: broker, controller, clients.
"""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer, TopicCollection, TopicPartition

from tests.contract.audit_rules import faults
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.users import User, librdkafka_settings
from tests.support.audit_topic import Boot, boots, lines
from tests.support.cluster_admin import ClusterAdmin, error_name
from tests.support.disk_faults import DiskFaults
from tests.support.gates import EVERYBODY_COMES_FROM_HERE
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("D3")]

DISK_BYTES = 2 << 20
QUEUE_BYTES = 256 << 10
TIMEOUT_S = 60


@dataclass(slots=True)
class Stage:
    stack: Stack
    mount: Path
    disk: DiskFaults
    admin: ClusterAdmin
    alice: User

    @property
    def filler(self) -> Path:
        return self.mount / "filler"

    def fill(self) -> None:
        """Until the disk has no room at all."""
        with self.filler.open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 10, 1):
                while True:
                    try:
                        if file.write(b"x" * size) < size:
                            break
                    except OSError:
                        break

    def metric(self, name: str) -> float:
        return sum(value for series, value in self.stack.metrics().items() if series.startswith(name))

    def produces(self, count: int = 20) -> None:
        """So many requests one after the other, each acknowledged."""
        settings = librdkafka_settings(self.alice, self.stack.entrance())
        producer = Producer({**settings, "linger.ms": 0, "acks": "all", "max.in.flight": 1})
        failures: list[object] = []
        for number in range(count):
            producer.produce("orders", b"%d" % number, on_delivery=lambda error, _: failures.append(error))
            assert producer.flush(TIMEOUT_S) == 0
        assert failures == [None] * count

    def is_denied(self, times: int = 1) -> None:
        """Alice asks after a hundred topics that are none of hers, so often; each one is a record."""
        client = ClusterAdmin(self.stack, self.alice.name).client
        for turn in range(times):
            names = [f"secret-{turn}-{number}-" + "s" * 150 for number in range(100)]
            for future in client.describe_topics(TopicCollection(names)).values():
                with pytest.raises(KafkaException):
                    future.result(TIMEOUT_S)

    def change(self) -> str | None:
        """Ask the controller for an ACL; the error's name, None when it was made."""
        return _error(lambda: self.admin.allow(self.alice, "READ", topic=f"t{time.monotonic_ns()}"))

    def deletes_records(self) -> str | None:
        """The same of a change that the broker makes."""
        asked = self.admin.client.delete_records([TopicPartition("orders", 0, 1)])
        return _error(lambda: [future.result(TIMEOUT_S) for future in asked.values()])

    def trail(self) -> list[Boot]:
        """Of the proxy, once all that it has is in the topic."""
        until(lambda: self.metric("penstock_audit_unshipped_records") == 0)
        assert faults(lines(self.stack.broker.plaintext)) == []
        found = boots(self.stack.broker.plaintext)
        return [boot for boot in found if boot.facts[0]["role"] == "proxy"]


def _error(work: Callable[[], object]) -> str | None:
    try:
        work()
    except KafkaException as failure:
        return error_name(failure)
    return None


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    mount = tmp_path_factory.mktemp("disk")
    size = f"size={DISK_BYTES}"
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "none", str(mount)], check=False, capture_output=True, text=True
    )
    if mounting.returncode != 0:
        pytest.skip(f"a file system cannot be mounted here: {mounting.stderr}")
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


@pytest.fixture(scope="module")
def stage(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory, small_disk: Path) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("audit-outages")
    disk = DiskFaults(directory, small_disk)
    audit = {
        "spool.dir": str(small_disk / "spool"),
        "queue.max.bytes": QUEUE_BYTES,
        "summary.interval.ms": 200,
        "fsync.denial": True,
    }
    changes = {"login.backoff": EVERYBODY_COMES_FROM_HERE, "audit": audit}
    stack = Stack(
        StackSettings(
            directory=directory, libs=kafka_libs, proxy_changes=changes, proxy_environment=disk.environment
        )
    )
    try:
        stack.start()
        cluster_admin = ClusterAdmin(stack)
        alice = cluster_admin.user("alice-outages")
        cluster_admin.topic("orders")
        cluster_admin.allow_produce(alice, "orders")
        yield Stage(stack, small_disk, disk, cluster_admin, alice)
    finally:
        disk.rules()
        stack.stop()


def test_on_a_full_disk_changes_are_refused_data_goes_on_and_drops_are_told(stage: Stage) -> None:
    stage.produces()
    stage.fill()
    stage.is_denied()
    until(lambda: stage.metric('penstock_audit_faults_total{at="write"}') > 0)

    assert stage.change() == "UNKNOWN"
    assert stage.deletes_records() == "UNKNOWN"
    stage.is_denied(6)
    stage.produces()
    assert stage.metric('penstock_audit_refusing{class="admin"}') == 1
    dropped = stage.metric('penstock_audit_dropped_total{class="denial"')
    assert dropped > 0
    assert stage.metric("penstock_audit_queue_bytes") <= QUEUE_BYTES

    stage.filler.unlink()
    until(lambda: stage.metric('penstock_audit_refusing{class="admin"}') == 0)
    assert stage.change() is None
    assert stage.deletes_records() is None
    (boot,) = stage.trail()
    assert boot.missing == []
    told = sum(fact["count"] for fact in boot.of("records_dropped"))
    assert told == stage.metric("penstock_audit_dropped_total")
    assert stage.metric('penstock_audit_dropped_total{reason="damaged"') == 0


def test_a_disk_that_is_full_at_the_start_keeps_nobody_from_working(stage: Stage) -> None:
    stage.fill()
    stage.stack.proxy.kill()
    stage.stack.start_proxy()

    stage.produces()
    assert stage.change() == "UNKNOWN"

    stage.filler.unlink()
    until(lambda: stage.metric('penstock_audit_refusing{class="admin"}') == 0)
    assert stage.change() is None
    before, after = stage.trail()[-2:]
    assert (before.missing, after.missing) == ([], [])
    assert after.previous is not None
    link = after.previous.split("/")
    assert (link[0], int(link[1])) == (before.facts[0]["boot_id"], before.facts[-1]["sequence"])


def test_while_a_write_hangs_requests_go_on_and_changes_are_refused(stage: Stage) -> None:
    stage.disk.rules("write hang 0")
    stage.is_denied()
    until(lambda: stage.disk.told_of("write hang") > 0)
    hung = stage.disk.told_of("write hang")

    stage.produces(100)
    assert stage.disk.told_of("write hang") == hung, "the same write hangs all the while"
    until(lambda: stage.metric("penstock_audit_disk_wait_seconds") > 5)
    assert stage.change() == "UNKNOWN"
    stage.is_denied(6)
    assert stage.metric("penstock_audit_queue_bytes") <= QUEUE_BYTES
    assert stage.metric('penstock_audit_dropped_total{class="denial"') > 0

    stage.disk.rules()
    until(lambda: stage.metric('penstock_audit_refusing{class="admin"}') == 0)
    assert stage.change() is None
    assert stage.trail()[-1].missing == []


def test_a_slow_disk_slows_down_only_those_who_wait_for_it(stage: Stage) -> None:
    stage.disk.rules("fsync slow 400", "write slow 100")
    slow = stage.disk.told_of("write slow")

    stage.produces(200)

    # Had each request waited for a write, there would have been one for each.
    assert stage.disk.told_of("write slow") - slow < 200
    stage.disk.rules()


def test_with_fsync_denial_a_denial_is_told_once_it_is_on_the_disk(stage: Stage) -> None:
    stage.disk.rules("fsync hang 0")
    before = stage.disk.told_of("fsync hang")
    client = ClusterAdmin(stage.stack, stage.alice.name).client
    (denied,) = client.describe_topics(TopicCollection(["secret"])).values()
    until(lambda: stage.disk.told_of("fsync hang") > before)
    stage.produces()
    assert not denied.done()

    stage.disk.rules()

    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        denied.result(TIMEOUT_S)


def test_a_process_whose_disk_hangs_ends_in_time_and_says_what_is_lost(stage: Stage) -> None:
    stage.disk.rules("write hang 0")
    before = stage.disk.told_of("write hang")
    stage.is_denied()
    until(lambda: stage.disk.told_of("write hang") > before)

    stage.stack.proxy.signal(signal.SIGTERM)

    assert stage.stack.proxy.wait(60_000) == 0
    assert "audit records lost with the process" in stage.stack.proxy.log_text()
    stage.disk.rules()
    stage.stack.start_proxy()
    stage.produces()
    assert stage.trail()[-1].previous is not None
