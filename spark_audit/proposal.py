"""A proposed change of policy, read from a file of the commands that an operator would run.

Each line is a kafka-acls command, a kafka-configs command that changes quotas, a setting of a proxy, or a
member who joins or leaves a group:

    kafka-acls --remove --allow-principal User:alice --operation Read --topic '*'
    penstock acl --add --allow-principal User:bob --operation Read --topic t --until 2027-01-31T18:00Z
    kafka-configs --alter --add-config producer_byte_rate=1048576 --entity-type users --entity-name bob
    allow.everyone.if.no.acl.found=false
    member User:alice leaves Group:payments

Options mean what they mean to Kafka's AclCommand and ConfigCommand (a contract test compares the former).
Options that only say where the cluster is are ignored. `penstock check` and the audit jobs both read
proposals, so this module imports neither Spark nor the proxy (decision 0081).
"""

import argparse
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from ipaddress import IPv6Address, ip_address
from itertools import product
from typing import NamedTuple, NoReturn

from spark_audit.policy.networks import network_bits
from spark_audit.quota_keys import KEYS

WILDCARD = "*"
GROUP = "Group:"
CLUSTER_NAME = "kafka-cluster"
SUPER_USERS = "super.users"
ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"
MAX_REAUTH_MS = "connections.max.reauth.ms"
SETTINGS = (SUPER_USERS, ALLOW_EVERYONE, MAX_REAUTH_MS)
USER, CLIENT_ID = "user", "client-id"

SUPPORTED = {
    "TOPIC": "Read Write Create Delete Alter Describe DescribeConfigs AlterConfigs",
    "GROUP": "Read Describe Delete DescribeConfigs AlterConfigs",
    "CLUSTER": "Create ClusterAction DescribeConfigs AlterConfigs IdempotentWrite Alter Describe",
    "TRANSACTIONAL_ID": "Describe Write TwoPhaseCommit",
    "DELEGATION_TOKEN": "Describe",
    "USER": "CreateTokens DescribeTokens",
}
"""Resource type -> the operations of its ACLs besides All, as kafka-acls writes them."""


def constant(name: str) -> str:
    """Return the name of Kafka's enum: DescribeConfigs -> DESCRIBE_CONFIGS."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


_NAMES = sorted({"All", *" ".join(SUPPORTED.values()).split()})
OPERATIONS = {constant(name): name for name in _NAMES}
"""Name of the enum -> the word of kafka-acls."""


class ProposedAcl(NamedTuple):
    """An ACL without its id. Types, operations and permissions are the names of Kafka's enums."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission_type: str

    def __str__(self) -> str:
        return (
            f"{self.permission_type} {self.principal} from {self.host} {self.operation}"
            f" {self.resource_type} {self.pattern_type} {self.resource_name}"
        )


@dataclass(frozen=True, slots=True)
class Removal:
    """The ACLs that one `kafka-acls --remove` deletes. `entry` is None for all ACLs on the resource."""

    resource_type: str
    resource_name: str
    pattern_type: str
    """LITERAL, PREFIXED, ANY or MATCH (KIP-290)."""
    entry: tuple[str, str, str, str] | None
    """Principal, host, operation and permission type."""

    @property
    def acl(self) -> ProposedAcl | None:
        """The only ACL that it can match; None if it may match several."""
        if self.entry is None or self.pattern_type in ("ANY", "MATCH"):
            return None
        return ProposedAcl(self.resource_type, self.resource_name, self.pattern_type, *self.entry)

    def matches(self, acl: ProposedAcl) -> bool:
        if self.resource_type != acl.resource_type or self.entry not in (None, acl[3:]):
            return False
        if self.pattern_type != "MATCH":
            return self.pattern_type in ("ANY", acl.pattern_type) and self.resource_name == acl.resource_name
        if acl.pattern_type == "PREFIXED":
            return self.resource_name.startswith(acl.resource_name)
        return acl.resource_name in (self.resource_name, WILDCARD)

    def __str__(self) -> str:
        entry = "every ACL" if self.entry is None else "{3} {0} from {1} {2}".format(*self.entry)
        return f"{entry} {self.resource_type} {self.pattern_type} {self.resource_name}"


Entity = tuple[tuple[str, str | None], ...]
"""Sorted pairs of entity type (USER, CLIENT_ID) and name, None for the default (KIP-55)."""

Quota = tuple[Entity, str]
"""An entity and a quota key."""


def principal_of(entity: Entity) -> str | None:
    """Return the principal that an entity names as its user: User:alice, or the group of Group:payments."""
    name = dict(entity).get(USER)
    return name if name is None or name.startswith(GROUP) else f"User:{name}"


class ProposalError(Exception):
    """The file cannot be used. `problems` has one line for each error, with file and line."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(slots=True)
class Proposal:
    """The changes in the order of the file, each with its place, `FILE:LINE`."""

    added: dict[ProposedAcl, str] = field(default_factory=dict)
    ends: dict[ProposedAcl, int | None] = field(default_factory=dict)
    """When each added ACL ends, in ms since the epoch; None: it does not."""
    removed: dict[Removal, str] = field(default_factory=dict)
    quotas: dict[Quota, tuple[float | None, str]] = field(default_factory=dict)
    """The limit, None if the quota is removed, and the place."""
    settings: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Key of SETTINGS -> value and place."""
    members: dict[tuple[str, str], tuple[bool, str]] = field(default_factory=dict)
    """Principal and the name of a group -> whether it joins, and place."""

    def setting(self, key: str) -> str | None:
        return self.settings[key][0] if key in self.settings else None

    @property
    def super_users(self) -> tuple[str, ...] | None:
        """The proposed principals, None if they stay as they are."""
        text = self.setting(SUPER_USERS)
        return None if text is None else tuple(name.strip() for name in text.split(";") if name.strip())

    @property
    def allow_everyone(self) -> bool | None:
        text = self.setting(ALLOW_EVERYONE)
        return None if text is None else text == "true"

    @property
    def max_reauth_ms(self) -> int | None:
        text = self.setting(MAX_REAUTH_MS)
        return None if text is None else int(text)

    @property
    def principals(self) -> dict[str, str]:
        """The principals of added ACLs and super users, users of quotas, members and their groups; each with
        its place."""
        named = {acl.principal: place for acl, place in self.added.items()}
        for (member, group), (_, place) in self.members.items():
            named |= {member: place, GROUP + group: place}
        for (entity, _), (_, place) in self.quotas.items():
            if (principal := principal_of(entity)) is not None:
                named[principal] = place
        place = self.settings.get(SUPER_USERS, ("", ""))[1]
        return named | dict.fromkeys(self.super_users or (), place)


def parse_proposal(text: str, name: str) -> Proposal:
    """Return the proposal. `name` is that of the file. ProposalError has all errors of the file."""
    found, problems = Proposal(), []
    for place, line in _lines(text, name):
        try:
            _take(found, place, line)
        except ValueError as error:
            problems.append(f"{place}: {error}")
    for removal, place in found.removed.items():
        if removal.acl in found.added:
            problems.append(f"{place}: {removal} is removed here and added at {found.added[removal.acl]}")
    changes = found.added, found.removed, found.quotas, found.settings, found.members
    if not problems and not any(changes):
        problems.append(f"{name}: the file proposes nothing; write a kafka-acls command, for example")
    if problems:
        raise ProposalError(problems)
    return found


def _lines(text: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the lines with their places, joined where one ends with a backslash."""
    begun, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        first = first or number
        begun += line.removesuffix("\\") + " "
        if line.endswith("\\"):
            continue
        if begun.strip() and not begun.lstrip().startswith("#"):
            yield f"{name}:{first}", begun.strip()
        begun, first = "", 0
    if begun.strip():
        yield f"{name}:{first}", begun.strip()


def _take(proposal: Proposal, place: str, line: str) -> None:
    key, equals, value = line.partition("=")
    if equals and " " not in key.strip():
        _take_setting(proposal, place, key.strip(), value.strip())
        return
    program, *words = shlex.split(line, comments=True)
    command = program.rpartition("/")[2].removesuffix(".sh").removesuffix(".bat")
    if command == "kafka-acls":
        _take_acls(proposal, place, words)
    elif command == "penstock" and words[:1] == ["acl"]:
        _take_acls(proposal, place, words[1:])
    elif command == "kafka-configs":
        _take_quotas(proposal, place, words)
    elif command == "member":
        _take_member(proposal, place, words)
    else:
        raise ValueError(f"{program!r} is no change; write kafka-acls, kafka-configs, member or KEY=VALUE")


def _take_member(proposal: Proposal, place: str, words: Sequence[str]) -> None:
    if len(words) != 3 or words[1] not in ("joins", "leaves") or not words[2].startswith(GROUP):
        raise ValueError(
            "write member PRINCIPAL joins GROUP or member PRINCIPAL leaves GROUP:"
            " member User:alice leaves Group:payments"
        )
    change = _principal(words[0]), words[2].removeprefix(GROUP)
    joins, earlier = proposal.members.setdefault(change, (words[1] == "joins", place))
    if joins != (words[1] == "joins"):
        raise ValueError(f"the same member does the opposite at {earlier}")


def _take_setting(proposal: Proposal, place: str, key: str, value: str) -> None:
    if key not in SETTINGS:
        raise ValueError(
            f"{key} cannot be proposed{_near(key, SETTINGS)}; possible are {', '.join(SETTINGS)}"
        )
    if key == SUPER_USERS:
        for principal in filter(None, map(str.strip, value.split(";"))):
            _principal(principal)
    elif key == ALLOW_EVERYONE and value not in ("true", "false"):
        raise ValueError(f"{key} is {value!r}; write true or false")
    elif key == MAX_REAUTH_MS and not value.isdecimal():
        raise ValueError(f"{key} is {value!r}; write a number of milliseconds, 0 for no limit")
    if key in proposal.settings:
        raise ValueError(f"{key} is set at {proposal.settings[key][1]} already")
    proposal.settings[key] = value, place


def _near(word: str, words: Collection[str]) -> str:
    near = get_close_matches(word, words, 1, 0.75)
    return f"; did you mean {near[0]}?" if near else ""


class _Options(argparse.ArgumentParser):
    """The options of one command. Raises ValueError for a wrong line."""

    def __init__(self, flags: str, values: str) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        for flag in flags.split():
            self.add_argument(flag, action="store_true")
        for value in ("--bootstrap-server --bootstrap-controller --command-config " + values).split():
            self.add_argument(value, action="append", default=[])

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        options, unknown = self.parse_known_args(words)
        if unknown:
            name = unknown[0].partition("=")[0]
            raise ValueError(f"{name} is unknown{_near(name, list(self._option_string_actions))}")
        return options


ACL_OPTIONS = _Options(
    "--add --remove --force --cluster --producer --consumer --idempotent",
    "--topic --group --transactional-id --delegation-token --user-principal --resource-pattern-type"
    " --operation --allow-principal --deny-principal --allow-host --deny-host --until",
)
_RESOURCES = ("topic", "group", "transactional_id", "delegation_token")


def _take_acls(proposal: Proposal, place: str, words: Sequence[str]) -> None:
    command = acl_command(words)
    for acl in command.added:
        proposal.added.setdefault(acl, place)
        if proposal.ends.setdefault(acl, command.until_ms) != command.until_ms:
            raise ValueError(f"the same ACL has another end, or none, at {proposal.added[acl]}")
    for removal in command.removed:
        proposal.removed.setdefault(removal, place)


class AclCommand(NamedTuple):
    """What a kafka-acls command adds or removes."""

    added: list[ProposedAcl]
    removed: list[Removal]
    until_ms: int | None
    """When what it adds ends, in ms since the epoch."""


def acl_command(words: Sequence[str]) -> AclCommand:
    """Return what the options of a kafka-acls command mean, or of `penstock acl`, which has --until too.

    ValueError says what is wrong with them.
    """
    options = ACL_OPTIONS.parse(words)
    if options.add == options.remove:
        raise ValueError("write either --add or --remove")
    pattern, *others = [kind.upper() for kind in options.resource_pattern_type] or ["LITERAL"]
    if others or pattern not in ("LITERAL", "PREFIXED", *(("ANY", "MATCH") if options.remove else ())):
        raise ValueError("--resource-pattern-type is literal or prefixed; with --remove also any or match")
    if options.until and (options.remove or options.deny_principal or len(options.until) > 1):
        raise ValueError("--until is the end of ACLs that --add --allow-principal adds, once")
    until_ms = moment_ms(options.until[0]) if options.until else None
    command = AclCommand([], [], until_ms)
    for resource, operations in acl_resources(options, pattern):
        entries = list(_entries(options, operations))
        if not entries and options.add:
            raise ValueError("--add needs --allow-principal or --deny-principal")
        for entry in entries:
            _require_supported(resource[0], entry[2])
            if options.add:
                _require_address(entry[1])
                command.added.append(ProposedAcl(*resource, pattern, *entry))
        if options.remove:
            command.removed.extend(Removal(*resource, pattern, each) for each in entries or (None,))
    return command


def moment_ms(text: str) -> int:
    """Return a time of ISO 8601 with a zone, such as 2027-01-31T18:00Z, in ms since the epoch."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or moment.year < FIRST_YEAR:
        raise ValueError(f"{text!r} is no time with a zone; write 2027-01-31T18:00Z or ...T18:00+01:00")
    return round(moment.timestamp() * 1000)


def _require_address(host: str) -> None:
    """Raise ValueError for a host for which proxies and controllers reject the ACL."""
    if host == WILDCARD:
        return
    try:
        if network_bits(host) is not None:
            return
        address = ip_address(host.partition("%")[0])
    except ValueError:
        raise ValueError(
            f"host {host!r} is neither an address nor a network nor *; the ACL would be rejected"
        ) from None
    groups = [f"{int(group, 16):x}" for group in address.exploded.split(":") if address.version != 4]
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    written = str(mapped) if mapped else ":".join(groups) or str(address)
    # A link-local address may have the number of an interface.
    is_zoned = written.startswith("fe") and re.fullmatch(r"%[1-9][0-9]{0,9}", host.removeprefix(written))
    if written != host and not is_zoned:
        raise ValueError(f"host {host!r} has to be written as {written}; the ACL would be rejected")


def moment_text(moment_ms: int) -> str:
    """Return a time as `moment_ms` reads it."""
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="milliseconds")


Resource = tuple[str, str]
"""Type and name."""
FIRST_YEAR = 1971


def acl_resources(options: argparse.Namespace, pattern: str) -> Iterator[tuple[Resource, Sequence[str]]]:
    """Yield each resource with its operations: those of --operation, --producer or --consumer."""
    named = [(kind.upper(), name.strip()) for kind in _RESOURCES for name in getattr(options, kind)]
    named += [("USER", name.strip()) for name in options.user_principal]
    if any(not name for _, name in named):
        raise ValueError("the name of a resource is empty")
    if options.producer or options.consumer:
        yield from _of_roles(options, named)
        return
    if options.idempotent:
        raise ValueError("--idempotent needs --producer")
    named += [("CLUSTER", CLUSTER_NAME)] * (options.cluster and pattern == "LITERAL")
    if not named:
        raise ValueError("no resource is named; write --topic NAME, --group NAME or --cluster, for example")
    yield from ((resource, options.operation or ["All"]) for resource in named)


def _of_roles(
    options: argparse.Namespace, named: Sequence[Resource]
) -> Iterator[tuple[Resource, Sequence[str]]]:
    if options.operation or options.deny_principal or options.deny_host:
        raise ValueError(
            "--producer and --consumer allow certain operations; remove --operation and --deny-..."
        )
    topics, groups, transactional_ids = (
        [one for one in named if one[0] == kind] for kind in ("TOPIC", "GROUP", "TRANSACTIONAL_ID")
    )
    if not topics or (options.consumer and not groups):
        raise ValueError("--producer needs --topic, and --consumer needs --topic and --group")
    if not options.producer and (transactional_ids or options.cluster or options.idempotent):
        raise ValueError("--transactional-id, --cluster and --idempotent are not for --consumer")
    if options.producer:
        yield from ((topic, ("Write", "Describe", "Create")) for topic in topics)
        yield from ((one, ("Write", "Describe")) for one in transactional_ids)
        if options.idempotent:
            yield ("CLUSTER", CLUSTER_NAME), ("IdempotentWrite",)
    if options.consumer:
        yield from ((topic, ("Read", "Describe")) for topic in topics)
        yield from ((group, ("Read",)) for group in groups)


def _entries(options: argparse.Namespace, operations: Sequence[str]) -> Iterator[tuple[str, str, str, str]]:
    for permission in ("ALLOW", "DENY"):
        principals = getattr(options, f"{permission.lower()}_principal")
        hosts = getattr(options, f"{permission.lower()}_host") or [WILDCARD]
        for principal, host, operation in product(principals, hosts, operations):
            yield _principal(principal.strip()), host.strip(), operation_named(operation.strip()), permission


def operation_named(word: str) -> str:
    """Return DESCRIBE_CONFIGS for DescribeConfigs, in any case. ValueError for an unknown operation."""
    for name, written in OPERATIONS.items():
        if written.lower() == word.lower():
            return name
    raise ValueError(f"{word!r} is no operation{_near(word, _NAMES)}; there are {', '.join(_NAMES)}")


def _principal(text: str) -> str:
    kind, colon, _ = text.partition(":")
    if not (kind and colon):
        raise ValueError(f"{text!r} is no principal; write its type before it, such as User:{text}")
    return text


def _require_supported(resource_type: str, operation: str) -> None:
    supported = ["All", *SUPPORTED[resource_type].split()]
    if OPERATIONS[operation] not in supported:
        raise ValueError(
            f"{OPERATIONS[operation]} is no operation on a {resource_type}; there are {', '.join(supported)}"
        )


_CONFIGS = _Options(
    "--alter --user-defaults --client-defaults",
    "--add-config --delete-config --entity-type --entity-name --user --client",
)
_CONFIGS.add_argument("--entity-default", dest="entity_name", action="append_const", const=None)
_ENTITY_TYPES = {"users": USER, "clients": CLIENT_ID}


def _take_quotas(proposal: Proposal, place: str, words: Sequence[str]) -> None:
    options = _CONFIGS.parse(words)
    entity = _entity(options)
    changes: list[tuple[str, str | None]] = []
    for text in options.add_config:
        pairs = (pair.partition("=") for pair in text.split(","))
        changes += [(key.strip(), value.strip()) for key, _, value in pairs]
    changes += [(key.strip(), None) for text in options.delete_config for key in text.split(",")]
    if not options.alter or not changes:
        raise ValueError("a quota is changed with --alter and --add-config or --delete-config")
    for key, text in changes:
        if key not in KEYS:
            raise ValueError(f"{key!r} is no quota{_near(key, KEYS)}; there are {', '.join(KEYS)}")
        limit = None if text is None else _limit(key, text)
        value, earlier = proposal.quotas.setdefault((entity, key), (limit, place))
        if value != limit:
            raise ValueError(f"{key} of the same entity has another value at {earlier}")


def _limit(key: str, text: str) -> float:
    try:
        limit = float(text)
    except ValueError:
        limit = 0.0
    if not 0 < limit < float("inf"):
        raise ValueError(f"{key} is {text!r}; write a number above 0, or remove it with --delete-config")
    return limit


def _entity(options: argparse.Namespace) -> Entity:
    if len(options.entity_type) != len(options.entity_name):
        raise ValueError("each --entity-type needs one --entity-name or --entity-default")
    parts: list[tuple[str, str | None]] = []
    for kind, name in zip(options.entity_type, options.entity_name, strict=True):
        if kind not in _ENTITY_TYPES:
            raise ValueError(f"quotas of {kind} cannot be proposed; write --entity-type users or clients")
        parts.append((_ENTITY_TYPES[kind], name))
    parts += [(USER, name) for name in options.user] + [(CLIENT_ID, name) for name in options.client]
    parts += [(USER, None)] * options.user_defaults + [(CLIENT_ID, None)] * options.client_defaults
    if not parts or len(dict(parts)) != len(parts):
        raise ValueError("the quota needs --entity-type users, --entity-type clients or one of each")
    return tuple(sorted(parts, key=lambda part: part[0]))


@dataclass(slots=True)
class Resolved:
    """What a proposal changes in a given state. `problems` make it unusable, `warnings` do not."""

    added: list[ProposedAcl] = field(default_factory=list)
    removed: dict[str, ProposedAcl] = field(default_factory=dict)
    """By id."""
    ends: dict[ProposedAcl, int] = field(default_factory=dict)
    """When an added ACL ends, in ms since the epoch, if it does."""
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def resolve(
    proposal: Proposal,
    acls: Mapping[str, ProposedAcl],
    quotas: Collection[Quota],
    principals: Collection[str],
) -> Resolved:
    """Compare a proposal with a state: its ACLs by id, the quotas that are set, the principals it names."""
    found = Resolved()
    ids: dict[ProposedAcl, list[str]] = {}
    for acl_id, acl in acls.items():
        ids.setdefault(acl, []).append(acl_id)
    for removal, place in proposal.removed.items():
        only = removal.acl
        candidates = list(ids) if only is None else [only] * (only in ids)
        matching = [acl for acl in candidates if removal.matches(acl)]
        found.removed |= {acl_id: acl for acl in matching for acl_id in ids[acl]}
        if not matching:
            near = [str(acl) for acl in acls.values() if acl.resource_type == removal.resource_type]
            found.problems.append(f"{place}: there is no such ACL: {removal}{_near(str(removal), near)}")
    found.ends = {acl: until_ms for acl, until_ms in proposal.ends.items() if until_ms is not None}
    # An ACL that is there already gets the end.
    found.removed |= {acl_id: acl for acl in found.ends for acl_id in ids.get(acl, ())}
    for acl, place in proposal.added.items():
        if acl in ids and not found.removed.keys() >= set(ids[acl]):
            found.warnings.append(f"{place}: there is this ACL already: {acl}")
        else:
            found.added.append(acl)
    for quota, (limit, place) in proposal.quotas.items():
        if limit is None and quota not in quotas:
            found.problems.append(f"{place}: no {quota[1]} is set for this entity")
    known = {*principals, "User:*", "User:ANONYMOUS"}
    for principal, place in proposal.principals.items():
        if principal not in known:
            near_name = _near(principal, known)
            found.warnings.append(f"{place}: {principal} is in no ACL, quota or login yet{near_name}")
    return found
