"""Requests that are not all there share one bound: who has no room waits, and loses nothing by it (O6)."""

from functools import partial
from struct import pack

import pytest

from proxy.security.delegation_tokens import TokenSecret
from proxy.session.authentication import Authentication
from proxy.session.gate import Gate
from proxy.session.in_flight import ENTRY_BYTES
from proxy.session.memory import FREE_BYTES, Account, RequestMemory, SessionMemory
from proxy.session.responses import MAX_HELD_BYTES
from proxy.session.state import State
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import image_with
from tests.session.conversation import Conversation, fetch, fetched, gate_with, produce, produced, sasl

pytestmark = pytest.mark.spec("O6")

METADATA = ApiKey.METADATA
VERSION = 12
LIMIT_BYTES = 60_000


def a_gate() -> Gate:
    gate = gate_with(image_with("DESCRIBE TOPIC orders"))
    gate.memory = RequestMemory(LIMIT_BYTES)
    return gate


def is_starved(talk: Conversation) -> bool:
    """There is no room for what its client is sending."""
    return bool(talk.session.state & State.AWAITING_MEMORY)


def large_request(talk: Conversation, size_bytes: int = 40_000) -> bytes:
    """Of a known size: a client id may be long."""
    names = [t.MetadataRequest.MetadataRequestTopic(name="orders")] * (size_bytes // 24)
    return talk.request(METADATA, VERSION, t.MetadataRequest(topics=names))


def test_a_request_without_room_waits_and_is_served_once_there_is() -> None:
    gate = a_gate()
    first, second = Conversation(gate=gate), Conversation(gate=gate)
    of_first, of_second = large_request(first), large_request(second)

    first.sends(of_first[:20_000])
    second.sends(of_second[:20_000])

    assert (gate.memory.used_bytes, gate.memory.waiting) == (len(of_first), 1)
    assert (first.session.blocked, is_starved(second)) == (False, True)
    first.sends(of_first[20_000:])
    assert len(first.forwarded()) == 1
    assert second.session.turn_due
    second.carry_out(second.session.take_turn(second.now_ms))
    assert (is_starved(second), gate.memory.used_bytes) == (False, len(of_second))
    second.sends(of_second[20_000:])

    assert len(second.forwarded()) == 1
    assert (gate.memory.used_bytes, gate.memory.waiting) == (0, 0)


def test_a_client_that_goes_leaves_its_room_to_others() -> None:
    gate = a_gate()
    first, second = Conversation(gate=gate), Conversation(gate=gate)
    first.sends(large_request(first)[:20_000])
    second.sends(large_request(second)[:20_000])

    second.session.closed()
    first.session.closed()

    assert (gate.memory.used_bytes, gate.memory.waiting) == (0, 0)


def test_small_requests_never_wait() -> None:
    gate = a_gate()
    full = Conversation(gate=gate)
    full.sends(large_request(full, 59_000)[:20_000])
    talk = Conversation(gate=gate)
    small = large_request(talk, FREE_BYTES // 2)

    talk.sends(small[:100])
    talk.sends(small[100:])

    assert len(talk.forwarded()) == 1
    assert gate.memory.waiting == 0


def test_strangers_have_a_share_of_their_own() -> None:
    gate = a_gate()
    gate.limits = type(gate.limits)(1 << 20, 1 << 18, 1 << 18)
    listener = sasl()
    strangers = [Conversation(gate=gate, sasl_listener=listener) for _ in range(2)]
    for stranger in strangers:
        stranger.shakes_hands()
        token = t.SaslAuthenticateRequest(auth_bytes=bytes(17_000))
        stranger.sends(stranger.request(ApiKey.SASL_AUTHENTICATE, 2, token)[:200])

    known = Conversation(gate=gate)
    known.sends(large_request(known, 50_000)[:20_000])

    assert [is_starved(stranger) for stranger in strangers] == [False, True]
    assert not is_starved(known)


def test_a_request_larger_than_the_bound_gets_in_alone() -> None:
    memory, large, small = RequestMemory(1_000), Account("alice", False), Account("bob", False)
    granted: list[str] = []

    assert memory.take(large, 5_000, lambda: granted.append("large"))
    assert not memory.take(small, 1, lambda: granted.append("small"))
    memory.complete(large)

    assert granted == ["small"]
    assert (memory.used_bytes, memory.waiting) == (1, 0)


def test_room_goes_to_whoever_has_waited_longest() -> None:
    memory, granted = RequestMemory(1_000), list[int]()
    holder = Account("holder", False)
    accounts = [Account(f"owner {number % 3}", False) for number in range(6)]
    assert memory.take(holder, 1_000, lambda: None)
    for number, account in enumerate(accounts):
        assert not memory.take(account, 300, partial(granted.append, number))
    memory.leave(accounts[1])

    memory.complete(holder)
    for number in (0, 2, 3, 4, 5):
        memory.complete(accounts[number])

    assert granted == [0, 2, 4, 3, 5]
    assert (memory.used_bytes, memory.waiting) == (0, 0)


def test_one_owner_leaves_half_of_the_memory_to_others() -> None:
    memory = RequestMemory(1_000)
    greedy = [Account("mallory", False) for _ in range(10)]

    taken = [memory.take(account, 100, lambda: None) for account in greedy]

    assert taken == [True] * 5 + [False] * 5
    assert memory.take(Account("alice", False), 400, lambda: None)


def test_unread_responses_stop_their_owner_and_keep_nobodys_request_waiting() -> None:
    memory, reader, other = RequestMemory(1_000), Account("mallory", False), Account("mallory", False)
    granted: list[str] = []
    memory.set_held(reader, 0, 700)

    assert not memory.may_respond(other, lambda: granted.append("other"))
    assert memory.may_respond(Account("alice", False), lambda: None)
    assert memory.take(Account("alice", False), 500, lambda: None)
    memory.set_held(reader, 0, 100)

    assert granted == ["other"]
    memory.leave(reader)
    assert (memory.used_bytes, memory.waiting) == (500, 0)


def test_input_that_waits_for_a_turn_never_stops_its_owner() -> None:
    memory = RequestMemory(1_000)
    accounts = [Account("alice", False) for _ in range(10)]
    for account in accounts:
        memory.set_held(account, 500, 0)

    assert memory.is_short(stranger=False)
    assert all(memory.may_respond(account, lambda: None) for account in accounts)
    assert memory.take(accounts[0], 400, lambda: None)


def metadata_response(talk: Conversation, topics: int) -> bytes:
    response = t.MetadataResponse
    names = [response.MetadataResponseTopic(name=f"topic-{number:05}") for number in range(topics)]
    return talk.response(METADATA, VERSION, response(topics=names))


def receives(talk: Conversation, data: bytes) -> None:
    """Bytes of the broker; its client reads what comes of them at once."""
    talk.broker_sends(data)
    talk.session.count_held(0)


@pytest.mark.spec("O8")
def test_a_response_of_the_broker_without_room_is_not_received_until_others_of_its_owner_were_read() -> None:
    gate = gate_with(image_with("DESCRIBE TOPIC *"))
    gate.memory = RequestMemory(LIMIT_BYTES)
    talks = [Conversation(gate=gate, principal=name) for name in ("alice", "alice", "carol")]
    responses = []
    for talk in talks:
        talk.asks(METADATA, VERSION, t.MetadataRequest(topics=None))
        responses.append(metadata_response(talk, 1_000))
    size_bytes = len(responses[0])
    assert size_bytes > LIMIT_BYTES / 2

    for talk, response in zip(talks, responses, strict=True):
        receives(talk, response[: FREE_BYTES + 1])

    assert [talk.session.response_waits for talk in talks] == [False, True, False]
    # The whole of a response that was begun is counted, so that it can always be completed.
    in_flight_bytes = 3 * ENTRY_BYTES
    held_bytes = 2 * size_bytes + FREE_BYTES + 1
    assert (gate.memory.used_bytes, gate.memory.waiting) == (held_bytes + in_flight_bytes, 1)
    first, second, other = talks
    receives(first, responses[0][FREE_BYTES + 1 :])
    assert (second.session.response_waits, second.session.turn_due) == (False, True)
    second.carry_out(second.session.take_turn(second.now_ms))
    second.session.count_held(0)
    # Once it has room, the whole of it is counted too, so that no more than fits is let in.
    assert gate.memory.used_bytes == 2 * size_bytes + 2 * ENTRY_BYTES
    for talk, response in ((second, responses[1]), (other, responses[2])):
        receives(talk, response[FREE_BYTES + 1 :])

    assert [len(talk.heard(METADATA, VERSION).topics) for talk in talks] == [1_000, 1_000, 0]
    assert (gate.memory.used_bytes, gate.memory.waiting) == (0, 0)


def test_a_response_that_is_too_large_to_be_held_ends_the_connection_before_it_comes() -> None:
    gate = a_gate()
    talk = Conversation(gate=gate)
    talk.sends(large_request(talk))

    talk.broker_sends(pack(">ii", MAX_HELD_BYTES, talk.correlation_id))

    assert (talk.close_reason, talk.heard_bytes()) == ("upstream_protocol", b"")
    talk.session.closed()
    assert gate.memory.used_bytes == 0


@pytest.mark.spec("O8")
def test_a_client_whose_response_waits_for_room_leaves_nothing_behind() -> None:
    gate = gate_with(image_with("DESCRIBE TOPIC *"))
    gate.memory = RequestMemory(LIMIT_BYTES)
    first, second = Conversation(gate=gate), Conversation(gate=gate)
    for talk in (first, second):
        talk.asks(METADATA, VERSION, t.MetadataRequest(topics=None))
    for talk in (first, second):
        receives(talk, metadata_response(talk, 1_000)[: FREE_BYTES + 1])
    assert second.session.response_waits

    second.session.closed()
    first.session.closed()

    assert (gate.memory.used_bytes, gate.memory.waiting) == (0, 0)


@pytest.mark.spec("O8")
def test_a_large_response_in_many_pieces_is_not_copied_for_each_of_them() -> None:
    talk = Conversation("DESCRIBE TOPIC orders")
    talk.asks(ApiKey.METADATA, 9, t.MetadataRequest(topics=None))
    topic = t.MetadataResponse.MetadataResponseTopic(name="orders")
    whole = talk.response(ApiKey.METADATA, 9, t.MetadataResponse(topics=[topic] * 1_000))
    pieces = [whole[start : start + 100] for start in range(0, len(whole), 100)]

    talk.broker_sends(pieces[0])
    held = talk.session.machine.responses._input
    for piece in pieces[1:-1]:
        talk.broker_sends(piece)
        assert talk.session.machine.responses._input is held
    talk.broker_sends(pieces[-1])

    assert len(talk.heard(ApiKey.METADATA, 9).topics) == 1_000


@pytest.mark.spec("O8")
def test_strangers_of_one_ipv6_network_are_one_owner() -> None:
    hosts = "2001:db8:0:0:0:0:0:1", "2001:db8:0:0:9:9:9:9", "2001:db8:0:1:0:0:0:1", "10.0.0.1"
    owners = [SessionMemory(RequestMemory(LIMIT_BYTES), Authentication(sasl()), host).owner for host in hosts]

    assert owners[0] == owners[1]
    assert len(set(owners)) == 3


def token_request(talk: Conversation, size_bytes: int) -> bytes:
    """No right is needed for it, and many of them wait for their turn at the controller."""
    request = t.CreateDelegationTokenRequest
    renewers = [request.CreatableRenewers(principal_type="User", principal_name="n" * 44)] * (
        size_bytes // 50
    )
    return talk.request(
        ApiKey.CREATE_DELEGATION_TOKEN, 3, request(renewers=renewers, max_lifetime_ms=-1), trailing=b""
    )


def with_tokens(limit_bytes: int) -> Gate:
    gate = gate_with(image_with("DESCRIBE TOPIC orders"))
    gate.token_secret, gate.memory = TokenSecret(b"k"), RequestMemory(limit_bytes)
    return gate


def talks_with(gate: Gate, *names: str) -> list[Conversation]:
    talks = [Conversation(gate=gate, principal=name) for name in names]
    for talk in talks:
        talk.listener.security_protocol = "SASL_SSL"
        talk.session.authentication.mechanism = "PLAIN"
    return talks


def sends_and_counts(talk: Conversation, data: bytes) -> None:
    talk.sends(data)
    talk.session.count_held(0)


@pytest.mark.spec("O6", "O8")
@pytest.mark.parametrize("leaves", [False, True])
def test_requests_that_wait_for_the_controller_are_counted_until_it_responds(leaves: bool) -> None:
    gate = with_tokens(1_000_000)
    first, second, other = talks = talks_with(gate, "alice", "alice", "carol")
    asked = token_request(first, 40_000)
    sends_and_counts(first, asked)
    assert len(first.controller) == 1
    assert gate.memory.used_bytes >= 10 * len(asked)

    if leaves:  # The controller has its request all the same.
        first.session.closed()
    for talk in (second, other):
        sends_and_counts(talk, token_request(talk, 1_000))

    # One owner has half of the memory; what others have is theirs.
    assert [len(talk.controller) for talk in talks] == [1, 0, 1]
    assert is_starved(second)
    response = t.CreateDelegationTokenResponse(error_code=ErrorCode.POLICY_VIOLATION)
    first.controller_answers(response)
    if not leaves:
        first.session.count_held(0)
    assert second.session.turn_due
    second.carry_out(second.session.take_turn(second.now_ms))
    assert len(second.controller) == 1
    for talk in (second, other):
        talk.controller_answers(response)
        talk.session.count_held(0)
    assert gate.memory.used_bytes == 0


@pytest.mark.spec("O6", "O8")
def test_a_held_fetch_with_denied_topics_is_counted_and_its_own_response_comes_all_the_same() -> None:
    gate = gate_with(image_with("READ TOPIC orders"))
    gate.memory = RequestMemory(300_000)
    first, second = talks_with(gate, "alice", "alice")
    names = ["orders", *(f"denied-{number:04}" for number in range(700))]
    sends_and_counts(first, first.request(ApiKey.FETCH, 12, fetch(*names, max_wait_ms=2**31 - 1)))
    assert len(first.forwarded()) == 1
    second.asks(METADATA, VERSION, t.MetadataRequest(topics=None))
    assert is_starved(second)

    receives(first, first.response(ApiKey.FETCH, 12, fetched("orders", records=bytes(60_000))))

    (response,) = (message for _, message in first.heard_all((ApiKey.FETCH, 12)))
    assert len(response.responses) == 701
    assert second.session.turn_due


def test_the_records_of_a_partly_denied_produce_are_not_held_until_its_response_and_its_errors_count() -> (
    None
):
    gate = gate_with(image_with("WRITE TOPIC orders"))
    talk = Conversation(gate=gate)
    data = bytearray(talk.request(ApiKey.PRODUCE, 9, produce("orders", "denied", records=bytes(400_000))))
    frame = memoryview(data)
    talk.carry_out(talk.session.receive(frame, talk.now_ms))
    talk.session.count_held(0)
    talk.effects.clear()

    assert len(talk.session.pipeline) == 1
    frame.release()
    data.clear()  # BufferError if anything has a view of the records.
    assert 0 < gate.memory.used_bytes <= 10_000_000

    talk.answers(ApiKey.PRODUCE, 9, produced("orders"))
    talk.session.count_held(0)
    (response,) = (message for _, message in talk.heard_all((ApiKey.PRODUCE, 9)))
    assert [topic.name for topic in response.responses] == ["orders", "denied"]
    assert gate.memory.used_bytes == 0
