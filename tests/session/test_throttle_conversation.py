"""What a client sees of its quota: throttled fetches without records, denied requests that cost, mutes."""

from typing import Any

import pytest

from proxy.quota.throttle import RESERVED_MS, ClientQuotas
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import KNOWN_TOPICS, image_with
from tests.session.conversation import (
    Conversation,
    Quotas,
    fetch,
    fetched,
    gate_with,
    produce,
    produced,
    sasl,
)
from tests.support.topic_requests import record_batch

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH
FETCH_VERSIONS = list(codecs.request_versions(FETCH))
FIRST_WITH_TOPIC_ID, LAST_ASKED = 13, 15
RIGHTS = ("READ TOPIC orders", "WRITE TOPIC orders")
LIMIT = 1_000
ROOM = 10_000
"""What may pass at once: the bound for the ten whole samples of a rate."""


def limited(
    mode_enforced: bool = True,
    excluded: tuple[str, ...] = (),
    rights: tuple[str, ...] = RIGHTS,
    **changes: object,
) -> Conversation:
    gate = gate_with(image_with(*rights))
    gate.quotas = ClientQuotas(Quotas(LIMIT, LIMIT), mode_enforced, excluded)
    return Conversation(gate=gate, **changes)  # type: ignore[arg-type]


def orders(version: int) -> str | bytes:
    return KNOWN_TOPICS["orders"] if version >= FIRST_WITH_TOPIC_ID else "orders"


def others_use(talk: Conversation, used_bytes: int) -> None:
    """Other connections of the quota-id fetch so much."""
    talk.session.machine.client.consumer.record(used_bytes, talk.now_ms)


def has_used_its_quota(talk: Conversation, size: int = 9_000) -> None:
    """The client has just fetched nearly all that fits."""
    talk.asks(FETCH, 12, fetch("orders"))
    talk.answers(FETCH, 12, fetched("orders", records=bytes(size)))
    assert talk.heard(FETCH, 12).throttle_time_ms == 0
    talk.forwarded_bytes()


@pytest.mark.spec("Q7")
@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("cut", [4, 8, 12, 18, 19, 500, 5_000, 10_000])
def test_an_answer_there_is_no_room_for_becomes_an_empty_one_that_tells_when_to_ask_again(
    version: int, cut: int
) -> None:
    talk = limited()
    topic, asked = orders(version), min(version, LAST_ASKED)
    first = talk.asks(FETCH, version, fetch(topic))
    others_use(talk, 9_000)
    throttled = talk.response(FETCH, asked, fetched(topic, records=bytes(5_000)), first)

    talk.broker_sends(throttled[:cut])
    talk.broker_sends(throttled[cut:])

    ((one, empty),) = talk.heard_all((FETCH, version))
    assert (one, empty.error_code, empty.session_id, empty.responses) == (first, 0, 0, [])
    assert 3_900 < talk.mutes[0] < 4_400
    assert empty.throttle_time_ms == (talk.mutes[0] if version >= 1 else 0)
    # What was not given is not paid for.
    assert talk.session.machine.client.consumer.room(talk.now_ms) == 1_000
    assert (len(talk.mutes), len(talk.session.pipeline)) == (1, 0)


@pytest.mark.spec("Q7")
def test_what_was_refused_is_given_after_the_pause() -> None:
    talk = limited()
    talk.asks(FETCH, 12, fetch("orders"))
    others_use(talk, 9_000)
    talk.answers(FETCH, 12, fetched("orders", records=bytes(5_000)))
    talk.heard_bytes()

    talk.passes(11_000)
    talk.is_unmuted()
    talk.asks(FETCH, 12, fetch("orders"))
    talk.answers(FETCH, 12, fetched("orders", records=bytes(5_000)))

    again = talk.heard(FETCH, 12)
    assert (again.throttle_time_ms, len(again.responses[0].partitions[0].records)) == (0, 5_000)


@pytest.mark.spec("Q7", "A7")
def test_a_throttled_fetch_of_a_session_leaves_the_session_open() -> None:
    talk = limited()
    talk.asks(FETCH, 12, fetch("orders", session_epoch=0))
    talk.answers(FETCH, 12, fetched("orders", records=bytes(500), session_id=77))
    talk.asks(FETCH, 12, fetch(session_id=77, session_epoch=1))
    others_use(talk, 9_000)
    talk.answers(FETCH, 12, fetched("orders", records=bytes(5_000), session_id=77))

    (_, opened), (_, throttled) = talk.heard_all((FETCH, 12), (FETCH, 12))
    assert (opened.session_id, throttled.session_id, throttled.responses) == (77, 77, [])
    talk.passes(11_000)
    talk.is_unmuted()
    talk.forwarded_bytes()
    talk.asks(FETCH, 12, fetch(session_id=77, session_epoch=2))
    assert [request.message.session_epoch for request in talk.forwarded()] == [2]


@pytest.mark.spec("Q7", "A7")
def test_a_throttled_fetch_opens_no_session() -> None:
    talk = limited()
    talk.asks(FETCH, 12, fetch("orders", session_epoch=0))
    others_use(talk, 9_000)
    talk.answers(FETCH, 12, fetched("orders", records=bytes(5_000), session_id=77))
    assert talk.heard(FETCH, 12).session_id == 0
    talk.passes(talk.mutes[0])
    talk.is_unmuted()

    talk.asks(FETCH, 12, fetch(session_id=77, session_epoch=1))

    assert talk.heard(FETCH, 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.spec("Q7")
def test_an_answer_larger_than_any_window_comes_when_nothing_is_owed() -> None:
    talk = limited()
    other = Conversation(gate=talk.gate)

    talk.asks(FETCH, 12, fetch("orders"))
    talk.passes(RESERVED_MS * 2)
    other.passes(RESERVED_MS * 2)
    other.asks(FETCH, 12, fetch("orders"))
    talk.answers(FETCH, 12, fetched("orders", records=bytes(30_000)))
    other.answers(FETCH, 12, fetched("orders", records=bytes(30_000)))

    given, refused = talk.heard(FETCH, 12), other.heard(FETCH, 12)
    assert len(given.responses[0].partitions[0].records) == 30_000
    assert given.throttle_time_ms == talk.mutes[0] > 19_000
    # The pause is for what the first one owes, not for what would be owed after the second too.
    assert (refused.responses, refused.throttle_time_ms) == ([], talk.mutes[0])
    assert other.mutes == talk.mutes

    other.passes(other.mutes[0])
    other.is_unmuted()
    other.asks(FETCH, 12, fetch("orders"))
    other.answers(FETCH, 12, fetched("orders", records=bytes(30_000)))
    assert len(other.heard(FETCH, 12).responses[0].partitions[0].records) == 30_000


@pytest.mark.spec("Q7")
def test_a_fetch_with_denied_topics_is_throttled_like_any_other() -> None:
    talk = limited()
    has_used_its_quota(talk)
    talk.asks(FETCH, 12, fetch("orders", "secrets"))
    talk.answers(FETCH, 12, fetched("orders", records=bytes(5_000)))

    throttled = talk.heard(FETCH, 12)

    assert (throttled.responses, throttled.throttle_time_ms) == ([], talk.mutes[0])


@pytest.mark.spec("Q14")
@pytest.mark.parametrize("topics", [("orders",), ("orders", "secrets")], ids=["passes", "rewritten"])
@pytest.mark.parametrize("has_head", [False, True])
def test_a_client_that_leaves_before_the_response_pays_for_it_once(
    topics: tuple[str, ...], has_head: bool
) -> None:
    stays, leaves = limited(), limited()
    for talk in (stays, leaves):
        has_used_its_quota(talk, size=2_000)
        first = talk.asks(FETCH, 12, fetch(*topics))
        response = talk.response(FETCH, 12, fetched("orders", records=bytes(2_000)), first)
        talk.broker_sends(response[: None if talk is stays else 1_000 if has_head else 0])

    leaves.session.client_left(leaves.now_ms)
    leaves.session.closed()

    rooms_bytes = []
    for talk in (stays, leaves):
        talk.passes(2 * RESERVED_MS)
        rooms_bytes.append(talk.session.machine.client.consumer.room(talk.now_ms))
    # The tagged fields of a header that passes are not charged.
    assert rooms_bytes == pytest.approx([rooms_bytes[0]] * 2, abs=1)
    assert rooms_bytes[0] < ROOM - 3_000


@pytest.mark.spec("Q14")
def test_clients_that_leave_before_the_response_make_the_broker_read_no_more_than_the_quota() -> None:
    talk = limited()
    asked = 0
    for _ in range(50):
        again = Conversation(gate=talk.gate)
        again.now_ms = talk.now_ms
        again.asks(FETCH, 12, fetch("orders"))
        asked += sum(request.message.max_bytes for request in again.forwarded())
        again.session.client_left(talk.now_ms)
        again.session.closed()
        talk.passes(100)

    assert asked <= ROOM + 5 * LIMIT


@pytest.mark.spec("Q7")
def test_an_error_of_the_broker_is_told_however_little_room_there_is() -> None:
    talk = limited()
    talk.asks(FETCH, 12, fetch("orders", session_epoch=0))
    others_use(talk, 9_990)
    talk.answers(FETCH, 12, fetched(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    assert talk.heard(FETCH, 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.spec("Q7", "D5")
def test_only_what_the_client_got_is_summed_up() -> None:
    talk = limited()
    has_used_its_quota(talk)
    talk.summaries()
    talk.asks(FETCH, 12, fetch("orders"))
    talk.answers(FETCH, 12, fetched("orders", records=bytes(5_000)))
    size = len(talk.heard_bytes())

    (fetched_bytes, throttled) = talk.summaries()

    assert (fetched_bytes.event, fetched_bytes.response_bytes) == ("authorization_summary", size)
    assert (throttled.event, throttled.count, throttled.rule) == ("throttled", 1, None)
    assert (throttled.quota_id, throttled.throttle_time_ms) == (":app", talk.mutes[0])


@pytest.mark.spec("Q6", "Q7")
@pytest.mark.parametrize("version", list(codecs.request_versions(PRODUCE)))
def test_a_produce_request_that_is_denied_whole_is_paid_for(version: int) -> None:
    talk = limited()
    topic = KNOWN_TOPICS["secrets"] if version >= FIRST_WITH_TOPIC_ID else "secrets"

    talk.asks(PRODUCE, version, produce(topic, records=bytes(30_000)))

    denied = talk.heard(PRODUCE, version)
    partition = denied.responses[0].partition_responses[0]
    assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert talk.mutes[0] > 19_000
    assert denied.throttle_time_ms == talk.mutes[0]
    assert talk.session.blocked


@pytest.mark.spec("Q6")
def test_a_produce_request_without_its_transactional_id_costs_nothing() -> None:
    talk = limited()

    records = record_batch(30_000, transactional=True)
    talk.asks(PRODUCE, 9, produce("orders", records=records, transactional_id="tx"))

    denied = talk.heard(PRODUCE, 9).responses[0].partition_responses[0].error_code
    assert (denied, talk.mutes) == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, [])


@pytest.mark.spec("Q7", "D1")
@pytest.mark.parametrize("topic", ["orders", "secrets"])
def test_a_quota_that_is_only_observed_holds_nobody_up_and_is_written_down(topic: str) -> None:
    talk = limited(mode_enforced=False)
    talk.asks(PRODUCE, 9, produce(topic, records=bytes(30_000)))
    if topic == "orders":
        talk.answers(PRODUCE, 9, produced(topic))
    assert talk.heard(PRODUCE, 9).throttle_time_ms == 0
    talk.asks(PRODUCE, 9, produce("orders", acks=0, records=bytes(1_000)))
    talk.forwarded_bytes()
    talk.asks(FETCH, 12, fetch("orders", max_bytes=1 << 20, min_bytes=50_000))
    (asked,) = talk.forwarded()
    talk.answers(FETCH, 12, fetched("orders", records=bytes(30_000)))
    given = talk.heard(FETCH, 12)
    talk.asks(FETCH, 12, fetch("orders", "secrets"))
    talk.answers(FETCH, 12, fetched("orders", records=bytes(30_000)))

    assert (asked.message.max_bytes, asked.message.min_bytes) == (1 << 20, 50_000)
    assert (given.throttle_time_ms, len(given.responses[0].partitions[0].records)) == (0, 30_000)
    held = talk.heard(FETCH, 12)
    assert (held.throttle_time_ms, len(held.responses)) == (0, 2)
    assert (talk.mutes, talk.session.blocked) == ([], False)
    throttled = [event for event in talk.summaries() if event.event == "throttled"]
    assert [(event.quota_key, event.rule, event.count) for event in throttled] == [
        ("producer_byte_rate", "observe", 2),
        ("consumer_byte_rate", "observe", 2),
    ]
    assert all(event.throttle_time_ms and event.throttle_time_ms > 40_000 for event in throttled)


@pytest.mark.spec("Q2")
@pytest.mark.parametrize(("excluded", "mutes"), [(("User:alice", "User:bob"), 0), (("User:bob",), 1)])
def test_an_excluded_principal_is_never_limited(excluded: tuple[str, ...], mutes: int) -> None:
    talk = limited(excluded=excluded)

    talk.asks(PRODUCE, 9, produce("orders", records=bytes(30_000)))
    talk.answers(PRODUCE, 9, produced("orders"))

    assert len(talk.mutes) == mutes
    assert bool(talk.heard(PRODUCE, 9).throttle_time_ms) == bool(mutes)


@pytest.mark.spec("Q7", "R3")
@pytest.mark.parametrize("logs_in_first", [True, False])
def test_a_session_that_ends_while_its_client_is_muted_is_renewed_by_a_login_that_comes_first(
    logs_in_first: bool,
) -> None:
    talk = limited(sasl_listener=sasl(10_000))
    talk.logs_in("alice")
    talk.asks(PRODUCE, 9, produce("orders", records=bytes(30_000)))
    talk.answers(PRODUCE, 9, produced("orders"))
    talk.heard_bytes()
    talk.forwarded_bytes()
    assert talk.mutes[0] > 19_000

    if not logs_in_first:
        talk.asks(PRODUCE, 9, produce("orders"))
    talk.passes(talk.mutes[0])
    talk.is_unmuted()
    if not logs_in_first:
        assert talk.close_reason == "session_expired"
        return
    assert talk.logs_in("alice").error_code == ErrorCode.NONE
    talk.asks(PRODUCE, 9, produce("orders"))
    assert (len(talk.forwarded()), talk.closed) == (1, None)


HEARTBEAT = t.HeartbeatRequest(group_id="team", generation_id=1, member_id="m")
METADATA = t.MetadataRequest(
    topics=[t.MetadataRequest.MetadataRequestTopic(name="orders")], allow_auto_topic_creation=False
)


@pytest.mark.spec("Q7")
@pytest.mark.parametrize(
    ("api_key", "version", "message"),
    [(ApiKey.HEARTBEAT, 4, HEARTBEAT), (ApiKey.METADATA, 8, METADATA), (PRODUCE, 9, produce("orders"))],
)
@pytest.mark.parametrize("pieces", [1, 3])
def test_a_heartbeat_or_whatever_comes_while_its_client_is_muted_is_served_after_it(
    api_key: int, version: int, message: Any, pieces: int
) -> None:
    talk = limited(rights=(*RIGHTS, "READ GROUP team"))
    talk.asks(PRODUCE, 9, produce("orders", records=bytes(30_000)))
    talk.answers(PRODUCE, 9, produced("orders"))
    talk.forwarded_bytes()
    request = talk.request(api_key, version, message)

    for piece in range(pieces):
        talk.sends(request[piece * len(request) // pieces : (piece + 1) * len(request) // pieces])
    assert talk.forwarded_bytes() == b""
    talk.passes(talk.mutes[0])
    talk.is_unmuted()

    assert talk.forwarded_bytes() == request


@pytest.mark.spec("Q7")
def test_a_long_poll_pays_for_its_answer_and_not_for_the_time_it_waited() -> None:
    talk = limited()
    for _ in range(100):
        talk.asks(FETCH, 12, fetch("orders", max_wait_ms=30_000))
        talk.passes(30_000)
        talk.answers(FETCH, 12, fetched("orders", records=b""))

    bucket = talk.session.machine.client.consumer
    size = len(talk.heard_bytes()) / 100 - 5  # Without the length and the tags of the header.
    assert talk.mutes == []
    assert bucket.byte_rate(talk.now_ms) * 10 == pytest.approx(size)


@pytest.mark.spec("Q6", "Q7")
def test_a_limit_near_zero_throttles_and_ends_no_connection() -> None:
    talk = limited()
    talk.gate.quotas = ClientQuotas(Quotas(5e-324, 5e-324), True)
    talk.asks(PRODUCE, 9, produce("orders"))
    talk.answers(PRODUCE, 9, produced("orders"))

    assert talk.heard(PRODUCE, 9).throttle_time_ms == 2**31 - 1
    assert talk.mutes == [2**31 - 1]
