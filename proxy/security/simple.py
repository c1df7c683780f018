"""SimpleAclAuthorizer: the ACLs are in a JSON file (KIP-11's first draft; decision 0010).

    {"version": 1, "acls": [ACL, ...],                       the cluster's, as in the draft
     "topics": {"orders": {"owner": "alice", "acls": [...]}}, "groups": {...}, "transactional.ids": {...}}

Everything in the file is checked and nothing is ignored: a mistyped key must not remove a DENY. DENY precedes
ALLOW. "Group:NAME" is for sessions with that group. Without ACLs a resource is open to all, unless
allow.everyone.if.no.acl.found=false. A topic's owner has all rights on it. Anonymous clients match only ACLs
for all principals. The process watches the file. ACLs of the metadata log have no effect.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proxy.metadata.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Operation,
    PermissionType,
    ResourceType,
    address_text,
)
from proxy.metadata.image import MetadataImage
from proxy.metadata.networks import length_of, network_text, networks_of
from proxy.security.authorizer import (
    ALLOW_EVERYONE,
    DEFAULT_DENY,
    FILE_ACL,
    NOT_READY,
    SUPER_USERS,
    TOPIC_OWNER,
    Action,
    Decision,
    RequestContext,
    is_super_user,
    named_groups,
    parse_boolean,
    super_users,
)
from proxy.security.principal import GROUP_TYPE, written_principal
from proxy.security.standard import ALLOWING, DENYING
from proxy.wire.work import paced

SECTIONS = {
    "topics": ResourceType.TOPIC,
    "groups": ResourceType.GROUP,
    "transactional.ids": ResourceType.TRANSACTIONAL_ID,
}
"""Resource types with ACLs of their own. The draft has topics; the others have the same form."""

EVERYONE = frozenset(("Anonymous", WILDCARD, WILDCARD_PRINCIPAL))
"""The principals that stand for all users; the first is the draft's."""

_DRAFT_OPERATIONS = {
    "CONFIGURE": (Operation.ALTER, Operation.ALTER_CONFIGS),
    "EDIT": (Operation.ALTER, Operation.ALTER_CONFIGS),
    "DESCRIBE": (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
    "REPLICATE": (Operation.CLUSTER_ACTION,),
    "SEND_CONTROL_MESSAGE": (Operation.CLUSTER_ACTION,),
}
"""The draft's operations, as today's; all others have Kafka's names."""

OPERATIONS = {
    operation.name: (operation,) for operation in Operation if operation >= Operation.ALL
} | _DRAFT_OPERATIONS

_PERMISSIONS = {"ALLOW": PermissionType.ALLOW, "DENY": PermissionType.DENY}
_ACL_KEYS = frozenset(("principal", "permissionType", "operations", "hosts"))


@dataclass(frozen=True, slots=True)
class FileAcl:
    """One entry of the file; `place` names it in errors and audit records: "topics > orders > acls[2]"."""

    place: str
    principal: str
    permission_type: PermissionType
    operations: frozenset[Operation]
    hosts: frozenset[str]

    def concerns(self, host: str) -> bool:
        address = host.partition("%")[0]
        if WILDCARD in self.hosts or host in self.hosts:
            return True
        if self.permission_type is PermissionType.DENY and address in self.hosts:
            return True  # In every zone.
        lengths = tuple({length_of(each) for each in self.hosts if "/" in each})
        return bool(lengths) and not self.hosts.isdisjoint(networks_of(address, lengths))


@dataclass(frozen=True, slots=True)
class ResourceRules:
    """The rules for one topic, group or transactional id, or for the cluster."""

    by_principal: Mapping[str, tuple[FileAcl, ...]] = field(default_factory=dict)
    owner: str | None = None

    @property
    def acls(self) -> list[FileAcl]:
        return [acl for acls in self.by_principal.values() for acl in acls]


@dataclass(frozen=True, slots=True)
class SimpleAcls:
    """The whole file."""

    cluster: ResourceRules = ResourceRules()
    resources: Mapping[ResourceType, Mapping[str, ResourceRules]] = field(default_factory=dict)
    count: int = 0
    groups: frozenset[str] = frozenset()
    """The groups of sessions that an ACL names."""

    def named(self, resource_type: ResourceType) -> Mapping[str, ResourceRules]:
        """Return the rules of each resource of a type that the file names."""
        return self.resources.get(resource_type, {})


def parse_acl_file(content: bytes) -> SimpleAcls:
    """Parse the file; ValueError has the place of the error: line and column, or the path of keys."""
    document = _object(_document(content), "the file", {"version", "acls", *SECTIONS}, {"version", "acls"})
    _version(document, "the file")
    cluster = _rules(document["acls"], "acls", None)
    resources = {
        resource_type: _section(document[name], name)
        for name, resource_type in SECTIONS.items()
        if name in document
    }
    everything = [cluster, *(rules for section in resources.values() for rules in section.values())]
    principals = [principal.partition(":") for rules in everything for principal in rules.by_principal]
    groups = frozenset(name for kind, _, name in principals if kind == GROUP_TYPE)
    return SimpleAcls(cluster, resources, sum(len(rules.acls) for rules in everything), groups)


def _document(content: bytes) -> object:
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_without_repetition)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise ValueError("too deeply nested") from error


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    # JSON would use the last value, and the ACLs of the first one would be lost.
    seen = dict(pairs)
    if len(seen) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key given twice: {next(key for key in keys if keys.count(key) > 1)!r}")
    return seen


def _section(value: object, place: str) -> dict[str, ResourceRules]:
    if not isinstance(value, dict):
        raise ValueError(f"{place}: expected an object, a name for each resource")
    if "" in value:
        raise ValueError(f"{place}: a resource without a name")
    return {name: _resource(entry, f"{place} > {name}") for name, entry in value.items()}


def _resource(value: object, place: str) -> ResourceRules:
    allowed = {"version", "acls"} | ({"owner"} if place.startswith("topics") else set())
    entry = _object(value, place, allowed, {"acls"})
    if "version" in entry:
        _version(entry, place)
    owner = entry.get("owner")
    return _rules(
        entry["acls"], f"{place} > acls", None if owner is None else _one_principal(owner, f"{place} > owner")
    )


def _rules(value: object, place: str, owner: str | None) -> ResourceRules:
    if not isinstance(value, list):
        raise ValueError(f"{place}: expected a list of ACLs")
    by_principal: dict[str, list[FileAcl]] = {}
    for index, entry in enumerate(value):
        acl = _acl(entry, f"{place}[{index}]")
        by_principal.setdefault(acl.principal, []).append(acl)
    return ResourceRules({principal: tuple(acls) for principal, acls in by_principal.items()}, owner)


def _acl(value: object, place: str) -> FileAcl:
    entry = _object(value, place, _ACL_KEYS, _ACL_KEYS)
    permission = _PERMISSIONS.get(_text(entry["permissionType"], f"{place} > permissionType"))
    if permission is None:
        raise ValueError(f"{place} > permissionType: expected ALLOW or DENY")
    operations = [
        operation
        for name, at in _texts(entry["operations"], f"{place} > operations")
        for operation in _operations(name, at)
    ]
    hosts = [_host(text, at) for text, at in _texts(entry["hosts"], f"{place} > hosts")]
    principal = _principal(entry["principal"], f"{place} > principal")
    return FileAcl(place, principal, permission, frozenset(operations), frozenset(hosts))


def _operations(name: str, place: str) -> Sequence[Operation]:
    if name not in OPERATIONS:
        raise ValueError(f"{place}: {name!r} is no operation; there are {', '.join(sorted(OPERATIONS))}")
    return OPERATIONS[name]


def _principal(value: object, place: str) -> str:
    """Parse a principal: "alice" and "User:alice" are the same user, "Group:x" has another type."""
    text = _text(value, place)
    if text in EVERYONE:
        return WILDCARD_PRINCIPAL
    try:
        return str(written_principal(text if ":" in text else f"User:{text}"))
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def _one_principal(value: object, place: str) -> str:
    principal = _principal(value, place)
    if principal == WILDCARD_PRINCIPAL:
        raise ValueError(f"{place}: everybody cannot be the owner")
    return principal


def _host(text: str, place: str) -> str:
    if text == WILDCARD:
        return text
    address = network_text(text) if "/" in text else address_text(text)
    if address is None or "%" in text:
        # A DENY for a host name would deny nothing, because names are not resolved.
        raise ValueError(
            f"{place}: {text!r} is neither an address without a zone, nor a network, nor *;"
            " names are not resolved"
        )
    return address


def _texts(value: object, place: str) -> list[tuple[str, str]]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"{place}: expected a list that is not empty")
    return [(_text(each, f"{place}[{index}]"), f"{place}[{index}]") for index, each in enumerate(value)]


def _text(value: object, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{place}: expected a text, found {value!r}")
    return value


def _object(
    value: object, place: str, allowed: frozenset[str] | set[str], needed: frozenset[str] | set[str]
) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{place}: expected an object, found {type(value).__name__}")
    unknown, missing = sorted(value.keys() - allowed), sorted(needed - value.keys())
    if unknown or missing:
        problems = [f"unknown key {key!r}" for key in unknown] + [f"{key!r} is missing" for key in missing]
        raise ValueError(f"{place}: {', '.join(problems)}")
    return value


def _version(document: Mapping[str, object], place: str) -> None:
    if document["version"] != 1 or isinstance(document["version"], bool):
        raise ValueError(f"{place}: version {document['version']!r}, supported: 1")


ACL_FILE = "broker.acl.file.path"

_SUPER_USER = Decision(True, SUPER_USERS)
_OWNER = Decision(True, TOPIC_OWNER)
_NOT_READY = Decision(False, NOT_READY)
_DENIED = Decision(False, DEFAULT_DENY)
_EVERYONE = Decision(True, ALLOW_EVERYONE)


class SimpleAclAuthorizer:
    """Decides by the ACL file; without `broker.acl.file.path` there are no ACLs."""

    acls_in_log = False

    def __init__(self) -> None:
        self._super_users: frozenset[str] = frozenset()
        self._without_acl = _EVERYONE
        self._path: Path | None = None
        self._acls = SimpleAcls()

    def configure(self, settings: Mapping[str, str]) -> None:
        """`super.users`, `allow.everyone.if.no.acl.found` (default true) and `broker.acl.file.path`."""
        self._super_users = super_users(settings)
        self._without_acl = _EVERYONE if parse_boolean(settings, ALLOW_EVERYONE, default=True) else _DENIED
        path = settings.get(ACL_FILE)
        self._path = Path(path) if path else None

    def files(self) -> Sequence[Path]:
        return [] if self._path is None else [self._path]

    def load_file(self, path: Path, content: bytes) -> None:
        self._acls = parse_acl_file(content)

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        """Return one decision for each action, in order, all by the same state of the file."""
        principal = str(context.principal)
        if is_super_user(context, principal, self._super_users):
            return [_SUPER_USER] * len(actions)
        if context.image is None:
            # Early-start listeners serve super users only, with every authorizer (KIP-801).
            return [_NOT_READY] * len(actions)
        principals = (principal, WILDCARD_PRINCIPAL, *context.group_principals)
        return [self._decide(principals, context.host, action) for action in actions]

    def deciding_groups(self, context: RequestContext) -> tuple[str, ...]:
        return named_groups(context, self._super_users, self._acls.groups)

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        """Decide whether the principal may do this to one resource of the type, named in the file or not.

        O(number of resources of that type in the file); a client calls it once, before it produces.
        """
        (unnamed,) = self.authorize(context, [Action(operation, resource_type, "")])
        if unnamed.allowed:
            return unnamed
        for name in paced(list(self._acls.named(resource_type)), _DECISION_UNITS):
            (decision,) = self.authorize(context, [Action(operation, resource_type, name)])
            if decision.allowed:
                return decision
        return unnamed

    def acl_count(self, image: MetadataImage) -> int:
        return self._acls.count

    def _decide(self, principals: Sequence[str], host: str, action: Action) -> Decision:
        if action.operation not in ALLOWING:
            return _DENIED
        rules = self._rules(action)
        if rules.owner == principals[0]:
            return _OWNER
        if not rules.by_principal:
            return self._without_acl
        decided = _matching(rules, principals, host, action.operation)
        if decided is None:
            return _DENIED
        return Decision(decided.permission_type is PermissionType.ALLOW, FILE_ACL, decided.place)

    def _rules(self, action: Action) -> ResourceRules:
        """Return the rules for an action. In KIP-11's draft, creating topics is a right on the cluster."""
        acls, resource_type = self._acls, action.resource_type
        if resource_type in _NAMED and action.operation is not Operation.CREATE:
            return acls.named(resource_type).get(action.resource_name, _NO_RULES)
        return acls.cluster


_DECISION_UNITS = 4
"""The cost of a decision, in the units of proxy.wire.work."""
_NO_RULES = ResourceRules()
_NAMED = frozenset((ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID))
"""The types with rules by name; the cluster's rules decide on all others."""


def _matching(
    rules: ResourceRules, principals: Sequence[str], host: str, operation: Operation
) -> FileAcl | None:
    """Return the DENY that decides, else the first ALLOW, else None."""
    allowing, denying = ALLOWING[operation], DENYING[operation]
    allow = None
    for subject in principals:
        for acl in rules.by_principal.get(subject, ()):
            if not acl.concerns(host):
                continue
            if acl.permission_type is PermissionType.DENY and not acl.operations.isdisjoint(denying):
                return acl
            if allow is None and acl.permission_type is PermissionType.ALLOW:
                allow = None if acl.operations.isdisjoint(allowing) else acl
    return allow
