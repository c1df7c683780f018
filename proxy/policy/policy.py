"""A policy: an authorizer with its ACLs and settings, as far as requests can differ by them.

The authorizer decides, nothing here does. What this module knows of it is what a decision depends on: the
ACLs of the caller and of all principals on patterns that cover the name, whether the caller is a super user
or the owner of the topic, and, if allow.everyone.if.no.acl.found is true, whether some ACL covers the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import NamedTuple

from proxy.metadata.acl import OPERATIONS_ON, Acl, Operation, PermissionType, ResourceType, uuid_text
from proxy.metadata.acls_image import AclsImage
from proxy.metadata.delta import AclsDelta
from proxy.metadata.image import MetadataImage, TopicsImage
from proxy.policy.names import EVERY_NAME, Pattern, covered, pattern_of
from proxy.security.authorizer import (
    ALLOW_EVERYONE,
    NOT_READY,
    Action,
    Authorizer,
    Decision,
    RequestContext,
    parse_boolean,
    super_users,
)
from proxy.security.principal import GROUP_TYPE, Principal, parse_principal
from proxy.security.simple import ResourceRules, SimpleAclAuthorizer, parse_acl_file
from proxy.security.standard import StandardAuthorizer

BY_TYPE = (Operation.WRITE, ResourceType.TOPIC)
"""The only right that requests need on any resource of a type: that of an idempotent producer (KIP-679)."""


class AccessRequest(NamedTuple):
    """`resource_name` None: by resource type. `groups`: "Group:x", those that the client is in besides."""

    principal: str
    host: str
    operation: Operation
    resource_type: ResourceType
    resource_name: str | None
    groups: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = "any" if self.resource_name is None else self.resource_name
        who = session_text(self.principal, self.groups)
        return f"{who} {self.host} {self.operation.name} {self.resource_type.name} {name}"


def outcome(decision: Decision) -> str:
    """Return "allowed" or "denied"."""
    return "allowed" if decision.allowed else "denied"


def decision_text(decision: Decision) -> str:
    """Return a decision in words, with its rule."""
    return f"{outcome(decision)} ({decision.rule})"


def session_text(principals: str, groups: Iterable[str]) -> str:
    """Return what a session is decided by, in words: "User:alice in Group:team"."""
    return " in ".join((principals, *([", ".join(groups)] if groups else ())))


class AclEntry(NamedTuple):
    """An ACL without its pattern and principal."""

    host: str
    operation: Operation
    allow: bool
    of_cluster: bool = False
    """Of the rules for the cluster in an ACL file, which decide on no name but CREATE."""


@dataclass(slots=True)
class TypeAcls:
    """The ACLs on one resource type."""

    of_principal: dict[str, dict[Pattern, set[AclEntry]]] = field(default_factory=dict)
    counts: dict[Pattern, int] = field(default_factory=dict)
    """The number of ACLs on each pattern that has any."""
    owned: dict[str, set[str]] = field(default_factory=dict)
    """The topics of each owner."""
    _naming: dict[Pattern, set[str]] | None = field(default=None, init=False, repr=False, compare=False)

    def add(self, principal: str, pattern: Pattern, entry: AclEntry) -> None:
        self.of_principal.setdefault(principal, {}).setdefault(pattern, set()).add(entry)
        self.counts[pattern] = self.counts.get(pattern, 0) + 1

    def naming(self, areas: Iterable[Pattern]) -> set[str]:
        """Return the principals with ACLs or topics on names of some patterns."""
        if self._naming is None:
            self._naming = {}
            for principal, patterns in self.of_principal.items():
                for pattern in patterns:
                    self._naming.setdefault(pattern, set()).add(principal)
            for owner, names in self.owned.items():
                for name in names:
                    self._naming.setdefault(Pattern(name, True), set()).add(owner)
            # Sorted, as `covered` needs them.
            self._naming = dict(sorted(self._naming.items()))
        ordered = list(self._naming)
        found: set[str] = set()
        for area in areas:
            around = (Pattern(area.name[:length], False) for length in range(len(area.name) + 1))
            for pattern in (*around, *covered(ordered, area)):
                found |= self._naming.get(pattern, set())
        return found


def caller(principal: str, groups: Iterable[str] = ()) -> Principal:
    """Return the principal of a request. `groups`: "Group:x", those that the client is in besides.

    For a group, it is that of a member that no ACL names otherwise.
    """
    found = parse_principal(principal)
    own = [found] if found.principal_type == GROUP_TYPE else []
    names = {each.name for each in (*own, *map(parse_principal, groups))}
    return Principal(found.principal_type, found.name, groups=tuple(sorted(names)))


@dataclass(frozen=True, slots=True)
class Policy:
    """What decides. Make it with `of_image` or `of_file`."""

    authorizer: Authorizer
    image: MetadataImage
    super_users: frozenset[str]
    everyone: bool
    """allow.everyone.if.no.acl.found"""
    acls: Mapping[ResourceType, TypeAcls]

    def allowed(self, principal: Principal, host: str, resource_type: ResourceType, name: str) -> int:
        """Return the allowed operations as the sum of 1 << operation."""
        decisions = self.decisions(principal, host, resource_type, name)
        bits = zip(OPERATIONS_ON[resource_type], decisions, strict=True)
        return sum(1 << operation for operation, decision in bits if decision.allowed)

    def decisions(
        self, principal: Principal, host: str, resource_type: ResourceType, name: str
    ) -> list[Decision]:
        """Return a decision for each operation of OPERATIONS_ON."""
        actions = [Action(operation, resource_type, name) for operation in OPERATIONS_ON[resource_type]]
        return self.authorizer.authorize(self._context(principal, host), actions)

    def decide(self, request: AccessRequest) -> Decision:
        context = self._context(caller(request.principal, request.groups), request.host)
        operation, kind, name = request.operation, request.resource_type, request.resource_name
        if name is not None:
            return self.authorizer.authorize(context, [Action(operation, kind, name)])[0]
        while True:
            decision = self.authorizer.authorize_by_resource_type(context, operation, kind)
            if decision.rule != NOT_READY:
                return decision

    def _context(self, principal: Principal, host: str) -> RequestContext:
        return RequestContext(principal, host, "", None, image=self.image)


def of_image(image: MetadataImage, settings: Mapping[str, str] | None = None) -> Policy:
    """Return the policy of the ACLs of an image. `settings`: StandardAuthorizer's, by Kafka's names."""
    settings = settings or {}
    authorizer = StandardAuthorizer()
    authorizer.configure(settings)
    acls = {kind: TypeAcls() for kind in OPERATIONS_ON}
    for acl in image.acls.by_id.each_value():
        if image.acls.in_effect(acl):
            _index(acls, acl.enforced(image.acls.networks))
    for owner, names in image.topics.owned.items():
        acls[ResourceType.TOPIC].owned[owner] = {name for name, _ in names}
    return Policy(
        authorizer, image, super_users(settings), parse_boolean(settings, ALLOW_EVERYONE, default=False), acls
    )


def _index(acls: Mapping[ResourceType, TypeAcls], acl: Acl) -> None:
    entry = AclEntry(acl.host, acl.operation, acl.permission_type is PermissionType.ALLOW)
    pattern = pattern_of(acl.resource_name, acl.pattern_type)
    on_all = acl.resource_type is ResourceType.ANY
    for kind in acls if on_all else (acl.resource_type,) if acl.resource_type in acls else ():
        acls[kind].add(acl.principal, pattern, entry)


def of_acls(
    acls: Iterable[Acl], settings: Mapping[str, str] | None = None, topics: TopicsImage = TopicsImage.EMPTY
) -> Policy:
    """Return the policy of some ACLs without ids, each of which is counted once."""
    delta = AclsDelta(AclsImage.EMPTY, compacted=False)
    for acl in acls:
        delta.add(acl)
    return of_image(MetadataImage(0, delta.apply(), topics=topics), settings)


def numbered_id(number: int) -> str:
    """Return the id of an ACL without one, from 1 on. Neither a log nor a proposal has it."""
    return uuid_text(number.to_bytes(16, "big"))


def of_file(content: bytes, settings: Mapping[str, str] | None = None) -> Policy:
    """Return the policy of an ACL file of SimpleAclAuthorizer; ValueError has the place of an error.

    `settings`: as of `of_image`; without it, allow.everyone.if.no.acl.found is true.
    """
    settings = settings or {}
    authorizer = SimpleAclAuthorizer()
    authorizer.configure(settings)
    authorizer.load_file(Path(), content)
    file = parse_acl_file(content)
    acls = {kind: TypeAcls() for kind in OPERATIONS_ON}
    for kind, found in acls.items():
        # Its rules for the cluster decide on types without names, and on CREATE.
        _index_rules(found, EVERY_NAME, file.cluster)
        for name, rules in file.named(kind).items():
            _index_rules(found, Pattern(name, True), rules)
            if rules.owner is not None:
                found.owned.setdefault(rules.owner, set()).add(name)
    everyone = parse_boolean(settings, ALLOW_EVERYONE, default=True)
    return Policy(authorizer, MetadataImage.EMPTY, super_users(settings), everyone, acls)


def _index_rules(found: TypeAcls, pattern: Pattern, rules: ResourceRules) -> None:
    for acl in rules.acls:
        for host, operation in product(acl.hosts, acl.operations):
            is_allow = acl.permission_type is PermissionType.ALLOW
            found.add(acl.principal, pattern, AclEntry(host, operation, is_allow, pattern == EVERY_NAME))
