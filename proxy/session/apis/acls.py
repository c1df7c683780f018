"""CreateAcls, DeleteAcls and DescribeAcls (KIP-140, KIP-290): ALTER or DESCRIBE on the cluster.

They are SECURITY_DISABLED if the authorizer does not use the ACLs of the metadata log. DescribeAcls is
served from the image, grouped by resource pattern and sorted. The number 0 (UNKNOWN) closes the connection
(`_check`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import zip_longest

from proxy.admin.objects import Known, Object, named
from proxy.admin.rejection import code_and_message, each_part, succeeded
from proxy.metadata.acl import (
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
)
from proxy.security.protected import acls_in_log
from proxy.session.call import Api, Call, Change, Respond, Verdict, deny, forward_to_controller, reject
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.errors import WireError
from proxy.wire.message import Message
from proxy.wire.work import paced, paced_sorted

Pattern = tuple[ResourceType, str, PatternType]

_NUMBERS = (
    *("resource_type", "resource_pattern_type", "operation", "permission_type"),
    *("resource_type_filter", "pattern_type_filter"),
)

_DETAILS = (
    *("resource_type", "pattern_type", "name", "principal", "host", "operation_of_acl", "permission_type"),
)

NO_AUTHORIZER_TO_ALTER = "No Authorizer is configured."
NO_AUTHORIZER_TO_DESCRIBE = "No Authorizer is configured on the broker"
NO_ENDS = "The cluster's controller is Kafka's, which would make this ACL without its end."
FIRST_WITH_TAGS = 2
"""The version of DescribeAcls."""


def decide_alter(call: Call, request: types.CreateAclsRequest | types.DeleteAclsRequest) -> Verdict:
    """Decide a CreateAcls or DeleteAcls request."""
    assert call.api is not None
    call.api.check(request)
    if not call.allows_cluster(Operation.ALTER):
        return deny(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not acls_in_log(call.basis.authorizer):
        return reject(call, request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER_TO_ALTER)
    if isinstance(request, types.CreateAclsRequest):
        return _create(request, call)
    return forward_to_controller(request)


def _create(request: types.CreateAclsRequest, call: Call) -> Verdict:
    """Forward the creations that the controller carries out as they are meant.

    Kafka's would store any text as a host, and an ACL with an end as one without.
    """
    result = types.CreateAclsResponse.AclCreationResult
    rejected = {
        index: result(error_code=fault[0], error_message=fault[1])
        for index, creation in enumerate(request.creations)
        if (fault := _fault(creation, call)) is not None
    }
    if not rejected:
        return forward_to_controller(request)
    count = len(request.creations)
    request.creations = [each for index, each in enumerate(request.creations) if index not in rejected]
    if not request.creations:
        return Respond(types.CreateAclsResponse(results=list(rejected.values())))

    def on_response(response: types.CreateAclsResponse) -> None:
        if len(response.results) != count - len(rejected):
            raise WireError(f"{len(response.results)} results of {count - len(rejected)} creations")
        others = iter(response.results)
        response.results = [rejected.get(index) or next(others) for index in range(count)]

    return forward_to_controller(request, on_response)


def _fault(creation: types.CreateAclsRequest.AclCreation, call: Call) -> tuple[ErrorCode, str] | None:
    if UNTIL_TAG in (creation.unknown_tags or ()) and not call.gate.ends_acls:
        return ErrorCode.INVALID_REQUEST, NO_ENDS
    fault = host_fault(creation.host, call.image.acls.networks)
    if fault is None:
        return None
    # As Kafka 4.4's: of a network, if they are not in effect yet.
    is_network = host_fault(creation.host) is None
    return ErrorCode.UNSUPPORTED_VERSION if is_network else ErrorCode.INVALID_REQUEST, fault


def decide_describe(call: Call, request: types.DescribeAclsRequest) -> Verdict:
    _check([request])
    if not call.allows_cluster(Operation.DESCRIBE):
        return deny(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not acls_in_log(call.basis.authorizer):
        return reject(call, request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER_TO_DESCRIBE)
    wanted = AclFilter.requested(request)
    response = types.DescribeAclsResponse
    by_pattern: defaultdict[Pattern, list[Acl]] = defaultdict(list)
    for acl in call.image.acls.select(wanted):
        by_pattern[acl.resource_type, acl.resource_name, acl.pattern_type].append(acl)
    has_tags = call.version >= FIRST_WITH_TAGS
    return Respond(
        response(
            # So that a client knows that the cluster ends ACLs.
            unknown_tags={UNTIL_TAG: b""} if has_tags and call.gate.ends_acls else None,
            resources=[
                _resource(response, pattern, by_pattern.pop(pattern), has_tags)
                for pattern in paced_sorted(by_pattern)
            ],
        )
    )


def _resource(
    response: type[types.DescribeAclsResponse], pattern: Pattern, acls: list[Acl], has_tags: bool
) -> types.DescribeAclsResponse.DescribeAclsResource:
    ends: dict[Binding, int | None] = {}
    for acl in paced(acls):
        # Of two ACLs with one binding, that which ends last decides.
        earlier, until_ms = ends.get(acl.binding, UNKNOWN_END), acl.until_ms
        ends[acl.binding] = None if earlier is None or until_ms is None else max(earlier, until_ms)
    return response.DescribeAclsResource(
        resource_type=int(pattern[0]),
        resource_name=pattern[1],
        pattern_type=int(pattern[2]),
        acls=[
            response.AclDescription(
                principal=principal,
                host=host,
                operation=int(operation),
                permission_type=int(permission),
                unknown_tags=tags_of_end(ends[binding]) if has_tags else None,
            )
            for binding in paced_sorted(ends)
            for *_, principal, host, operation, permission in (binding,)
        ],
    )


def _created(request: types.CreateAclsRequest, response: types.CreateAclsResponse | None) -> Iterator[Change]:
    done = [True] * len(request.creations) if response is None else [succeeded(r) for r in response.results]
    for acl, created in zip(request.creations, done, strict=True):
        if created:
            yield "AccessControlEntryRecord", *_acl(acl, acl.resource_pattern_type)


def _deleted(request: types.DeleteAclsRequest, response: types.DeleteAclsResponse | None) -> Iterator[Change]:
    if response is None:
        yield ("RemoveAccessControlEntryRecord",)
        return
    # Two filters may match the same ACL, which is removed once.
    seen: set[Change] = set()
    for acl in (acl for result in response.filter_results for acl in result.matching_acls if succeeded(acl)):
        fields = _acl(acl, acl.pattern_type)
        if fields not in seen:
            seen.add(fields)
            yield "RemoveAccessControlEntryRecord", *fields


def _acl(
    acl: types.CreateAclsRequest.AclCreation | types.DeleteAclsResponse.DeleteAclsMatchingAcl,
    pattern_type: int,
) -> Change:
    return _fields(Acl.of_numbers("", acl, pattern_type))


def _fields(acl: Acl) -> Change:
    kind, name, pattern, *entry = acl.names
    return kind, pattern, name, *entry


def _creations(
    request: types.CreateAclsRequest, response: types.CreateAclsResponse | None, known: Known
) -> Iterator[Object]:
    """Yield each ACL, with the key `until` if it has an end, or is there already and has one.

    The audit jobs compare the end with the log: one that is left out is `never`.
    """
    parts = [] if response is None else response.results
    for acl, part in zip_longest(request.creations, parts[: len(request.creations)]):
        fields, until_ms = _acl(acl, acl.resource_pattern_type), end_of_tags(acl.unknown_tags)
        ends = {}
        if until_ms is not None or known.image.acls.ends:
            before = known.image.acls.existing(Acl.of_numbers("", acl, acl.resource_pattern_type))
            old_ms = None if before is None else before.until_ms
            if old_ms is not None or until_ms is not None:
                old = None if before is None else end_text(old_ms)
                ends = {"key": "until", "old_value": old, "new_value": end_text(until_ms)}
        yield _object(fields, "CREATE", part, **ends)


def _deletions(
    request: types.DeleteAclsRequest, response: types.DeleteAclsResponse | None, _known: Known
) -> Iterator[Object]:
    """Yield each ACL that a filter has matched; the filter itself if it has matched none, or that is open."""
    results = [] if response is None else response.filter_results
    seen: set[Change] = set()
    for wanted, result in zip_longest(request.filters, results[: len(request.filters)]):
        matching = [] if result is None else result.matching_acls
        for acl in matching:
            fields = _acl(acl, acl.pattern_type)
            if fields not in seen:
                seen.add(fields)
                yield _object(fields, "DELETE", acl)
        if not matching:
            fields = (
                ResourceType(wanted.resource_type_filter).name,
                PatternType(wanted.pattern_type_filter).name,
                *(wanted.resource_name_filter, wanted.principal_filter, wanted.host_filter),
                Operation(wanted.operation).name,
                PermissionType(wanted.permission_type).name,
            )
            yield _object(fields, "DELETE_MATCHING", result)


def ended_object(acl: Acl) -> Object:
    """Return what a record names of an ACL that is removed because it has ended."""
    return _object(_fields(acl), "END", None, key="until", old_value=end_text(acl.until_ms))


def _object(fields: Change, done: str, part: object, **end: str | None) -> Object:
    details = dict(zip(_DETAILS, fields, strict=True))
    return named("ACL", details.pop("name"), done, part, **details, **end)


def _check(parts: Iterable[Message]) -> None:
    """Raise WireError for a creation or filter with the number 0, UNKNOWN: the request is unreadable.

    The check comes before any right: a broker closes the connection of any client that sends it, and Kafka's
    controller rejects the Envelope. A number that no release has defined is another matter: the controller
    rejects the creation or filter, and DescribeAcls finds nothing.
    """
    for part in parts:
        for attribute in _NUMBERS:
            if getattr(part, attribute, None) == 0:
                raise WireError(f"{type(part).__qualname__}: {attribute} is UNKNOWN")


APIS = (
    Api(
        ApiKey.CREATE_ACLS,
        decide_alter,
        each_part(
            "CreateAclsResponse",
            "results",
            "AclCreationResult",
            lambda request: ({} for _ in request.creations),
            has_message=True,
        ),
        admin="controller",
        cluster_right=Operation.ALTER,
        check=lambda request: _check(request.creations),
        changes=_created,
        objects=_creations,
    ),
    Api(
        ApiKey.DELETE_ACLS,
        decide_alter,
        each_part(
            "DeleteAclsResponse",
            "filter_results",
            "DeleteAclsFilterResult",
            lambda request: ({} for _ in request.filters),
            has_message=True,
        ),
        admin="controller",
        cluster_right=Operation.ALTER,
        check=lambda request: _check(request.filters),
        changes=_deleted,
        objects=_deletions,
    ),
    Api(ApiKey.DESCRIBE_ACLS, decide_describe, code_and_message("DescribeAclsResponse"), admin="image"),
)
