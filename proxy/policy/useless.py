"""ACLs that are useless by logic: without them every request there can be is decided as with them.

That is more than "unused", which least-privilege says of what recorded traffic has not needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from proxy.metadata.acl import (
    CLUSTER_NAME,
    OPERATIONS_ON,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PermissionType,
    ResourceType,
)
from proxy.metadata.delta import AclsDelta
from proxy.policy.differences import Comparison, everything
from proxy.policy.hosts import range_of
from proxy.policy.names import Pattern, pattern_of
from proxy.policy.policy import AclEntry, Policy, TypeAcls
from proxy.security.standard import ALLOWING, DENYING


class UselessAcl(NamedTuple):
    """An ACL, why it is useless, and the ACL that makes it so, if it is one alone."""

    acl: Acl
    reason: str
    because_of: Acl | None


NO_REQUEST = "no request can match it"
EQUAL = "equal to another ACL"
COVERED = "covered by another ACL"
DENIED = "wholly under a DENY"
NOTHING_TO_DENY = "nothing that it denies is allowed without it"
TOGETHER = "covered by several ACLs together, or by super.users"


def useless_acls(policy: Policy) -> list[UselessAcl]:
    """Return ACLs of a policy of the log that are useless, also if all of them are removed together.

    A DENY is judged with all ALLOWs present. ACLs that are not understood, those on every type, and those for
    addresses with a zone are left out.
    """
    found = []
    for acl in sorted(policy.image.acls.by_id.each_value(), key=_order):
        if acl.resource_type not in OPERATIONS_ON or acl.enforced(policy.image.acls.networks) is not acl:
            continue
        if "%" in acl.host:  # Policies do not tell zones apart.
            continue
        without = _without(policy, acl)
        if not _differs(policy, without, acl):
            policy = without
            found.append(acl)
    return [_explained(policy, acl) for acl in found]


def _order(acl: Acl) -> tuple[object, ...]:
    """DENYs first, then those that others may cover: the more special before the more general."""
    pattern = pattern_of(acl.resource_name, acl.pattern_type)
    return (
        acl.permission_type is PermissionType.ALLOW,
        -len(pattern.name),
        not pattern.literal,
        acl.principal == WILDCARD_PRINCIPAL,
        -_width(acl.host),
        acl.operation is Operation.ALL,
        acl.binding,
        acl.id,
    )


def _width(host: str) -> int:
    found = range_of(host)
    return 0 if found is None else found.bits - (found.last - found.first).bit_length() + 1


def _without(policy: Policy, acl: Acl) -> Policy:
    delta = AclsDelta(policy.image.acls, compacted=False)
    delta.remove(acl.id)
    pattern, entry = _indexed(acl)
    of_type = policy.acls[acl.resource_type]
    patterns = dict(of_type.of_principal[acl.principal])
    counts = dict(of_type.counts)
    counts[pattern] -= 1
    if not counts[pattern]:
        del counts[pattern]
    if not any(each.id != acl.id and _indexed(each) == (pattern, entry) for each in _near(policy, acl)):
        patterns[pattern] = patterns[pattern] - {entry}
    changed = TypeAcls({**of_type.of_principal, acl.principal: patterns}, counts, of_type.owned)
    return replace(
        policy,
        image=replace(policy.image, acls=delta.apply()),
        acls={**policy.acls, acl.resource_type: changed},
    )


def _indexed(acl: Acl) -> tuple[Pattern, AclEntry]:
    pattern = pattern_of(acl.resource_name, acl.pattern_type)
    return pattern, AclEntry(acl.host, acl.operation, acl.permission_type is PermissionType.ALLOW)


def _differs(policy: Policy, without: Policy, acl: Acl) -> bool:
    scope = everything(acl.resource_type)
    if acl.principal != WILDCARD_PRINCIPAL and not policy.everyone:
        # It says nothing about other principals.
        scope = replace(scope, sessions=frozenset(((acl.principal,),)))
    changed = {acl.resource_type: {acl.principal: [_indexed(acl)[0]]}}
    return bool(Comparison(policy, without).regions(scope, changed))


def _near(policy: Policy, acl: Acl) -> Iterator[Acl]:
    """Yield the ACLs on all patterns that cover that of the ACL, for its principal or all principals."""
    resource = policy.image.acls.resources.get(acl.resource_type)
    if resource is None:
        return
    pattern = pattern_of(acl.resource_name, acl.pattern_type)
    patterns = [
        *resource.prefixes(pattern.name),
        resource.literal.get("*"),
        resource.literal.get(pattern.name),
    ]
    for acls in patterns:
        for (principal, _), entries in acls.items() if acls is not None else ():
            if principal in (acl.principal, WILDCARD_PRINCIPAL):
                yield from (each for each in entries if _covers(_indexed(each)[0], pattern))


def _covers(wide: Pattern, narrow: Pattern) -> bool:
    return wide == narrow or (not wide.literal and wide.covers(narrow.name))


def _explained(policy: Policy, acl: Acl) -> UselessAcl:
    """Return the reason. `policy` is what is left."""
    kind, pattern = acl.resource_type, pattern_of(acl.resource_name, acl.pattern_type)
    allows = acl.permission_type is PermissionType.ALLOW
    operations = _decided(acl)
    is_reached = kind is not ResourceType.CLUSTER or pattern.covers(CLUSTER_NAME)
    if not operations or not is_reached or (acl.host != "*" and range_of(acl.host) is None):
        return UselessAcl(acl, NO_REQUEST, None)
    wider = [
        each for each in _near(policy, acl) if operations <= _decided(each) and _contains(each.host, acl.host)
    ]
    for each in wider:
        if each.binding == acl.binding:
            return UselessAcl(acl, EQUAL, each)
    for permission, reason in ((acl.permission_type, COVERED), (PermissionType.DENY, DENIED)):
        for each in wider:
            if each.permission_type is permission:
                return UselessAcl(acl, reason, each)
    return UselessAcl(acl, TOGETHER if allows else NOTHING_TO_DENY, None)


def _decided(acl: Acl) -> set[Operation]:
    """Return the operations of requests that an ACL allows or denies."""
    by = ALLOWING if acl.permission_type is PermissionType.ALLOW else DENYING
    return {each for each in OPERATIONS_ON[acl.resource_type] if acl.operation in by[each]}


def _contains(wide: str, narrow: str) -> bool:
    if wide in ("*", narrow):
        return True
    outer, inner = range_of(wide), range_of(narrow)
    if outer is None or inner is None:
        return False
    return outer.bits == inner.bits and outer.first <= inner.first and inner.last <= outer.last
