"""One ACL as data, with Kafka's numbers, and the filter of DescribeAcls and DeleteAcls."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from proxy.wire import types

WILDCARD = "*"
"""As a LITERAL resource name: every resource. As a host: every host."""

WILDCARD_PRINCIPAL = "User:*"
"""Every principal, also those whose type is not User."""

CLUSTER_NAME = "kafka-cluster"
"""The only resource name of type CLUSTER."""


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


Binding = tuple[ResourceType, str, PatternType, str, str, Operation, PermissionType]
"""An ACL without its id."""


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

    @property
    def binding(self) -> Binding:
        """All fields except the id: equal ACLs may have different ids."""
        return (
            self.resource_type,
            self.resource_name,
            self.pattern_type,
            self.principal,
            self.host,
            self.operation,
            self.permission_type,
        )


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
        return self._matches_pattern(acl) and self._matches_entry(acl)

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

    def _matches_entry(self, acl: Acl) -> bool:
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission_type in (PermissionType.ANY, acl.permission_type)
        )
