"""Warnings about values that are valid, and are rarely what was meant.

`penstock check` prints them. A moment in seconds where milliseconds belong, an address at which clients pass
the proxy by, a principal of a type that no listener makes: each alone could be right, so none is an error.
"""

from collections.abc import Iterable, Iterator
from itertools import combinations, permutations

import structlog

from proxy.config.addresses import Peers, same_host, split_host_port
from proxy.config.document import Location
from proxy.config.listener import ListenerConfig
from proxy.config.machine import Caution
from proxy.config.parts import Key, Part, keys_of, parts_below, principal_names
from proxy.config.proxy import ProxyConfig
from proxy.security.java_patterns import single_backslashes
from proxy.security.principal import GROUP_TYPE, USER_TYPE, parse_principal

RULES = (
    "principal_mapping_rules",
    "principal_san_mapping_rules",
    "principal_groups_mapping_rules",
    "sasl_kerberos_principal_to_local_rules",
)
_OR_GROUPS = (USER_TYPE, GROUP_TYPE)
SHORT_MS = 10_000
"""For a key that is off by default: shorter than this, clients would do little else."""

log = structlog.get_logger(__name__)


def warns_of_durations(config: Part) -> Iterator[Caution]:
    """Warn of durations that are probably in seconds: less than a hundredth of the default."""
    for key in keys_of(config):
        if not key.name.endswith("_ms") or not key.given:
            continue
        least = key.field.default // 100 if key.field.default else SHORT_MS
        for location, value in _durations(key):
            if 0 < value < least:
                default = f"; the default is {key.field.default}" if key.field.default else ""
                yield location, f"{value} ms is very short{default}. If it is in seconds, write {value}000"


def _durations(key: Key) -> Iterator[tuple[Location, int]]:
    if isinstance(key.value, int):
        yield key.location, key.value
    if isinstance(key.value, dict):
        yield from (((*key.location, name), value) for name, value in key.value.items())


def warns_of_rules(config: Part) -> Iterator[Caution]:
    """Warn of rules with the doubled backslashes of a .properties file, where each pair means one."""
    for key in keys_of(config):
        if key.name not in RULES:
            continue
        rules = key.value if isinstance(key.value, tuple) else (str(key.value),)
        for rule in rules:
            meant = single_backslashes(rule)
            if meant is not None:
                yield (
                    key.location,
                    f"{rule}: \\\\ matches a backslash, which these names rarely contain; if the rule is"
                    f" copied from server.properties, where \\\\ means \\, write {meant}",
                )


def warns_of_issuers(config: Part) -> Iterator[Caution]:
    """Warn of identity providers of one listener whose tokens can make the same name."""
    for at, part in parts_below(config):
        if not isinstance(part, ListenerConfig):
            continue
        for (place, one), (other_place, other) in combinations(part.providers.items(), 2):
            for what, prefixes, others in (
                ("principals", one.name_prefixes, other.name_prefixes),
                ("groups", one.group_prefixes, other.group_prefixes),
            ):
                if any(a.startswith(b) or b.startswith(a) for a in prefixes for b in others):
                    yield (
                        (*at, *other_place),
                        f"its tokens can make the same {what} as those of {place[-1]}, with the same rights;"
                        " give one of them a prefix that no name of the other begins with",
                    )


def report_rules(config: Part) -> None:
    """Log the warnings about rules, at the start of a process: clients may get other principals."""
    _report("a mapping rule seems to be copied with doubled backslashes", warns_of_rules(config))


def _report(event: str, warnings: Iterator[Caution]) -> None:
    for location, reason in warnings:
        log.warning(event, key=" > ".join(map(str, location)), reason=reason)


def warns_of_detours(config: ProxyConfig) -> Iterator[Caution]:
    """Warn of addresses that lead to another peer or listener than the one that they are written for."""
    *brokers, (controllers, endpoints) = config.peers
    for endpoint in endpoints:
        for peer in _peers_at(endpoint, brokers):
            yield controllers, f"{endpoint} is also in {peer}; write the address of a controller"
    if config.upstream.passes_addresses:
        return
    for location, advertised in _advertised(config):
        for peer in _peers_at(advertised, config.peers):
            yield (
                location,
                f"{advertised} is also in {peer}, so clients would pass the proxy by; write the address of a"
                " listener",
            )
    for (place, one), (_, other) in permutations(enumerate(config.listeners), 2):
        if one.advertised is not None and _same(one.advertised, other.advertised or other.bind):
            yield (
                ("listeners", place, "advertised"),
                f"{one.advertised} is the address of listener {other.name} too, so clients of both would"
                " come to the same listener; write an address that leads to this one",
            )


def _peers_at(address: str, peers: Iterable[Peers]) -> Iterator[str]:
    for location, addresses in peers:
        if any(_same(address, each) for each in addresses):
            yield " > ".join(map(str, location))


def _advertised(config: ProxyConfig) -> Iterator[tuple[Location, str]]:
    for place, listener in enumerate(config.listeners):
        if listener.advertised is not None:
            yield ("listeners", place, "advertised"), listener.advertised
    for node_id, by_name in config.upstream.advertised_brokers.items():
        for name, address in by_name.items():
            yield ("upstream", "advertised.brokers", node_id, name), address


def _same(one: str, other: str) -> bool:
    (host, port), (other_host, other_port) = split_host_port(one), split_host_port(other)
    return port == other_port and same_host(host, other_host)


def warns_of_principals(config: ProxyConfig) -> Iterator[Caution]:
    """Warn of principals that no client can have: only a principal builder makes other types than User.

    Where the groups of a session count, Group is one more type.
    """
    if any(listener.principal_builder_class is not None for listener in config.listeners):
        return
    lists: tuple[tuple[Location, list[str], tuple[str, ...]], ...] = (
        (("authorizer", "super.users"), principal_names(config.authorizer.super_users), _OR_GROUPS),
        (
            ("quota", "excluded.principals"),
            principal_names(config.quota.quota_excluded_principals),
            _OR_GROUPS,
        ),
        (("proxy.principals",), list(config.proxy_principals), (USER_TYPE,)),
    )
    for location, names, types in lists:
        for name in names:
            if parse_principal(name).principal_type not in types:
                yield (
                    location,
                    f"no client has the principal {name}: without principal.builder.class all are of the type"
                    f" {USER_TYPE}; write {USER_TYPE}:NAME",
                )


def warns_of_groups(config: ProxyConfig) -> Iterator[Caution]:
    """Warn of groups where Kafka's controllers decide: they get the user only."""
    if config.controller.mode == "penstock":
        return
    for place, listener in enumerate(config.listeners):
        if any(provider.group_prefixes for provider in listener.providers.values()) or (
            listener.ssl is not None and listener.ssl.principal_groups_from
        ):
            yield (
                ("listeners", place),
                "its clients have groups, which Kafka's controllers do not get; an ALLOW for a group gives no"
                " right to what the controllers carry out, such as the creation of topics",
            )
    for name in principal_names(config.authorizer.super_users):
        if parse_principal(name).principal_type == GROUP_TYPE:
            yield (
                ("authorizer", "super.users"),
                f"{name}: Kafka's controllers do not get the groups of a session; for what they carry out"
                " the users themselves need ALLOWs or have to be in super.users of the controllers",
            )


def report_groups(config: ProxyConfig) -> None:
    """Log these warnings at the start of a process."""
    _report("a group has no effect at Kafka's controllers", warns_of_groups(config))
