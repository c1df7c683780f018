"""How long requests took and which errors their responses carried, as a listener counts it."""

import pytest
from prometheus_client import CollectorRegistry

from proxy.net.telemetry.event_metrics import RequestSeries
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.conversation import Conversation, fetch, fetched, plain_token, produce, produced, sasl
from tests.session.topic_creation import answered, metadata, passed_on, question, talking, wanted

pytestmark = pytest.mark.spec("O12")

PRODUCE, FETCH, METADATA = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA


def series(talk: Conversation) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(RequestSeries([talk.listener]))
    return registry


def below(talk: Conversation, api: str, le: str, stem: str = "penstock_request_duration_seconds") -> float:
    """How many requests are in that bucket; 0 where the series is not there."""
    labels = {"listener": "SASL", "api": api, "le": le}
    return series(talk).get_sample_value(f"{stem}_bucket", labels) or 0.0


def total(talk: Conversation, api: str, stem: str = "penstock_request_duration_seconds") -> float | None:
    return series(talk).get_sample_value(f"{stem}_sum", {"listener": "SASL", "api": api})


BROKER = "penstock_upstream_request_duration_seconds"


def test_produce_and_fetch_are_timed_from_request_to_response_whichever_way_they_go() -> None:
    talk = Conversation("WRITE TOPIC orders", "READ TOPIC orders")
    for duration_ms in (5, 0, 3, 200):
        talk.asks(PRODUCE, 12, produce("orders"))
        talk.passes(duration_ms)
        talk.answers(PRODUCE, 12, produced("orders"))
        talk.asks(FETCH, 12, fetch("orders"))
        talk.passes(500)
        talk.answers(FETCH, 12, fetched("orders"))

    assert [below(talk, "Produce", le) for le in ("0.001", "0.002", "0.004", "0.008", "0.256", "+Inf")] == [
        1.0,
        1.0,
        2.0,
        3.0,
        4.0,
        4.0,
    ]
    assert total(talk, "Produce") == total(talk, "Produce", BROKER) == 0.208
    assert [below(talk, "Fetch", le, BROKER) for le in ("0.256", "0.512", "+Inf")] == [0.0, 4.0, 4.0]
    assert total(talk, "Fetch") == 2.0


def test_pipelined_requests_are_timed_each_for_itself() -> None:
    talk = Conversation("WRITE TOPIC orders")
    for _ in range(4):
        talk.asks(PRODUCE, 12, produce("orders"))
        talk.passes(10)
    for correlation_id in range(1, 5):
        talk.answers(PRODUCE, 12, produced("orders"), correlation_id)

    assert (total(talk, "Produce"), below(talk, "Produce", "+Inf")) == (0.1, 4.0)


def test_a_response_that_streams_is_timed_to_its_last_byte() -> None:
    talk = Conversation("READ TOPIC orders")
    talk.asks(FETCH, 12, fetch("orders"))
    answer = talk.response(FETCH, 12, fetched("orders", records=bytes(500)))
    talk.passes(100)
    talk.broker_sends(answer[:60])
    talk.passes(100)
    talk.broker_sends(answer[60:])

    assert total(talk, "Fetch") == 0.2


def test_what_the_proxy_waited_for_first_is_not_the_brokers_time() -> None:
    talk = talking()
    talk.asks(METADATA, 12, wanted("old"))
    assert question(talk) == (["old"], False)
    talk.passes(30)
    answered(talk, old=0)
    assert passed_on(talk) == (["old"], False)
    talk.passes(10)
    talk.answers(METADATA, 12, metadata(12, old=0))

    assert (total(talk, "Metadata"), total(talk, "Metadata", BROKER)) == (0.04, 0.01)
    assert below(talk, "Metadata", "+Inf", BROKER) == 1.0


def test_a_login_takes_as_long_as_its_check() -> None:
    talk = Conversation("WRITE TOPIC orders", sasl_listener=sasl())
    talk.holds_checks = True
    talk.shakes_hands()
    talk.asks(ApiKey.SASL_AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=plain_token("alice")))
    talk.passes(70)
    talk.is_verified()

    assert total(talk, "SaslAuthenticate") == 0.07
    assert total(talk, "SaslAuthenticate", BROKER) is None


def errors(talk: Conversation) -> dict[tuple[str, str], float]:
    return {
        (sample.labels["api"], sample.labels["error"]): sample.value
        for metric in series(talk).collect()
        for sample in metric.samples
        if sample.name == "penstock_request_errors_total"
    }


def test_errors_are_counted_once_a_response_by_api_and_name() -> None:
    talk = Conversation("WRITE TOPIC orders", "DESCRIBE TOPIC orders")
    for _ in range(2):
        talk.asks(PRODUCE, 9, produce("orders", "secrets", "payments"))
        talk.answers(PRODUCE, 9, produced("orders"))
    talk.asks(PRODUCE, 12, produce("orders"))
    talk.answers(PRODUCE, 12, produced("orders", error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    talk.asks(FETCH, 12, fetch("secrets"))
    talk.asks(METADATA, 12, wanted("orders", create=False))
    talk.answers(METADATA, 12, metadata(12, orders=12345))

    assert errors(talk) == {
        ("Produce", "TOPIC_AUTHORIZATION_FAILED"): 2.0,
        ("Produce", "NOT_LEADER_OR_FOLLOWER"): 1.0,
        ("Fetch", "TOPIC_AUTHORIZATION_FAILED"): 1.0,
        ("Metadata", "Unknown"): 1.0,
    }


def test_requests_of_apis_that_kafka_does_not_have_share_one_name() -> None:
    talks = [Conversation() for _ in range(3)]
    for number, talk in enumerate(talks):
        head = (1_000 + number).to_bytes(2, "big") + bytes(2) + bytes(4) + b"\xff\xff"
        talk.sends(len(head).to_bytes(4, "big") + head)

    assert [talk.listener.counts.requests for talk in talks] == [{-1: 1}] * 3
    assert [errors(talk) for talk in talks] == [{("Unknown", "UNSUPPORTED_VERSION"): 1.0}] * 3
