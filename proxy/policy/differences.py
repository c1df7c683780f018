"""The regions of requests that two policies decide differently, exactly (SPEC D18, decision 0144).

A request has a principal, a host, an operation, a resource type and a name. For each type and principal, the
ACLs that differ say which names can be decided differently. There the patterns of the ACLs of this principal
and of `User:*` cut the names into parts, and in each part the hosts of these ACLs cut the addresses. The
policies' own authorizers decide one request of each part. Principals that no ACL on these names concerns
are one, "any other".

Equal results are joined: first operations, then hosts, then names, then principals. So no two regions of one
direction and type agree in all but one of these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from proxy.metadata.acl import CLUSTER_NAME, WILDCARD_PRINCIPAL, Operation, ResourceType
from proxy.policy.hosts import ANY_HOST, Hosts, HostScope, Range, example_of, has_host, host_parts, joined
from proxy.policy.names import EVERY_NAME, Area, Names, Pattern, is_in, name_parts
from proxy.policy.names import example_of as example_of_names
from proxy.policy.policy import BY_TYPE, REQUESTED, AccessRequest, AclEntry, Policy, TypeAcls, caller


@dataclass(frozen=True, slots=True)
class Region:
    """Requests that only one of two policies allows: each combination of its parts."""

    allowed: bool
    """Whether the second policy allows them; otherwise the first one does."""
    resource_type: ResourceType
    others: bool
    """True: of any principal but `principals`; False: of `principals`."""
    principals: tuple[str, ...]
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
            and (self.names is None if named is None else self.names is not None and is_in(self.names, named))
            and has_host(self.hosts, request.host)
        )


class NotReproduced(Exception):
    """The authorizers decide the witness of a region alike: an error of this module."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The requests that are compared."""

    resource_type: ResourceType
    names: Area
    operations: int
    """The sum of 1 << operation."""
    hosts: HostScope = ANY_HOST
    principals: frozenset[str] | None = None
    """None: all."""
    by_type: bool = False
    """Whether decisions by resource type are compared too, for all hosts."""


def everything(kind: ResourceType) -> Scope:
    """Return the scope of all requests about a resource type."""
    bits = sum(1 << each for each in REQUESTED[kind])
    return Scope(kind, Area([EVERY_NAME]), bits, by_type=kind is BY_TYPE[1])


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
"""What changes for one principal, and for which names."""

_OTHERS = ""
"""In place of a principal: any that is not named."""


class Comparison:
    """Two policies, and what has been decided of them so far."""

    def __init__(self, old: Policy, new: Policy) -> None:
        self.policies = old, new
        self.decided = 0
        """The number of decisions that were requested of authorizers, in lists of all operations."""
        self.is_default_open = old.everyone or new.everyone
        self.differs_in_all = type(old.authorizer) is not type(new.authorizer) or old.everyone != new.everyone
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
        for kind in REQUESTED:
            if scope is None or scope.resource_type is kind:
                within = scope or everything(kind)
                of_type = _OfType(self, within, None if changed is None else changed.get(kind, {}))
                found += of_type.regions()
                if within.by_type:
                    found += of_type.by_type()
        for region in found:
            self._verify(region)
        return found

    def _verify(self, region: Region) -> None:
        was, is_now = (policy.decide(region.witness).allowed for policy in self.policies)
        if was is is_now or is_now is not region.allowed:
            raise NotReproduced(f"{region.witness}: {was} -> {is_now}")

    def is_super(self, principal: str) -> tuple[bool, bool]:
        old, new = self.policies
        return principal in old.super_users, principal in new.super_users

    def keys(self, situations: _Situations, principal: str, name: str, scope: Scope) -> list[_Key]:
        """Return what changes for a principal and a name, by a decision about each part of the hosts."""
        asked = situations, scope.resource_type, scope.operations, scope.hosts
        known = self._keys.get(asked)
        if known is None:
            known = self._keys[asked] = self._decide(situations, principal, name, scope)
        return known

    def _decide(self, situations: _Situations, principal: str, name: str, scope: Scope) -> list[_Key]:
        who = caller(principal or self.stranger)
        found: dict[tuple[bool, int], list[Range]] = {}
        texts = frozenset(entry.host for each in situations for entry in each.entries)
        for part in host_parts(texts, scope.hosts):
            self.decided += 2
            was, is_now = (
                policy.allowed(who, part.example, scope.resource_type, name) & scope.operations
                for policy in self.policies
            )
            for allowed, operations in ((True, is_now & ~was), (False, was & ~is_now)):
                if operations:
                    found.setdefault((allowed, operations), []).extend(part.hosts)
        return [(*key, joined(ranges)) for key, ranges in found.items()]


class _OfType:
    """The comparison for one resource type."""

    def __init__(
        self, comparison: Comparison, scope: Scope, changed: Mapping[str, Collection[Pattern]] | None
    ):
        self._of, self._scope = comparison, scope
        old, new = self._acls = tuple(policy.acls[scope.resource_type] for policy in comparison.policies)
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

    def _principals(self) -> list[str]:
        """Return those that the policies name."""
        named = {name for acls in self._acls for name in _named(acls)} - {WILDCARD_PRINCIPAL}
        return sorted(named | self._of.super_users)

    def regions(self) -> list[Region]:
        """Return the regions of this type, by name."""
        if self._scope.principals is not None:
            return self._joined(
                {each: self._changes(each, EVERY_PATTERN) for each in sorted(self._scope.principals)}
            )
        others = self._changes(_OTHERS, EVERY_PATTERN)
        found = {each: self._changes_of(each, others) for each in self._principals() if self._is_apart(each)}
        return self._joined(found | {_OTHERS: others})

    def _is_apart(self, principal: str) -> bool:
        """Whether a principal may be decided otherwise than others."""
        if principal in self._of.super_users or self._changed_for(principal):
            return True
        return any(self._area_of_others.meets(pattern) for pattern in self._patterns_of(principal))

    def _changed_for(self, principal: str) -> list[Pattern]:
        """Return the patterns on which something differs that concerns only this principal."""
        was, is_now = self._of.is_super(principal)
        old, new = (acls.owned.get(principal, set()) for acls in self._acls)
        return [
            *self._changed.get(principal, ()),
            *(Pattern(name, True) for name in old ^ new),
            *([EVERY_NAME] if was is not is_now else ()),
        ]

    def _patterns_of(self, principal: str) -> list[Pattern]:
        """Return all patterns that say something about this principal, in order."""
        patterns: set[Pattern] = set()
        for acls in self._acls:
            patterns.update(acls.of_principal.get(principal, ()))
            patterns.update(Pattern(name, True) for name in acls.owned.get(principal, ()))
        return sorted(patterns)

    def _changes_of(self, principal: str, others: _Changes) -> _Changes:
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

    def _changes(self, principal: str, within: Area) -> _Changes:
        """Return what changes for a principal on the names of an area."""
        found: _Changes = {}
        changed = Area(self._changed_for(principal)).common(self._names)
        area = Area([*within.common(self._area_of_others).roots, *within.common(changed).roots])
        own = self._patterns_of(principal)
        lengths = sorted(self._lengths.union(len(each.name) for each in own if not each.literal))
        for part in name_parts(area, self._cutting, own):
            name = part.example
            covering = [Pattern(name, True), *(Pattern(name[:n], False) for n in lengths if n <= len(name))]
            situations = self._situations(principal, name, covering)
            if situations is not None:
                for key in self._of.keys(situations, principal, part.example, self._scope):
                    found.setdefault(key, set()).symmetric_difference_update(part.names)
        return found

    def _situations(self, principal: str, name: str, covering: list[Pattern]) -> _Situations | None:
        """Return what the decisions depend on; None if it is the same for both policies."""
        was, is_now = (
            _Situation(
                frozenset(
                    entry
                    for patterns in (acls.of_principal.get(principal, {}), for_all)
                    for pattern in covering
                    for entry in patterns.get(pattern, ())
                ),
                is_super,
                name in acls.owned.get(principal, ()),
                sum(pattern in acls.counts for pattern in covering) if self._of.is_default_open else 0,
            )
            for acls, for_all, is_super in zip(
                self._acls, self._for_all, self._of.is_super(principal), strict=True
            )
        )
        return None if was == is_now and not self._of.differs_in_all else (was, is_now)

    def by_type(self) -> list[Region]:
        """Return the regions of decisions by resource type."""
        found = {}
        asked = self._scope.principals
        for principal in (*self._principals(), _OTHERS) if asked is None else asked:
            if self._area_of_others.roots or self._changed_for(principal):
                found[principal] = self._changes_by_type(principal)
            else:
                found[principal] = {}
        return self._joined(found)

    def _changes_by_type(self, principal: str) -> _Changes:
        operation, kind = BY_TYPE
        if all(self._of.is_super(principal)):
            return {}
        texts = frozenset(
            entry.host
            for acls in self._acls
            for name in (principal, WILDCARD_PRINCIPAL)
            for entries in acls.of_principal.get(name, {}).values()
            for entry in entries
            if entry.operation in (operation, Operation.ALL)
        )
        found: dict[bool, list[Range]] = {}
        for part in host_parts(texts):
            request = AccessRequest(principal or self._of.stranger, part.example, operation, kind, None)
            self._of.decided += 2
            was, is_now = (policy.decide(request).allowed for policy in self._of.policies)
            if was is not is_now:
                found.setdefault(is_now, []).extend(part.hosts)
        return {(allowed, 1 << operation, joined(ranges)): set() for allowed, ranges in found.items()}

    def _joined(self, changes: Mapping[str, _Changes]) -> list[Region]:
        """Return regions, in each of which the same changes for several principals."""
        groups: dict[tuple[_Key, Names], set[str]] = {}
        for principal, of_principal in changes.items():
            for key, names in of_principal.items():
                groups.setdefault((key, frozenset(names)), set()).add(principal)
        return sorted(
            (self._region(*group, members, changes) for group, members in groups.items()), key=_order
        )

    def _region(self, key: _Key, names: Names, members: set[str], compared: Collection[str]) -> Region:
        allowed, bits, hosts = key
        kind = self._scope.resource_type
        others = _OTHERS in members
        named = sorted(set(compared) - members if others else members)
        operations = tuple(each for each in REQUESTED[kind] if bits >> each & 1)
        host = example_of(hosts)
        assert host is not None, "a region has hosts of clients"
        witness = AccessRequest(
            self._of.stranger if others else named[0],
            host,
            operations[0],
            kind,
            example_of_names(names) if names else None,
        )
        return Region(allowed, kind, others, tuple(named), hosts, names or None, operations, witness)


EVERY_PATTERN = Area([EVERY_NAME])


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
    return region.names is None, region.allowed, region.others, region.principals, names, region.hosts
