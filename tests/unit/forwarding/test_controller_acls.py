"""CreateAcls and DeleteAcls as KRaft's controller decides them."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from forwarding.controller.acls import (
    STAYS_ENDED_MS,
    create_acls,
    delete_acls,
    ended_acls,
    removal_record,
)
from forwarding.controller.api import ControllerOutcome
from proxy.metadata.acl import (
    LAST_UNTIL_MS,
    UNTIL_TAG,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    tags_of_end,
)
from proxy.metadata.delta import without_ended
from proxy.metadata.image import MetadataImage
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode
from tests.support.acl_filters import acl_filter
from tests.support.controllers import acl_creation
from tests.support.images import acl_record, image_of

NOW_MS = 1_700_000_000_000


def ids() -> Callable[[], bytes]:
    numbers = count(1)
    return lambda: next(numbers).to_bytes(16, "big")


def creation(resource_name: str = "orders", **changes: Any) -> Any:
    return acl_creation(resource_name, **changes)


def created(image: MetadataImage, *creations: Any) -> ControllerOutcome:
    return create_acls(types.CreateAclsRequest(creations=list(creations)), image, ids(), NOW_MS)


def deleted(image: MetadataImage, *filters: Any) -> ControllerOutcome:
    return delete_acls(types.DeleteAclsRequest(filters=list(filters)), image)


END_MS = NOW_MS + 3_600_000


def ending(until_ms: int | None, **changes: Any) -> Any:
    return creation(unknown_tags=tags_of_end(until_ms), **changes)


def acl_until(until_ms: int | None, number: int = 1, **changes: Any) -> Any:
    record = acl_record(number, **changes)
    record.unknown_tags = tags_of_end(until_ms)
    return record


@pytest.mark.spec("A11")
def test_an_acl_is_created_with_its_end() -> None:
    outcome = created(MetadataImage.EMPTY, ending(END_MS), ending(None, host="10.0.0.1"))

    assert outcome.records == (acl_until(END_MS), acl_record(2, host="10.0.0.1"))
    assert errors(outcome) == [(0, ""), (0, "")]


@pytest.mark.spec("A11")
@pytest.mark.parametrize("before_ms", [None, END_MS], ids=["without", "with"])
@pytest.mark.parametrize("until_ms", [None, END_MS, END_MS + 1], ids=["none", "same", "later"])
def test_the_same_acl_with_another_end_has_it_from_then_on_under_its_id(
    before_ms: int | None, until_ms: int | None
) -> None:
    outcome = created(image_of(acl_until(before_ms, 9)), ending(until_ms))

    assert outcome.records == (() if before_ms == until_ms else (acl_until(until_ms, 9),))
    assert errors(outcome) == [(0, "")]


@pytest.mark.spec("A11")
def test_of_an_acl_that_is_requested_twice_the_last_end_counts() -> None:
    outcome = created(MetadataImage.EMPTY, ending(END_MS), ending(END_MS + 1))

    assert outcome.records == (acl_until(END_MS + 1),)


@pytest.mark.spec("A11")
def test_an_acl_that_has_ended_is_created_again_with_an_id_of_its_own() -> None:
    over = without_ended(image_of(acl_until(NOW_MS, 9)), NOW_MS)

    assert created(over, ending(END_MS)).records == (acl_until(END_MS),)
    assert deleted(over, acl_filter()).records == ()


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unknown_tags": {UNTIL_TAG: b"\0" * 7}}, "no time"),
        ({"unknown_tags": tags_of_end(-1)}, "no time"),
        ({"unknown_tags": tags_of_end(-(2**63))}, "no time"),
        ({"unknown_tags": tags_of_end(LAST_UNTIL_MS + 1)}, "no time"),
        ({"unknown_tags": tags_of_end(NOW_MS)}, "2023-11-14T22:13:20.000Z, is in the past"),
        ({"unknown_tags": tags_of_end(0)}, "1970-01-01T00:00:00.000Z, is in the past"),
        (
            {"unknown_tags": tags_of_end(END_MS), "permission_type": PermissionType.DENY},
            "Only an ALLOW may have an end",
        ),
    ],
)
def test_an_end_that_cannot_be_is_rejected_and_the_others_are_created(
    changes: dict[str, Any], message: str
) -> None:
    outcome = created(MetadataImage.EMPTY, creation(**changes), creation(host="10.0.0.9"))

    (code, text), second = errors(outcome)
    assert (code, second) == (ErrorCode.INVALID_REQUEST, (0, ""))
    assert message in text
    assert [record.host for record in outcome.records] == ["10.0.0.9"]


@pytest.mark.spec("A11")
def test_what_ended_a_minute_ago_is_removed_the_first_to_end_first() -> None:
    ends = [NOW_MS - STAYS_ENDED_MS + number for number in (-5, 0, 1)]
    image = image_of(
        *(acl_until(end, 9 - number, host=f"10.0.0.{number}") for number, end in enumerate(ends))
    )

    assert ended_acls(image, NOW_MS) == []
    over = without_ended(image, NOW_MS)
    assert [acl.until_ms for acl in ended_acls(over, NOW_MS)] == ends[:2]
    assert [acl.until_ms for acl in ended_acls(over, NOW_MS - 1)] == ends[:1]

    left = image_of(*map(removal_record, ended_acls(over, NOW_MS)), base=over)
    assert ended_acls(left, NOW_MS) == []
    assert (len(left.acls.ended), left.acls.count) == (1, 0)


def errors(outcome: ControllerOutcome) -> list[tuple[int, str]]:
    return [(result.error_code, result.error_message) for result in outcome.response.results]


@pytest.mark.spec("S8", "S1")
def test_a_binding_becomes_one_record_with_an_id_of_its_own() -> None:
    outcome = created(MetadataImage.EMPTY, creation(), creation(operation=Operation.WRITE))

    assert outcome.records == (acl_record(1), acl_record(2, operation=Operation.WRITE))
    assert errors(outcome) == [(0, ""), (0, "")]


@pytest.mark.spec("S8")
def test_a_binding_that_exists_is_a_success_without_a_record() -> None:
    outcome = created(image_of(acl_record(9)), creation(), creation(host="10.0.0.1"))

    assert [record.host for record in outcome.records] == ["10.0.0.1"]
    assert errors(outcome) == [(0, ""), (0, "")]


@pytest.mark.spec("S8")
def test_a_binding_asked_for_twice_is_created_once() -> None:
    outcome = created(MetadataImage.EMPTY, creation(), creation())

    assert len(outcome.records) == 1
    assert errors(outcome) == [(0, ""), (0, "")]


@pytest.mark.spec("S8")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resource_type": 0}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": 1}, "Invalid patternType ANY"),
        ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
        ({"resource_pattern_type": 0}, "Invalid patternType UNKNOWN"),
        ({"operation": 0}, "Invalid operation UNKNOWN"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"permission_type": 0}, "Invalid permissionType UNKNOWN"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"resource_name": ""}, "Resource name should not be empty"),
        (
            {"resource_type": ResourceType.CLUSTER, "resource_name": "mine"},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (
            {"principal": "alice"},
            "Could not parse principal from `alice` "
            "(no colon is present separating the principal type from the principal name)",
        ),
        ({"principal": ":alice"}, "Could not parse principal from `:alice` (its type is empty)"),
        ({"host": ""}, "Host '' is neither an address nor a network nor *. Names are not supported."),
        ({"host": "::1"}, "Host '::1' has to be written as 0:0:0:0:0:0:0:1."),
    ],
)
def test_an_invalid_binding_is_refused_and_the_others_are_created(
    changes: dict[str, Any], message: str
) -> None:
    outcome = created(MetadataImage.EMPTY, creation(**changes), creation(host="10.0.0.9"))

    assert errors(outcome) == [(ErrorCode.INVALID_REQUEST, message), (0, "")]
    assert [record.host for record in outcome.records] == ["10.0.0.9"]


@pytest.mark.spec("S8")
@pytest.mark.parametrize("resource_type", [2, 3, 4, 5, 6, 7])
def test_acls_on_every_kind_of_resource_can_be_created(resource_type: int) -> None:
    name = "kafka-cluster" if resource_type == ResourceType.CLUSTER else "x"

    outcome = created(MetadataImage.EMPTY, creation(resource_type=resource_type, resource_name=name))

    assert [record.resource_type for record in outcome.records] == [resource_type]


@pytest.mark.spec("S8")
def test_more_records_than_a_batch_may_hold_refuse_the_whole_request() -> None:
    outcome = created(MetadataImage.EMPTY, *(creation(resource_name=f"t{n}") for n in range(10_001)))

    assert outcome.records == ()
    assert {code for code, _ in errors(outcome)} == {ErrorCode.POLICY_VIOLATION}


THREE = image_of(
    acl_record(1, "orders"),
    acl_record(2, "ord", pattern_type=PatternType.PREFIXED),
    acl_record(3, "*", principal="User:bob"),
)


def removed(outcome: ControllerOutcome) -> list[int]:
    return [int.from_bytes(record.id, "big") for record in outcome.records]


@pytest.mark.spec("S8")
@pytest.mark.parametrize(
    ("changes", "ids_removed"),
    [
        ({}, [1, 2, 3]),
        ({"resource_name_filter": "orders"}, [1]),
        ({"resource_name_filter": "orders", "pattern_type_filter": PatternType.MATCH}, [1, 2, 3]),
        ({"pattern_type_filter": PatternType.PREFIXED}, [2]),
        ({"principal_filter": "User:bob"}, [3]),
        ({"resource_type_filter": ResourceType.GROUP}, []),
        ({"permission_type": PermissionType.DENY}, []),
    ],
)
def test_a_filter_removes_what_it_matches(changes: dict[str, Any], ids_removed: list[int]) -> None:
    outcome = deleted(THREE, acl_filter(**changes))

    assert sorted(removed(outcome)) == ids_removed
    (result,) = outcome.response.filter_results
    assert (result.error_code, result.error_message) == (0, None)
    assert len(result.matching_acls) == len(ids_removed)


@pytest.mark.spec("S8")
def test_a_deletion_of_more_bindings_than_a_batch_may_hold_is_rejected_as_a_whole() -> None:
    image = image_of(*(acl_record(number, f"t{number}") for number in range(1, 10_002)))

    outcome = deleted(image, acl_filter())

    assert outcome.records == ()
    (result,) = outcome.response.filter_results
    assert (result.error_code, result.error_message) == (
        ErrorCode.POLICY_VIOLATION,
        "Unable to perform a batch of 10001 records, the limit is 10000.",
    )
    assert len(deleted(image, acl_filter(resource_name_filter="t1")).records) == 1


@pytest.mark.spec("S8")
def test_two_filters_may_both_report_a_binding_that_is_removed_once() -> None:
    outcome = deleted(THREE, acl_filter(resource_name_filter="orders"), acl_filter())

    assert [len(result.matching_acls) for result in outcome.response.filter_results] == [1, 3]
    assert sorted(removed(outcome)) == [1, 2, 3]


@pytest.mark.spec("S8")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resource_type_filter": 0}, "Unknown patternFilter."),
        ({"resource_type_filter": 77}, "Unknown patternFilter."),
        ({"pattern_type_filter": 0}, "Unknown patternFilter."),
        ({"operation": 0}, "Unknown entryFilter."),
        ({"permission_type": 9}, "Unknown entryFilter."),
    ],
)
def test_an_unknown_number_in_a_filter_matches_nothing_and_is_told(
    changes: dict[str, Any], message: str
) -> None:
    outcome = deleted(THREE, acl_filter(**changes), acl_filter(principal_filter="User:bob"))

    first, second = outcome.response.filter_results
    assert (first.error_code, first.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert second.error_code == 0
    assert removed(outcome) == [3]
