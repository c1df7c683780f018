"""Sets of client addresses, as ACLs distinguish them: addresses and networks.

A set is a sorted tuple of ranges that do not touch, so equal sets are equal tuples. It says nothing about
what no client has: 0.0.0.0, which is in no network (proxy.metadata.networks), and an IPv4 address written as
IPv6; nor about the zones of link-local clients.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import NamedTuple

from proxy.metadata.acl import IN_EVERY_ZONE, WILDCARD, address_text
from proxy.metadata.networks import network_text
from proxy.policy.names import Branch


class Range(NamedTuple):
    """Addresses from `first` to `last`, both included, as numbers of 32 or 128 `bits`."""

    bits: int
    first: int
    last: int


Hosts = tuple[Range, ...]

_IPV4, _IPV6 = Range(32, 0, 2**32 - 1), Range(128, 0, 2**128 - 1)
EVERY_HOST: Hosts = (_IPV4, _IPV6)
_NO_CLIENT = (Range(32, 0, 0), Range(128, 0xFFFF << 32, (0xFFFF << 32) + 2**32 - 1))
_READABLE = (Range(32, 0xC0000201, 0xC0000201), Range(128, 0x20010DB8 << 96 | 1, 0x20010DB8 << 96 | 1))
"""192.0.2.1 and 2001:db8::1, which are for examples."""


class HostPart(NamedTuple):
    """Addresses that the same hosts of ACLs match; `example` is one of them in Java's form."""

    example: str
    hosts: Hosts


@lru_cache(maxsize=10_000)
def range_of(host: str) -> Range | None:
    """Return the addresses of an ACL's host; None for `*`, and for one that matches no address."""
    known = network_text(host) if "/" in host else address_text(host)
    if known is None or ("/" not in host and known != host.removesuffix(IN_EVERY_ZONE)):
        return None
    network = ip_network(known)
    first = int(network.network_address)
    return Range(network.max_prefixlen, first, first + network.num_addresses - 1)


class HostScope(NamedTuple):
    """Some hosts, as ACLs have them, or all `others`."""

    hosts: frozenset[str]
    others: bool

    def includes(self, address: str) -> bool:
        ranges = [found for host in self.hosts if (found := range_of(host)) is not None]
        return has_host(tuple(ranges), address) is not self.others


ANY_HOST = HostScope(frozenset(), others=True)


@lru_cache(maxsize=1_000)
def host_parts(hosts: frozenset[str], scope: HostScope = ANY_HOST) -> tuple[HostPart, ...]:
    """Return the parts into which hosts of ACLs cut the addresses of a scope."""
    ranges = {found for host in hosts | scope.hosts if (found := range_of(host)) is not None}
    parts = _parts_of(_IPV4, ranges) + _parts_of(_IPV6, ranges)
    return tuple(part for part in parts if scope.includes(part.example))


def _parts_of(family: Range, ranges: Iterable[Range]) -> list[HostPart]:
    # As networks do, two ranges are nested or disjoint: a longer one precedes what it contains.
    of_family = {family, *(each for each in ranges if each.bits == family.bits)}
    nodes = sorted(of_family, key=lambda node: (node.first, -node.last))
    parents: dict[Range, Range | None] = {}
    open_nodes: list[Range] = []
    below: dict[Range, list[Range]] = {node: [] for node in nodes}
    for node in nodes:
        while open_nodes and open_nodes[-1].last < node.first:
            open_nodes.pop()
        parents[node] = open_nodes[-1] if open_nodes else None
        if open_nodes:
            below[open_nodes[-1]].append(node)
        open_nodes.append(node)
    rest = {node: list(_without(node, below[node])) for node in nodes}
    found = []
    for node in reversed(nodes):
        parent, example = parents[node], example_of(rest[node])
        if example is not None:
            found.append(HostPart(example, joined(rest[node])))
        elif parent is not None:  # No client is in it alone, so it need not be a part.
            rest[parent] += rest[node]
    return found[::-1]


def _without(of: Range, taken: Iterable[Range]) -> Iterator[Range]:
    """Yield what is left of a range without some sorted disjoint ones in it."""
    first = of.first
    for each in taken:
        if first < each.first:
            yield Range(of.bits, first, each.first - 1)
        first = each.last + 1
    if first <= of.last:
        yield Range(of.bits, first, of.last)


def example_of(ranges: Iterable[Range]) -> str | None:
    """Return an address of some ranges that a client may have, in Java's form; None: there is none."""
    of_clients = [
        left for each in ranges for left in _without(each, (hole for hole in _NO_CLIENT if _meet(hole, each)))
    ]
    for readable in _READABLE:
        if any(_meet(readable, each) for each in of_clients):
            return _text(readable.bits, readable.first)
    widest = max(of_clients, key=lambda each: each.last - each.first, default=None)
    # The first address of a network is seldom a client's.
    return None if widest is None else _text(widest.bits, min(widest.first + 1, widest.last))


def _meet(one: Range, other: Range) -> bool:
    return one.bits == other.bits and one.first <= other.last and other.first <= one.last


def _text(bits: int, number: int) -> str:
    if bits == 32:
        return str(ip_address(number))
    return ":".join(f"{int(group, 16):x}" for group in IPv6Address(number).exploded.split(":"))


def joined(ranges: Iterable[Range]) -> Hosts:
    """Return the set of the addresses of some disjoint ranges."""
    found: list[Range] = []
    for each in sorted(ranges):
        if found and found[-1].bits == each.bits and found[-1].last + 1 == each.first:
            each = Range(each.bits, found.pop().first, each.last)
        found.append(each)
    return tuple(found)


def has_host(hosts: Hosts, address: str) -> bool:
    """Whether an address is in the set."""
    parsed = ip_address(address)
    return any(_meet(each, Range(parsed.max_prefixlen, int(parsed), int(parsed))) for each in hosts)


def branches_of_hosts(hosts: Hosts) -> tuple[Branch, ...]:
    """Return a set of addresses as a tree of the fewest networks."""
    four, six = (
        _borders(family, [each for each in hosts if each.bits == family.bits])[False] for family in EVERY_HOST
    )
    if [tree[0][0] for tree in (four, six) if tree] == [_IPV4, _IPV6]:
        return (Branch(WILDCARD, tuple(map(_branch, (*four[0][1], *six[0][1])))),)
    return tuple(map(_branch, (*four, *six)))


_Tree = tuple[Range, tuple["_Tree", ...]]


def _borders(network: Range, inside: list[Range]) -> dict[bool, tuple[_Tree, ...]]:
    """Return the fewest networks at whose border membership changes.

    By whether the addresses around this network are in the set.
    """
    here = [each for each in inside if _meet(each, network)]
    if not here:
        return {False: (), True: ((network, ()),)}
    if here[0].first <= network.first and network.last <= here[0].last:
        return {False: ((network, ()),), True: ()}
    middle = (network.first + network.last) // 2
    halves = [
        _borders(Range(network.bits, *half), here)
        for half in ((network.first, middle), (middle + 1, network.last))
    ]
    around = {is_in: (*halves[0][is_in], *halves[1][is_in]) for is_in in (False, True)}
    return {is_in: min(around[is_in], ((network, around[not is_in]),), key=_count) for is_in in (False, True)}


def _count(trees: tuple[_Tree, ...]) -> int:
    return sum(1 + _count(below) for _, below in trees)


def _branch(tree: _Tree) -> Branch:
    network, below = tree
    size = network.last - network.first + 1
    text = _text(network.bits, network.first)
    if size > 1:
        text = f"{text}/{network.bits - size.bit_length() + 1}"
    return Branch(text, tuple(map(_branch, below)))
