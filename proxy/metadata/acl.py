"""One ACL as data, with Kafka's numbers, and the filter of DescribeAcls and DeleteAcls."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv4Address, ip_address
from struct import Struct
from typing import Self, TypeAlias

from proxy.metadata.networks import network_text
from proxy.wire import types

WILDCARD = "*"
"""As a LITERAL resource name: every resource. As a host: every host."""

WILDCARD_PRINCIPAL = "User:*"
"""Every principal, also those whose type is not User."""

GROUP = "Group:"
"""Begins the principals of ACLs, and the users of quotas, that stand for the groups of sessions."""

NETWORKS_FROM = "networks are in effect from metadata.version 4.4-IV1 on"

CLUSTER_NAME = "kafka-cluster"
"""The only resource name of type CLUSTER."""

UNTIL_TAG = 10_000
"""Tagged field of AccessControlEntryRecord, and of an ACL in CreateAcls and DescribeAcls: when the ACL ends,
in ms since the epoch, int64 big-endian (decision 0141). Kafka ignores it."""

UNKNOWN_END = -1
"""Of an ACL whose tagged field is malformed."""

LAST_UNTIL_MS = 253_402_300_799_999
"""The end of the year 9999: later times cannot be written."""


class _KafkaCode(IntEnum):
    @classmethod
    def _missing_(cls, value: object) -> _KafkaCode:
        # As Kafka's fromCode: a number of a later version is UNKNOWN, which no request may use.
        return cls(0)


class ResourceType(_KafkaCode):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_KafkaCode):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_KafkaCode):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(_KafkaCode):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


OPERATIONS_ON = {
    ResourceType[kind]: tuple(Operation[name] for name in names.split())
    for kind, names in {
        "TOPIC": "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
        "GROUP": "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
        "CLUSTER": "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE",
        "TRANSACTIONAL_ID": "WRITE DESCRIBE TWO_PHASE_COMMIT",
        "DELEGATION_TOKEN": "DESCRIBE",
        "USER": "CREATE_TOKENS DESCRIBE_TOKENS",
    }.items()
}
"""The operations that requests need on resources of each type (AclEntry.supportedOperations). An ACL may also
have ALL."""


def uuid_text(raw: bytes) -> str:
    """Return 16 bytes of a uuid in Kafka's form: base64url without padding, 22 characters."""
    if len(raw) != 16:
        raise ValueError(f"a uuid of {len(raw)} bytes, not 16")
    return urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of a uuid in Kafka's form; ValueError for anything else."""
    raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if uuid_text(raw) != text:
        raise ValueError(f"{text!r} is not a uuid in Kafka's form")
    return raw


def address_text(text: str) -> str | None:
    """Return an address in the form of Java's getHostAddress, which ACLs are compared with, without its zone.

    An IPv6 address has all its eight groups ("0:0:0:0:0:0:0:1"); an IPv4 address of an IPv6 socket is written
    as IPv4. None: it is no address, but a name, a range, or something else.
    """
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv4Address):
        # Only IPv6 addresses have zones.
        return None if "%" in text else str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))


IN_EVERY_ZONE = "%"
"""Ends the host of a DENY for an address that may have a zone, as decisions look it up. No client has it."""


def host_fault(host: str, networks: bool = True) -> str | None:
    """Return why the host of an ACL matches no client, or None. `networks`: see AclsImage."""
    if host == WILDCARD:
        return None
    if "/" in host:
        if network_text(host) is None:
            return f"Host {host[:100]!r} is no network in CIDR notation, such as 10.0.0.0/8 or 2001:db8::/32."
        return None if networks else f"Host {host[:100]!r} is a network: {NETWORKS_FROM}."
    address = address_text(host)
    if address is None:
        return f"Host {host[:100]!r} is neither an address nor a network nor *. Names are not supported."
    zone = host.removeprefix(f"{address}%")
    is_zoned = address.startswith("fe") and _ZONE.fullmatch(zone) is not None
    return None if address == host or is_zoned else f"Host {host[:100]!r} has to be written as {address}."


_ZONE = re.compile("[1-9][0-9]{0,9}")
"""The number of an interface. A socket's address has it if it is link-local (fe80::/10), and no name."""


@lru_cache(maxsize=10_000)
def _denied_host(host: str, networks: bool) -> str:
    known = (network_text(host) if networks else None) if "/" in host else address_text(host)
    if known is not None and "/" not in known and known.startswith("fe"):
        return known + IN_EVERY_ZONE
    return host if host == WILDCARD else known or WILDCARD


_UNTIL = Struct(">q")


def tags_of_end(until_ms: int | None) -> dict[int, bytes] | None:
    """Return the tagged fields of a struct for an ACL that ends then; None: it does not end."""
    return None if until_ms is None else {UNTIL_TAG: _UNTIL.pack(until_ms)}


def end_of_tags(tags: dict[int, bytes] | None) -> int | None:
    """Return the end of an ACL from the unknown tagged fields of its struct; None: it does not end."""
    raw = tags.get(UNTIL_TAG) if tags else None
    if raw is None:
        return None
    until_ms = int(_UNTIL.unpack(raw)[0]) if len(raw) == _UNTIL.size else UNKNOWN_END
    return until_ms if 0 <= until_ms <= LAST_UNTIL_MS else UNKNOWN_END


def end_text(until_ms: int | None) -> str:
    """Return the end of an ACL for people: `2027-01-31T18:00:00.000Z`, `never` or `malformed`."""
    if until_ms is None:
        return "never"
    if until_ms == UNKNOWN_END:
        return "malformed"
    moment = datetime.fromtimestamp(until_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{until_ms % 1000:03d}Z"


def in_words(acl: Acl, *, with_end: bool = True) -> str:
    """Return an ACL as a proposal names it."""
    kind, name, pattern, principal, host, operation, permission = acl.names
    end = f" until {end_text(acl.until_ms)}" if with_end and acl.until_ms is not None else ""
    return f"{permission} {principal} from {host} {operation} {kind} {pattern} {name}{end}"


Binding = tuple[ResourceType, str, PatternType, str, str, Operation, PermissionType]
"""An ACL without its id and its end."""
Numbers = tuple[int, int, int, int]
AclStruct: TypeAlias = (
    "types.CreateAclsRequest.AclCreation"
    " | types.DeleteAclsResponse.DeleteAclsMatchingAcl | types.AccessControlEntryRecord"
)


@dataclass(frozen=True, slots=True)
class Acl:
    """`principal` ("User:alice") may (or may not) do `operation` from `host` on a resource pattern."""

    id: str
    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission_type: PermissionType
    later_numbers: Numbers | None = None
    """The numbers as they were recorded, if a later release has defined one of them."""
    until_ms: int | None = None
    """When it ends, in ms since the epoch: from then on it has no effect. None: it does not end."""

    @property
    def end(self) -> tuple[str, str] | None:
        """Its end and its id as one text, which sorts by time, and its id. None: it does not end.

        Only an ALLOW ends. A DENY that is recorded with an end applies for ever.
        """
        if self.until_ms is None or self.until_ms < 0 or self.permission_type is not PermissionType.ALLOW:
            return None
        return f"{self.until_ms:019d}/{self.id}", self.id

    @property
    def numbers(self) -> Numbers:
        """Of resource type, pattern type, operation and permission type, as they are recorded."""
        known = (self.resource_type, self.pattern_type, self.operation, self.permission_type)
        return self.later_numbers or known

    @property
    def binding(self) -> Binding:
        """All fields except id and end: equal ACLs may have different ids."""
        return (
            self.resource_type,
            self.resource_name,
            self.pattern_type,
            self.principal,
            self.host,
            self.operation,
            self.permission_type,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The binding, with the names of Kafka's enums."""
        return tuple(part.name if isinstance(part, _KafkaCode) else part for part in self.binding)

    @classmethod
    def named(cls, acl_id: str, names: Sequence[str], until_ms: int | None = None) -> Self:
        """Return the ACL with these `names`."""
        kind, name, pattern, principal, host, operation, permission = names
        return cls(
            acl_id,
            ResourceType[kind],
            name,
            PatternType[pattern],
            principal,
            host,
            Operation[operation],
            PermissionType[permission],
            until_ms=until_ms,
        )

    @classmethod
    def of_numbers(cls, acl_id: str, struct: AclStruct, pattern_type: int) -> Self:
        """Return the ACL of a struct of the wire, with its end; unknown numbers become UNKNOWN."""
        return cls(
            acl_id,
            ResourceType(struct.resource_type),
            struct.resource_name,
            PatternType(pattern_type),
            struct.principal,
            struct.host,
            Operation(struct.operation),
            PermissionType(struct.permission_type),
            until_ms=end_of_tags(struct.unknown_tags),
        )

    def enforced(self, networks: bool = True) -> Acl:
        """Return this ACL as decisions have to read it: a DENY that may apply applies, an ALLOW does not.

        Itself, unless part of it is not understood, or its host is a network, which is found by its first
        address. A DENY on the resource type ANY is on every type. `networks`: see AclsImage.
        """
        if self.permission_type is PermissionType.ALLOW:
            is_known = _is_known(self) and ":" in self.principal and self.until_ms != UNKNOWN_END
            is_known = is_known and not self.host.endswith(IN_EVERY_ZONE)
            if is_known:
                network = network_text(self.host) if networks and "/" in self.host else None
                return self if network is None or network == self.host else replace(self, host=network)
            # No action has this operation. By its name the ACL is found as before.
            return replace(self, pattern_type=PatternType.LITERAL, operation=Operation.UNKNOWN)
        kind, pattern, operation = self.resource_type, self.pattern_type, self.operation
        is_pattern = pattern in _PATTERNS
        widened = replace(
            self,
            resource_type=ResourceType.ANY if kind in _NO_RESOURCE else kind,
            resource_name=self.resource_name if is_pattern else WILDCARD,
            pattern_type=pattern if is_pattern else PatternType.LITERAL,
            principal=self.principal if ":" in self.principal else WILDCARD_PRINCIPAL,
            host=_denied_host(self.host, networks),
            operation=Operation.ALL if operation in _NO_OPERATION else operation,
            permission_type=PermissionType.DENY,
        )
        return self if widened == self else widened

    def faults(self, networks: bool = True) -> list[str]:
        """Return what of this ACL is not understood; nothing if decisions read it as it is written."""
        known = (
            ("resource type", self.resource_type not in _NO_RESOURCE),
            ("pattern type", self.pattern_type in _PATTERNS),
            ("operation", self.operation not in _NO_OPERATION),
            ("permission type", self.permission_type in (PermissionType.ALLOW, PermissionType.DENY)),
        )
        faults = [f"its {what} is unknown" for what, is_known in known if not is_known]
        if ":" not in self.principal:
            faults.append(f"{self.principal[:100]!r} is no principal")
        if self.until_ms == UNKNOWN_END:
            faults.append("its end is malformed")
        elif self.until_ms is not None and self.end is None:
            faults.append("only an ALLOW may have an end")
        host = host_fault(self.host, networks)
        return faults if host is None else [*faults, host]


_PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)
_NO_RESOURCE = (ResourceType.UNKNOWN, ResourceType.ANY)
_NO_OPERATION = (Operation.UNKNOWN, Operation.ANY)


def _is_known(acl: Acl) -> bool:
    return acl.pattern_type in _PATTERNS and acl.resource_type not in _NO_RESOURCE


@dataclass(frozen=True, slots=True)
class AclFilter:
    """The filter of a DescribeAcls or DeleteAcls request; None and ANY match everything.

    Pattern type MATCH selects every pattern that covers `resource_name`: the literal one, the wildcard, and
    all prefixes of it (KIP-290).
    """

    resource_type: ResourceType
    resource_name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: Operation
    permission_type: PermissionType

    @classmethod
    def requested(cls, request: types.DescribeAclsRequest | types.DeleteAclsRequest.DeleteAclsFilter) -> Self:
        """Return the filter of a request; unknown numbers become UNKNOWN."""
        return cls(
            resource_type=ResourceType(request.resource_type_filter),
            resource_name=request.resource_name_filter,
            pattern_type=PatternType(request.pattern_type_filter),
            principal=request.principal_filter,
            host=request.host_filter,
            operation=Operation(request.operation),
            permission_type=PermissionType(request.permission_type),
        )

    def matches(self, acl: Acl) -> bool:
        return (
            self._matches_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission_type in (PermissionType.ANY, acl.permission_type)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.resource_type not in (ResourceType.ANY, acl.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type != PatternType.MATCH:
            return self.resource_name == acl.resource_name
        if acl.pattern_type == PatternType.PREFIXED:
            return self.resource_name.startswith(acl.resource_name)
        return acl.resource_name in (self.resource_name, WILDCARD)
