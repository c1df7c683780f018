"""A client that sends requests without waiting for responses gains nothing by it (SPEC Q14).

A broker handles one request of a connection at a time, and nothing more of a client that is over its limit
reaches it.
"""

from dataclasses import replace
from typing import Any

import pytest

from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.quota.throttle import RESERVED_MS, ClientQuotas
from proxy.session.in_flight import MAX_IN_FLIGHT
from proxy.session.remembered import MAX_HELD
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.session.apis.asking import image_with
from tests.session.conversation import Conversation, Quotas, fetch, fetched, gate_with, produce, produced
from tests.support.metadata_log import quotas_image

PRODUCE, FETCH, HEARTBEAT = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.HEARTBEAT
RIGHTS = ("READ TOPIC orders", "WRITE TOPIC orders", "READ TOPIC payments", "WRITE TOPIC payments")
LIMIT = 1_000
WINDOW_BYTES = 10 * LIMIT
SIZE = 2_000  # Five requests are over the limit.
TOPICS = {
    "the same topic": ("orders",),
    "several topics": ("orders", "payments"),
    "one of them denied": ("orders", "secrets"),
}


def limited(**limits: float) -> Conversation:
    gate = gate_with(image_with(*RIGHTS))
    assert gate.image is not None
    gate.image = replace(gate.image, quotas=quotas_image({QuotaEntity(user=DEFAULT): dict(limits)}))
    gate.quotas = ClientQuotas(Quotas())
    return Conversation(gate=gate)


def producing(*topics: str, acks: int = 1) -> Any:
    return produce(*topics, acks=acks, records=bytes(SIZE // len(topics)))


def room_bytes(talk: Conversation, kind: str = "producer") -> int:
    return int(getattr(talk.session.machine.client, kind).room(talk.now_ms))


@pytest.mark.spec("Q14")
@pytest.mark.parametrize("in_one_piece", [True, False])
@pytest.mark.parametrize("topics", TOPICS.values(), ids=TOPICS)
def test_once_over_its_limit_no_further_request_reaches_the_broker_before_the_pause_is_over(
    topics: tuple[str, ...], in_one_piece: bool
) -> None:
    talk = limited(producer_byte_rate=LIMIT)
    requests = [talk.request(PRODUCE, 9, producing(*topics)) for _ in range(MAX_IN_FLIGHT)]
    for piece in [b"".join(requests)] if in_one_piece else requests:
        talk.sends(piece)

    sent = talk.forwarded()
    assert len(sent) == 5
    for request in sent:
        allowed = [name for name in topics if name != "secrets"]
        talk.answers(PRODUCE, 9, produced(*allowed), request.header.correlation_id)
    times_ms = [message.throttle_time_ms for _, message in talk.heard_all(*[(PRODUCE, 9)] * 5)]
    assert times_ms[:4] == [0] * 4
    assert times_ms[4] == talk.mutes[0] > 0
    assert talk.forwarded() == []

    talk.passes(talk.mutes[0])
    talk.is_unmuted()
    assert len(talk.forwarded()) == 1


@pytest.mark.spec("Q14")
def test_without_responses_nothing_more_is_taken_after_the_request_that_is_over() -> None:
    talk = limited(producer_byte_rate=LIMIT)
    talk.sends(b"".join(talk.request(PRODUCE, 9, producing("orders", acks=0)) for _ in range(9)))

    assert len(talk.forwarded()) == 5
    talk.passes(talk.mutes[0])
    talk.is_unmuted()
    assert len(talk.forwarded()) == 1


@pytest.mark.spec("Q14")
@pytest.mark.parametrize("acks", [0, 1])
def test_a_request_in_pieces_is_charged_when_its_last_bytes_come(acks: int) -> None:
    talk = limited(producer_byte_rate=LIMIT)
    # One that is in flight has the same correlation id.
    asked = talk.asks(PRODUCE, 9, producing("orders"))
    before_bytes = room_bytes(talk)
    talk.correlation_id = asked - 1
    request = talk.request(PRODUCE, 9, produce("orders", acks=acks, records=bytes(9_000)))

    talk.sends(request[:5_000])
    assert room_bytes(talk) == before_bytes
    talk.sends(request[5_000:] + talk.request(PRODUCE, 9, producing("orders")))

    assert room_bytes(talk) == before_bytes - (len(request) - 4)
    assert len(talk.forwarded()) == 2


@pytest.mark.spec("Q14")
@pytest.mark.parametrize("topics", TOPICS.values(), ids=TOPICS)
def test_what_a_client_wrote_is_charged_if_it_leaves_before_the_response(topics: tuple[str, ...]) -> None:
    talk = limited(producer_byte_rate=LIMIT)
    talk.asks(PRODUCE, 9, producing(*topics))
    talk.session.closed()

    assert room_bytes(talk) < WINDOW_BYTES - SIZE


@pytest.mark.spec("Q14", "Q12")
def test_with_a_request_quota_one_request_is_handled_at_a_time() -> None:
    talk = limited(request_percentage=1.0)
    heartbeat = t.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    talk.sends(
        talk.request(HEARTBEAT, 4, heartbeat)
        + talk.request(PRODUCE, 9, producing("orders", "payments"))
        + talk.request(PRODUCE, 9, producing("orders"))
        + talk.request(FETCH, 12, fetch("orders"))
    )

    for api_key, version, response in (
        (PRODUCE, 9, produced("orders", "payments")),
        (PRODUCE, 9, produced("orders")),
        (FETCH, 12, fetched("orders")),
    ):
        (request,) = talk.forwarded()
        assert request.header.api_key == api_key
        talk.answers(api_key, version, response, request.header.correlation_id)


@pytest.mark.spec("Q14", "Q12")
def test_over_the_request_quota_a_produce_to_several_topics_gets_a_throttle_time_too() -> None:
    talk = limited(request_percentage=1.0)
    for expected in (0, 1_000):
        talk.asks(PRODUCE, 9, producing("orders", "payments"))
        talk.session.machine.spent_on_requests(expected * 1_000_000, talk.now_ms)
        talk.answers(PRODUCE, 9, produced("orders", "payments"))
        assert talk.heard(PRODUCE, 9).throttle_time_ms == expected
    assert len(talk.mutes) == 1


@pytest.mark.spec("Q14", "Q7")
def test_the_next_fetch_is_sent_when_the_response_to_the_one_before_has_left() -> None:
    talk = limited(consumer_byte_rate=LIMIT)
    talk.sends(b"".join(talk.request(FETCH, 12, fetch("orders")) for _ in range(3)))

    for _ in range(2):
        (request,) = talk.forwarded()
        talk.answers(FETCH, 12, fetched("orders", records=bytes(3_000)), request.header.correlation_id)


@pytest.mark.spec("Q14", "Q7")
@pytest.mark.parametrize("topics", [("orders",), ("orders", "secrets")])
def test_a_fetch_for_which_there_is_no_room_is_answered_and_not_sent(topics: tuple[str, ...]) -> None:
    talk = limited(consumer_byte_rate=LIMIT)
    for _ in range(2):
        talk.asks(FETCH, 12, fetch("orders"))
        talk.answers(FETCH, 12, fetched("orders", records=bytes(4_000)))
    talk.forwarded(), talk.heard_bytes()

    talk.asks(FETCH, 12, fetch(*topics))

    assert talk.forwarded() == []
    empty = talk.heard(FETCH, 12)
    assert (empty.error_code, empty.responses) == (0, [])
    # As at a broker: until a response like the last one would fit.
    assert empty.throttle_time_ms == talk.mutes[0] == pytest.approx(2_200, abs=100)


@pytest.mark.spec("Q14", "Q7")
@pytest.mark.parametrize("version", [11, 12, 15, 17])
def test_a_fetch_asks_for_no_more_than_there_is_room_for(version: int) -> None:
    talk = limited(consumer_byte_rate=LIMIT)
    topic = b"\0" * 15 + b"\x01"
    talk.gate.topic_names.learn(topic, "orders")
    names = (topic,) if version >= 13 else ("orders",)
    for _ in range(2):
        talk.asks(FETCH, version, fetch(*names, min_bytes=1 << 20))
        talk.answers(FETCH, min(version, 15), fetched(*names, records=bytes(3_000)))
    room = WINDOW_BYTES - 2 * 3_000

    _, second = talk.forwarded()

    assert second.message.max_bytes == second.message.min_bytes
    assert room < second.message.max_bytes < room + 3_000


@pytest.mark.spec("Q14", "Q7")
def test_nor_does_a_fetch_of_which_a_part_is_denied_and_its_room_is_free_when_the_response_is_here() -> None:
    talk = limited(consumer_byte_rate=LIMIT)
    for _ in range(2):
        talk.asks(FETCH, 12, fetch("orders", "secrets", min_bytes=1 << 20))
        talk.answers(FETCH, 12, fetched("orders", records=bytes(3_000)))
    room = WINDOW_BYTES - 2 * 3_000

    _, second = talk.forwarded()

    assert [topic.topic for topic in second.message.topics] == ["orders"]
    assert room < second.message.max_bytes < room + 3_000
    assert room_bytes(talk, "consumer") == pytest.approx(room, abs=500)


@pytest.mark.spec("Q14", "Q7")
@pytest.mark.parametrize("topics", [("orders",), ("orders", "secrets")])
def test_two_connections_do_not_ask_for_the_same_room(topics: tuple[str, ...]) -> None:
    talk = limited(consumer_byte_rate=LIMIT)
    other = Conversation(gate=talk.gate)
    talk.asks(FETCH, 12, fetch(*topics))
    other.asks(FETCH, 12, fetch(*topics))

    assert len(talk.forwarded()) == 1
    assert other.forwarded() == []
    assert other.heard(FETCH, 12).throttle_time_ms == other.mutes[0] == RESERVED_MS

    # A response that has not come by then waits for records.
    other.passes(2 * RESERVED_MS)
    other.is_unmuted()
    other.asks(FETCH, 12, fetch("orders"))
    assert len(other.forwarded()) == 1


@pytest.mark.spec("Q14", "Q7")
def test_while_nobody_knows_how_large_a_batch_is_a_little_room_is_not_enough() -> None:
    talk = limited(consumer_byte_rate=LIMIT)
    others = [Conversation(gate=talk.gate) for _ in range(20)]
    for number, each in enumerate(others):
        each.passes(number)  # So that a few bytes have room in each millisecond.
        each.asks(FETCH, 12, fetch("orders"))

    assert len([each for each in others if each.forwarded()]) == 1


@pytest.mark.spec("Q14", "Q7")
def test_the_changes_of_fetches_that_were_not_sent_are_in_the_next_one() -> None:
    talk = limited(consumer_byte_rate=LIMIT)
    talk.asks(FETCH, 12, fetch("orders", "payments", session_epoch=0))
    talk.answers(FETCH, 12, fetched("orders", records=bytes(6_000), session_id=77))
    talk.forwarded(), talk.heard_bytes()
    first = fetch("orders", "payments", session_id=77, session_epoch=1)
    first.topics[0].partitions[0].fetch_offset = 6
    second = fetch("orders", session_id=77, session_epoch=2)
    second.topics[0].partitions[0].fetch_offset = 7
    second.forgotten_topics_data = [t.FetchRequest.ForgottenTopic(topic="payments", partitions=[0])]

    for request in (first, second):
        talk.asks(FETCH, 12, request)
        assert talk.forwarded() == []
        assert talk.heard(FETCH, 12).session_id == 77
        talk.is_unmuted()
    talk.passes(12_000)
    for epoch in (3, 4):
        talk.asks(FETCH, 12, fetch(session_id=77, session_epoch=epoch))
        talk.answers(FETCH, 12, fetched("orders", records=b"few", session_id=77))

    third, fourth = (request.message for request in talk.forwarded())
    assert [(topic.topic, [p.fetch_offset for p in topic.partitions]) for topic in third.topics] == [
        ("orders", [7])
    ]
    assert [(topic.topic, list(topic.partitions)) for topic in third.forgotten_topics_data] == [
        ("payments", [0])
    ]
    assert (third.session_epoch, fourth.session_epoch) == (1, 2)
    assert (fourth.topics, fourth.forgotten_topics_data) == ([], [])


@pytest.mark.spec("Q14")
def test_epochs_begin_again_at_one_also_where_the_broker_is_behind() -> None:
    talk = limited(consumer_byte_rate=LIMIT)
    talk.asks(FETCH, 12, fetch("orders", session_epoch=0))
    talk.answers(FETCH, 12, fetched("orders", records=bytes(6_000), session_id=77))
    last = 2**31 - 1
    talk.asks(FETCH, 12, fetch(session_id=77, session_epoch=last))
    talk.is_unmuted()
    talk.passes(12_000)
    talk.forwarded()

    talk.asks(FETCH, 12, fetch(session_id=77, session_epoch=1))

    assert [request.message.session_epoch for request in talk.forwarded()] == [last]


@pytest.mark.spec("Q14", "O6")
def test_a_fetch_with_very_many_changes_is_sent_and_asks_for_nothing() -> None:
    talk = limited(consumer_byte_rate=LIMIT)
    talk.asks(FETCH, 12, fetch("orders", session_epoch=0))
    talk.answers(FETCH, 12, fetched("orders", records=bytes(6_000), session_id=77))
    talk.forwarded()
    request = fetch("orders", session_id=77, session_epoch=1)
    partition = t.FetchRequest.FetchPartition
    request.topics[0].partitions = [partition(partition=n) for n in range(MAX_HELD + 1)]

    talk.asks(FETCH, 12, request)

    (sent,) = talk.forwarded()
    assert (sent.message.max_bytes, sent.message.session_epoch) == (0, 1)


@pytest.mark.spec("Q14", "O6")
@pytest.mark.parametrize(("count", "characters"), [(MAX_HELD - 1, 50), (3, 20_000)])
def test_topics_without_partitions_count_among_the_changes_that_are_held(count: int, characters: int) -> None:
    talk = limited(consumer_byte_rate=LIMIT)
    talk.asks(FETCH, 12, fetch("orders", session_epoch=0))
    talk.answers(FETCH, 12, fetched("orders", records=bytes(6_000), session_id=77))
    talk.forwarded()
    session = talk.session.machine.remembered.fetch_sessions.find(77, talk.gate.basis.rights)
    assert session is not None
    most = 0
    for number in range(6):
        request = fetch(session_id=77, session_epoch=1 + number)
        names = (f"{number}-{n}".ljust(characters, "x") for n in range(count))
        request.forgotten_topics_data = [t.FetchRequest.ForgottenTopic(topic=name) for name in names]
        talk.asks(FETCH, 12, request)
        most = max(most, sum(len(name) + 1 for name, _ in session.held))
        while talk.session.pipeline.queue:
            talk.answers(FETCH, 12, fetched("orders", records=bytes(6_000), session_id=77))
        while talk.session.machine.mutes:
            talk.is_unmuted()

    assert 0 < most <= MAX_HELD * 256


@pytest.mark.spec("O6", "Q14")
def test_no_more_requests_are_at_the_broker_than_keep_it_busy() -> None:
    talk = Conversation(*RIGHTS)
    count = 10 * MAX_IN_FLIGHT
    talk.sends(b"".join(talk.request(PRODUCE, 9, producing("orders")) for _ in range(count)))

    sent, most = [], 0
    while new := talk.forwarded():
        sent += [request.header.correlation_id for request in new]
        most = max(most, len(talk.session.pipeline))
        talk.answers(PRODUCE, 9, produced("orders"), talk.session.pipeline.queue[0].correlation_id)
        while talk.session.blocked and len(talk.session.pipeline):
            head = talk.session.pipeline.queue[0].correlation_id
            talk.answers(PRODUCE, 9, produced("orders"), head)
    while len(talk.session.pipeline):
        talk.answers(PRODUCE, 9, produced("orders"), talk.session.pipeline.queue[0].correlation_id)
    heard = talk.heard_all(*[(PRODUCE, 9)] * count)

    assert most == MAX_IN_FLIGHT
    assert sent == [correlation_id for correlation_id, _ in heard]
    assert len(sent) == count


JOINS = t.JoinGroupRequest(group_id="team", session_timeout_ms=1, protocol_type="consumer", protocols=[])
SYNCS = t.SyncGroupRequest(
    group_id="team", member_id="m", generation_id=1, protocol_type="consumer", protocol_name="range"
)
SHARES = t.ShareFetchRequest(group_id="team", member_id="m", share_session_epoch=0)
DELETES = t.DeleteRecordsRequest(
    topics=[
        t.DeleteRecordsRequest.DeleteRecordsTopic(
            name="orders",
            partitions=[t.DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=-1)],
        )
    ],
    timeout_ms=2**31 - 1,
)
OFFSETS = t.ListOffsetsRequest(
    topics=[
        t.ListOffsetsRequest.ListOffsetsTopic(
            name="orders",
            partitions=[t.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=1)],
        )
    ],
    timeout_ms=2**31 - 1,
)
HELD_AT_THE_BROKER: dict[str, tuple[int, int, Any, Any]] = {
    "fetch": (FETCH, 12, fetch("orders"), fetched("orders")),
    "fetch beside a denied topic": (FETCH, 12, fetch("orders", "secrets"), fetched("orders")),
    "fetch of a follower": (FETCH, 12, fetch("orders", replica_id=2), fetched("orders")),
    "share fetch": (ApiKey.SHARE_FETCH, 1, SHARES, t.ShareFetchResponse()),
    "join": (ApiKey.JOIN_GROUP, 7, JOINS, t.JoinGroupResponse(member_id="m", leader="m")),
    "sync": (ApiKey.SYNC_GROUP, 5, SYNCS, t.SyncGroupResponse(assignment=b"")),
    "list offsets": (ApiKey.LIST_OFFSETS, 10, OFFSETS, t.ListOffsetsResponse()),
    "delete records": (ApiKey.DELETE_RECORDS, 2, DELETES, t.DeleteRecordsResponse()),
}


@pytest.mark.spec("Q14", "A11", "R3", "S2")
@pytest.mark.parametrize("acks", [1, 0])
@pytest.mark.parametrize("held", HELD_AT_THE_BROKER.values(), ids=HELD_AT_THE_BROKER)
@pytest.mark.parametrize("is_known", [False, True])
def test_what_comes_behind_a_request_that_the_broker_may_hold_is_decided_when_its_turn_has_come(
    held: tuple[int, int, Any, Any], acks: int, is_known: bool
) -> None:
    """The client chooses how long it is held: days, by `max_wait_ms`, by a member that does not come, or by
    `timeout_ms` while a replica is behind or remote storage is slow."""
    rights = [*RIGHTS, "READ GROUP team", "CLUSTER_ACTION CLUSTER kafka-cluster", "DELETE TOPIC orders"]
    talk = Conversation(*rights)
    api_key, version, request, response = held
    if is_known:
        talk.asks(PRODUCE, 9, produce("orders"))
        talk.answers(PRODUCE, 9, produced("orders"))
        talk.asks(api_key, version, request)
        talk.answers(api_key, version, response)
    talk.forwarded_bytes(), talk.heard_bytes()

    first = talk.asks(api_key, version, request)
    talk.asks(PRODUCE, 9, produce("orders", acks=acks))
    assert [each.header.api_key for each in talk.forwarded()] == [api_key]
    talk.gate.image = image_with(*(right for right in rights if right != "WRITE TOPIC orders"))
    talk.passes(86_400_000)
    talk.answers(api_key, version, response, first)

    assert talk.forwarded_bytes() == b""
    assert [each.granted for each in talk.told("authorization")][-1] is False
