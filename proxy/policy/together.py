"""Who may do all operations on a resource together, in any groups (decision 0172).

A session without a DENY is allowed what any of its principals is allowed alone, and a DENY of one of them is
a DENY of the session. So, for a host and a name, no session of a user has more than the one with all groups
that have no DENY there: no sets of groups are enumerated. Of a session that has all operations, principals
are left out as long as it still has them, so it has at most one for each operation.

If only what is new counts, a session lacked something before: one of its principals had a DENY, or none of
them had one of the operations. So beside the largest session those of the principals are decided that had not
the first, the second, and each other operation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import reduce
from operator import or_
from typing import NamedTuple

from proxy.metadata.acl import CLUSTER_NAME, OPERATIONS_ON, WILDCARD_PRINCIPAL, ResourceType
from proxy.policy.differences import Comparison, Scope, Session, is_group
from proxy.policy.hosts import host_parts
from proxy.policy.names import Area, Pattern, name_parts
from proxy.policy.policy import AccessRequest, AclEntry, Policy, caller
from proxy.security.authorizer import ACL, FILE_ACL
from proxy.security.standard import ALLOWING

_Right = tuple[str, AclEntry | None]
"""A principal with an ACL; None: with a topic."""


def session_with_all(
    policy: Policy, scope: Scope, spared: Collection[str], before: Policy | None
) -> AccessRequest | None:
    """Return a session that may do all operations of a scope on a name, None if there is none.

    `spared`: sessions with one of these do not count. `before`: nor do those that have all in this policy,
    which has the same settings. The request is for one of the operations.
    """
    return _Search(policy, scope, frozenset(spared), before).first()


class _Place(NamedTuple):
    """What decisions depend on: an address and a name."""

    host: str
    name: str


class _Search:
    def __init__(self, policy: Policy, scope: Scope, spared: frozenset[str], before: Policy | None) -> None:
        self._policy, self._before, self._scope = policy, before, scope
        self._kind, self._all = scope.resource_type, scope.operations
        # Who was a super user had all operations before, in any groups.
        self._spared = spared | (frozenset() if before is None else before.super_users)
        self._super_users = policy.super_users - self._spared
        self._stranger = Comparison(before or policy, policy).stranger
        while self._stranger in spared:
            self._stranger += "-else"
        self._indexes = [self._index(each) for each in self._policies]

    @property
    def _policies(self) -> list[Policy]:
        return [each for each in (self._policy, self._before) if each is not None]

    def _index(self, policy: Policy) -> dict[Pattern, set[_Right]]:
        acls, sessions = policy.acls[self._kind], self._scope.sessions
        asked = None if sessions is None else {WILDCARD_PRINCIPAL}.union(*sessions)
        # With allow.everyone.if.no.acl.found any ACL on a name decides about all principals.
        found: dict[Pattern, set[_Right]] = {each: set() for each in acls.counts} if policy.everyone else {}
        for principal, patterns in acls.of_principal.items():
            if principal not in self._spared and (asked is None or principal in asked):
                for pattern, entries in patterns.items():
                    found.setdefault(pattern, set()).update((principal, entry) for entry in entries)
        for owner, names in acls.owned.items():
            if owner not in self._spared:
                for name in names:
                    found.setdefault(Pattern(name, True), set()).add((owner, None))
        return found

    def first(self) -> AccessRequest | None:
        for name, rights in self._parts():
            hosts = frozenset(entry.host for _, entry in rights if entry is not None)
            for part in host_parts(hosts, self._scope.hosts):
                place = _Place(part.example, name)
                for session in self._sessions(place, {principal for principal, _ in rights}):
                    if self._counts(session, place):
                        who, *groups = self._smallest(session, place)
                        operation = OPERATIONS_ON[self._kind][0]
                        return AccessRequest(who, place.host, operation, self._kind, name, tuple(groups))
        return None

    def _parts(self) -> Iterator[tuple[str, set[_Right]]]:
        """Yield a name of each part of the names, with the ACLs and owners that cover it in any policy."""
        new, old = self._indexes[0], self._indexes[-1]
        area = self._scope.names
        if self._kind is ResourceType.CLUSTER:
            area = area.common(Area([Pattern(CLUSTER_NAME, True)]))
        settings = [(each.everyone, each.super_users, type(each.authorizer)) for each in self._policies]
        if self._before is not None and settings[0] == settings[1]:
            area = area.common(Area(each for each in {*new, *old} if new.get(each) != old.get(each)))
        patterns = sorted({*new, *old})
        lengths = sorted({len(each.name) for each in patterns if not each.literal})
        decided: set[tuple[object, ...]] = set()
        for part in name_parts(area, patterns):
            name = part.example
            covering = [Pattern(name, True), *(Pattern(name[:n], False) for n in lengths if n <= len(name))]
            rights = [
                frozenset(right for pattern in covering for right in index.get(pattern, ()))
                for index in self._indexes
            ]
            counts = (policy.acls[self._kind].counts for policy in self._policies if policy.everyone)
            situation = (*rights, *(any(pattern in each for pattern in covering) for each in counts))
            if situation not in decided and self._is_possible(rights[0]):
                yield name, {*rights[0], *rights[-1]}
            decided.add(situation)

    def _is_possible(self, rights: Collection[_Right]) -> bool:
        """Whether these ACLs may allow all operations. Most names are left out by this."""
        if self._policy.everyone or self._super_users or any(entry is None for _, entry in rights):
            return True
        allowing = {entry.operation for _, entry in rights if entry is not None and entry.allow}
        return all(not ALLOWING[each].isdisjoint(allowing) for each in OPERATIONS_ON[self._kind])

    def _sessions(self, place: _Place, named: set[str]) -> Iterator[Session]:
        """Yield sessions of which one has all operations if any session has."""
        if self._scope.sessions is not None:
            yield from sorted(self._scope.sessions)
            return
        yield from ((each,) for each in sorted(self._super_users))
        allowed = {
            each: bits
            for each in sorted({self._stranger, *named} - {WILDCARD_PRINCIPAL})
            if (bits := self._allowed_without_deny(each, place)) is not None
        }
        groups = [each for each in allowed if is_group(each)]
        for user in allowed:
            if is_group(user) or ~reduce(or_, (allowed[each] for each in (user, *groups))) & self._all:
                continue
            yield (user, *groups)
            if self._before is not None:
                had = {each: self._allowed(self._before, (each,), place) for each in (user, *groups)}
                for operation in OPERATIONS_ON[self._kind]:
                    yield tuple(each for each, bits in had.items() if not bits >> operation & 1)

    def _allowed_without_deny(self, principal: str, place: _Place) -> int | None:
        decisions = self._policy.decisions(caller(principal), place.host, self._kind, place.name)
        if any(not each.allowed and each.rule in (ACL, FILE_ACL) for each in decisions):
            return None
        return self._allowed(self._policy, (principal,), place)

    def _allowed(self, policy: Policy, session: Session, place: _Place) -> int:
        return policy.allowed(caller(session[0], session[1:]), place.host, self._kind, place.name)

    def _counts(self, session: Session, place: _Place) -> bool:
        """Whether a session has all operations, and had not before."""
        if not session or self._all & ~self._allowed(self._policy, session, place):
            return False
        return self._before is None or bool(self._all & ~self._allowed(self._before, session, place))

    def _smallest(self, session: Session, place: _Place) -> Session:
        """Leave out principals without which it counts too."""
        for each in session if self._scope.sessions is None else ():
            rest = tuple(other for other in session if other != each)
            if self._counts(rest, place):
                session = rest
        return session
