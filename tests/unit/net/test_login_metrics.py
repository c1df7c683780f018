"""The metrics of KIP-368, moved by the events of whole conversations."""

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from proxy.net.telemetry.event_metrics import MAXIMUM_WINDOW_MS, LoginMetrics, Telemetry
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.session.conversation import Conversation, plain_token, sasl

MINUTE_MS = 60_000


def read(*talks: Conversation) -> CollectorRegistry:
    registry = CollectorRegistry()
    telemetry = Telemetry(registry)
    for talk in talks:
        for event in talk.events:
            telemetry.read(event)
    return registry


def values(registry: CollectorRegistry) -> dict[str, float]:
    """Those of logins and sessions that are not zero, by name and labels."""
    samples = [sample for family in registry.collect() for sample in family.samples]
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for sample in samples
        if sample.value
        and any(part in sample.name for part in ("authentication", "expired", "revoked"))
        and not sample.name.endswith(("_bucket", "_created"))
    }


def failed(known: bool) -> Conversation:
    talk = Conversation(sasl_listener=sasl(MINUTE_MS))
    if known:
        talk.logs_in()
    talk.shakes_hands()
    talk.authenticates(plain_token("alice", "wrong"))
    return talk


def again() -> Conversation:
    talk = Conversation(sasl_listener=sasl(MINUTE_MS))
    talk.logs_in()
    talk.shakes_hands()
    talk.passes(20)
    talk.authenticates(plain_token("alice"))
    return talk


def killed() -> Conversation:
    talk = Conversation(sasl_listener=sasl(MINUTE_MS))
    talk.logs_in()
    talk.passes(MINUTE_MS)
    talk.asks(ApiKey.API_VERSIONS, 2, t.ApiVersionsRequest())
    return talk


@pytest.mark.spec("R7")
def test_each_event_of_a_session_moves_the_metrics_that_kafka_has_for_it() -> None:
    registry = read(failed(known=False), failed(known=True), again(), killed())

    assert values(registry) == {
        "penstock_authentication_total SASL PLAIN successful": 3.0,
        "penstock_authentication_total SASL PLAIN failed": 1.0,
        "penstock_reauthentication_total SASL PLAIN successful": 1.0,
        "penstock_reauthentication_total SASL PLAIN failed": 1.0,
        "penstock_reauthentication_latency_seconds_count": 1.0,
        "penstock_reauthentication_latency_seconds_sum": 0.02,
        "penstock_expired_connections_killed_total SASL": 1.0,
    }


@pytest.mark.spec("R7")
def test_the_longest_reauthentication_is_shown_for_two_windows_of_kafkas() -> None:
    talk, registry = again(), CollectorRegistry()
    started_ms = talk.now_ms - talk.now_ms % MAXIMUM_WINDOW_MS + MAXIMUM_WINDOW_MS
    clock_ms = started_ms
    metrics = LoginMetrics(registry, lambda: clock_ms)
    (event,) = (event for event in talk.events if event.event == "reauthentication")

    def ends(at_ms: int, latency_ms: int) -> None:
        metrics.read(replace(event, interval_start_ms=at_ms - latency_ms, interval_end_ms=at_ms))

    def longest() -> float | None:
        return registry.get_sample_value("penstock_reauthentication_latency_max_seconds")

    shown = [longest()]
    for latency_ms in (20, 700, 30):
        ends(started_ms, latency_ms)
    shown.append(longest())
    ends(started_ms + MAXIMUM_WINDOW_MS, 40)
    for windows in (1, 2, 3):
        clock_ms = started_ms + windows * MAXIMUM_WINDOW_MS
        shown.append(longest())

    assert shown == [0.0, 0.7, 0.7, 0.04, 0.0]


@pytest.mark.spec("R7", "R4")
def test_clients_that_cannot_reauthenticate_are_counted_once() -> None:
    old, bare = (Conversation(sasl_listener=sasl(MINUTE_MS)) for _ in range(2))
    old.logs_in(version=0)
    old.logs_in(version=0)
    bare.shakes_hands(version=0)
    bare.sends(len(plain_token("alice")).to_bytes(4, "big") + plain_token("alice"))

    assert values(read(old, bare))["penstock_authentication_no_reauth_total SASL"] == 2.0


@pytest.mark.spec("R3", "R10")
def test_an_idle_connection_that_is_swept_is_not_counted_as_killed() -> None:
    talk = Conversation(sasl_listener=sasl(MINUTE_MS))
    talk.logs_in()
    talk.passes(MINUTE_MS)
    talk.carry_out(talk.session.end_if_expired(talk.now_ms))

    assert talk.close_reason == "session_expired_idle"
    assert [name for name in values(read(talk)) if "killed" in name] == []


@pytest.mark.spec("R7")
@pytest.mark.parametrize(
    "name",
    [
        "successful-authentication-total",
        "failed-authentication-total",
        "successful-reauthentication-total",
        "failed-reauthentication-total",
        "successful-authentication-no-reauth-total",
        "reauthentication-latency-avg",
        "reauthentication-latency-max",
        "expired-connections-killed-count",
    ],
)
def test_kafkas_names_stand_in_the_help_texts(name: str) -> None:
    helps = [line for line in generate_latest(read()).decode().splitlines() if line.startswith("# HELP")]

    assert [line for line in helps if name in line]
