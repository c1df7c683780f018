"""The narrower ACLs that would have allowed what a grant was used for. Pure: takes an ACL and its uses.

A grant may be wider than its use in four ways: by its resource name (`*` or a prefix), its operation (ALL),
its host and its principal (`User:*`). Each is narrowed only if the values that were used are few.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import product

from spark_audit.proposal import WILDCARD, Acl
from spark_audit.reconcile.acl_matches import IMPLIED_BY, WILDCARD_PRINCIPAL

MOST_NAMES, MOST_HOSTS, MOST_PRINCIPALS = 10, 3, 10
SHORTEST_PREFIX = 3
NAME, OPERATION, HOST, PRINCIPAL = "name", "operation", "host", "principal"


@dataclass(frozen=True, slots=True)
class Use:
    """The principals that used a grant, and what for."""

    principal: str
    host: str
    operation: str
    resource_name: str
    requests: int
    first_ms: int
    last_ms: int
    acls: tuple[str, ...]
    """The ids of all ACLs that allow it."""


def is_exact(acl: Acl) -> bool:
    """Returns whether the ACL is of one principal, one operation and one name."""
    return acl.principal != WILDCARD_PRINCIPAL and acl.operation != "ALL" and not _is_wide_name(acl)


def narrower(acl: Acl, uses: Collection[Use], *, narrows_hosts: bool = True) -> tuple[list[str], list[Acl]]:
    """Returns in which ways the grant is wider than these uses, and the ACLs that would do instead.

    Without a way, the list has the ACL itself. Without a use, it is empty.
    """
    if not uses:
        return [], []
    rights = _rights(acl, uses)
    hosts = _few((use.host for use in uses), acl.host, WILDCARD, MOST_HOSTS if narrows_hosts else 0)
    principals = _few((use.principal for use in uses), acl.principal, WILDCARD_PRINCIPAL, MOST_PRINCIPALS)
    needed = [
        Acl(acl.resource_type, name, pattern, principal, host, operation, acl.permission_type)
        for principal, host, (operation, pattern, name) in product(principals, hosts, sorted(rights))
    ]
    ways = {
        NAME: any((pattern, name) != (acl.pattern_type, acl.resource_name) for _, pattern, name in rights),
        OPERATION: any(operation != acl.operation for operation, _, _ in rights),
        HOST: hosts != [acl.host],
        PRINCIPAL: principals != [acl.principal],
    }
    return [way for way, is_wider in ways.items() if is_wider], needed


def _is_wide_name(acl: Acl) -> bool:
    return acl.pattern_type == "PREFIXED" or acl.resource_name == WILDCARD


def _few(used: Iterable[str], own: str, wildcard: str, most: int) -> list[str]:
    """Returns the values that were used, or the grant's own one if it is no wildcard or they are many."""
    values = sorted(set(used))
    return values if own == wildcard and len(values) <= most else [own]


def _rights(acl: Acl, uses: Iterable[Use]) -> set[tuple[str, str, str]]:
    """Returns operation, pattern type and name of what was used."""
    used = {(use.operation if acl.operation == "ALL" else acl.operation, use.resource_name) for use in uses}
    names = {name for _, name in used}
    placed = {(operation, *_pattern(acl, name, names)) for operation, name in used}
    implied = {
        (operation, pattern, name)
        for operation, pattern, name in placed
        for other in IMPLIED_BY.get(operation, ())
        if other != operation and (other, pattern, name) in placed
    }
    return placed - implied


def _pattern(acl: Acl, name: str, names: Collection[str]) -> tuple[str, str]:
    if not _is_wide_name(acl):
        return acl.pattern_type, acl.resource_name
    if len(names) <= MOST_NAMES:
        return "LITERAL", name
    shared, own = _shared_prefix(names), len(acl.resource_name) if acl.pattern_type == "PREFIXED" else 0
    if len(shared) >= max(SHORTEST_PREFIX, own + 1):
        return "PREFIXED", shared
    return acl.pattern_type, acl.resource_name


def _shared_prefix(names: Collection[str]) -> str:
    """Returns the longest prefix of all names: that of the first and the last one in order."""
    first, last = min(names), max(names)
    length = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:length]
