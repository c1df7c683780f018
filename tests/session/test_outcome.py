"""The error code of a record is what the client was told, not only what was decided."""

from typing import Any

import pytest

from proxy.audit.record import AuditEvent
from proxy.session.outcome import error_of, tell
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode

pytestmark = pytest.mark.spec("D1")


def created(*results: tuple[str, int]) -> Any:
    response = types.CreateTopicsResponse
    return response(
        topics=[response.CreatableTopicResult(name=name, error_code=code) for name, code in results]
    )


def deleted_acls(*codes: int) -> Any:
    response = types.DeleteAclsResponse
    matching = [response.DeleteAclsMatchingAcl(error_code=code) for code in codes]
    return response(filter_results=[response.DeleteAclsFilterResult(matching_acls=matching)])


@pytest.mark.parametrize(
    ("response", "error_code"),
    [
        (created(), 0),
        (created(("a", 0), ("b", 36), ("c", 29)), 36),
        (deleted_acls(0, 0), 0),
        (deleted_acls(0, 31), 31),
        (types.CreateDelegationTokenResponse(error_code=61), 61),
        (types.ElectLeadersResponse(error_code=31), 31),
    ],
)
def test_the_error_of_an_answer_is_that_at_its_top_or_its_first_part_that_has_one(
    response: Any, error_code: int
) -> None:
    assert error_of(response) == error_code


def events(*names: str) -> list[AuditEvent]:
    return [AuditEvent(event="authorization", resource_type="TOPIC", resource_name=name) for name in names]


def test_each_resource_is_told_its_own_error_where_the_answer_names_it() -> None:
    asked = events("a", "b", "kafka-cluster")

    tell(asked, created(("a", 0), ("b", 29)))

    assert [event.error_code for event in asked] == [0, 29, None]


def test_a_group_called_like_a_topic_is_not_told_the_topics_error() -> None:
    group = AuditEvent(event="authorization", resource_type="GROUP", resource_name="orders", granted=False)
    asked = [group, *events("orders")]

    response = types.OffsetCommitResponse
    topic = response.OffsetCommitResponseTopic
    failed = response.OffsetCommitResponsePartition
    tell(
        asked,
        response(
            topics=[
                topic(name="orders", partitions=[failed(error_code=3)]),
                topic(name="payments", partitions=[failed(error_code=30)]),
            ]
        ),
    )

    assert [event.error_code for event in asked] == [30, 3]


def test_all_resources_are_told_the_error_of_the_whole_answer() -> None:
    asked = events("a", "b")

    tell(asked, types.DescribeAclsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))

    assert [event.error_code for event in asked] == [31, 31]
