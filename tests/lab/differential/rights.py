"""Random sets of ACLs that concern one case, and one ACL as people read it.

Random and what the case is about in, `Rule`s out. A set leans towards the kinds of resource that the case's
requests are about, so that denials and permissions both come about.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from proxy.metadata.acl import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType
from proxy.wire import types
from tests.lab.cluster.release import Feature, Release
from tests.lab.differential.naming import READ_TOPICS, SINK_TOPICS, Names

_PRINCIPALS = ("User:alice",) * 5 + ("User:*",) * 3 + ("User:bob", "User:carol", "Group:staff")
_NETWORKS = ("10.0.0.0/8", "127.0.0.0/31", "127.255.0.9/8", "0.0.0.0/0", "::/0")
_HOSTS = (
    *(("*",) * 10 + ("127.0.0.1",) * 2 + ("10.9.8.7",)),
    *(_NETWORKS if Release.chosen().has(Feature.NETWORKS) else ()),
)
_ANY_KIND = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.DELEGATION_TOKEN,
    ResourceType.USER,
)
_OPERATIONS = tuple(operation for operation in Operation if operation >= Operation.ALL)


@dataclass(frozen=True, slots=True)
class Rule:
    """One ACL."""

    permission: PermissionType
    principal: str
    operation: Operation
    kind: ResourceType
    pattern: PatternType
    name: str
    host: str

    def __str__(self) -> str:
        resource = f"{self.kind.name} {self.pattern.name} {self.name}"
        return f"{self.permission.name} {self.principal} {self.operation.name} {resource} from {self.host}"

    def creation(self) -> Any:
        """As CreateAcls carries it."""
        return types.CreateAclsRequest.AclCreation(
            resource_type=self.kind,
            resource_name=self.name,
            resource_pattern_type=self.pattern,
            principal=self.principal,
            host=self.host,
            operation=self.operation,
            permission_type=self.permission,
        )


def random_rules(
    random: Random, names: Names, focus: Sequence[ResourceType], wanted: Sequence[Operation]
) -> list[Rule]:
    """Up to a dozen different rules; most concern the focus and what is wanted of it."""
    count = random.choice((0, 1, 2, 3, 4, 5, 6, 8, 10, 12))
    rules = [random_rule(random, names, focus, wanted) for _ in range(count)]
    return list(dict.fromkeys(rules))


def marker(names: Names) -> Rule:
    """A rule without effect that no other case has: once it is seen, all rules of this case are in force."""
    name = f"marker-{names.number}"
    return Rule(
        PermissionType.ALLOW,
        "User:nobody",
        Operation.READ,
        ResourceType.TRANSACTIONAL_ID,
        PatternType.LITERAL,
        name,
        "*",
    )


def random_rule(
    random: Random, names: Names, focus: Sequence[ResourceType], wanted: Sequence[Operation]
) -> Rule:
    """One rule."""
    kind = random.choice(focus if random.random() < 0.8 else _ANY_KIND)
    pattern, name = _resource(random, names, kind)
    return Rule(
        PermissionType.ALLOW if random.random() < 0.8 else PermissionType.DENY,
        random.choice(_PRINCIPALS),
        random.choice(wanted if wanted and random.random() < 0.6 else _OPERATIONS),
        kind,
        pattern,
        name,
        random.choice(_HOSTS),
    )


def _resource(random: Random, names: Names, kind: ResourceType) -> tuple[PatternType, str]:
    if kind == ResourceType.CLUSTER:
        return PatternType.LITERAL, CLUSTER_NAME
    chance = random.random()
    if chance < 0.2:
        return PatternType.LITERAL, "*"
    literal, prefixes = _pool(names, kind)
    if chance < 0.65:
        return PatternType.LITERAL, random.choice(literal)
    return PatternType.PREFIXED, random.choice(prefixes)


def _pool(names: Names, kind: ResourceType) -> tuple[Sequence[str], Sequence[str]]:
    number = names.number
    if kind == ResourceType.TOPIC:
        topics = (
            *READ_TOPICS,
            *SINK_TOPICS,
            *names.own_topics,
            *names.new_topics,
            "t-ghost",
            "__consumer_offsets",
        )
        return topics, ("t-", "x-", "t", "t-a", f"t-{number}-", f"x-{number}-new", "__")
    if kind == ResourceType.GROUP:
        return (*names.own_groups, *names.new_groups), ("g-", "h-", f"g-{number}", "g")
    if kind == ResourceType.TRANSACTIONAL_ID:
        return names.transactional_ids, ("q-", "r-", f"q-{number}", "q")
    if kind == ResourceType.USER:
        return ("User:alice", "User:bob", "User:carol"), ("User:",)
    return ("token-1",), ("tok",)
