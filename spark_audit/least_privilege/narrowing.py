"""The narrower ACLs that would have allowed what a grant was used for. Pure: takes an ACL and its uses.

A grant may be wider than its use in four ways: by its resource name (`*` or a prefix), its operation (ALL),
its host and its principal (`User:*`). Each is narrowed only if the values that were used are few. Hosts are
narrowed only on request, to addresses or to networks (KIP-1276): addresses of clients change.

Names become prefixes by three rules, in this order. A name with a random part (`app-<uuid>`) stands for all
names that begin as it does up to there. More than MOST_ALIKE names that differ only from a digit in the last
part on stand for the part before. If more than MOST_NAMES are left, the prefix that they share replaces all.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from itertools import product
from types import MappingProxyType

from spark_audit.policy.acl_matches import IMPLIED_BY
from spark_audit.policy.enforced_acls import WILDCARD_PRINCIPAL
from spark_audit.proposal import WILDCARD, ProposedAcl

MOST_NAMES, MOST_HOSTS, MOST_PRINCIPALS, MOST_ALIKE = 10, 3, 10, 3
SHORTEST_PREFIX = 3
_EDGE = r"(?<![0-9A-Za-z])", r"(?![0-9A-Za-z])"
# Not the numbers of Kafka Streams' topics, such as 0000000003.
_RANDOM = re.compile(
    rf"{_EDGE[0]}([0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}"
    rf"|(?!00)(?=[a-f]*[0-9])[0-9a-f]{{8,}}"
    rf"|(?=[a-z]*[0-9])(?=[0-9]*[a-z])[0-9a-z]{{16,}}){_EDGE[1]}",
    re.IGNORECASE,
)
"""A UUID, 8 or more hexadecimal digits, or 16 or more letters and digits."""
_NUMBERED = re.compile(r"^(.*[^0-9A-Za-z])[0-9A-Za-z]*[0-9][0-9A-Za-z]*$", re.DOTALL)
NAME, OPERATION, HOST, PRINCIPAL = "name", "operation", "host", "principal"
PrefixLengths = Mapping[int, int]
"""IP version -> the prefix length of the networks that stand for hosts."""
NO_NETWORKS: PrefixLengths = MappingProxyType({})


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


def is_exact(acl: ProposedAcl) -> bool:
    """Return whether the ACL is of one principal, one operation and one name."""
    return acl.principal != WILDCARD_PRINCIPAL and acl.operation != "ALL" and not _is_wide_name(acl)


def narrower(
    acl: ProposedAcl,
    uses: Collection[Use],
    *,
    narrows_hosts: bool = False,
    networks: PrefixLengths = NO_NETWORKS,
) -> tuple[list[str], list[ProposedAcl]]:
    """Return in which ways the grant is wider than these uses, and the ACLs that would do instead.

    Without a way, the list has the ACL itself. Without a use, it is empty.
    """
    if not uses:
        return [], []
    rights = _rights(acl, uses)
    hosts = _hosts(acl, {use.host for use in uses}, networks) if narrows_hosts else [acl.host]
    principals = _few((use.principal for use in uses), acl.principal, WILDCARD_PRINCIPAL, MOST_PRINCIPALS)
    needed = [
        ProposedAcl(acl.resource_type, name, pattern, principal, host, operation, acl.permission_type)
        for principal, host, (operation, pattern, name) in product(principals, hosts, sorted(rights))
    ]
    ways = {
        NAME: any((pattern, name) != (acl.pattern_type, acl.resource_name) for _, pattern, name in rights),
        OPERATION: any(operation != acl.operation for operation, _, _ in rights),
        HOST: hosts != [acl.host],
        PRINCIPAL: principals != [acl.principal],
    }
    return [way for way, is_wider in ways.items() if is_wider], needed


def _is_wide_name(acl: ProposedAcl) -> bool:
    return acl.pattern_type == "PREFIXED" or acl.resource_name == WILDCARD


def _few(used: Iterable[str], own: str, wildcard: str, most: int) -> list[str]:
    """Return the values that were used, or the grant's own one if it is no wildcard or they are many."""
    values = sorted(set(used))
    return values if own == wildcard and len(values) <= most else [own]


def _hosts(acl: ProposedAcl, used: Collection[str], networks: PrefixLengths) -> list[str]:
    """Return the hosts that were used, several in one network as the network, or the grant's own one."""
    if not all(map(_can_be_host, used)):
        return [acl.host]
    within = defaultdict(set)
    for host in used:
        within[_network(host, networks)].add(host)
    few = {network if len(hosts) > 1 else min(hosts) for network, hosts in within.items()}
    return _few(few, acl.host, WILDCARD, MOST_HOSTS)


def _can_be_host(host: str) -> bool:
    """Return whether an ACL may name this address. With a zone it may not."""
    try:
        return "%" not in host and bool(ip_address(host))
    except ValueError:
        return False


def _network(host: str, lengths: PrefixLengths) -> str:
    """Return the network that the host is in; the host itself if the lengths lack its version of IP."""
    address = ip_address(host)
    length = lengths.get(address.version, address.max_prefixlen)
    return str(ip_network((address, length), strict=False))


def _rights(acl: ProposedAcl, uses: Iterable[Use]) -> set[tuple[str, str, str]]:
    """Return operation, pattern type and name of what was used, without what another one of them implies."""
    used = {(use.operation, use.resource_name) for use in uses}
    patterns = _patterns(acl, {name for _, name in used})
    placed = {(operation, *patterns[name]) for operation, name in used}
    return {right for right in placed if not any(_implies(other, right) for other in placed - {right})}


def _implies(wide: tuple[str, str, str], right: tuple[str, str, str]) -> bool:
    (other, *wide_place), (operation, *place) = wide, right
    covers = place == wide_place or (wide_place[0] == "PREFIXED" and place[1].startswith(wide_place[1]))
    return covers and other in (operation, *IMPLIED_BY.get(operation, ()))


def _patterns(acl: ProposedAcl, names: Collection[str]) -> Mapping[str, tuple[str, str]]:
    """Return pattern type and name for each name that was used."""
    own = acl.pattern_type, acl.resource_name
    if not _is_wide_name(acl):
        return dict.fromkeys(names, own)
    shortest = max(SHORTEST_PREFIX, len(acl.resource_name) + 1 if acl.pattern_type == "PREFIXED" else 0)
    numbered = {name: match[1] for name in names if (match := _NUMBERED.match(name))}
    alike = Counter(numbered.values())
    found = {}
    for name in names:
        found[name] = "LITERAL", name
        prefix = numbered[name] if name in numbered and alike[numbered[name]] > MOST_ALIKE else None
        if random := _RANDOM.search(name):
            prefix = name[: random.start()]
        if prefix is not None:
            found[name] = ("PREFIXED", prefix) if len(prefix) >= shortest else own
    if len(set(found.values())) > MOST_NAMES:
        shared = _shared_prefix(names)
        return dict.fromkeys(names, ("PREFIXED", shared) if len(shared) >= shortest else own)
    return found


def _shared_prefix(names: Collection[str]) -> str:
    """Return the longest prefix of all names: that of the first and the last one in order."""
    first, last = min(names), max(names)
    length = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:length]
