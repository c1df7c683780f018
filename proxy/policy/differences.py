"""The regions of requests that two policies decide differently, exactly (SPEC D18, decision 0144).

A request has a principal, a host, an operation, a resource type and a name. For each type and principal, the
ACLs that differ say which names can be decided differently. There the patterns of the ACLs of this principal
and of `User:*` cut the names into parts, and in each part the hosts of these ACLs cut the addresses. The
policies' own authorizers decide one request of each part. Principals that no ACL on these names concerns
are one, "any other".

A session is a principal and any number of groups. To an authorizer each of them has one of four ranks for a
host, operation and name: nothing, an ALLOW (or the topic), a DENY, super user. The highest one decides, with
that of `User:*`, which all have. (The owner of a topic in an ACL file ranks as a super user of it.) So two
policies decide about a session as about at most two of its principals: one with its highest rank in the
first, one with that in the second. If these are two, each has the higher rank in one policy only, so each has
ACLs on the name, and those of at least one differ: only such pairs with a group are decided, and those
requests returned that change for neither alone. By resource type, a session needs one name that it may
write, so what changes by type changes by name (but for allow.everyone.if.no.acl.found).

Equal results are joined: first operations, then hosts, then names, then principals. So no two regions of one
direction and type agree in all but one of these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from proxy.metadata.acl import CLUSTER_NAME, OPERATIONS_ON, WILDCARD_PRINCIPAL, Operation, ResourceType
from proxy.policy.hosts import ANY_HOST, Hosts, HostScope, Range, example_of, has_host, host_parts, joined
from proxy.policy.names import EVERY_NAME, Area, Names, Pattern, is_in, name_parts
from proxy.policy.names import example_of as example_of_names
from proxy.policy.policy import BY_TYPE, AccessRequest, AclEntry, Policy, TypeAcls, caller
from proxy.security.principal import GROUP_TYPE


@dataclass(frozen=True, slots=True)
class Region:
    """Requests that only one of two policies allows: each combination of its parts."""

    allowed: bool
    """Whether the second policy allows them; otherwise the first one does."""
    resource_type: ResourceType
    others: bool
    """True: of any principal but `principals`; False: of `principals`."""
    principals: tuple[str, ...]
    groups: tuple[str, ...]
    """"Group:x", those that each of the principals is in besides."""
    hosts: Hosts
    names: Names | None
    """None: by resource type."""
    operations: tuple[Operation, ...]
    witness: AccessRequest

    def contains(self, request: AccessRequest) -> bool:
        named = request.resource_name
        return (
            self.resource_type is request.resource_type
            and request.operation in self.operations
            and (request.principal in self.principals) is not self.others
            and request.groups == self.groups
            and (self.names is None if named is None else self.names is not None and is_in(self.names, named))
            and has_host(self.hosts, request.host)
        )


class NotReproduced(Exception):
    """The authorizers decide the witness of a region alike: an error of this module."""


Session = tuple[str, ...]
"""A principal, and the groups that it is in besides."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The requests that are compared."""

    resource_type: ResourceType
    names: Area
    operations: int
    """The sum of 1 << operation."""
    hosts: HostScope = ANY_HOST
    sessions: frozenset[Session] | None = None
    """None: all principals."""
    pairs: bool = False
    """Whether sessions with a group besides are compared too, as far as they differ from both alone."""
    by_type: bool = False
    """Whether decisions by resource type are compared too, for all hosts."""


def everything(kind: ResourceType) -> Scope:
    """Return the scope of all requests about a resource type."""
    bits = sum(1 << each for each in OPERATIONS_ON[kind])
    return Scope(kind, Area([EVERY_NAME]), bits, pairs=True, by_type=kind is BY_TYPE[1])


Changed = Mapping[ResourceType, Mapping[str, Collection[Pattern]]]
"""The patterns on which the ACLs of a principal differ."""


def differences(
    old: Policy, new: Policy, scope: Scope | None = None, changed: Changed | None = None
) -> list[Region]:
    """Return all requests that the two decide differently, as regions without a common request.

    `changed` may be given if it is known. NotReproduced: see there.
    """
    return Comparison(old, new).regions(scope, changed)


class _Situation(NamedTuple):
    """All that a policy's decision depends on, besides the host: equal situations are decided alike."""

    entries: frozenset[AclEntry]
    is_super: bool
    is_owner: bool
    covering: int
    """The number of patterns of any ACLs that cover the name, if that matters."""


_Situations = tuple[_Situation, _Situation]
"""By the two policies."""

_Key = tuple[bool, int, Hosts]
"""Allowed newly or not, the operations, and the hosts."""


_Changes = dict[_Key, set[Pattern]]
"""What changes for one session, and for which names."""

_OTHERS: Session = ("",)
"""In place of a session: any principal that is not named."""


class Comparison:
    """Two policies, and what has been decided of them so far."""

    def __init__(self, old: Policy, new: Policy) -> None:
        self.policies = old, new
        self.decided = 0
        """The number of decisions that were requested of authorizers, in lists of all operations."""
        self.is_default_open = old.everyone or new.everyone
        self.differs_in_kind = type(old.authorizer) is not type(new.authorizer)
        self.differs_in_all = self.differs_in_kind or old.everyone != new.everyone
        self.super_users = old.super_users | new.super_users
        self._keys: dict[tuple[object, ...], list[_Key]] = {}

    @cached_property
    def stranger(self) -> str:
        """A principal that neither policy names."""
        named = {name for policy in self.policies for acls in policy.acls.values() for name in _named(acls)}
        found = "User:someone"
        while found in named | self.super_users:
            found += "-else"
        return found

    def regions(self, scope: Scope | None = None, changed: Changed | None = None) -> list[Region]:
        """See `differences`."""
        found: list[Region] = []
        for kind in OPERATIONS_ON:
            if scope is None or scope.resource_type is kind:
                within = scope or everything(kind)
                of_type = _OfType(self, within, None if changed is None else changed.get(kind, {}))
                found += of_type.regions()
                if within.pairs:
                    found += of_type.pairs()
                if within.by_type:
                    found += of_type.by_type()
        for region in found:
            self._verify(region)
        return found

    def _verify(self, region: Region) -> None:
        was, is_now = (policy.decide(region.witness).allowed for policy in self.policies)
        if was is is_now or is_now is not region.allowed:
            raise NotReproduced(f"{region.witness}: {was} -> {is_now}")

    def is_super(self, session: Session) -> tuple[bool, bool]:
        old, new = (not policy.super_users.isdisjoint(session) for policy in self.policies)
        return old, new

    def keys(
        self, sessions: tuple[Session, ...], situations: tuple[_Situations, ...], name: str, scope: Scope
    ) -> list[_Key]:
        """Return what changes on a name for the first session and for none of the others.

        `situations`: all that the decisions about the sessions depend on.
        """
        asked = situations, len(sessions), scope.resource_type, scope.operations, scope.hosts
        known = self._keys.get(asked)
        if known is None:
            known = self._keys[asked] = self._decide(sessions, situations, name, scope)
        return known

    def _decide(
        self, sessions: tuple[Session, ...], situations: tuple[_Situations, ...], name: str, scope: Scope
    ) -> list[_Key]:
        found: dict[tuple[bool, int], list[Range]] = {}
        texts = frozenset(entry.host for pair in situations for each in pair for entry in each.entries)
        for part in host_parts(texts, scope.hosts):
            (allowed, denied), *others = (
                self._newly(each, part.example, scope.resource_type, name) for each in sessions
            )
            for is_now, operations, others_too in (
                (True, allowed, [each[0] for each in others]),
                (False, denied, [each[1] for each in others]),
            ):
                for bits in (scope.operations, *(~each for each in others_too)):
                    operations &= bits
                if operations:
                    found.setdefault((is_now, operations), []).extend(part.hosts)
        return [(*key, joined(ranges)) for key, ranges in found.items()]

    def _newly(self, session: Session, host: str, kind: ResourceType, name: str) -> tuple[int, int]:
        """Return the operations that are newly allowed and newly denied."""
        who = caller(session[0] or self.stranger, session[1:])
        self.decided += 2
        was, is_now = (policy.allowed(who, host, kind, name) for policy in self.policies)
        return is_now & ~was, was & ~is_now


class _OfType:
    """The comparison for one resource type."""

    def __init__(
        self, comparison: Comparison, scope: Scope, changed: Mapping[str, Collection[Pattern]] | None
    ):
        self._of, self._scope = comparison, scope
        old, new = self._acls = tuple(policy.acls[scope.resource_type] for policy in comparison.policies)
        if comparison.differs_in_kind:
            changed = {each: self._patterns_of((each,)) for acls in self._acls for each in _named(acls)}
        self._changed = _changed(old, new) if changed is None else changed
        self._for_all = tuple(acls.of_principal.get(WILDCARD_PRINCIPAL, {}) for acls in self._acls)
        cutting, changed_for_all = (
            {*self._for_all[0], *self._for_all[1]},
            {*self._changed.get(WILDCARD_PRINCIPAL, ())},
        )
        if comparison.is_default_open:
            # Any ACL on a name decides about all principals.
            cutting |= old.counts.keys() | new.counts.keys()
            changed_for_all |= old.counts.keys() ^ new.counts.keys()
        if comparison.differs_in_all:
            changed_for_all = {EVERY_NAME}
        self._cutting = sorted(cutting)
        self._names = scope.names
        if scope.resource_type is ResourceType.CLUSTER:
            self._names = scope.names.common(Area([Pattern(CLUSTER_NAME, True)]))
        self._area_of_others = Area(changed_for_all).common(self._names)
        self._lengths = {len(each.name) for each in cutting if not each.literal}

    def _principals(self) -> list[Session]:
        """Return those that the policies name."""
        named = {name for acls in self._acls for name in _named(acls)} - {WILDCARD_PRINCIPAL}
        return [(each,) for each in sorted(named | self._of.super_users)]

    def regions(self) -> list[Region]:
        """Return the regions of this type, by name."""
        if self._scope.sessions is not None:
            return self._joined(
                {each: self._changes(each, EVERY_PATTERN) for each in sorted(self._scope.sessions)}
            )
        others = self._changes(_OTHERS, EVERY_PATTERN)
        found = {each: self._changes_of(each, others) for each in self._principals() if self._is_apart(each)}
        return self._joined(found | {_OTHERS: others})

    def _is_apart(self, principal: Session) -> bool:
        """Whether a principal may be decided otherwise than others."""
        if not self._of.super_users.isdisjoint(principal) or self._changed_for(principal):
            return True
        return any(self._area_of_others.meets(pattern) for pattern in self._patterns_of(principal))

    def _changed_for(self, session: Session) -> list[Pattern]:
        """Return the patterns on which something differs that concerns only this session."""
        was, is_now = self._of.is_super(session)
        old, new = self._acls
        return [
            *(pattern for each in session for pattern in self._changed.get(each, ())),
            *(
                Pattern(name, True)
                for each in session
                for name in old.owned.get(each, set()) ^ new.owned.get(each, set())
            ),
            *([EVERY_NAME] if was is not is_now else ()),
        ]

    def _patterns_of(self, session: Session) -> list[Pattern]:
        """Return all patterns that say something about this session, in order."""
        patterns: set[Pattern] = set()
        for acls in self._acls:
            for principal in session:
                patterns.update(acls.of_principal.get(principal, ()))
                patterns.update(Pattern(name, True) for name in acls.owned.get(principal, ()))
        return sorted(patterns)

    def _changes_of(self, principal: Session, others: _Changes) -> _Changes:
        """Return what changes for a principal: as for others, but for the names on which it has ACLs."""
        was, is_now = self._of.is_super(principal)
        if was is not is_now:
            return self._changes(principal, EVERY_PATTERN)
        if was:
            return {}
        own = Area(self._patterns_of(principal))
        found = {key: set(names) for key, names in others.items()}
        for changes in (self._changes(_OTHERS, own), self._changes(principal, own)):
            for key, names in changes.items():
                found.setdefault(key, set()).symmetric_difference_update(names)
        return {key: names for key, names in found.items() if names}

    def _changes(self, session: Session, within: Area, of: tuple[Session, ...] = ()) -> _Changes:
        """Return what changes for a session on the names of an area, and for none of the sessions `of`."""
        found: _Changes = {}
        changed = Area(self._changed_for(session)).common(self._names)
        area = Area([*within.common(self._area_of_others).roots, *within.common(changed).roots])
        own = self._patterns_of(session)
        lengths = sorted(self._lengths.union(len(each.name) for each in own if not each.literal))
        for part in name_parts(area, self._cutting, own):
            name = part.example
            covering = [Pattern(name, True), *(Pattern(name[:n], False) for n in lengths if n <= len(name))]
            situations = tuple(self._situations(each, name, covering) for each in of or (session,))
            if self._of.differs_in_all or any(was != is_now for was, is_now in situations):
                for key in self._of.keys((session, *of), situations, name, self._scope):
                    found.setdefault(key, set()).symmetric_difference_update(part.names)
        return found

    def _situations(self, session: Session, name: str, covering: list[Pattern]) -> _Situations:
        """Return what the decisions of the two policies depend on."""
        was, is_now = (
            _Situation(
                frozenset(
                    entry
                    for patterns in (*(acls.of_principal.get(each, {}) for each in session), for_all)
                    for pattern in covering
                    for entry in patterns.get(pattern, ())
                ),
                is_super,
                name in acls.owned.get(session[0], ()),
                sum(pattern in acls.counts for pattern in covering) if self._of.is_default_open else 0,
            )
            for acls, for_all, is_super in zip(
                self._acls, self._for_all, self._of.is_super(session), strict=True
            )
        )
        return was, is_now

    def pairs(self) -> list[Region]:
        """Return what changes for a session with a group besides, and for neither of the two alone."""
        old, new = self._of.policies
        pairs: set[Session] = set()
        for (one,) in self._principals() if self._scope.sessions is None else self._scope.sessions:
            changed = Area(self._changed_for((one,))).common(self._names).roots
            if not changed:
                continue
            # One of the two has a higher rank in the first policy, so it has ACLs there or was a super user.
            others = self._acls[0].naming(changed) | (old.super_users ^ new.super_users)
            for other in others - {one, WILDCARD_PRINCIPAL}:
                if is_group(one) or is_group(other):
                    first, second = sorted((one, other), key=lambda each: (is_group(each), each))
                    pairs.add((first, second))
        return self._joined({pair: self._changes_of_pair(*pair) for pair in sorted(pairs)})

    def _changes_of_pair(self, *pair: str) -> _Changes:
        alone = tuple((each,) for each in pair)
        within = EVERY_PATTERN
        for each in alone:
            was, is_now = self._of.is_super(each)
            if was and is_now:
                return {}
            if was is is_now:
                within = within.common(Area(self._patterns_of(each)))
        return self._changes(pair, within, alone)

    def by_type(self) -> list[Region]:
        """Return the regions of decisions by resource type."""
        found: dict[Session, _Changes] = {}
        asked = self._scope.sessions
        for session in (*self._principals(), _OTHERS) if asked is None else asked:
            if self._area_of_others.roots or self._changed_for(session):
                found[session] = self._changes_by_type(session)
            else:
                found[session] = {}
        return self._joined(found)

    def _changes_by_type(self, session: Session) -> _Changes:
        operation, kind = BY_TYPE
        if all(self._of.is_super(session)):
            return {}
        texts = frozenset(
            entry.host
            for acls in self._acls
            for name in (*session, WILDCARD_PRINCIPAL)
            for entries in acls.of_principal.get(name, {}).values()
            for entry in entries
            if entry.operation in (operation, Operation.ALL)
        )
        principal = session[0] or self._of.stranger
        found: dict[bool, list[Range]] = {}
        for part in host_parts(texts):
            request = AccessRequest(principal, part.example, operation, kind, None, session[1:])
            self._of.decided += 2
            was, is_now = (policy.decide(request).allowed for policy in self._of.policies)
            if was is not is_now:
                found.setdefault(is_now, []).extend(part.hosts)
        return {(allowed, 1 << operation, joined(ranges)): set() for allowed, ranges in found.items()}

    def _joined(self, changes: Mapping[Session, _Changes]) -> list[Region]:
        """Return regions, in each of which the same changes for several principals."""
        joined_by: dict[tuple[_Key, Names, Session], set[str]] = {}
        for (principal, *groups), of_session in changes.items():
            for key, names in of_session.items():
                joined_by.setdefault((key, frozenset(names), tuple(groups)), set()).add(principal)
        return sorted((self._region(*by, members, changes) for by, members in joined_by.items()), key=_order)

    def _region(
        self, key: _Key, names: Names, groups: Session, members: set[str], compared: Collection[Session]
    ) -> Region:
        allowed, bits, hosts = key
        kind = self._scope.resource_type
        others = _OTHERS[0] in members
        named = sorted({each[0] for each in compared} - members if others else members)
        operations = tuple(each for each in OPERATIONS_ON[kind] if bits >> each & 1)
        host = example_of(hosts)
        assert host is not None, "a region has hosts of clients"
        witness = AccessRequest(
            self._of.stranger if others else named[0],
            host,
            operations[0],
            kind,
            example_of_names(names) if names else None,
            groups,
        )
        return Region(allowed, kind, others, tuple(named), groups, hosts, names or None, operations, witness)


EVERY_PATTERN = Area([EVERY_NAME])


def is_group(principal: str) -> bool:
    return principal.startswith(f"{GROUP_TYPE}:")


def _named(acls: TypeAcls) -> Iterator[str]:
    yield from acls.of_principal
    yield from acls.owned


def _changed(old: TypeAcls, new: TypeAcls) -> dict[str, list[Pattern]]:
    """Return the patterns on which the ACLs of each principal differ."""
    found = {}
    for principal in {*old.of_principal, *new.of_principal}:
        was, is_now = (acls.of_principal.get(principal, {}) for acls in (old, new))
        found[principal] = [each for each in {*was, *is_now} if was.get(each) != is_now.get(each)]
    return {principal: patterns for principal, patterns in found.items() if patterns}


def _order(region: Region) -> tuple[object, ...]:
    names = sorted(region.names or ())
    who = region.groups, region.others, region.principals
    return region.names is None, region.allowed, who, names, region.hosts
