"""With what a client works: its software, as it has said (KIP-511), and the versions of the APIs it uses."""

from typing import Any

import pytest

from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import KNOWN_TOPICS
from tests.session.conversation import Conversation, fetch, fetched, produce, produced, sasl

pytestmark = pytest.mark.spec("O13")

API_VERSIONS, FETCH, METADATA, PRODUCE = (
    ApiKey.API_VERSIONS,
    ApiKey.FETCH,
    ApiKey.METADATA,
    ApiKey.PRODUCE,
)
ORDERS = KNOWN_TOPICS["orders"]


def software(name: str = "librdkafka", version: str = "2.3.0") -> Any:
    return t.ApiVersionsRequest(client_software_name=name, client_software_version=version)


def test_the_records_of_a_session_name_the_software_of_its_client() -> None:
    talk = Conversation("WRITE TOPIC orders", sasl_listener=sasl())

    talk.asks(API_VERSIONS, 3, software())
    talk.heard_bytes()
    talk.logs_in()
    talk.asks(PRODUCE, 9, produce("orders"))
    talk.asks(PRODUCE, 9, produce("secrets"))

    told = [*talk.events, *talk.summaries()]
    assert [(event.event, event.client_software) for event in told] == [
        ("authentication", "librdkafka 2.3.0"),
        ("authorization", "librdkafka 2.3.0"),
        ("authorization_summary", "librdkafka 2.3.0"),
    ]


def test_a_client_that_does_not_say_its_software_is_recorded_without() -> None:
    talk = Conversation("WRITE TOPIC orders", sasl_listener=sasl())

    talk.asks(API_VERSIONS, 2, t.ApiVersionsRequest())
    talk.heard_bytes()
    talk.logs_in()

    assert [event.client_software for event in talk.told("authentication")] == [None]


def test_a_name_that_kafka_rejects_is_rejected_and_in_no_record() -> None:
    talk = Conversation(sasl_listener=sasl())

    for name in ("", "-kafka", "kafka-", "kafka client", "kafka\n", "é", "a" * 300 + "-"):
        talk.asks(API_VERSIONS, 3, software(name))
        assert talk.heard(API_VERSIONS, 3).error_code == ErrorCode.INVALID_REQUEST
    talk.logs_in()

    assert [event.client_software for event in talk.told("authentication")] == [None]


def test_what_a_client_said_stays_when_it_asks_again_in_an_older_version() -> None:
    talk = Conversation("WRITE TOPIC orders")

    talk.asks(API_VERSIONS, 3, software())
    talk.asks(API_VERSIONS, 2, t.ApiVersionsRequest())
    talk.asks(PRODUCE, 9, produce("orders"))

    assert [event.client_software for event in talk.summaries()] == ["librdkafka 2.3.0"]


@pytest.mark.parametrize(
    ("api_key", "right", "versions"),
    [
        (PRODUCE, "WRITE TOPIC orders", (9, 3, 9, 13, 12)),
        (FETCH, "READ TOPIC orders", (12, 4, 12, 13, 11)),
    ],
)
def test_each_version_of_an_api_is_counted_apart(
    api_key: ApiKey, right: str, versions: tuple[int, ...]
) -> None:
    talk = Conversation(right)
    talk.gate.topic_names.learn(ORDERS, "orders")
    ask, answer = (produce, produced) if api_key == PRODUCE else (fetch, fetched)

    for version in versions:
        topic = ORDERS if version >= 13 else "orders"
        for _ in range(3):  # The first is decided on, the others pass.
            talk.asks(api_key, version, ask(topic))
            talk.answers(api_key, version, answer(topic))

    counted = {event.api_version: event.count for event in talk.summaries()}
    assert counted == {version: 3 * versions.count(version) for version in versions}


def test_requests_that_need_no_right_are_counted_by_version() -> None:
    talk = Conversation("READ TOPIC orders")

    for version in (1, 9, 9):
        talk.asks(METADATA, version, t.MetadataRequest(topics=None))
        talk.answers(METADATA, version, t.MetadataResponse())

    assert [(event.event, event.api_version, event.count) for event in talk.summaries()] == [
        ("request_summary", 1, 1),
        ("request_summary", 9, 2),
    ]


def test_a_denied_request_does_not_hide_that_it_is_one_of_this_version() -> None:
    talk = Conversation()

    talk.asks(PRODUCE, 3, produce("orders"))

    assert [(event.granted, event.api_version) for event in talk.events] == [(False, 3)]


def used(talk: Conversation) -> tuple[dict[str, int], dict[tuple[int, int], int]]:
    counts = talk.listener.counts
    return counts.connections_by_software, counts.connections_by_version


def test_a_connection_counts_under_its_software_and_versions_until_it_is_closed() -> None:
    talk = Conversation("WRITE TOPIC orders", sasl_listener=sasl())
    talk.asks(API_VERSIONS, 3, software())
    talk.heard_bytes()
    talk.logs_in()
    assert used(talk) == ({}, {})  # Nothing that anybody can invent before a login.

    talk.asks(PRODUCE, 9, produce("orders"))
    talk.answers(PRODUCE, 9, produced("orders"))
    talk.asks(PRODUCE, 9, produce("secrets"))
    talk.asks(METADATA, 1, t.MetadataRequest(topics=None))
    talk.answers(METADATA, 1, t.MetadataResponse())
    assert used(talk) == ({"librdkafka 2.3.0": 1}, {(PRODUCE, 9): 1, (METADATA, 1): 1})

    talk.asks(API_VERSIONS, 3, software(version="2.4.0"))
    assert used(talk)[0] == {"librdkafka 2.4.0": 1}
    talk.session.closed()
    assert used(talk) == ({}, {})


def test_a_client_that_does_not_say_its_software_is_counted_as_unknown() -> None:
    talk = Conversation()

    talk.asks(FETCH, 4, fetch("orders"))

    assert used(talk) == ({"unknown unknown": 1}, {(FETCH, 4): 1})


def test_what_is_counted_survives_a_new_state_of_the_cluster_and_another_client_id() -> None:
    talk = Conversation("WRITE TOPIC orders", "READ TOPIC orders")
    talk.asks(PRODUCE, 9, produce("orders"))
    talk.gate.forget_decisions()
    talk.asks(FETCH, 12, fetch("orders"), client_id="another")
    talk.asks(PRODUCE, 9, produce("orders"))

    assert used(talk)[1] == {(PRODUCE, 9): 1, (FETCH, 12): 1}
