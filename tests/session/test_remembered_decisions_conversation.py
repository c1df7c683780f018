"""What sessions remember of their decisions has room in the process; without it they decide again."""

from typing import Any

import pytest

from proxy.session.gate import Gate, SharedRoom
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import image_with
from tests.session.conversation import Conversation, Quotas, fetch, fetched, gate_with, produce, produced

LIST_OFFSETS, FETCH, PRODUCE = ApiKey.LIST_OFFSETS, ApiKey.FETCH, ApiKey.PRODUCE
RIGHTS = ("READ TOPIC team-*", "WRITE TOPIC team-*")
LONG = "team-" + "x" * 30_000


def gate_of(limit: int, quotas: Quotas | None = None) -> Gate:
    gate = gate_with(image_with(*RIGHTS), quotas)
    gate.memory_of_decisions = SharedRoom(limit)
    return gate


def lists(talk: Conversation, count: int) -> None:
    """A request that names so many topics, none of which needs to exist."""
    request = t.ListOffsetsRequest
    names = [f"team-{number}" for number in range(count)]
    talk.asks(LIST_OFFSETS, 7, request(topics=[request.ListOffsetsTopic(name=name) for name in names]))
    talk.forwarded()
    talk.answers(LIST_OFFSETS, 7, t.ListOffsetsResponse())
    talk.heard(LIST_OFFSETS, 7)


def weight(talk: Conversation) -> int:
    machine = talk.session.machine
    return machine.client.weight + machine.remembered.weight


def counted(talk: Conversation, method: str) -> int:
    """The requests that the trail states, at their topics."""
    every = [*talk.events, *talk.summaries()]
    return sum(event.count or 0 for event in every if event.method == method)


@pytest.mark.spec("O6", "O8")
def test_the_decisions_of_all_connections_of_a_principal_have_a_bound_and_all_are_in_the_trail() -> None:
    gate = gate_of(limit=4_000)
    talks = [Conversation(gate=gate) for _ in range(10)]
    other = Conversation(gate=gate, principal="root")

    for talk in talks:
        lists(talk, 300)
    lists(other, 300)

    # Half of the room is alice's; with more her sessions decide again.
    assert sum(weight(talk) for talk in talks) <= 2_000
    assert [weight(talk) for talk in talks[4:]] == [0] * 6
    assert weight(other) > 600
    assert [counted(talk, "ListOffsets") for talk in (*talks, other)] == [300] * 11

    for talk in (*talks, other):
        talk.session.closed()
    assert gate.memory_of_decisions.taken == {}


@pytest.mark.spec("O6")
def test_one_large_request_leaves_nothing_if_there_is_no_room_for_it() -> None:
    gate = gate_of(limit=4_000)
    talk = Conversation(gate=gate)

    lists(talk, 1_400)

    assert (weight(talk), gate.memory_of_decisions.taken) == (0, {})
    assert counted(talk, "ListOffsets") == 1_400


@pytest.mark.spec("O6", "D1")
def test_what_is_in_flight_is_counted_on_although_its_decisions_are_forgotten() -> None:
    talk = Conversation(gate=gate_of(limit=100))
    talk.asks(FETCH, 12, fetch(*(f"team-{number}" for number in range(300))))
    assert weight(talk) <= 2

    talk.answers(FETCH, 12, fetched("team-1", records=bytes(5_000)))

    assert sum(event.response_bytes or 0 for event in talk.summaries()) > 5_000


@pytest.mark.spec("O6")
def test_topics_that_pass_without_being_decoded_take_room() -> None:
    gate = gate_of(limit=1_000)
    talk = Conversation(gate=gate)
    for number in range(600):
        talk.asks(PRODUCE, 9, produce(f"team-{number}"))
        talk.answers(PRODUCE, 9, produced(f"team-{number}"))
        talk.heard(PRODUCE, 9)
        assert weight(talk) <= 510

    assert counted(talk, "Produce") == 600


@pytest.mark.spec("O6")
def test_a_producer_never_has_the_parts_that_remember_the_sessions_of_consumers() -> None:
    gate = gate_of(limit=1_000)
    gate.share_room.take("another connection", "bob", 1)
    talk = Conversation(gate=gate)
    remembered = talk.session.machine.remembered
    talk.asks(PRODUCE, 9, produce("team-1"))
    talk.answers(PRODUCE, 9, produced("team-1"))
    talk.heard(PRODUCE, 9)
    lists(talk, 600)  # More than there is room for: its decisions are forgotten.
    talk.session.closed()

    with pytest.raises(AttributeError):
        object.__getattribute__(remembered, "fetch_sessions")
    with pytest.raises(AttributeError):
        object.__getattribute__(remembered, "share_sessions")


@pytest.mark.spec("O6", "D1")
def test_after_its_decisions_are_forgotten_a_client_is_decided_and_counted_as_before() -> None:
    talk = Conversation(gate=gate_of(limit=100))
    for _ in range(2):
        for _ in range(3):
            talk.asks(PRODUCE, 9, produce("team-1"))
            talk.answers(PRODUCE, 9, produced("team-1"))
            talk.heard(PRODUCE, 9)
        lists(talk, 300)

    assert counted(talk, "Produce") == 6


@pytest.mark.spec("O6", "A7")
def test_fetch_sessions_are_remembered_within_the_same_room() -> None:
    """A client that closes its sessions leaves the broker as many as it likes, with names that long."""
    gate = gate_of(limit=10_000)
    talk = Conversation(gate=gate)
    for number in range(100):
        talk.asks(FETCH, 12, fetch(f"{LONG}-{number}", session_epoch=0))
        talk.answers(FETCH, 12, fetched(f"{LONG}-{number}", session_id=number + 1))
        talk.heard(FETCH, 12)
        assert weight(talk) <= 5_000

    talk.asks(FETCH, 12, fetch(session_id=1, session_epoch=1))

    assert talk.heard(FETCH, 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.spec("O6")
def test_sessions_of_one_topic_share_its_name() -> None:
    talk = Conversation(gate=gate_of(limit=100_000))
    for session_id in (1, 2, 3):
        # As it passes without being decoded.
        talk.asks(FETCH, 11, fetch(LONG, session_epoch=0))
        talk.answers(FETCH, 11, fetched(LONG, session_id=session_id))
        talk.heard(FETCH, 11)

    sessions = [
        talk.session.machine.remembered.fetch_sessions.find(each, talk.gate.basis.rights)
        for each in (1, 2, 3)
    ]

    assert len({id(each.first_topic) for each in sessions if each is not None}) == 1


@pytest.mark.spec("O6", "Q14")
def test_changes_of_fetch_sessions_that_are_not_sent_take_room() -> None:
    gate = gate_of(limit=1_000, quotas=Quotas(consumer=1_000))
    talk = Conversation(gate=gate)
    talk.asks(FETCH, 12, fetch("team-1", session_epoch=0))
    talk.answers(FETCH, 12, fetched("team-1", records=bytes(60_000), session_id=7))
    talk.heard(FETCH, 12)
    talk.is_unmuted()

    request = fetch("team-1", session_id=7, session_epoch=1)
    part = request.topics[0].partitions[0]
    request.topics[0].partitions = [type(part)(partition=index) for index in range(600)]
    talk.asks(FETCH, 12, request)

    assert talk.heard(FETCH, 12).throttle_time_ms > 0
    assert weight(talk) == 0


@pytest.mark.spec("O6")
def test_a_login_that_ends_after_its_connection_takes_no_room() -> None:
    gate = gate_of(limit=100_000)
    talk = Conversation(gate=gate)
    lists(talk, 300)
    talk.session.closed()

    assert talk.session.machine.may_remember()

    assert gate.memory_of_decisions.taken == {}


@pytest.mark.spec("D1", "Q14")
@pytest.mark.parametrize("acks", [0, 1])
def test_bytes_that_come_after_a_change_of_acls_are_counted(acks: int) -> None:
    talk = Conversation(*RIGHTS)
    frame = talk.request(PRODUCE, 9, produce("team-1", acks=acks, records=bytes(50_000)))
    talk.sends(frame[:1_000])

    talk.gate.image = image_with(*RIGHTS, "READ GROUP team")
    talk.sends(frame[1_000:])

    every: list[Any] = [*talk.events, *talk.summaries()]
    assert sum(event.request_bytes or 0 for event in every) == len(frame)
    assert sum(event.count or 0 for event in every) == 1
    assert talk.forwarded_bytes() == frame
