"""CreateAcls and DeleteAcls (KIP-11, KIP-290, KIP-801): bindings and filters -> ACL records.

Validation and errors of each binding are those of KRaft's controller. controller.py calls these functions
once ALTER on the cluster is granted.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from enum import IntEnum

from forwarding.controller.api import (
    MAX_RECORDS_PER_REQUEST,
    ControllerApi,
    ControllerOutcome,
    DuplicateForward,
    over_limit,
)
from proxy.metadata.acl import (
    CLUSTER_NAME,
    UNKNOWN_END,
    UNTIL_TAG,
    Acl,
    AclFilter,
    Binding,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    end_of_tags,
    end_text,
    host_fault,
    tags_of_end,
    uuid_bytes,
    uuid_text,
)
from proxy.metadata.image import MetadataImage
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode


def create_acls(
    request: types.CreateAclsRequest, image: MetadataImage, new_id: Callable[[], bytes], now_ms: int
) -> ControllerOutcome:
    """Create bindings: one result for each, in order. An existing binding succeeds without a record.

    If it has another end, or none, its record is written again with the end of the request, under its id.
    """
    result = types.CreateAclsResponse.AclCreationResult
    results = []
    created: dict[Binding, Acl] = {}
    for creation in request.creations:
        fault = _fault(creation) or _end_fault(creation, now_ms)
        if fault is not None:
            results.append(result(error_code=ErrorCode.INVALID_REQUEST, error_message=fault))
            continue
        acl = Acl.of_numbers(uuid_text(new_id()), creation, creation.resource_pattern_type)
        known = created.get(acl.binding) or image.acls.existing(acl)
        if known is None:
            created[acl.binding] = acl
        elif known.until_ms != acl.until_ms:
            created[acl.binding] = replace(known, until_ms=acl.until_ms)
        results.append(result())
    if len(created) > MAX_RECORDS_PER_REQUEST:
        return over_limit(ApiKey.CREATE_ACLS, request, f"Unable to perform a batch of {len(created)} records")
    records = tuple(acl_record(acl) for acl in created.values())
    return ControllerOutcome(records, types.CreateAclsResponse(results=results))


def delete_acls(request: types.DeleteAclsRequest, image: MetadataImage) -> ControllerOutcome:
    """Delete the ACLs that match. All filters are matched first, so two may report the same binding."""
    response = types.DeleteAclsResponse
    removed: dict[str, Acl] = {}
    results = []
    for requested in request.filters:
        wanted = AclFilter.requested(requested)
        fault = _filter_fault(wanted)
        if fault is not None:
            results.append(
                response.DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST, error_message=fault)
            )
            continue
        matching = list(image.acls.select(wanted))
        removed.update((acl.id, acl) for acl in matching)
        results.append(
            response.DeleteAclsFilterResult(
                error_message=None, matching_acls=[_matching_acl(acl) for acl in matching]
            )
        )
    if len(removed) > MAX_RECORDS_PER_REQUEST:
        return over_limit(ApiKey.DELETE_ACLS, request, f"Unable to perform a batch of {len(removed)} records")
    records = tuple(map(removal_record, removed.values()))
    return ControllerOutcome(records, response(filter_results=results))


MAX_RECORDS_PER_SWEEP = 1_000
STAYS_ENDED_MS = 60_000
"""The time from its end to its removal: by the clocks of all processes it has ended then."""


def ended_acls(image: MetadataImage, now_ms: int) -> list[Acl]:
    """Return ACLs to remove from the log since they have ended, at most MAX_RECORDS_PER_SWEEP."""
    acls = image.acls
    return acls.due(acls.ended, now_ms - STAYS_ENDED_MS, MAX_RECORDS_PER_SWEEP)


def _fault(creation: types.CreateAclsRequest.AclCreation) -> str | None:
    """Return what is wrong with a binding, in the words of KRaft's AclControlManager, or None."""
    checks = (
        _not_one_of(creation.resource_type, ResourceType, "resourceType", _NO_RESOURCE),
        _name_fault(creation),
        _not_one_of(creation.resource_pattern_type, PatternType, "patternType", _NO_PATTERN),
        _not_one_of(creation.operation, Operation, "operation", _NO_OPERATION),
        _not_one_of(creation.permission_type, PermissionType, "permissionType", _NO_PERMISSION),
        _principal_fault(creation.principal),
        # Kafka stores any text. A DENY for a host that no client has would deny nothing.
        host_fault(creation.host),
    )
    return next((fault for fault in checks if fault is not None), None)


def _end_fault(creation: types.CreateAclsRequest.AclCreation, now_ms: int) -> str | None:
    """Return why the ACL may not end then, or None."""
    if UNTIL_TAG in (creation.unknown_tags or ()) and creation.permission_type != PermissionType.ALLOW:
        return "Only an ALLOW may have an end: at that of a DENY something would be allowed."
    return end_fault("ACL", creation.unknown_tags, now_ms)


def end_fault(what: str, tags: dict[int, bytes] | None, now_ms: int) -> str | None:
    """Return why what is created with these tagged fields may not end then, or None."""
    until_ms = end_of_tags(tags)
    if until_ms is None:
        return None
    if until_ms == UNKNOWN_END:
        return f"The end of the {what} is no time in ms since the epoch, of eight bytes, before 10000."
    if until_ms <= now_ms:
        return f"The end of the {what}, {end_text(until_ms)}, is in the past; it is {end_text(now_ms)}."
    return None


_NO_RESOURCE = (ResourceType.UNKNOWN, ResourceType.ANY)
_NO_PATTERN = (PatternType.UNKNOWN, PatternType.ANY, PatternType.MATCH)
_NO_OPERATION = (Operation.UNKNOWN, Operation.ANY)
_NO_PERMISSION = (PermissionType.UNKNOWN, PermissionType.ANY)


def _not_one_of(number: int, kind: type[IntEnum], what: str, invalid: Container[IntEnum]) -> str | None:
    value = kind(number)
    return f"Invalid {what} {value.name}" if value in invalid else None


def _name_fault(creation: types.CreateAclsRequest.AclCreation) -> str | None:
    if not creation.resource_name:
        return "Resource name should not be empty"
    if creation.resource_type == ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    return None


def _principal_fault(principal: str) -> str | None:
    principal_type, colon, _ = principal.partition(":")
    if not colon:
        return (
            f"Could not parse principal from `{principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    if not principal_type:
        return f"Could not parse principal from `{principal}` (its type is empty)"
    return None


def _filter_fault(wanted: AclFilter) -> str | None:
    """Return what is wrong with a filter. An unknown number must not match everything."""
    if wanted.resource_type == ResourceType.UNKNOWN or wanted.pattern_type == PatternType.UNKNOWN:
        return "Unknown patternFilter."
    if wanted.operation == Operation.UNKNOWN or wanted.permission_type == PermissionType.UNKNOWN:
        return "Unknown entryFilter."
    return None


def removal_record(acl: Acl) -> types.RemoveAccessControlEntryRecord:
    """Return the record that removes an ACL."""
    return types.RemoveAccessControlEntryRecord(id=uuid_bytes(acl.id))


def acl_record(acl: Acl) -> types.AccessControlEntryRecord:
    """Return the record that sets an ACL."""
    resource_type, pattern_type, operation, permission_type = acl.numbers
    return types.AccessControlEntryRecord(
        id=uuid_bytes(acl.id),
        resource_type=resource_type,
        resource_name=acl.resource_name,
        pattern_type=pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=operation,
        permission_type=permission_type,
        unknown_tags=tags_of_end(acl.until_ms),
    )


def _matching_acl(acl: Acl) -> types.DeleteAclsResponse.DeleteAclsMatchingAcl:
    """Return a deleted ACL in the form of the response."""
    return types.DeleteAclsResponse.DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def _deleted_by_duplicate(duplicate: DuplicateForward[types.DeleteAclsResponse]) -> types.DeleteAclsResponse:
    """Report the ACLs that each filter matched in the first attempt."""
    request: types.DeleteAclsRequest = duplicate.forwarded.message
    for requested, result in zip(request.filters, duplicate.response.filter_results, strict=True):
        if result.error_code == ErrorCode.NONE:
            wanted = AclFilter.requested(requested)
            result.matching_acls = [
                _matching_acl(acl) for acl in duplicate.removed.values() if wanted.matches(acl)
            ]
    return duplicate.response


CONTROLLER_APIS = (
    ControllerApi(
        key=ApiKey.CREATE_ACLS,
        decide=lambda inputs: create_acls(inputs.request, inputs.image, inputs.new_id, inputs.now_ms),
        writes=("AccessControlEntryRecord",),
    ),
    ControllerApi(
        key=ApiKey.DELETE_ACLS,
        decide=lambda inputs: delete_acls(inputs.request, inputs.image),
        writes=("RemoveAccessControlEntryRecord",),
        duplicate_response=_deleted_by_duplicate,
    ),
)
