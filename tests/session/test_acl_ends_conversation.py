"""What a client may no longer do once an ACL with an end has ended, in the middle of what it is doing."""

from dataclasses import replace
from typing import Any

import pytest

from proxy.metadata.acl import Operation
from proxy.metadata.loader import Loader
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.conversation import NOW_MS, Conversation, fetch, fetched, gate_with, produce, produced
from tests.support.metadata_log import acl, acl_record, values

pytestmark = pytest.mark.spec("A11")

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH
END_MS = NOW_MS + 60_000
SESSION_ID = 77


class Granted:
    """A client that may read and write the topic until END_MS, at a proxy whose loader has this clock."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS
        gate = gate_with(None)
        self.loader = Loader(lambda image, _: setattr(gate, "image", image), now_ms=lambda: self.now_ms)
        self.loader.load_until(0)
        grants = [replace(acl("orders", each), until_ms=END_MS) for each in (Operation.READ, Operation.WRITE)]
        self.loader.batch(1, values(*map(acl_record, grants)))
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
