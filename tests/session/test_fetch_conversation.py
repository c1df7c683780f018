"""Fetch: the head of an answer is looked at, the records stream; sessions hold as long as their ACLs do."""

import pytest

from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import KNOWN_TOPICS, image_with
from tests.session.conversation import (
    Conversation,
    Quotas,
    at,
    errors_of,
    fetch,
    fetched,
    gate_with,
    produce,
    produced,
)
from tests.support.images import image_of
from tests.support.metadata_log import owned, owner_record

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH
VERSIONS = list(codecs.request_versions(FETCH))
FIRST_WITH_SESSION, LAST_ASKED = 7, 15
READS = ("READ TOPIC orders", "READ TOPIC payments")
NOT_FOUND = ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def opened(talk: Conversation, *topics: str | bytes, session_id: int = 77) -> None:
    """A fetch session is opened for these topics, in version 12."""
    talk.asks(FETCH, 12, fetch(*topics, session_epoch=0))
    talk.answers(FETCH, 12, fetched(*topics, session_id=session_id))
    assert talk.heard(FETCH, 12).session_id == session_id
    talk.forwarded_bytes()


@pytest.mark.spec("A7")
@pytest.mark.parametrize("version", VERSIONS)
def test_an_allowed_fetch_goes_and_its_answer_comes_back(version: int) -> None:
    talk = Conversation(*READS)
    topics = at(version, "orders", "payments")
    message = fetch(*topics)

    talk.asks(FETCH, version, message)

    (request,) = talk.forwarded()
    asked = min(version, LAST_ASKED)
    assert (request.header.api_version, request.trailing) == (asked, b"")
    codec = codecs.request(FETCH, asked)
    assert request.message == codec.decode_exactly(codec.encode(message))
    talk.answers(FETCH, asked, fetched(*topics))
    # The answer reads in the version that the client asked in.
    assert errors_of(talk.heard(FETCH, version)) == [(topics[0], 0), (topics[1], 0)]


@pytest.mark.spec("A7")
@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_cut_at_every_byte_reaches_the_client_byte_for_byte(version: int) -> None:
    """It comes behind that to a Produce: behind a Fetch nothing is sent before its response has left."""
    topics = at(version, "orders")
    whole = Conversation(*READS)
    whole.asks(FETCH, version, fetch(*topics))
    length = len(whole.response(FETCH, min(version, LAST_ASKED), fetched(*topics)))

    for cut in range(1, 2 * length):
        talk = Conversation(*READS, "WRITE TOPIC orders")
        first = talk.asks(PRODUCE, 9, produce("orders"))
        second = talk.asks(FETCH, version, fetch(*topics))
        both = talk.response(PRODUCE, 9, produced("orders"), first) + talk.response(
            FETCH, min(version, LAST_ASKED), fetched(*topics), second
        )
        talk.broker_sends(both[:cut])
        talk.broker_sends(both[cut:])

        assert talk.heard_bytes() == both
        assert len(talk.session.pipeline) == 0


@pytest.mark.spec("Q7")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("cut", [4, 8, 12, 18, 19, 10_000])
def test_the_throttle_time_is_put_into_the_head_and_the_client_muted(version: int, cut: int) -> None:
    talk = Conversation(*READS, quotas=Quotas(consumer=1_000))
    topics = at(version, "orders")
    talk.asks(FETCH, version, fetch(*topics))
    answer = talk.response(FETCH, min(version, LAST_ASKED), fetched(*topics, records=bytes(30_000)))

    talk.broker_sends(answer[:cut])
    talk.broker_sends(answer[cut:])

    response = talk.heard(FETCH, version)
    assert response.throttle_time_ms > 15_000
    assert talk.mutes == [response.throttle_time_ms]
    assert bytes(response.responses[0].partitions[0].records) == bytes(30_000)


@pytest.mark.spec("Q7")
def test_the_larger_throttle_time_of_broker_and_proxy_is_told() -> None:
    talk = Conversation(*READS, quotas=Quotas(consumer=1_000))
    talk.asks(FETCH, 12, fetch("orders"))

    talk.answers(FETCH, 12, fetched("orders", records=bytes(30_000), throttle_time_ms=1_000_000))

    assert talk.heard(FETCH, 12).throttle_time_ms == 1_000_000


@pytest.mark.spec("Q7")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("topics", [("orders",), ("orders", "secrets")])
def test_no_more_is_asked_for_than_the_quota_lets_through_in_a_window(
    version: int, topics: tuple[str, ...]
) -> None:
    talk = Conversation(*READS, quotas=Quotas(consumer=1_000))

    talk.asks(FETCH, version, fetch(*at(version, *topics), min_bytes=50_000, max_bytes=1 << 20))

    (request,) = talk.forwarded()
    assert request.message.max_bytes == 10_000
    assert request.message.min_bytes <= 50_000


@pytest.mark.spec("A7")
@pytest.mark.parametrize("version", VERSIONS)
def test_denied_topics_are_put_back_in_the_order_of_the_request(version: int) -> None:
    talk = Conversation(*READS)
    orders, secrets, payments = at(version, "orders", "secrets", "payments")

    talk.asks(FETCH, version, fetch(orders, secrets, payments, session_epoch=0))

    (request,) = talk.forwarded()
    assert [topic.topic or bytes(topic.topic_id) for topic in request.message.topics] == [orders, payments]
    talk.answers(FETCH, min(version, LAST_ASKED), fetched(payments, orders))
    response = talk.heard(FETCH, version)
    assert errors_of(response) == [
        (orders, 0),
        (secrets, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (payments, 0),
    ]
    assert [e.resource_name for e in talk.told("authorization")] == ["secrets"]
    if version >= FIRST_WITH_SESSION:
        # No session: else the client would name the denied topic once and never hear of it again.
        assert (request.message.session_id, request.message.session_epoch) == (0, -1)


@pytest.mark.spec("O6")
def test_an_answer_that_has_to_be_held_is_not_asked_for_in_any_size() -> None:
    talk = Conversation(*READS)

    talk.asks(FETCH, 12, fetch("orders", "secrets", max_bytes=2**31 - 1))

    (request,) = talk.forwarded()
    assert request.message.max_bytes == talk.gate.limits.decoded_request_max_bytes


@pytest.mark.spec("A7")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_fetch_that_is_denied_whole_never_reaches_the_broker(version: int) -> None:
    talk = Conversation(*READS)
    (secrets,) = at(version, "secrets")

    talk.asks(FETCH, version, fetch(secrets))

    assert errors_of(talk.heard(FETCH, version)) == [(secrets, ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    assert talk.forwarded_bytes() == b""


@pytest.mark.spec("A7")
def test_an_id_that_the_broker_does_not_know_is_unknown() -> None:
    talk = Conversation(*READS)

    talk.asks(FETCH, 13, fetch(b"?" * 16))

    assert talk.heard_bytes() == b""
    talk.broker_names()
    assert errors_of(talk.heard(FETCH, 13)) == [(b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID)]


@pytest.mark.spec("A7")
@pytest.mark.parametrize("allowed", [False, True])
def test_a_follower_needs_cluster_action(allowed: bool) -> None:
    talk = Conversation(*READS, *(["CLUSTER_ACTION CLUSTER kafka-cluster"] if allowed else []))

    talk.asks(FETCH, 12, fetch("orders", replica_id=2))

    assert len(talk.forwarded()) == (1 if allowed else 0)


@pytest.mark.spec("A7")
def test_a_follower_needs_no_right_on_topics() -> None:
    talk = Conversation("CLUSTER_ACTION CLUSTER kafka-cluster")

    talk.asks(FETCH, 12, fetch("orders", "secrets", replica_id=2))

    (forwarded,) = talk.forwarded()
    assert [topic.topic for topic in forwarded.message.topics] == ["orders", "secrets"]


@pytest.mark.spec("A7")
def test_a_denied_follower_does_not_learn_which_ids_are_known() -> None:
    talk = Conversation(*READS)

    talk.asks(FETCH, 14, fetch(KNOWN_TOPICS["orders"], b"?" * 16, replica_id=2))

    answer = talk.heard(FETCH, 14)
    codes = [partition.error_code for topic in answer.responses for partition in topic.partitions]
    assert codes == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2


@pytest.mark.spec("A7")
def test_an_incremental_fetch_goes_on_in_the_session_that_was_opened_here() -> None:
    talk = Conversation(*READS)
    opened(talk, "orders")

    talk.asks(FETCH, 12, fetch(session_id=77, session_epoch=1))
    talk.answers(FETCH, 12, fetched())
    talk.asks(FETCH, 12, fetch("payments", session_id=77, session_epoch=2))

    assert [r.message.session_epoch for r in talk.forwarded()] == [1, 2]


@pytest.mark.spec("A7")
@pytest.mark.parametrize(
    ("session_id", "topics"),
    [pytest.param(78, [], id="another connection's"), pytest.param(77, ["secrets"], id="a denied topic")],
)
def test_a_session_is_neither_taken_over_nor_widened(session_id: int, topics: list[str]) -> None:
    talk = Conversation(*READS)
    opened(talk, "orders")

    talk.asks(FETCH, 12, fetch(*topics, session_id=session_id, session_epoch=1))

    assert talk.heard(FETCH, 12).error_code == NOT_FOUND
    assert talk.forwarded_bytes() == b""


@pytest.mark.spec("A7", "S2")
def test_a_session_ends_with_the_acls_it_was_opened_under() -> None:
    talk = Conversation(*READS)
    opened(talk, "orders")
    talk.gate.image = image_with("READ TOPIC payments")

    talk.asks(FETCH, 12, fetch(session_id=77, session_epoch=1))
    assert talk.heard(FETCH, 12).error_code == NOT_FOUND

    # What the client does then: all its topics at once, of which one is denied now.
    talk.asks(FETCH, 12, fetch("orders", session_epoch=0))
    assert errors_of(talk.heard(FETCH, 12)) == [("orders", ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    assert talk.forwarded_bytes() == b""


@pytest.mark.spec("A7", "S2")
def test_a_session_of_an_owner_ends_when_another_one_owns_the_topic() -> None:
    """The ACLs are the same, and so is the right to the first topic of the session."""
    owned_by_alice = image_of(*owned("payments", "User:alice"), base=image_with("READ TOPIC orders"))
    talk = Conversation(gate=gate_with(owned_by_alice))
    opened(talk, "orders", "payments")
    talk.gate.image = image_of(owner_record("payments", "User:carol"), base=owned_by_alice)

    talk.asks(FETCH, 12, fetch(session_id=77, session_epoch=1))

    assert talk.heard(FETCH, 12).error_code == NOT_FOUND
    assert talk.forwarded_bytes() == b""


@pytest.mark.spec("A7", "S2")
def test_a_session_survives_a_change_that_is_not_of_acls() -> None:
    talk = Conversation(*READS)
    opened(talk, "orders")
    image = talk.gate.image
    assert image is not None
    talk.gate.image = type(image)(image.offset + 1, image.acls, image.quotas, image.scram)

    talk.asks(FETCH, 12, fetch(session_id=77, session_epoch=1))

    assert len(talk.forwarded()) == 1


@pytest.mark.spec("A7")
def test_bytes_behind_a_fetch_are_cut_and_never_sent_on() -> None:
    talk = Conversation(*READS)

    talk.sends(talk.request(FETCH, 16, fetch(KNOWN_TOPICS["orders"]), trailing=b"smuggled"))

    (request,) = talk.forwarded()
    assert (request.header.api_version, request.trailing) == (15, b"")
    talk.answers(FETCH, 15, fetched(KNOWN_TOPICS["orders"]))
    assert errors_of(talk.heard(FETCH, 16)) == [(KNOWN_TOPICS["orders"], 0)]


@pytest.mark.spec("D1")
def test_fetched_bytes_are_summed_up_though_the_answer_comes_an_interval_later() -> None:
    talk = Conversation(*READS)
    talk.asks(FETCH, 12, fetch("orders"))
    (asked,) = talk.summaries()
    assert (asked.count, asked.response_bytes, asked.resource_name) == (1, 0, "orders")

    answer = talk.response(FETCH, 12, fetched("orders", records=bytes(5_000)))
    talk.broker_sends(answer)

    (answered,) = talk.summaries()
    assert (answered.count, answered.response_bytes) == (0, len(answer))
    assert talk.summaries() == []


@pytest.mark.spec("D1")
def test_fetched_bytes_are_summed_up_though_the_image_has_changed_before_the_answer() -> None:
    talk = Conversation(*READS)
    first = talk.asks(FETCH, 12, fetch("orders"))
    before = talk.gate.image
    assert before is not None
    talk.gate.image = type(before)(before.offset + 1, before.acls, before.quotas, before.scram)
    second = talk.asks(FETCH, 12, fetch("orders"))
    first_answer, second_answer = (
        talk.response(FETCH, 12, fetched("orders", records=bytes(size)), number)
        for number, size in ((first, 5_000), (second, 7_000))
    )

    # The next request is decided on the new image. What was counted on the old one leaves before or after.
    talk.broker_sends(first_answer)
    found = [each for each in talk.events if each.event == "authorization_summary"] + talk.summaries()
    of_old = [each for each in found if each.metadata_offset == before.offset]
    assert sum(each.count or 0 for each in of_old) == 1
    assert sum(each.response_bytes or 0 for each in of_old) == len(first_answer)

    talk.broker_sends(second_answer)
    of_new = [each for each in [*found, *talk.summaries()] if each not in of_old]
    assert {each.metadata_offset for each in of_new} == {before.offset + 1}
    assert sum(each.count or 0 for each in of_new) == 1
    assert sum(each.response_bytes or 0 for each in of_new) == len(second_answer)


@pytest.mark.spec("A7")
@pytest.mark.parametrize("length", [4, 7, 14])
def test_an_answer_too_short_to_be_one_ends_the_connection(length: int) -> None:
    talk = Conversation(*READS, "WRITE TOPIC orders", quotas=Quotas(consumer=1_000))
    talk.asks(FETCH, 12, fetch("orders"))

    talk.broker_sends(length.to_bytes(4, "big") + talk.correlation_id.to_bytes(4, "big") + bytes(length - 4))

    assert talk.close_reason == "upstream_protocol"


@pytest.mark.spec("A7")
def test_an_answer_that_nobody_asked_for_ends_the_connection_after_the_good_ones() -> None:
    talk = Conversation(*READS)
    first = talk.asks(FETCH, 12, fetch("orders"))
    good = talk.response(FETCH, 12, fetched("orders"), first)

    talk.broker_sends(good + talk.response(FETCH, 12, fetched("orders"), 4_711))

    assert talk.heard_bytes() == good
    assert talk.close_reason == "upstream_protocol"


@pytest.mark.spec("A7")
def test_beside_a_denied_topic_all_parts_of_an_allowed_one_reach_the_client() -> None:
    """A broker returns a topic in two parts if one of its partitions does not exist."""
    talk = Conversation("READ TOPIC orders", "READ TOPIC payments")
    message = fetch("orders", "secrets", "payments", "secrets")
    message.topics[0].partitions.append(t.FetchRequest.FetchPartition(partition=9))
    message.topics[3].partitions[0].partition = 5
    answer = fetched("orders", "payments", "orders")
    answer.responses[0].partitions[0].partition_index = 9

    talk.asks(FETCH, 12, message)
    talk.answers(FETCH, 12, answer)

    found = [
        (topic.topic, [part.partition_index for part in topic.partitions])
        for topic in talk.heard(FETCH, 12).responses
    ]
    assert found == [("orders", [9, 0]), ("secrets", [0, 5]), ("payments", [0])]
