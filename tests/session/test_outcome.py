"""The error code of a record is what the client was told, not only what was decided."""

from collections.abc import Iterator
from typing import Any

import pytest

from proxy.audit.record import AuditEvent
from proxy.session.accounting.response_errors import error_of, set_error_codes
from proxy.wire import catalog, codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import classes_of
from proxy.wire.schema import Field, Struct

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

    set_error_codes(asked, created(("a", 0), ("b", 29)))

    assert [event.error_code for event in asked] == [0, 29, None]


def test_a_group_called_like_a_topic_is_not_told_the_topics_error() -> None:
    group = AuditEvent(event="authorization", resource_type="GROUP", resource_name="orders", granted=False)
    asked = [group, *events("orders")]

    response = types.OffsetCommitResponse
    topic = response.OffsetCommitResponseTopic
    failed = response.OffsetCommitResponsePartition
    set_error_codes(
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

    set_error_codes(asked, types.DescribeAclsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))

    assert [event.error_code for event in asked] == [31, 31]


ANY_ERROR = ErrorCode.UNKNOWN_SERVER_ERROR
NO_ERRORS = {"topic_config_error_code", "status_code"}
"""A topic was created and its configs are not described; the state of a Streams group."""


def paths_to_errors(struct: Struct, version: int) -> Iterator[list[Field]]:
    """Every field of a response that could hold an error, each as the fields that lead to it."""
    for field in struct.fields:
        if version not in field.versions:
            continue
        if field.struct is not None:
            yield from ([field, *path] for path in paths_to_errors(field.struct, version))
        elif field.type in ("int8", "int16", "int32") and (
            "error" in field.attribute or field.attribute.endswith("code")
        ):
            yield [field]


def with_error(name: str, path: list[Field]) -> Any:
    """A response with an error in this field and in no other."""
    classes = classes_of(name)
    response = message = classes[name]()
    for field in path[:-1]:
        assert field.struct is not None
        part = classes[field.struct.name]()
        for other in field.struct.fields:
            if other.type in ("records", "bytes"):
                setattr(part, other.attribute, b"")
        setattr(message, field.attribute, [part] if field.is_array else part)
        message = part
    setattr(message, path[-1].attribute, int(ANY_ERROR))
    return response


@pytest.mark.parametrize("api_key", catalog.live_api_keys(), ids=ApiKey.name_of)
def test_an_error_is_found_in_every_error_field_of_every_version_of_a_response(api_key: int) -> None:
    schema = catalog.response(api_key)
    for version in schema.versions.range:
        codec = codecs.response(api_key, version)
        for path in paths_to_errors(schema.root, version):
            answer = codec.decode_exactly(codec.encode(with_error(schema.name, path)))

            expected = 0 if path[-1].attribute in NO_ERRORS else ANY_ERROR
            assert error_of(answer) == expected, (version, [field.attribute for field in path])


def test_a_denied_partition_of_a_transaction_is_told_with_its_own_error() -> None:
    asked = [
        AuditEvent(event="authorization", resource_type="TOPIC", resource_name=name, granted=granted)
        for name, granted in (("open", True), ("closed", False))
    ]
    response = types.AddPartitionsToTxnResponse
    topic = response.AddPartitionsToTxnTopicResult
    part = response.AddPartitionsToTxnPartitionResult

    set_error_codes(
        asked,
        response(
            results_by_topic_v3_and_below=[
                topic(name="open", results_by_partition=[part(partition_error_code=55)]),
                topic(name="closed", results_by_partition=[part(partition_error_code=29)]),
            ]
        ),
    )

    assert [event.error_code for event in asked] == [55, 29]
