"""ShareFetch and ShareAcknowledge: what the broker's share session holds, and what the client hears."""

from typing import Any

import pytest

from proxy.session.remembered import MAX_PARTITIONS, MAX_SESSIONS, ShareSession
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import MAX_HELD_BYTES, Asked, Asking

pytestmark = pytest.mark.spec("A7")

VERSIONS = codecs.request_versions(ApiKey.SHARE_FETCH)
DENIED, UNKNOWN_ID = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID
ORDERS, SECRETS, STRANGE = b"o" * 16, b"s" * 16, b"?" * 16
GROUP = "READ GROUP team"
MEMBER = "m"
REQUEST, RESPONSE = t.ShareFetchRequest, t.ShareFetchResponse


def asking(version: int, *rights: str) -> Asking:
    return Asking(ApiKey.SHARE_FETCH, version, GROUP, *rights)


def fetch(
    epoch: int,
    *topics: tuple[bytes, list[int]],
    forgotten: list[tuple[bytes, list[int]]] | None = None,
    acknowledged: bool = False,
    **fields: Any,
) -> Any:
    batches = [REQUEST.AcknowledgementBatch(first_offset=1, last_offset=1, acknowledge_types=[1])]
    return REQUEST(
        group_id="team",
        member_id=MEMBER,
        share_session_epoch=epoch,
        topics=[
            REQUEST.FetchTopic(
                topic_id=topic_id,
                partitions=[
                    REQUEST.FetchPartition(
                        partition_index=index, acknowledgement_batches=batches if acknowledged else []
                    )
                    for index in indexes
                ],
            )
            for topic_id, indexes in topics
        ],
        forgotten_topics_data=[
            REQUEST.ForgottenTopic(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in forgotten or ()
        ],
        **fields,
    )


def answer(*topics: tuple[bytes, list[int]], code: int = 0, records: bytes = b"r") -> Any:
    return RESPONSE(
        error_code=code,
        responses=[
            RESPONSE.ShareFetchableTopicResponse(
                topic_id=topic_id,
                partitions=[
                    RESPONSE.PartitionData(partition_index=index, records=records) for index in indexes
                ],
            )
            for topic_id, indexes in topics
        ],
        node_endpoints=[RESPONSE.NodeEndpoint(node_id=node, host="broker", port=9092) for node in (1, 3)],
    )


def added(asked: Asked) -> list[tuple[bytes, list[int]]]:
    return [
        (topic.topic_id, [part.partition_index for part in topic.partitions])
        for topic in asked.forwarded.topics
    ]


def forgotten(asked: Asked) -> list[tuple[bytes, list[int]]]:
    return [(topic.topic_id, topic.partitions) for topic in asked.forwarded.forgotten_topics_data]


def errors(response: Any) -> list[tuple[bytes, int, int, int]]:
    return [
        (topic.topic_id, part.partition_index, part.error_code, part.acknowledge_error_code)
        for topic in response.responses
        for part in topic.partitions
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_share_session_of_allowed_topics_is_opened_as_it_was_asked_for(version: int) -> None:
    asked = asking(version, "READ TOPIC orders").for_(fetch(0, (ORDERS, [0, 1])))

    assert (added(asked), forgotten(asked), asked.denials) == ([(ORDERS, [0, 1])], [], [])
    told = asked.told(answer((ORDERS, [1])))
    assert errors(told) == [(ORDERS, 1, 0, 0)]
    assert [part.records for topic in told.responses for part in topic.partitions] == [b"r"]


@pytest.mark.spec("O1")
@pytest.mark.parametrize("version", VERSIONS)
def test_leaders_are_told_by_the_addresses_of_their_proxies(version: int) -> None:
    told = asking(version, "READ TOPIC orders").for_(fetch(0, (ORDERS, [0]))).told(answer())

    assert [(node.node_id, node.host, node.port) for node in told.node_endpoints] == [(1, "proxy-one", 19092)]


@pytest.mark.parametrize("version", VERSIONS)
def test_denied_and_unknown_topics_are_kept_out_and_told_with_each_answer(version: int) -> None:
    alice = asking(version, "READ TOPIC orders")
    everything = ((SECRETS, [4]), (ORDERS, [0]), (STRANGE, [2]))

    first = alice.for_(fetch(0, *everything))
    later = alice.for_(fetch(1))

    assert {topic_id for topic_id, _ in added(first)} == {ORDERS}
    refused = [(SECRETS, 4, DENIED, 0), (STRANGE, 2, UNKNOWN_ID, 0)]
    assert errors(first.told(answer((ORDERS, [0])))) == [(ORDERS, 0, 0, 0), *refused]
    assert (added(later), forgotten(later)) == ([], [])
    assert errors(later.told(answer())) == refused
    assert later.denials == ["READ TOPIC secrets"]


def test_an_id_nobody_told_is_asked_for_before_it_is_fetched() -> None:
    asked = asking(2, "READ TOPIC new").where_it_can_ask().for_(fetch(0, (STRANGE, [2]), (ORDERS, [0])))

    assert asked.looked_up == [STRANGE]
    assert added(asked.once_named(new=STRANGE)) == [(STRANGE, [2])]


def test_an_id_without_a_name_is_looked_up_again() -> None:
    alice = asking(2, "READ TOPIC new").where_it_can_ask()
    first = alice.for_(fetch(0, (STRANGE, [2]))).once_not_named()

    later = alice.for_(fetch(1))

    assert errors(first.told(answer())) == [(STRANGE, 2, UNKNOWN_ID, 0)]
    assert later.looked_up == [STRANGE]
    assert added(later.once_named(new=STRANGE)) == [(STRANGE, [2])]


def test_with_every_topic_denied_the_broker_still_counts_the_request() -> None:
    asked = asking(2).for_(fetch(0, (SECRETS, [0])))

    assert added(asked) == []
    assert errors(asked.told(answer())) == [(SECRETS, 0, DENIED, 0)]


def test_a_topic_that_is_denied_later_is_forgotten_for_the_client() -> None:
    alice = asking(2, "READ TOPIC orders", "READ TOPIC secrets")
    alice.for_(fetch(0, (ORDERS, [0]), (SECRETS, [0, 3])))

    alice.given(GROUP, "READ TOPIC orders")
    asked = alice.for_(fetch(1))

    assert (added(asked), forgotten(asked)) == ([], [(SECRETS, [0, 3])])
    assert errors(asked.told(answer())) == [(SECRETS, 0, DENIED, 0), (SECRETS, 3, DENIED, 0)]
    assert forgotten(alice.for_(fetch(2))) == []


def test_a_topic_that_is_allowed_later_is_fetched_without_being_named_again() -> None:
    alice = asking(2, "READ TOPIC orders")
    alice.for_(fetch(0, (ORDERS, [0]), (SECRETS, [0, 3])))

    alice.given(GROUP, "READ TOPIC *")
    asked = alice.for_(fetch(1))

    assert added(asked) == [(SECRETS, [0, 3])]
    assert errors(asked.told(answer((SECRETS, [3])))) == [(SECRETS, 3, 0, 0)]
    assert added(alice.for_(fetch(2))) == []


def test_what_the_client_forgets_is_not_told_any_more() -> None:
    alice = asking(2)
    alice.for_(fetch(0, (SECRETS, [0, 3])))

    asked = alice.for_(fetch(1, forgotten=[(SECRETS, [3])]))

    assert errors(asked.told(answer())) == [(SECRETS, 0, DENIED, 0)]
    assert errors(alice.for_(fetch(2, forgotten=[(SECRETS, [0])])).told(answer())) == []


def test_records_of_a_topic_that_is_denied_now_are_not_told_even_if_the_broker_sends_them() -> None:
    alice = asking(2, "READ TOPIC *")
    alice.for_(fetch(0, (SECRETS, [0])))
    alice.given(GROUP)

    told = alice.for_(fetch(1)).told(answer((SECRETS, [0])))

    assert [(part.error_code, part.records) for topic in told.responses for part in topic.partitions] == [
        (DENIED, b"")
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_acknowledgements_for_a_denied_topic_do_not_reach_the_broker(version: int) -> None:
    alice = asking(version, "READ TOPIC *")
    alice.for_(fetch(0, (ORDERS, [0]), (SECRETS, [1])))
    alice.given(GROUP, "READ TOPIC orders")

    asked = alice.for_(fetch(1, (ORDERS, [0]), (SECRETS, [1]), acknowledged=True))

    assert added(asked) == [(ORDERS, [0])]
    assert errors(asked.told(answer())) == [(SECRETS, 1, DENIED, DENIED)]


def test_the_last_request_of_a_session_acknowledges_and_fetches_nothing() -> None:
    alice = asking(2, "READ TOPIC orders")
    alice.for_(fetch(0, (ORDERS, [0]), (SECRETS, [1])))

    last = alice.for_(fetch(-1, (ORDERS, [0]), (SECRETS, [1]), acknowledged=True))

    assert added(last) == [(ORDERS, [0])]
    assert errors(last.told(answer())) == [(SECRETS, 1, 0, DENIED)]
    assert alice.for_(fetch(1)).answer.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_renewing_locks_fetches_nothing() -> None:
    alice = asking(2, "READ TOPIC orders")
    alice.for_(fetch(0, (SECRETS, [1])))

    asked = alice.for_(fetch(1, (ORDERS, [0]), acknowledged=True, is_renew_ack=True, max_bytes=0))

    assert errors(asked.told(answer())) == []


def test_a_session_that_the_broker_refuses_is_begun_anew() -> None:
    alice = asking(2, "READ TOPIC orders")
    alice.for_(fetch(0, (ORDERS, [0]), (SECRETS, [1])))
    wrong = ErrorCode.INVALID_SHARE_SESSION_EPOCH

    told = alice.for_(fetch(7)).told(answer(code=wrong))

    assert (told.error_code, told.responses) == (wrong, [])
    assert alice.for_(fetch(1)).answer.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert added(alice.for_(fetch(0, (ORDERS, [0]))))


def test_a_session_nobody_opened_here_is_not_found() -> None:
    assert asking(1, "READ TOPIC *").for_(fetch(3)).answer.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


@pytest.mark.parametrize("version", VERSIONS)
def test_without_read_on_the_group_nothing_is_fetched(version: int) -> None:
    asked = Asking(ApiKey.SHARE_FETCH, version, "DESCRIBE GROUP team", "READ TOPIC *").for_(
        fetch(0, (ORDERS, [0]))
    )

    assert asked.answer == RESPONSE(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert asked.denials == ["READ GROUP team"]


@pytest.mark.spec("O6")
def test_the_broker_is_asked_for_no_more_than_may_be_held() -> None:
    alice = asking(2, "READ TOPIC *")

    large = alice.for_(fetch(0, (ORDERS, [0]), max_bytes=50 << 20, min_bytes=40 << 20)).forwarded
    small = alice.for_(fetch(1, max_bytes=100, min_bytes=1)).forwarded

    assert (large.max_bytes, large.min_bytes) == (MAX_HELD_BYTES, MAX_HELD_BYTES)
    assert (small.max_bytes, small.min_bytes) == (100, 1)


@pytest.mark.spec("O6")
def test_the_partitions_of_all_sessions_of_a_connection_count_together() -> None:
    alice = asking(2, "READ TOPIC *")
    asked = []
    for number in range(3):
        request = fetch(0, (ORDERS, list(range(MAX_PARTITIONS // 2))))
        request.member_id = f"member-{number}"
        asked.append(alice.for_(request))

    assert [len(each.forwarded.topics) for each in asked[:2]] == [1, 1]
    assert asked[2].answer.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


@pytest.mark.spec("O6")
def test_topics_without_partitions_are_not_remembered() -> None:
    alice = asking(2, "READ TOPIC *")
    alice.for_(fetch(0, *((bytes([number]) * 16, []) for number in range(1, 200))))

    assert alice.for_(fetch(1)).call.remembered.share_sessions.find("team", MEMBER) == ShareSession(
        is_open=True
    )


@pytest.mark.spec("O6")
def test_one_client_cannot_make_us_keep_any_number_of_partitions_and_sessions() -> None:
    alice = asking(2, "READ TOPIC *")
    too_many = alice.for_(fetch(0, (ORDERS, list(range(MAX_PARTITIONS + 1)))))
    assert too_many.answer.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED

    for number in range(MAX_SESSIONS + 1):
        request = fetch(0, (ORDERS, [0]))
        request.member_id = f"member-{number}"
        alice.for_(request)
    first, second = fetch(1), fetch(1)
    first.member_id, second.member_id = "member-0", "member-1"

    assert alice.for_(first).answer.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert alice.for_(second).forwarded.member_id == "member-1"


ACKNOWLEDGED = t.ShareAcknowledgeResponse


def acknowledge(*topics: tuple[bytes, list[int]]) -> Any:
    request = t.ShareAcknowledgeRequest
    return request(
        group_id="team",
        member_id=MEMBER,
        share_session_epoch=3,
        topics=[
            request.AcknowledgeTopic(
                topic_id=topic_id,
                partitions=[request.AcknowledgePartition(partition_index=index) for index in indexes],
            )
            for topic_id, indexes in topics
        ],
    )


def acknowledged(*topics: tuple[bytes, list[int]], code: int = 0) -> Any:
    return ACKNOWLEDGED(
        error_code=code,
        responses=[
            ACKNOWLEDGED.ShareAcknowledgeTopicResponse(
                topic_id=topic_id,
                partitions=[ACKNOWLEDGED.PartitionData(partition_index=index) for index in indexes],
            )
            for topic_id, indexes in topics
        ],
        node_endpoints=[ACKNOWLEDGED.NodeEndpoint(node_id=node, host="broker", port=9092) for node in (2, 9)],
    )


@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.SHARE_ACKNOWLEDGE))
def test_topics_that_may_not_be_read_may_not_be_acknowledged(version: int) -> None:
    asked = Asking(ApiKey.SHARE_ACKNOWLEDGE, version, GROUP, "READ TOPIC orders").for_(
        acknowledge((SECRETS, [1]), (ORDERS, [0, 2]), (STRANGE, [5]))
    )

    assert [topic.topic_id for topic in asked.forwarded.topics] == [ORDERS]
    told = asked.told(acknowledged((ORDERS, [0, 2])))
    assert [
        (topic.topic_id, part.partition_index, part.error_code)
        for topic in told.responses
        for part in topic.partitions
    ] == [(SECRETS, 1, DENIED), (ORDERS, 0, 0), (ORDERS, 2, 0), (STRANGE, 5, UNKNOWN_ID)]
    assert [(node.node_id, node.port) for node in told.node_endpoints] == [(2, 29092)]


@pytest.mark.parametrize("key", [ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE])
@pytest.mark.parametrize("topic_id", [SECRETS, STRANGE])
def test_an_error_partition_names_no_leader(key: ApiKey, topic_id: bytes) -> None:
    """franz-go looks for any leader that is not -1, whatever the error."""
    is_fetch = key == ApiKey.SHARE_FETCH
    request = fetch(0, (topic_id, [0])) if is_fetch else acknowledge((topic_id, [0]))

    told = Asking(key, 2, GROUP).for_(request).told(answer() if is_fetch else acknowledged())

    ((part,),) = (topic.partitions for topic in told.responses)
    assert part.error_code != ErrorCode.NONE
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (-1, -1)


def test_an_acknowledgement_of_which_nothing_is_left_still_counts_at_the_broker() -> None:
    asked = Asking(ApiKey.SHARE_ACKNOWLEDGE, 2, GROUP).for_(acknowledge((SECRETS, [1])))

    assert (asked.forwarded.share_session_epoch, asked.forwarded.topics) == (3, [])
    refused = ErrorCode.SHARE_SESSION_NOT_FOUND
    assert asked.told(acknowledged(code=refused)).responses == []
    denied = Asking(ApiKey.SHARE_ACKNOWLEDGE, 2, "READ TOPIC *").for_(acknowledge((ORDERS, [1])))
    assert denied.answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_a_session_that_begins_with_acknowledgements_is_invalid_even_of_denied_topics() -> None:
    asked = asking(1).for_(fetch(0, (SECRETS, [0]), acknowledged=True))

    assert asked.answer.error_code == ErrorCode.INVALID_REQUEST


def test_a_session_that_begins_forgets_nothing_and_tells_of_no_topic_without_partitions() -> None:
    asked = asking(1).for_(fetch(0, (SECRETS, [0]), (STRANGE, []), forgotten=[(SECRETS, [0])]))

    told = asked.told(answer())

    assert [(topic.topic_id, len(topic.partitions)) for topic in told.responses] == [(SECRETS, 1)]
