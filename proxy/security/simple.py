"""SimpleAclAuthorizer: the ACLs are in a JSON file (KIP-11's first draft; decision 0010).

DENY precedes ALLOW. Without ACLs a resource is open to all, unless allow.everyone.if.no.acl.found=false. A
topic's owner has all rights on it. Anonymous clients match only ACLs for all principals. The process watches
the file. ACLs of the metadata log have no effect.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from proxy.metadata.acl import WILDCARD_PRINCIPAL, Operation, PermissionType, ResourceType
from proxy.metadata.image import MetadataImage
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
)
from proxy.security.settings import parse_boolean, super_users
from proxy.security.simple_file import FileAcl, ResourceRules, SimpleAcls, parse_acl_file
from proxy.security.standard import ALLOWING, DENYING
from proxy.wire.work import paced

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
        if principal in self._super_users:
            return [_SUPER_USER] * len(actions)
        if context.image is None:
            # Early-start listeners serve super users only, with every authorizer (KIP-801).
            return [_NOT_READY] * len(actions)
        return [self._decide(principal, context.host, action) for action in actions]

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

    def _decide(self, principal: str, host: str, action: Action) -> Decision:
        if action.operation not in ALLOWING:
            return _DENIED
        rules = self._rules(action)
        if rules.owner == principal:
            return _OWNER
        if not rules.by_principal:
            return self._without_acl
        decided = _matching(rules, principal, host, action.operation)
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


def _matching(rules: ResourceRules, principal: str, host: str, operation: Operation) -> FileAcl | None:
    """Return the DENY that decides, else the first ALLOW, else None."""
    allowing, denying = ALLOWING[operation], DENYING[operation]
    allow = None
    for subject in (principal, WILDCARD_PRINCIPAL):
        for acl in rules.by_principal.get(subject, ()):
            if not acl.concerns(host):
                continue
            if acl.permission_type is PermissionType.DENY and not acl.operations.isdisjoint(denying):
                return acl
            if allow is None and acl.permission_type is PermissionType.ALLOW:
                allow = None if acl.operations.isdisjoint(allowing) else acl
    return allow
