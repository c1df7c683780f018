"""One principal's noise is counted beyond a rate: nothing is lost silently, nobody else is affected."""

from collections import Counter

import pytest

from proxy.audit.classes import READS
from proxy.audit.noise import BURST_S, INTERVAL_MS, MAX_KINDS, MAX_SOURCES, UNKNOWN_CLIENTS_FACTOR, Noise
from proxy.audit.record import AuditEvent
from proxy.metadata.quota_entity import short_name
from proxy.session.apis.table import TABLE
from proxy.wire.api_keys import ApiKey

pytestmark = pytest.mark.spec("D1", "D3", "O6")

RATE = 5
BURST = RATE * BURST_S
NOW_MS = 1_795_348_800_000


def denied(principal: str = "User:bob", **fields: object) -> AuditEvent:
    told = {
        "method": "Metadata",
        "resource_type": "TOPIC",
        "operation": "DESCRIBE",
        "host": "10.0.0.1",
    } | fields
    return AuditEvent(event="authorization", granted=False, principal=principal, listener="SASL", **told)  # type: ignore[arg-type]


def failed_login(host: str) -> AuditEvent:
    return AuditEvent(
        event="authentication_failed", host=host, listener="SASL", principal="User:alice", mechanism="PLAIN"
    )


def recorded(noise: Noise, events: list[AuditEvent], now_ms: int = NOW_MS) -> int:
    return sum(not noise.collapses(event, now_ms) for event in events)


def test_beyond_its_rate_a_principal_is_counted_with_first_and_last_time() -> None:
    noise = Noise(RATE)
    assert recorded(noise, [denied(resource_name="a")] * BURST) == BURST

    assert recorded(noise, [denied(resource_name="b", correlation_id=7)] * 30) == 0
    assert recorded(noise, [denied(resource_name="c", host="10.0.0.2")] * 12, NOW_MS + 100) == 0
    assert noise.loud == ["User:bob"]
    assert noise.due(NOW_MS + INTERVAL_MS - 1) == []

    assert noise.due(NOW_MS + INTERVAL_MS) == [
        AuditEvent(
            event="authorization_collapsed",
            principal="User:bob",
            listener="SASL",
            method="Metadata",
            resource_type="TOPIC",
            operation="DESCRIBE",
            granted=False,
            count=42,
            interval_start_ms=NOW_MS,
            interval_end_ms=NOW_MS + 100,
            message=f"beyond audit.rate.per.principal, {RATE} records a second",
        )
    ]
    assert (noise.loud, noise.due(NOW_MS + 10 * INTERVAL_MS)) == ([], [])
    assert noise.collapsed_counts == {"denial": 42}


def test_ones_noise_does_not_count_against_another() -> None:
    noise = Noise(RATE)
    recorded(noise, [denied()] * 1_000)

    assert recorded(noise, [denied("User:carol")] * BURST) == BURST


def test_the_rate_holds_for_ever_and_a_clock_that_goes_back_gives_nothing_away() -> None:
    noise = Noise(RATE)
    recorded(noise, [denied()] * BURST)

    assert [recorded(noise, [denied()] * 100, NOW_MS + 1_000 * second) for second in (1, 2, 3)] == [RATE] * 3
    assert recorded(noise, [denied()] * 100, NOW_MS - 3_600_000) == 0


def test_who_fails_to_log_in_speaks_for_nobody_else() -> None:
    """The user name in it is whatever the client has sent."""
    noise = Noise(RATE)
    assert recorded(noise, [failed_login("10.9.9.9")] * 1_000) == BURST

    assert recorded(noise, [failed_login("10.0.0.1")]) == 1
    assert recorded(noise, [denied("User:alice")] * BURST) == BURST
    (counted,) = noise.due(NOW_MS, at_end=True)
    assert (counted.event, counted.host, counted.count) == (
        "authentication_collapsed",
        "10.9.9.9",
        1_000 - BURST,
    )


def test_anonymous_clients_are_told_apart_by_address() -> None:
    noise = Noise(RATE)
    recorded(noise, [denied("User:ANONYMOUS")] * 1_000)

    assert recorded(noise, [denied("User:ANONYMOUS", host="10.0.0.2")]) == 1


def test_any_number_of_addresses_keeps_to_the_rate_of_all_strangers() -> None:
    noise = Noise(RATE)
    events = [failed_login(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}") for n in range(20_000)]

    kept = recorded(noise, events)

    assert kept == UNKNOWN_CLIENTS_FACTOR * BURST
    assert len(noise._addresses) <= MAX_SOURCES
    counted = noise.due(NOW_MS, at_end=True)
    assert len(counted) == 1
    assert kept + sum(event.count or 0 for event in counted) == 20_000


def test_memory_is_bounded_and_every_event_is_counted() -> None:
    noise = Noise(1)
    burst = BURST_S
    events = [denied(f"User:u{n}") for n in range(MAX_SOURCES + 500) for _ in range(burst + 2)]
    kept = recorded(noise, events)

    assert len(noise._principals) == MAX_SOURCES
    counted = noise.due(NOW_MS, at_end=True)
    assert kept + sum(event.count or 0 for event in counted) == len(events)
    # Those that were forgotten are one record.
    assert [(e.principal, e.count) for e in counted if e.principal is None] == [(None, 1_000)]

    kinds = [denied(error_code=code) for code in range(10 * MAX_KINDS)]
    kept = recorded(noise, [*[denied()] * burst, *kinds])
    counted = noise.due(NOW_MS, at_end=True)
    assert len(counted) == MAX_KINDS + 1
    assert kept + sum(event.count or 0 for event in counted) == burst + len(kinds)


def test_what_changes_something_is_never_counted_away() -> None:
    noise = Noise(RATE)
    admin = [
        AuditEvent(event="authorization", granted=True, method="CreateAcls", principal="User:bob"),
        AuditEvent(event="admin_request", method="RenewDelegationToken", principal="User:bob"),
        AuditEvent(event="forwarded", method="CreateAcls", principal="User:bob", error_code=29),
        AuditEvent(event="authentication", principal="User:bob", host="10.0.0.1"),
        AuditEvent(event="quota_changed"),
        AuditEvent(event="authorization_summary", principal="User:bob", granted=True),
    ]

    assert recorded(noise, admin * 1_000) == len(admin) * 1_000


def test_what_only_reads_or_was_rejected_is_noise_too() -> None:
    events = [
        AuditEvent(event="authorization", granted=True, method="DescribeAcls", principal="User:bob"),
        AuditEvent(event="admin_request", error_code=64, principal="User:bob"),
        AuditEvent(event="request_refused", host="10.0.0.1"),
        AuditEvent(event="authorization_collapsed", granted=False, count=900, principal="User:bob"),
    ]
    for event in events:
        noise = Noise(RATE)
        assert recorded(noise, [event] * (BURST + 3)) == BURST
        (counted,) = noise.due(NOW_MS, at_end=True)
        assert counted.count == 3 * (event.count or 1)
        assert counted.granted == event.granted


def test_a_rate_of_zero_counts_nothing_away() -> None:
    assert recorded(Noise(0), [denied()] * 10_000) == 10_000


def test_what_only_reads_is_what_neither_the_controller_nor_the_broker_changes_anything_for() -> None:
    admin = {ApiKey.name_of(key): api for key, api in TABLE.items() if api.admin}
    reads = {name for name, api in admin.items() if api.admin == "image"}

    # It is not administrative, but a right that is looked for by type is recorded one by one.
    assert reads | {"InitProducerId"} == READS


def test_kinds_are_told_apart() -> None:
    noise = Noise(RATE)
    recorded(noise, [denied()] * BURST)
    recorded(noise, [denied(method=method) for method in ("Fetch", "Produce", "Fetch")])

    found = Counter({event.method: event.count for event in noise.due(NOW_MS, at_end=True)})
    assert found == {"Fetch": 2, "Produce": 1}


def test_a_count_keeps_little_of_long_names() -> None:
    noise, long = Noise(RATE), "x" * 500_000
    events = [denied(f"User:{long}", client_id=long, resource_name=long) for _ in range(BURST + 7)]

    assert recorded(noise, events) == BURST
    [count] = noise.due(NOW_MS + INTERVAL_MS)

    assert (count.count, count.client_id, count.resource_name) == (7, short_name(long), None)
    assert count.principal == short_name(f"User:{long}")
