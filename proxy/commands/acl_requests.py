"""ACLs on the wire: DescribeAcls, CreateAcls and DeleteAcls for ACLs by the names of Kafka's enums."""

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.metadata.acl import (
    UNTIL_TAG,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    end_of_tags,
    tags_of_end,
)
from proxy.net.kafka.channel import Channel
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode
from spark_audit.proposal import ProposedAcl, Removal

CREATE_VERSIONS, DELETE_VERSIONS, DESCRIBE_VERSIONS = (1, 3), (1, 3), (1, 3)
WITH_TAGS = (2, 3)

Pattern = tuple[str, str | None, str]
"""Resource type, name (None: every) and pattern type."""
EVERY: Pattern = ("ANY", None, "ANY")

Ends = Mapping[ProposedAcl, int | None]
"""ACL -> when it ends, in ms since the epoch; None: it does not."""


class RequestFailed(Exception):
    """The cluster has rejected the request."""


async def described_acls(
    channel: Channel, pattern: Pattern = EVERY, versions: tuple[int, int] = DESCRIBE_VERSIONS
) -> tuple[Ends, bool]:
    """Return the ACLs, and whether the cluster knows ends."""
    resource_type, name, pattern_type = pattern
    request = types.DescribeAclsRequest(
        resource_type_filter=ResourceType[resource_type],
        resource_name_filter=name,
        pattern_type_filter=PatternType[pattern_type],
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=PermissionType.ANY,
    )
    response = await channel.send(request, versions)
    require_success("DescribeAcls", response)
    found = {}
    for resource in response.resources:
        place = (
            ResourceType(resource.resource_type).name,
            resource.resource_name,
            PatternType(resource.pattern_type).name,
        )
        for acl in resource.acls:
            entry = acl.principal, acl.host, Operation(acl.operation).name
            key = ProposedAcl(*place, *entry, PermissionType(acl.permission_type).name)
            found[key] = end_of_tags(acl.unknown_tags)
    return found, UNTIL_TAG in (response.unknown_tags or ())


def creating(acls: Ends) -> types.CreateAclsRequest:
    """Return the request that makes these ACLs. With ends it has to be sent in a version of WITH_TAGS."""
    creations = [
        types.CreateAclsRequest.AclCreation(
            resource_type=ResourceType[acl.resource_type],
            resource_name=acl.resource_name,
            resource_pattern_type=PatternType[acl.pattern_type],
            principal=acl.principal,
            host=acl.host,
            operation=Operation[acl.operation],
            permission_type=PermissionType[acl.permission_type],
            unknown_tags=tags_of_end(until_ms),
        )
        for acl, until_ms in acls.items()
    ]
    return types.CreateAclsRequest(creations=creations)


def deleting(removals: Sequence[Removal]) -> types.DeleteAclsRequest:
    """Return the request that deletes what these match."""
    filters = []
    for each in removals:
        principal, host, operation, permission = each.entry or (None, None, "ANY", "ANY")
        filters.append(
            types.DeleteAclsRequest.DeleteAclsFilter(
                resource_type_filter=ResourceType[each.resource_type],
                resource_name_filter=each.resource_name,
                pattern_type_filter=PatternType[each.pattern_type],
                principal_filter=principal,
                host_filter=host,
                operation=Operation[operation],
                permission_type=PermissionType[permission],
            )
        )
    return types.DeleteAclsRequest(filters=filters)


def faults_of(parts: Sequence[object], results: Sequence[Any]) -> list[str]:
    """Return a line for each part of a request that has failed; the results are in its order."""
    return [
        f"{part}: {fault_text(result)}"
        for part, result in zip(parts, results, strict=True)
        if result.error_code
    ]


def require_success(what: str, response: Any) -> None:
    """Raise RequestFailed if the response as a whole has an error."""
    if response.error_code:
        raise RequestFailed(f"{what}: {fault_text(response)}")


def fault_text(result: Any) -> str:
    """Return the error of a response, or of a part of it."""
    name = ErrorCode.name_of(result.error_code)
    return f"{name}: {result.error_message}" if result.error_message else name
