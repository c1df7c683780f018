"""Work that does not fit into a slice of the event loop's time is continued in turns (O8).

Every conversation in this folder shows that short slices change nothing else: see conftest. Here is when a
session stops, what it holds meanwhile, and what ends it.
"""

import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from proxy.metadata.image import TokensImage
from proxy.metadata.sharded_map import ShardedMap
from proxy.security.delegation_tokens import TokenSecret
from proxy.security.sasl.client import PlainClient
from proxy.session.accounting.summaries import MAX_SUMMARIES
from proxy.session.effects import Close, Effect, Recorded, ToBroker, ToClient
from proxy.session.memory import Limits
from proxy.session.requests.upstream_login import UpstreamLogin
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.work import Pace, Work
from tests.session.apis.asking import image_with
from tests.session.conversation import Conversation, fetch, frames_of, gate_with, produce, sasl
from tests.support.images import image_of, scram_record
from tests.support.instructions import Instructions
from tests.support.metadata_log import token

pytestmark = pytest.mark.spec("O8")

DESCRIBE_GROUPS, METADATA = ApiKey.DESCRIBE_GROUPS, ApiKey.METADATA


@pytest.fixture(autouse=True)
def _test_plays_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Conversation, "takes_turns", False)


def paced(*rights: str, slice_looks: int = 20, **changes: Any) -> Conversation:
    """A conversation whose clock moves by one at each look, and whose slices are over after so many."""
    gate = gate_with(image_with(*rights))
    gate.pace = Pace(count().__next__, slice_looks)
    gate.limits = Limits(1 << 20, 1 << 20, 1 << 12)
    return Conversation(gate=gate, **changes)


def groups(number: int) -> Any:
    return t.DescribeGroupsRequest(groups=[f"group-{each}" for each in range(number)])


def turns(talk: Conversation) -> list[list[Effect]]:
    """The effects of each turn until there is no work left."""
    taken: list[list[Effect]] = []
    while talk.session.turn_due:
        effects = talk.session.take_turn(talk.now_ms)
        talk.carry_out(effects)
        taken.append(effects)
    return taken


def test_many_small_requests_of_one_read_are_handled_in_several_turns_and_in_order() -> None:
    talk = paced()
    requests = b"".join(talk.request(DESCRIBE_GROUPS, 5, groups(1)) for _ in range(100))

    talk.sends(requests)
    in_first_slice = len(frames_of(bytes(talk.to_client)))
    taken = turns(talk)

    assert 0 < in_first_slice <= 20
    assert max(sum(type(effect) is ToClient for effect in effects) for effects in taken) <= 20
    heard = talk.heard_all(*[(DESCRIBE_GROUPS, 5)] * 100)
    assert [correlation_id for correlation_id, _ in heard] == list(range(1, 101))


def test_one_large_request_is_decided_and_answered_in_several_turns() -> None:
    talk, at_once = paced(), paced(slice_looks=1 << 30)
    at_once.asks(DESCRIBE_GROUPS, 5, groups(20_000))

    talk.asks(DESCRIBE_GROUPS, 5, groups(20_000))
    unfinished = (talk.session.working, talk.session.blocked, bytes(talk.to_client))
    taken = turns(talk)

    assert unfinished == (True, True, b"")
    assert len(taken) > 50
    assert talk.heard_bytes() == at_once.heard_bytes()


def test_nothing_is_taken_from_a_client_or_the_broker_while_a_request_is_unfinished() -> None:
    talk = paced("READ GROUP *", "DESCRIBE TOPIC orders")
    talk.asks(METADATA, 12, t.MetadataRequest(topics=[t.MetadataRequest.MetadataRequestTopic(name="orders")]))
    turns(talk)
    assert len(talk.forwarded()) == 1
    reply = talk.response(METADATA, 12, t.MetadataResponse(), correlation_id=1)

    talk.asks(DESCRIBE_GROUPS, 5, groups(20_000))
    talk.broker_sends(reply)
    talk.asks(DESCRIBE_GROUPS, 5, groups(1))

    assert (bytes(talk.to_client), bytes(talk.to_broker)) == (b"", b"")
    turns(talk)
    assert [request.header.correlation_id for request in talk.forwarded()] == [2, 3]
    assert len(frames_of(talk.heard_bytes())) == 1


def test_a_large_response_of_the_broker_is_rewritten_in_several_turns() -> None:
    topics = [f"topic-{number}" for number in range(5_000)]
    talk, at_once = paced("DESCRIBE TOPIC *"), Conversation("DESCRIBE TOPIC *")
    response = t.MetadataResponse(topics=[t.MetadataResponse.MetadataResponseTopic(name=n) for n in topics])
    for each in (talk, at_once):
        each.asks(METADATA, 12, t.MetadataRequest(topics=None))
        turns(each)
        each.answers(METADATA, 12, response)

    assert talk.session.working
    taken = turns(talk)

    assert len(taken) > 10
    assert talk.heard_bytes() == at_once.heard_bytes()


_DESCRIPTIONS: dict[ApiKey, tuple[int, Any]] = {
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (3, t.DescribeDelegationTokenRequest(owners=None)),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, t.DescribeUserScramCredentialsRequest(users=None)),
}


@pytest.mark.parametrize("api_key", _DESCRIPTIONS)
def test_what_is_made_from_the_whole_image_is_made_in_short_turns(api_key: ApiKey) -> None:
    """Time is counted in instructions, so that a pass without a pause is seen, whatever the machine does."""
    _longest_turn(100, api_key)  # What is made at its first use.

    assert _longest_turn(3_000, api_key) < 20_000


def _longest_turn(count: int, api_key: ApiKey) -> int:
    """In instructions, of the description of so many credentials or tokens."""
    tokens = {f"{n}": token(f"{n}", owner=f"User:{n}", requester=f"User:{n}") for n in range(count)}
    image = image_of(
        *(scram_record(f"{n}") for n in range(count)),
        base=replace(image_with("DESCRIBE CLUSTER kafka-cluster"), tokens=TokensImage(ShardedMap(tokens))),
    )
    talk = Conversation(gate=gate_with(image))
    talk.listener.security_protocol = "SSL"
    talk.gate.token_secret = TokenSecret(b"secret")
    request = memoryview(bytearray(talk.request(api_key, *_DESCRIPTIONS[api_key])))
    return _longest(talk, lambda: talk.session.receive(request, talk.now_ms))


def _longest(talk: Conversation, begin: Callable[[], list[Effect]]) -> int:
    """Return the instructions of the longest turn until the client has its response."""
    with Instructions() as executed:
        talk.gate.pace = Pace(lambda: executed.count, 1_000)
        talk.carry_out(begin())
        longest = executed.count
        while talk.session.turn_due:
            since = executed.count
            talk.carry_out(talk.session.take_turn(talk.now_ms))
            longest = max(longest, executed.count - since)
    assert len(frames_of(talk.heard_bytes())) == 1
    return longest


def test_all_topics_that_a_broker_lists_are_filtered_in_short_turns() -> None:
    def longest(count: int) -> int:
        talk = Conversation("DESCRIBE TOPIC *")
        talk.asks(METADATA, 12, t.MetadataRequest(topics=None))
        turns(talk)
        topics = [
            t.MetadataResponse.MetadataResponseTopic(name=f"{n}", topic_id=n.to_bytes(16, "big"))
            for n in range(count)
        ]
        data = memoryview(bytearray(talk.response(METADATA, 12, t.MetadataResponse(topics=topics))))
        return _longest(talk, lambda: talk.session.broker_responded(data, talk.now_ms))

    longest(100)  # What is made at its first use.
    assert longest(3_000) < 40_000


def test_work_waits_for_a_turn_where_others_wait_already() -> None:
    talk = paced("WRITE TOPIC orders")
    talk.gate.pace.crowded = True

    talk.asks(DESCRIBE_GROUPS, 5, groups(1))

    assert (talk.session.turn_due, bytes(talk.to_client)) == (True, b"")
    turns(talk)
    assert len(frames_of(talk.heard_bytes())) == 1


@pytest.mark.parametrize("api_key", [METADATA, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.CREATE_TOPICS])
def test_elements_of_nested_arrays_count(api_key: ApiKey) -> None:
    topics = 40
    requests: dict[ApiKey, tuple[int, Any]] = {
        METADATA: (12, t.MetadataRequest(topics=[_named(n) for n in range(1_001)])),
        ApiKey.ADD_PARTITIONS_TO_TXN: (3, _partitions(topics, 1_000 // topics)),
        ApiKey.CREATE_TOPICS: (7, _assignments(topics, 1_000 // topics)),
    }
    talk = paced()
    talk.gate.limits = Limits(1 << 20, 1 << 20, 1 << 12, decoded_request_max_elements=1_000)

    talk.asks(api_key, *requests[api_key])
    turns(talk)

    assert len(frames_of(talk.heard_bytes())) == 1
    assert "decoded.request.max.elements" in (talk.told("request_refused")[0].message or "")


def _named(number: int) -> Any:
    return t.MetadataRequest.MetadataRequestTopic(name=f"topic-{number}")


def _partitions(topics: int, partitions: int) -> Any:
    topic = t.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    return t.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_topics=[topic(name=f"{n}", partitions=list(range(partitions))) for n in range(topics)],
    )


def _assignments(topics: int, partitions: int) -> Any:
    request = t.CreateTopicsRequest
    assignments = [request.CreatableReplicaAssignment(partition_index=n) for n in range(partitions)]
    return request(
        topics=[request.CreatableTopic(name=f"{n}", assignments=assignments) for n in range(topics)]
    )


def test_a_client_that_goes_leaves_nothing_of_an_unfinished_request() -> None:
    talk = paced()
    talk.asks(DESCRIBE_GROUPS, 5, groups(20_000))
    assert talk.session.working

    talk.session.closed()

    assert (talk.session.working, talk.session.turn_due) == (False, False)
    assert talk.session.take_turn(talk.now_ms) == []


def test_a_slice_ends_when_its_own_responses_are_large() -> None:
    talk = paced(slice_looks=1 << 30)
    requests = b"".join(talk.request(DESCRIBE_GROUPS, 5, groups(2_000)) for _ in range(20))

    talk.sends(requests)

    assert talk.session.turn_due
    assert len(talk.to_client) < 512 * 1024
    turns(talk)
    assert len(frames_of(talk.heard_bytes())) == 20


def test_a_stranger_gets_a_few_kilobytes_of_responses_in_a_slice() -> None:
    talk = paced(slice_looks=1 << 30, sasl_listener=sasl())
    ask = t.ApiVersionsRequest(client_software_name="a", client_software_version="1")
    versions = talk.request(ApiKey.API_VERSIONS, 3, ask)

    talk.sends(versions * 200)

    assert len(talk.to_client) < 16 * 1024


def test_what_a_session_holds_is_counted_until_it_goes() -> None:
    talk = paced("WRITE TOPIC orders")
    requests = b"".join(talk.request(DESCRIBE_GROUPS, 5, groups(1_000)) for _ in range(4))
    talk.sends(requests)

    talk.session.count_held(unsent_bytes=100_000)
    held = talk.gate.memory.used_bytes
    talk.session.closed()

    assert held > 100_000
    assert talk.gate.memory.used_bytes == 0


def test_traffic_of_very_many_topics_is_summarised_in_several_turns() -> None:
    talk = paced("READ TOPIC *", slice_looks=100)
    talk.asks(ApiKey.FETCH, 11, fetch(*(f"topic-{n}" for n in range(3_000)), max_bytes=1))
    turns(talk)

    first = talk.session.sweep(talk.now_ms)
    later = turns(talk)

    recorded = [effect for effects in (first, *later) for effect in effects if type(effect) is Recorded]
    assert (first, len(later) > 2, len(recorded)) == ([], True, MAX_SUMMARIES + 1)


def test_what_comes_during_a_sweep_is_handled_after_it() -> None:
    talk = paced("READ TOPIC *", "ALTER CLUSTER kafka-cluster", slice_looks=100)
    talk.asks(ApiKey.FETCH, 11, fetch(*(f"topic-{n}" for n in range(3_000)), max_bytes=1))
    turns(talk)
    talk.answers(ApiKey.FETCH, 11, t.FetchResponse())
    turns(talk)
    talk.heard_bytes()
    talk.asks(ApiKey.CREATE_ACLS, 3, t.CreateAclsRequest())
    turns(talk)

    assert talk.session.sweep(talk.now_ms) == []
    assert talk.session.working
    talk.controller_answers(t.CreateAclsResponse())
    before = bytes(talk.to_client)
    turns(talk)

    assert before == b""
    assert talk.heard(ApiKey.CREATE_ACLS, 3).results == []


def _streaming(talk: Conversation, change: Callable[[Conversation], None]) -> Iterator[Effect]:
    """All but the last byte of a produce request is let through; then something changes."""
    message = produce("orders", records=bytes(9_000))
    frame = talk.request(ApiKey.PRODUCE, 9, message)
    talk.asks(ApiKey.PRODUCE, 9, message)
    turns(talk)
    talk.forwarded_bytes()
    talk.sends(frame[:-1])
    turns(talk)
    assert talk.forwarded_bytes() == frame[:-1]
    change(talk)
    talk.sends(frame[-1:])
    turns(talk)
    yield from talk.effects


@pytest.mark.spec("S8", "A5")
def test_the_last_bytes_of_a_produce_do_not_pass_once_its_topic_is_denied() -> None:
    def revoke(talk: Conversation) -> None:
        talk.gate.image = image_with("READ TOPIC orders")

    talk = paced("WRITE TOPIC orders")
    effects = list(_streaming(talk, revoke))

    assert (talk.forwarded_bytes(), talk.close_reason) == (b"", "produce_denied")
    (denied,) = talk.told("authorization")
    assert (denied.granted, denied.operation, denied.resource_name) == (False, "WRITE", "orders")
    assert not [effect for effect in effects[-2:] if isinstance(effect, ToBroker)]


def test_the_last_bytes_of_a_produce_pass_where_its_topic_is_still_allowed() -> None:
    def other_change(talk: Conversation) -> None:
        talk.gate.image = image_with("WRITE TOPIC orders", "READ TOPIC orders")

    talk = paced("WRITE TOPIC orders")
    effects = list(_streaming(talk, other_change))

    assert (len(talk.forwarded_bytes()), talk.closed) == (1, None)
    assert not [effect for effect in effects if isinstance(effect, Close)]


@pytest.mark.spec("R3")
def test_the_last_bytes_of_a_produce_do_not_pass_once_its_session_has_expired() -> None:
    talk = paced("WRITE TOPIC orders", sasl_listener=sasl(60_000))
    talk.logs_in()
    list(_streaming(talk, lambda talk: talk.passes(60_001)))

    assert (talk.forwarded_bytes(), talk.close_reason) == (b"", "session_expired")


@pytest.mark.spec("S7")
def test_a_topic_id_is_not_taken_for_a_topic_whose_name_has_the_same_bytes() -> None:
    """8 of 100,000 random topic ids are UTF-8, and so the name of another topic could be one (KIP-516)."""
    topic_id = b"sixteen-bytes-id"
    talk = paced(f"WRITE TOPIC {topic_id.decode()}")
    talk.gate.topic_names.learn(topic_id, "secret")

    def request(version: int) -> Any:
        topic = topic_id if version >= 13 else topic_id.decode()
        return talk.request(ApiKey.PRODUCE, version, produce(topic))

    for _ in range(3):
        talk.sends(request(12))
        turns(talk)
    by_name = len(frames_of(talk.forwarded_bytes()))
    talk.sends(request(13))
    turns(talk)

    assert (by_name, talk.forwarded_bytes()) == (3, b"")
    assert [event.resource_name for event in talk.told("authorization")] == ["secret"]


@pytest.mark.spec("O8", "R10")
def test_the_proxys_own_login_waits_for_a_request_that_is_unfinished() -> None:
    talk = paced()
    talk.asks(DESCRIBE_GROUPS, 5, groups(20_000))
    assert talk.session.working

    talk.carry_out(talk.session.log_in_upstream(UpstreamLogin("PLAIN", PlainClient("penstock", "secret"), 2)))
    assert talk.to_broker == b""
    turns(talk)

    assert [request.header.api_key for request in talk.forwarded()] == [ApiKey.SASL_HANDSHAKE]


def test_what_unfinished_work_held_is_freed_when_its_client_disconnects() -> None:
    talk = paced()
    talk.asks(DESCRIBE_GROUPS, 5, groups(20_000))
    work = talk.session.machine.work
    assert work is not None
    held = weakref.ref(work)
    del work

    talk.session.closed()

    assert held() is None


def test_the_next_work_is_done_by_the_greenlet_of_the_last_one() -> None:
    talk = paced(slice_looks=1 << 30)
    talk.asks(DESCRIBE_GROUPS, 5, groups(1))
    first = talk.gate.pace.spare

    talk.asks(DESCRIBE_GROUPS, 5, groups(1))

    assert first is not None
    assert talk.gate.pace.spare is first


def test_work_inside_of_other_work_returns_to_it() -> None:
    pace = Pace()
    outer = Work.on(lambda: (Work.on(lambda: "inner", pace).go_on(), "outer"), pace)
    # Its greenlet returns to this one, and not to the outer work.
    assert Work.on(lambda: None, pace).go_on()
    assert pace.spare is not None

    assert outer.go_on()
    assert outer.result == (True, "outer")
