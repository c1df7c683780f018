"""The audit log with a sink of the test's, the metrics made of its events, and what HTTP shows of both."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from proxy.audit.record import AuditEvent, Author
from proxy.metadata.quota_entity import short_name
from proxy.net.audit import spool as spool_module
from proxy.net.audit.audit_log import AuditLog
from proxy.net.audit.capacity import AuditPolicy
from proxy.net.audit.delivery import DeliveryFailure
from proxy.net.audit.metrics import AuditCollector
from proxy.net.audit.spool import Spool
from proxy.net.pages.http_access import HttpAccess
from proxy.net.pages.http_server import HttpServer
from proxy.net.pages.readiness import Note, Readiness
from proxy.net.runtime.reachability import Cause
from proxy.net.telemetry.event_metrics import StateCollector, Telemetry
from proxy.session.gate import ListenerPolicy
from tests.session.apis.asking import image_with
from tests.session.conversation import gate_with
from tests.support.waiting import turns_until

AUTHOR = Author(role="proxy", proxy_id="proxy-1", boot_id="cafe")
NOW_MS = 1_700_000_000_000
SPOOL_BYTES = 100_000


class Sink:
    """Takes all it is sent; holds it back while `away`."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.here = asyncio.Event()
        self.here.set()
        self.arrived = asyncio.Event()
        self.closed = False
        self.failures: Counter[str] = Counter()
        self.failure: DeliveryFailure | None = None
        self.throttled_ms = 0

    @property
    def failed_count(self) -> int:
        return self.failures.total()

    async def send(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        await self.here.wait()
        assert {key for key, _ in records} == {AUTHOR.key}
        self.lines += [value for _, value in records]
        self.arrived.set()

    async def close(self) -> None:
        self.closed = True

    async def has(self, count: int) -> list[dict[str, Any]]:
        async with asyncio.timeout(20):
            while len(self.lines) < count:
                self.arrived.clear()
                await self.arrived.wait()
        return [json.loads(line)["data"] for line in self.lines]


def an_audit_log(directory: Path, sink: Sink, readers: Sequence[Any] = ()) -> AuditLog:
    spool = Spool(directory, SPOOL_BYTES)
    policy = AuditPolicy({"admin": "refuse"}, fsync_interval_ms=10)
    return AuditLog(AUTHOR, spool, sink, lambda: NOW_MS, policy, readers)  # type: ignore[arg-type]


@asynccontextmanager
async def running(audit: AuditLog) -> AsyncIterator[AuditLog]:
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(audit.run())
        yield audit
        run.cancel()


@pytest.mark.spec("D2", "O6")
async def test_a_long_client_id_is_recorded_as_quota_ids_have_it(tmp_path: Path) -> None:
    sink, client_id = Sink(), "\U0001f600" * 8_000
    audit = an_audit_log(tmp_path, sink)
    async with running(audit):
        audit.append(AuditEvent(event="authorization", client_id=client_id, granted=False))
        await turns_until(lambda: len(sink.lines) > 0)

    [line] = [line for line in sink.lines if b"authorization" in line]
    assert json.loads(line)["data"]["client_id"] == short_name(client_id)
    assert len(line) < 10_000


@pytest.mark.spec("D2", "D3")
async def test_a_sequence_without_gaps_reaches_the_topic(tmp_path: Path) -> None:
    sink = Sink()
    async with running(an_audit_log(tmp_path, sink)) as audit:
        for _ in range(50):
            audit.append(AuditEvent(event="authentication"))
        records = await sink.has(50)

    assert [record["sequence"] for record in records] == list(range(50))
    assert audit.sequence == 50
    await audit.close(1_000)
    assert sink.closed


@pytest.mark.spec("D3")
async def test_a_full_spool_drops_counts_and_tells_it_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_MAX_BYTES", 2_000)
    sink = Sink()
    sink.here.clear()
    async with running(an_audit_log(tmp_path, sink)) as audit:
        while not audit.drops.total:
            audit.append(AuditEvent(event="authentication"))
        kept = audit.sequence
        audit.append(AuditEvent(event="authentication"))
        assert (audit.drops.counts["spool_full", "authentication"], audit.sequence) == (2, kept)
        assert not await audit.allows_change()

        sink.here.set()
        await sink.has(kept)
        await turns_until(lambda: not audit.rejects("admin"))
        audit.append(AuditEvent(event="authentication"))
        records = await sink.has(kept + 2)

    assert [record["sequence"] for record in records] == list(range(kept + 2))
    assert (records[-1]["event"], records[-1]["count"]) == ("records_dropped", 2)
    assert records[-1]["message"] == "2 authentication (spool_full)"
    await audit.close(1_000)


@pytest.mark.spec("D3")
async def test_what_could_not_be_shipped_before_the_end_is_shipped_after_the_next_start(
    tmp_path: Path,
) -> None:
    sink = Sink()
    sink.here.clear()
    first = an_audit_log(tmp_path, sink)
    for _ in range(5):
        first.append(AuditEvent(event="authentication"))
    await first.close(20)
    assert sink.lines == []

    sink.here.set()
    async with running(an_audit_log(tmp_path, sink)) as second:
        records = await sink.has(5)
        await second.close(1_000)

    assert [record["sequence"] for record in records] == list(range(5))


@pytest.mark.spec("D2", "D3")
async def test_a_boot_tells_which_record_was_the_last_one_before_it(tmp_path: Path) -> None:
    sink = Sink()
    first = an_audit_log(tmp_path, sink)
    first.start({"super.users": "User:admin"})
    first.append(AuditEvent(event="authentication"))
    assert await first.wait_until_durable()
    # Killed: nothing was closed.
    second = an_audit_log(tmp_path, sink)
    second.start({})

    async with running(second):
        await sink.has(3)

    records = [json.loads(line) for line in sink.lines]
    assert [record["data"]["settings"] for record in records] == [
        {"super.users": "User:admin", "audit.chain": "sha256", "audit.host": gethostname()},
        None,
        {
            "audit.chain": "sha256",
            "audit.host": gethostname(),
            "audit.previous": f"cafe/1/{records[1]['chain']}",
        },
    ]
    await second.close(1_000)


@pytest.mark.spec("D2", "D3", "O9")
async def test_changed_settings_are_recorded_by_number_though_the_spool_is_full(tmp_path: Path) -> None:
    sink = Sink()
    audit = an_audit_log(tmp_path, sink)
    audit.start({"super.users": "User:admin"})
    while not audit.drops.counts["spool_full", "admin"]:
        audit.append(AuditEvent(event="quota_changed", message="x" * 1_000))

    assert [audit.change_settings({"super.users": name}) for name in ("User:a", "User:b")] == [1, 2]

    async with running(audit):
        records = await sink.has(audit.sequence)
    changed = [record for record in records if record["event"] == "settings_changed"]
    assert [(record["settings_generation"], record["settings"]) for record in changed] == [
        (1, {"super.users": "User:a"}),
        (2, {"super.users": "User:b"}),
    ]
    await audit.close(1_000)


@pytest.mark.spec("D3")
async def test_a_checkpoint_that_cannot_be_written_does_not_end_the_shipping(tmp_path: Path) -> None:
    sink = Sink()
    (tmp_path / "shipped.new").mkdir()
    async with running(an_audit_log(tmp_path, sink)) as audit:
        audit.append(AuditEvent(event="authentication"))
        await sink.has(1)
        audit.append(AuditEvent(event="authentication"))
        await sink.has(2)

    await audit.close(1_000)


def numbers(registry: CollectorRegistry) -> dict[str, float]:
    """name{label values} -> value."""
    return {
        sample.name + "".join(f" {value}" for value in sample.labels.values()): sample.value
        for metric in registry.collect()
        for sample in metric.samples
    }


def sasl_event(name: str, **fields: Any) -> AuditEvent:
    return AuditEvent(event=name, listener="SASL", mechanism="PLAIN", **fields)


@pytest.mark.spec("R7", "O2")
@pytest.mark.parametrize(
    ("event", "series"),
    [
        (sasl_event("authentication", api_version=2), "penstock_authentication_total SASL PLAIN successful"),
        (sasl_event("authentication", api_version=0), "penstock_authentication_no_reauth_total SASL"),
        (sasl_event("authentication_failed"), "penstock_authentication_total SASL PLAIN failed"),
        (sasl_event("reauthentication"), "penstock_reauthentication_total SASL PLAIN successful"),
        (sasl_event("reauthentication_failed"), "penstock_reauthentication_total SASL PLAIN failed"),
        (
            sasl_event("reauthentication", interval_start_ms=1, interval_end_ms=5),
            "penstock_reauthentication_latency_seconds_count",
        ),
        (sasl_event("session_expired"), "penstock_expired_connections_killed_total SASL"),
        (
            sasl_event("authorization", granted=False, method="Produce", resource_type="TOPIC"),
            "penstock_authorization_denied_total SASL Produce TOPIC",
        ),
        (
            sasl_event(
                "authorization_collapsed", granted=False, method="Metadata", resource_type="TOPIC", count=1
            ),
            "penstock_authorization_denied_total SASL Metadata TOPIC",
        ),
        (
            sasl_event("authorization", granted=False, rule="authorizer.not.ready"),
            "penstock_authorizer_not_ready_total",
        ),
        (
            AuditEvent(event="throttled", quota_key="producer_byte_rate", quota_id="user2:clientA", count=1),
            "penstock_quota_throttled_total producer_byte_rate user2 clientA",
        ),
        (sasl_event("request_refused", method="Envelope"), "penstock_protocol_errors_total SASL unsupported"),
        (sasl_event("request_refused"), "penstock_protocol_errors_total SASL malformed"),
        (AuditEvent(event="stopped"), "penstock_audit_records_total stopped"),
    ],
)
def test_an_event_moves_the_metric_that_stands_for_it(event: AuditEvent, series: str) -> None:
    registry = CollectorRegistry()
    telemetry = Telemetry(registry)
    assert series not in numbers(registry) or numbers(registry)[series] == 0

    telemetry.read(event)

    assert numbers(registry)[series] == 1


def with_state(audit: AuditLog, connected: bool = True) -> CollectorRegistry:
    registry = CollectorRegistry()
    telemetry = Telemetry(registry)
    policy = ListenerPolicy("SASL", None)
    policy.counts.requests[0] = 3
    for _ in range(3):
        telemetry.opened("SASL")
    telemetry.closed("SASL", "client_closed")
    telemetry.closed("SASL", "too_many_connections")
    gate = gate_with(image_with("READ TOPIC orders"))
    gate.share_room.take("a connection", "alice", 1)
    registry.register(AuditCollector(audit))
    registry.register(StateCollector(gate, [policy], telemetry, lambda: NOW_MS, lambda: connected))
    return registry


@pytest.mark.spec("O2", "S11")
@pytest.mark.parametrize("connected", [True, False])
async def test_the_state_is_read_at_each_scrape(tmp_path: Path, connected: bool) -> None:
    audit = an_audit_log(tmp_path, Sink())
    found = numbers(with_state(audit, connected))

    assert found["penstock_connections SASL"] == 2
    assert found["penstock_connections_closed_total SASL client_closed"] == 1
    assert found["penstock_requests_total SASL Produce"] == 3
    assert found["penstock_session_memory_bytes decisions"] == 0
    assert found["penstock_session_memory_bytes share_sessions"] == 500
    assert found["penstock_acls"] == 1
    assert found["penstock_metadata_ready"] == 1
    assert found["penstock_controller_connected"] == int(connected)
    assert [name for name in found if name.startswith("penstock_build_info")] != []
    await audit.close(100)


async def got(port: int, request: bytes) -> tuple[bytes, bytes]:
    """The status line and the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.partition(b"\r\n")[0], body


@pytest.mark.spec("O2")
async def test_http_tells_health_readiness_and_metrics(tmp_path: Path) -> None:
    audit = an_audit_log(tmp_path, Sink())
    told = [
        Readiness((Note.of("the metadata log is not loaded", Cause("login rejected", "b:9092: no")),)),
        Readiness((), (Note.of("degraded: x"),)),
    ]

    async def quotas() -> bytes:
        return b"{}"

    access = HttpAccess(host="127.0.0.1", port=0)
    server = HttpServer(access, with_state(audit), lambda: told.pop(0), {"/quotas": quotas})
    port = await server.start()

    def get(path: bytes) -> Any:
        return got(port, b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")

    assert await get(b"/livez") == await get(b"/healthz") == (b"HTTP/1.1 200 OK", b"alive\n")
    assert await get(b"/readyz") == (
        b"HTTP/1.1 503 Service Unavailable",
        b"not ready: the metadata log is not loaded: login rejected (b:9092: no)\n",
    )
    assert await get(b"/readyz?verbose") == (b"HTTP/1.1 200 OK", b"ready\ndegraded: x\n")
    status, body = await get(b"/metrics")
    assert (status, b"penstock_connections{" in body) == (b"HTTP/1.1 200 OK", True)
    assert await get(b"/quotas?x=1") == (b"HTTP/1.1 200 OK", b"{}")
    assert (await get(b"/secrets"))[0] == b"HTTP/1.1 404 Not Found"
    assert (await got(port, b"POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n"))[
        0
    ] == b"HTTP/1.1 405 Method Not Allowed"
    assert await got(port, b"\x16\x03\x01 nonsense\r\n\r\n") == (
        b"HTTP/1.1 400 Bad Request",
        b"not HTTP/1.1\n",
    )
    assert (await got(port, b"x" * 20_000))[0] == b"HTTP/1.1 431 Request Header Fields Too Large"
    await server.close()
    await audit.close(100)
