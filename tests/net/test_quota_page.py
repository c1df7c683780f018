"""/quotas and the series by quota-id: who is limited, by which rule, shared by how many; gone when idle."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

from proxy.audit.record import AuditEvent
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.net.pages.http_server import exposition, metrics_page
from proxy.net.pages.quota_page import MAX_ROWS, quota_page
from proxy.net.runtime import chunked
from proxy.net.runtime.chunked import run_in_slices
from proxy.net.telemetry.event_metrics import StateCollector, Telemetry
from proxy.quota.bucket_table import IDLE_MS
from proxy.quota.connections import ConnectionLimits, ConnectionQuotas
from proxy.quota.keys import CONNECTION_CREATION_RATE, PRODUCER_BYTE_RATE
from proxy.quota.throttle import ClientQuotas
from proxy.wire.api_keys import ApiKey
from tests.session.apis.asking import image_with
from tests.session.conversation import NOW_MS, Conversation, Quotas, gate_with, produce, produced
from tests.support.metadata_log import quotas_image
from tests.support.waiting import turns_during

ENTITIES = 5_000


@pytest.mark.spec("Q4", "O2")
async def test_the_page_tells_who_is_throttled_by_which_rule_and_how_many_share_it() -> None:
    settings = Quotas(consumer=5_000)
    image, entity = image_with("WRITE TOPIC orders"), QuotaEntity(user="alice", client_id=DEFAULT)
    gate = gate_with(replace(image, quotas=quotas_image({entity: {PRODUCER_BYTE_RATE: 1_000.0}})), settings)
    one, two = Conversation(gate=gate), Conversation(gate=gate)
    for talk in (one, two):
        talk.asks(ApiKey.PRODUCE, 9, produce("orders", records=bytes(8_000)))
        talk.answers(ApiKey.PRODUCE, 9, produced("orders"))

    page = json.loads(await run_in_slices(quota_page(gate.quotas, [one.session, two.session], NOW_MS + 10)))

    (row,) = page.pop("quotas")
    assert page == {"mode": "enforce", "time_ms": NOW_MS + 10, "active": 1, "addresses": []}
    assert 1_600 < row.pop("rate") < 1_700
    (mute_ms,) = two.mutes
    assert row == {
        "quota_key": "producer_byte_rate",
        "quota_id": "alice:app",
        "user": "alice",
        "client_id": "app",
        "limit": 1_000.0,
        "throttled_until_ms": NOW_MS + mute_ms,
        "throttled_for_ms": mute_ms - 10,
        "governed_by": "/config/users/alice/clients/<default>",
        "connections": 2,
    }


@pytest.mark.spec("Q10", "O2")
async def test_the_page_is_bounded_and_begins_with_those_that_wait() -> None:
    quotas, image = (
        ClientQuotas(Quotas()),
        quotas_image({QuotaEntity(client_id=DEFAULT): {PRODUCER_BYTE_RATE: 1_000.0}}),
    )
    for number in range(ENTITIES):
        size = 20_000 if number == 4_321 else number
        quotas.bucket(PRODUCER_BYTE_RATE, image, "u", f"c{number}").record(size, NOW_MS)

    page = json.loads(await run_in_slices(quota_page(quotas, [], NOW_MS)))

    assert (page["active"], len(page["quotas"])) == (ENTITIES, MAX_ROWS)
    assert [row["client_id"] for row in page["quotas"][:3]] == ["c4321", "c4999", "c4998"]
    assert json.loads(await run_in_slices(quota_page(quotas, [], NOW_MS + IDLE_MS)))["quotas"] == []


@pytest.mark.spec("Q10")
async def test_series_of_quota_ids_end_an_hour_after_their_last_traffic(tmp_path: Path) -> None:
    registry, clock = CollectorRegistry(), [NOW_MS]
    telemetry, gate = Telemetry(registry), gate_with(None)
    registry.register(StateCollector(gate, [], telemetry, lambda: clock[0], lambda: True))
    image = quotas_image({QuotaEntity(user=DEFAULT): {PRODUCER_BYTE_RATE: 1_000.0}})
    for number in range(ENTITIES):
        bucket = gate.quotas.bucket(PRODUCER_BYTE_RATE, image, f"u{number}", "c")
        bucket.record(20_000, NOW_MS)
        telemetry.read(
            AuditEvent(
                event="throttled",
                quota_key=bucket.key,
                quota_id=bucket.quota_id,
                count=1,
                throttle_time_ms=10_000,
                interval_end_ms=NOW_MS,
            )
        )
    del bucket

    def series() -> int:
        return sum(
            1
            for family in registry.collect()
            for sample in family.samples
            if sample.name.startswith("penstock_quota_")
            and "client_id" in sample.labels
            and not sample.name.endswith("_created")
        )

    list(telemetry.end_idle_quotas(NOW_MS + IDLE_MS - 1))
    assert series() == 4 * ENTITIES
    clock[0] = NOW_MS + IDLE_MS
    list(telemetry.end_idle_quotas(clock[0]))
    assert sum(gate.quotas.drop_idle(clock[0])) == ENTITIES
    assert series() == 0


@pytest.mark.spec("Q10", "O2")
async def test_clients_are_served_while_thousands_of_quota_ids_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, gate = CollectorRegistry(), gate_with(None)
    telemetry = Telemetry(registry)
    registry.register(StateCollector(gate, [], telemetry, lambda: NOW_MS, lambda: True))
    image = quotas_image({QuotaEntity(user=DEFAULT): {PRODUCER_BYTE_RATE: 1_000.0}})
    for number in range(ENTITIES):
        bucket = gate.quotas.bucket(PRODUCER_BYTE_RATE, image, f"u{number}", "c")
        bucket.record(number, NOW_MS)
        telemetry.read(AuditEvent(event="throttled", quota_key=bucket.key, quota_id=bucket.quota_id, count=2))

    monkeypatch.setattr(chunked, "SLICE_MS", 0)
    page, turns_of_page = await turns_during(run_in_slices(quota_page(gate.quotas, [], NOW_MS)))
    text, turns_of_metrics = await turns_during(exposition(registry))

    assert json.loads(page)["active"] == ENTITIES
    # Every item takes a whole piece's time; of the metrics an item is a part of some hundreds of series.
    assert turns_of_page > ENTITIES
    assert turns_of_metrics > 4 * ENTITIES // 500
    lines = text.decode().splitlines()
    for name in ("byte_rate", "byte_rate_limit", "throttled_total", "throttle_time_seconds_total"):
        assert sum(line.startswith(f"penstock_quota_{name}{{") for line in lines) == ENTITIES
        assert (
            lines.count(next(line for line in lines if line.startswith(f"# TYPE penstock_quota_{name} ")))
            == 1
        )


@pytest.mark.spec("O2")
async def test_metrics_that_come_in_pieces_read_as_in_one() -> None:
    registry = CollectorRegistry()
    sizes = Gauge("sizes", "Of many", ["name"], registry=registry)
    for number in range(1_001):
        sizes.labels(f"n{number}").set(number)
    Counter("others", "Of one", registry=registry).inc(3)
    Histogram("waits", "Seconds", registry=registry).observe(0.2)
    Info("build", "Which", registry=registry).info({"version": "1"})

    assert await exposition(registry) == generate_latest(registry)
    assert await metrics_page(registry, b"text/plain") == (CONTENT_TYPE_LATEST, generate_latest(registry))
    accept = (
        b"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;q=0.3,*/*;q=0.2"
    )
    assert await metrics_page(registry, accept) == (
        openmetrics.CONTENT_TYPE_LATEST,
        openmetrics.generate_latest(registry),  # type: ignore[no-untyped-call]
    )


@pytest.mark.spec("Q12", "O2")
async def test_the_page_tells_which_addresses_are_limited_and_how_fast_they_come() -> None:
    quotas = quotas_image({QuotaEntity(ip=DEFAULT): {CONNECTION_CREATION_RATE: 2.0}})
    connections = ConnectionQuotas(ConnectionLimits())
    for address, count in (("10.0.0.1", 5), ("10.0.0.2", 20)):
        for _ in range(count):
            connections.open("SASL", address, quotas, NOW_MS)
    connections.close("SASL", "10.0.0.1")
    connections.open("SASL", "10.0.0.3", quotas_image({}), NOW_MS)

    page = json.loads(
        await run_in_slices(
            quota_page(ClientQuotas(Quotas()), [], NOW_MS, connections.limited(quotas, NOW_MS))
        )
    )

    assert page["addresses"] == [
        {"address": "10.0.0.2", "limit": 2.0, "rate": 2.0, "connections": 20},
        {"address": "10.0.0.1", "limit": 2.0, "rate": 0.5, "connections": 4},
    ]
    assert list(connections.limited(quotas, NOW_MS + 3_600_000)) == []
