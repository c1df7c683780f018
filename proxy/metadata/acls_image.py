"""All ACLs of the cluster at one offset, indexed for decisions.

    resource type -> pattern (literal or prefixed) -> name -> (principal, host) -> ACLs

A decision looks up the literal name, the wildcard, and one prefix for each length that some prefixed pattern
has; in each it looks up those of four subjects that have ACLs at all. So it costs O(length of the name),
whatever the number of ACLs, principals or hosts. For the question whether a subject may do something to any
resource, the image also has the sorted names that each subject is allowed and denied.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, takewhile
from types import MappingProxyType
from typing import ClassVar

from proxy.metadata.acl import (
    IN_EVERY_ZONE,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    ResourceType,
)
from proxy.metadata.networks import Lengths, networks_of
from proxy.metadata.sharded_map import ShardedMap
from proxy.metadata.sorted_names import Pair, SortedNames
from proxy.wire.work import paced

Subject = tuple[str, str]
"""(principal, host) as in an ACL, wildcards included."""

PatternAcls = ShardedMap[Subject, tuple[Acl, ...]]
"""The ACLs on one resource pattern, by subject; for one subject DENY precedes ALLOW."""

Entry = tuple[str, str, Operation, PatternType, bool]
"""A subject, the operation of the ACL (ALL is a separate one), literal or prefixed, ALLOW or not."""


@dataclass(frozen=True, slots=True)
class ResourceAcls:
    """The ACLs on one resource type."""

    literal: ShardedMap[str, PatternAcls] = field(default_factory=ShardedMap)
    prefixed: ShardedMap[str, PatternAcls] = field(default_factory=ShardedMap)
    prefix_lengths: tuple[int, ...] = ()
    """The lengths of the names in `prefixed`, ascending, without duplicates."""
    prefixes_of_length: MappingProxyType[int, int] = field(default_factory=lambda: MappingProxyType({}))
    acls_of_subject: ShardedMap[Subject, int] = field(default_factory=ShardedMap)
    """The number of ACLs of each subject that has any."""
    names: ShardedMap[Entry, SortedNames] = field(default_factory=ShardedMap)
    """The resource names of equal ACLs, with the ids of the ACLs."""

    def covering(self, resource_name: str) -> Iterator[PatternAcls]:
        """Yield the ACLs on each pattern that covers the name: literal, longest prefix first, wildcard."""
        literal = self.literal.get(resource_name)
        if literal is not None:
            yield literal
        yield from self.prefixes(resource_name)
        wildcard = self.literal.get(WILDCARD)
        if wildcard is not None and resource_name != WILDCARD:
            yield wildcard

    def prefixes(self, resource_name: str, shortest: int = 0) -> Iterator[PatternAcls]:
        """Yield the ACLs on each prefix of the name with at least `shortest` characters, longest first."""
        lengths = self.prefix_lengths
        for index in range(bisect_right(lengths, len(resource_name)) - 1, -1, -1):
            if lengths[index] < shortest:
                return
            prefixed = self.prefixed.get(resource_name[: lengths[index]])
            if prefixed is not None:
                yield prefixed

    def covers(self, resource_name: str) -> bool:
        """Whether any ACL, of any subject, is on a pattern that covers the name."""
        return next(self.covering(resource_name), None) is not None

    def patterns(self, pattern_type: PatternType) -> ShardedMap[str, PatternAcls]:
        return self.prefixed if pattern_type == PatternType.PREFIXED else self.literal


@dataclass(frozen=True, slots=True)
class AclsImage:
    """Immutable; two images are equal if they have the same ACLs, whatever their history."""

    EMPTY: ClassVar["AclsImage"]

    by_id: ShardedMap[str, Acl] = field(default_factory=ShardedMap)
    """The ACLs as they are in the log."""
    resources: MappingProxyType[ResourceType, ResourceAcls] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """The ACLs as decisions read them: see `Acl.enforced`. Those that have ended are not among them."""
    networks: bool = True
    """Whether networks are in effect as hosts (KIP-1276). In Kafka's own log the level of metadata.version
    decides; before, a network is a host that is not understood."""
    acls_of_network: ShardedMap[str, int] = field(default_factory=ShardedMap)
    """The number of ACLs of each network, as decisions look it up, that has any."""
    network_lengths: Lengths = ()
    """The lengths of their prefixes, longest first."""
    networks_of_length: MappingProxyType[tuple[int, int], int] = field(
        default_factory=lambda: MappingProxyType({})
    )
    ends: SortedNames = field(default_factory=lambda: SortedNames.EMPTY)
    """`Acl.end` of each ACL in effect that has one."""
    ended: SortedNames = field(default_factory=lambda: SortedNames.EMPTY)
    """`Acl.end` of each ACL that has ended and is still in the log."""
    acls_of_group: ShardedMap[str, int] = field(default_factory=ShardedMap)
    """The number of ACLs for "Group:NAME", by the name, of each group that has any (SPEC A8)."""

    @property
    def next_end_ms(self) -> int | None:
        """When the next ACL ends, in ms since the epoch; None: none does."""
        first = self.ends.at_or_after("")
        return None if first is None else self.by_id[first[1]].until_ms

    def due(self, ends: SortedNames, now_ms: int, at_most: int) -> list[Acl]:
        """Return the first of `ends` or `ended`, as far as they are at `now_ms` or before."""
        after = f"{now_ms + 1:019d}"
        due = takewhile(lambda end: end[0] < after, islice(ends, at_most))
        return [self.by_id[acl_id] for _, acl_id in due]

    def in_effect(self, acl: Acl) -> bool:
        """Whether an ACL of `by_id` has not ended."""
        end: Pair | None = acl.end
        return end is None or self.ended.at_or_after(end[0]) != end

    def hosts_of(self, address: str) -> tuple[str, ...]:
        """Return the hosts of ACLs, as decisions read them, that a client at this address has."""
        hosts: tuple[str, ...] = (address, WILDCARD)
        without_zone = address
        if address.startswith("fe"):
            without_zone = address.partition("%")[0]
            hosts = (address, without_zone + IN_EVERY_ZONE, WILDCARD)
        if not self.network_lengths:
            return hosts
        within = networks_of(without_zone, self.network_lengths)
        return (*hosts, *(network for network in within if network in self.acls_of_network))

    @property
    def count(self) -> int:
        """The number of ACLs in effect."""
        return len(self.by_id) - len(self.ended)

    def select(self, acl_filter: AclFilter) -> Iterator[Acl]:
        """Yield every ACL in effect that the filter matches, in no particular order.

        A filter with a resource name looks only at patterns that have or cover that name; any other filter
        looks at all ACLs.
        """
        return (acl for acl in paced(self._candidates(acl_filter), 2) if acl_filter.matches(acl))

    def _candidates(self, acl_filter: AclFilter) -> list[Acl]:
        name = acl_filter.resource_name
        if name is None:
            everything = list(self.by_id.each_value())
            return [acl for acl in paced(everything) if self.in_effect(acl)]
        # A pattern may be found twice, and an ACL on several types, but ACLs must be returned once.
        found = {
            acl.id: None
            for resource in self.resources.values()
            for pattern in (*resource.covering(name), resource.literal.get(name), resource.prefixed.get(name))
            if pattern is not None
            for acls in pattern.values()
            for acl in acls
        }
        return [self.by_id[acl_id] for acl_id in found]

    def of_networks(self) -> Iterator[Acl]:
        """Yield the ACLs whose host may be a network."""
        return (acl for acl in self.by_id.each_value() if "/" in acl.host)

    def existing(self, acl: Acl) -> Acl | None:
        """Return the ACL in effect with the binding of `acl`, or None: CreateAcls creates each only once."""
        enforced = acl.enforced(self.networks)
        on_all = enforced.resource_type is ResourceType.ANY
        resource = self.resources.get(ResourceType.TOPIC if on_all else enforced.resource_type)
        if resource is None:
            return None
        pattern = resource.patterns(enforced.pattern_type).get(enforced.resource_name)
        here = () if pattern is None else pattern.get((enforced.principal, enforced.host)) or ()
        stored = (self.by_id[other.id] for other in here)
        return next((other for other in stored if other.binding == acl.binding), None)


AclsImage.EMPTY = AclsImage()
