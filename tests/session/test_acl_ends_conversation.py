"""What a client may no longer do once an ACL with an end has ended, in the middle of what it is doing."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.loader import Loader
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis import test_share_fetch_api as share
from tests.session.apis.asking import KNOWN_TOPICS
from tests.session.conversation import (
    NOW_MS,
    Conversation,
    errors_of,
    fetch,
    fetched,
    gate_with,
    produce,
    produced,
)
from tests.support.metadata_log import acl, acl_record, values

pytestmark = pytest.mark.spec("A11")

PRODUCE, FETCH, SHARE_FETCH = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH
END_MS = NOW_MS + 60_000
SESSION_ID = 77


class Granted:
    """A client that may read and write the topic until END_MS, at a proxy whose loader has this clock."""

    def __init__(self, group_until_ms: int | None = None) -> None:
        self.now_ms = NOW_MS
        gate = gate_with(None)
        self.loader = Loader(lambda image, _: setattr(gate, "image", image), now_ms=lambda: self.now_ms)
        self.loader.load_until(0)
        grants = [replace(acl("orders", each), until_ms=END_MS) for each in (Operation.READ, Operation.WRITE)]
        follows = acl("kafka-cluster", Operation.CLUSTER_ACTION, resource_type=ResourceType.CLUSTER)
        grants.append(replace(follows, until_ms=END_MS))
        group = replace(acl("team", resource_type=ResourceType.GROUP), until_ms=group_until_ms)
        for_ever = acl("payments"), acl("new")
        self.loader.batch(1, values(*map(acl_record, [*grants, *for_ever, group])))
        self.talk = Conversation(gate=gate)

    def ends(self, now_ms: int = END_MS) -> None:
        self.now_ms = self.talk.now_ms = now_ms
        self.loader.end_acls()


def test_a_topic_that_was_written_a_moment_ago_is_not_written_after_the_end() -> None:
    granted = Granted()
    talk = granted.talk
    for _ in range(3):
        talk.asks(PRODUCE, 9, produce("orders"))
        assert len(talk.forwarded()) == 1
        talk.answers(PRODUCE, 9, produced("orders"))
        talk.heard_bytes()

    granted.ends(END_MS - 1)
    talk.asks(PRODUCE, 9, produce("orders"))
    assert len(talk.forwarded()) == 1
    talk.answers(PRODUCE, 9, produced("orders"))
    talk.heard_bytes()

    granted.ends()
    talk.asks(PRODUCE, 9, produce("orders"))

    assert talk.forwarded() == []
    (topic,) = talk.heard(PRODUCE, 9).responses
    assert topic.partition_responses[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    (denial,) = talk.told("authorization")
    assert (denial.granted, denial.rule, denial.acl_id) == (False, "default.deny", None)
    assert sum(event.count or 0 for event in talk.events) == 4


@pytest.mark.spec("A7")
def test_a_produce_that_streams_at_the_end_does_not_reach_the_broker_whole() -> None:
    granted = Granted()
    talk = granted.talk
    talk.asks(PRODUCE, 9, produce("orders"))
    talk.answers(PRODUCE, 9, produced("orders"))
    large = talk.request(PRODUCE, 9, produce("orders", records=bytes(200_000)))
    talk.forwarded_bytes()

    talk.sends(large[:150_000])
    begun = talk.forwarded_bytes()
    granted.ends()
    talk.sends(large[150_000:])

    assert 0 < len(begun) < len(large)
    assert len(begun + talk.forwarded_bytes()) < len(large)
    assert talk.closed


def test_a_fetch_session_ends_with_the_grant() -> None:
    granted = Granted()
    talk = granted.talk
    talk.asks(FETCH, 12, fetch("orders", session_epoch=0))
    talk.answers(FETCH, 12, fetched("orders", session_id=SESSION_ID))
    again: Any = fetch(session_id=SESSION_ID, session_epoch=1)
    talk.asks(FETCH, 12, again)
    assert len(talk.forwarded()) == 2
    talk.answers(FETCH, 12, fetched(session_id=SESSION_ID))
    talk.heard_bytes()

    granted.ends()
    talk.asks(FETCH, 12, fetch("orders", session_id=SESSION_ID, session_epoch=2))

    assert talk.forwarded() == []
    assert b"records" not in talk.heard_bytes()


def test_other_connections_of_the_client_do_not_share_a_decision_from_before_the_end() -> None:
    granted = Granted()
    first, second = granted.talk, Conversation(gate=granted.talk.gate)
    first.asks(PRODUCE, 9, produce("orders"))
    assert len(first.forwarded()) == 1

    granted.ends()
    second.asks(PRODUCE, 9, produce("orders"))

    assert second.forwarded() == []


def opened(talk: Conversation, *topics: str) -> None:
    """A fetch session with these topics."""
    talk.asks(FETCH, 12, fetch(*topics, session_epoch=0))
    talk.answers(FETCH, 12, fetched(*topics, session_id=SESSION_ID))
    talk.forwarded_bytes(), talk.heard_bytes()


def all_topics(talk: Conversation) -> None:
    talk.asks(FETCH, 12, fetch("orders"))


def all_topics_again(talk: Conversation) -> None:
    all_topics(talk)
    talk.answers(FETCH, 12, fetched("orders"))
    all_topics(talk)


def one_topic_of_two(talk: Conversation) -> None:
    talk.asks(FETCH, 12, fetch("payments"))
    talk.answers(FETCH, 12, fetched("payments"))
    talk.asks(FETCH, 12, fetch("payments", "orders"))


def topics_beside_a_denied_one(talk: Conversation) -> None:
    talk.asks(FETCH, 12, fetch("secrets", "payments", "orders"))


def as_a_follower(talk: Conversation) -> None:
    talk.asks(FETCH, 12, fetch("orders", replica_id=2))


def a_session(talk: Conversation) -> None:
    opened(talk, "payments", "orders")
    talk.asks(FETCH, 12, fetch(session_id=SESSION_ID, session_epoch=1))


def a_session_that_has_got_the_topic_later(talk: Conversation) -> None:
    opened(talk, "payments")
    talk.asks(FETCH, 12, fetch("orders", session_id=SESSION_ID, session_epoch=1))
    talk.answers(FETCH, 12, fetched("orders", session_id=SESSION_ID))
    talk.asks(FETCH, 12, fetch(session_id=SESSION_ID, session_epoch=2), client_id="other")


def a_session_under_another_client_id(talk: Conversation) -> None:
    opened(talk, "payments", "orders")
    for _ in range(2):  # The second one need not be decoded.
        talk.asks(FETCH, 12, fetch("payments"), client_id="other")
        talk.answers(FETCH, 12, fetched("payments"))
    talk.asks(FETCH, 12, fetch(session_id=SESSION_ID, session_epoch=1), client_id="other")


HELD = [
    *(all_topics, all_topics_again, one_topic_of_two, topics_beside_a_denied_one, as_a_follower),
    *(a_session, a_session_that_has_got_the_topic_later, a_session_under_another_client_id),
]


@pytest.mark.parametrize("is_shown", [True, False], ids=["another image", "the image of before"])
@pytest.mark.parametrize("asks", HELD)
def test_a_fetch_that_the_broker_holds_past_the_end_brings_no_records(
    asks: Callable[[Conversation], None], is_shown: bool
) -> None:
    granted = Granted()
    talk = granted.talk
    asks(talk)
    talk.forwarded_bytes(), talk.heard_bytes()

    if is_shown:
        granted.ends()
    talk.now_ms = END_MS
    talk.answers(FETCH, 12, fetched("orders"))

    assert (talk.heard_bytes(), talk.close_reason) == (b"", "fetch_denied")
    (refused,) = talk.told("request_refused")
    assert (refused.method, refused.granted) == ("Fetch", False)


@pytest.mark.parametrize("asks", HELD)
def test_a_response_just_before_the_end_reaches_the_client(asks: Callable[[Conversation], None]) -> None:
    granted = Granted()
    asks(granted.talk)
    granted.talk.heard_bytes()

    granted.talk.now_ms = END_MS - 1
    granted.talk.answers(FETCH, 12, fetched("orders"))

    assert b"records" in granted.talk.heard_bytes()
    assert granted.talk.closed is None


def test_a_fetch_of_other_topics_is_not_cut_off_by_the_end() -> None:
    granted = Granted()
    talk = granted.talk
    opened(talk, "payments")
    talk.asks(FETCH, 12, fetch(session_id=SESSION_ID, session_epoch=1))

    granted.ends()
    talk.answers(FETCH, 12, fetched("payments", session_id=SESSION_ID))

    assert b"records" in talk.heard_bytes()
    assert talk.closed is None


def test_after_the_end_a_client_that_connects_again_reads_what_it_still_may() -> None:
    granted = Granted()
    all_topics(granted.talk)
    granted.ends()
    again = Conversation(gate=granted.talk.gate)
    again.now_ms = END_MS

    again.asks(FETCH, 12, fetch("orders", "payments"))
    again.answers(FETCH, 12, fetched("payments"))

    assert errors_of(again.heard(FETCH, 12)) == [
        ("orders", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("payments", ErrorCode.NONE),
    ]
    assert again.closed is None


@pytest.mark.parametrize("held_until_ms", [END_MS - 1, END_MS])
@pytest.mark.parametrize("topic", ["orders", "payments", "new"])
def test_a_share_fetch_that_the_broker_holds_brings_no_records_past_the_end(
    topic: str, held_until_ms: int
) -> None:
    granted = Granted(group_until_ms=None if topic == "orders" else END_MS)
    talk, topic_id = granted.talk, KNOWN_TOPICS.get(topic, b"n" * 16)
    talk.asks(SHARE_FETCH, 2, share.fetch(0, (topic_id, [0])))
    if talk.lookups:
        talk.broker_names(new=topic_id)

    talk.now_ms = held_until_ms
    talk.answers(SHARE_FETCH, 2, share.answer((topic_id, [0]), records=b"records"))

    is_over = held_until_ms == END_MS
    assert (b"records" in talk.heard_bytes()) is not is_over
    assert talk.close_reason == ("fetch_denied" if is_over else None)
