"""Kafka's StandardAuthorizer over the ACLs of the metadata image (KIP-801).

Deny over allow; literal, prefixed and wildcard patterns; host exact or `*`; principals exact or
`User:*`; an ALLOW of some operations implies DESCRIBE or DESCRIBE_CONFIGS, a DENY implies nothing.
A decision costs O(length of the resource name) whatever the number of ACLs (see acls_image).
"""

from collections.abc import Iterable, Mapping, Sequence

from proxy.metadata.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from proxy.metadata.acls_image import AclsImage, PatternAcls, Subject
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import (
    ACL,
    ALLOW_EVERYONE,
    DEFAULT_DENY,
    NOT_READY,
    SUPER_USERS,
    Action,
    Decision,
    RequestContext,
)
from proxy.security.settings import super_users, yes_or_no

_IMPLIED_BY = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}

ALLOWING = {
    operation: frozenset({operation, Operation.ALL, *_IMPLIED_BY.get(operation, ())})
    for operation in Operation
    if operation > Operation.ALL
}
"""What an ALLOW has to say to allow an operation. UNKNOWN, ANY and ALL are no operations: never allowed."""

DENYING = {operation: frozenset({operation, Operation.ALL}) for operation in ALLOWING}
"""What a DENY has to say to deny an operation."""

_SUPER_USER = Decision(True, SUPER_USERS)
_NOT_READY = Decision(False, NOT_READY)
_DENIED = Decision(False, DEFAULT_DENY)
_EVERYONE = Decision(True, ALLOW_EVERYONE)

_ANY_NAME = "hardcode"
"""Kafka asks for a resource of this name first when it is asked by type, so that super users pass."""


class StandardAuthorizer:
    """See the module. Holds settings only; all ACLs come with the image of each request."""

    def __init__(self) -> None:
        self._super_users: frozenset[str] = frozenset()
        self._without_acl = _DENIED

    def configure(self, settings: Mapping[str, str]) -> None:
        """`super.users`: "User:a;User:b". `allow.everyone.if.no.acl.found`: "true" or "false" (default)."""
        self._super_users = super_users(settings)
        self._without_acl = _EVERYONE if yes_or_no(settings, ALLOW_EVERYONE, default=False) else _DENIED

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        """One decision for each action, in order; all at the image of the context."""
        principal = str(context.principal)
        if principal in self._super_users:
            return [_SUPER_USER] * len(actions)
        if context.image is None:
            return [_NOT_READY] * len(actions)
        acls, subjects = context.image.acls, _subjects(principal, context.host)
        return [self._decide(acls, subjects, action) for action in actions]

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        """Allowed when some ALLOW of the caller is not covered by a DENY of the caller (KIP-679).

        O(number of the caller's own ACLs on that type). Only ACLs of exactly this operation or ALL
        count here, as in Kafka: nothing is implied.
        """
        (decision,) = self.authorize(context, [Action(operation, resource_type, _ANY_NAME)])
        if decision.allowed or context.image is None or operation not in DENYING:
            return decision
        subjects = _subjects(str(context.principal), context.host)
        return _by_resource_type(_own_acls(context.image.acls, subjects, resource_type), DENYING[operation])

    def acl_count(self, image: MetadataImage) -> int:
        return image.acls.count

    def _decide(self, acls: AclsImage, subjects: tuple[Subject, ...], action: Action) -> Decision:
        resource = acls.resources.get(action.resource_type)
        covering = [] if resource is None else resource.covering(action.resource_name)
        if not covering:
            return self._without_acl if action.operation in ALLOWING else _DENIED
        decided = _matching(covering, subjects, action.operation)
        if decided is None:
            return _DENIED
        return Decision(decided.permission_type == PermissionType.ALLOW, ACL, decided.id)


def _matching(
    covering: Iterable[PatternAcls], subjects: tuple[Subject, ...], operation: Operation
) -> Acl | None:
    """The DENY that decides, else the first ALLOW, else None."""
    allowing, denying = ALLOWING.get(operation, frozenset()), DENYING.get(operation, frozenset())
    allow = None
    for pattern in covering:
        for subject in subjects:
            for acl in pattern.get(subject) or ():
                if acl.permission_type == PermissionType.ALLOW:
                    if allow is None and acl.operation in allowing:
                        allow = acl
                # Whatever is not an ALLOW restricts: a permission type of a later version too.
                elif acl.operation in denying:
                    return acl
    return allow


def _subjects(principal: str, host: str) -> tuple[Subject, ...]:
    """Under which subjects an ACL that concerns this principal and host can stand; each once."""
    named = (
        (principal, host),
        (principal, WILDCARD),
        (WILDCARD_PRINCIPAL, host),
        (WILDCARD_PRINCIPAL, WILDCARD),
    )
    return named if principal != WILDCARD_PRINCIPAL else named[:2]


def _own_acls(acls: AclsImage, subjects: tuple[Subject, ...], resource_type: ResourceType) -> list[Acl]:
    resource = acls.resources.get(resource_type)
    if resource is None:
        return []
    return [acl for subject in subjects for acl in (resource.by_subject.get(subject) or {}).values()]


def _by_resource_type(own: list[Acl], operations: frozenset[Operation]) -> Decision:
    concerned = [acl for acl in own if acl.operation in operations]
    denies = {
        (acl.pattern_type, acl.resource_name): acl
        for acl in concerned
        if acl.permission_type != PermissionType.ALLOW
    }
    allows = [acl for acl in concerned if acl.permission_type == PermissionType.ALLOW]
    everything = denies.get((PatternType.LITERAL, WILDCARD))
    if everything is not None:
        return Decision(False, ACL, everything.id)
    covered = None
    for acl in sorted(allows, key=_wildcard_first):
        deny = None if _is_wildcard(acl) else _covering_deny(acl, denies)
        if deny is None:
            return Decision(True, ACL, acl.id)
        covered = deny
    return _DENIED if covered is None else Decision(False, ACL, covered.id)


def _covering_deny(allow: Acl, denies: Mapping[tuple[PatternType, str], Acl]) -> Acl | None:
    """A DENY on the same literal name or on a prefix of the allowed name (or prefix)."""
    name = allow.resource_name
    literal = denies.get((PatternType.LITERAL, name)) if allow.pattern_type == PatternType.LITERAL else None
    if literal is not None:
        return literal
    prefixes = (denies.get((PatternType.PREFIXED, name[:length])) for length in range(1, len(name) + 1))
    return next((deny for deny in prefixes if deny is not None), None)


def _is_wildcard(acl: Acl) -> bool:
    return acl.pattern_type == PatternType.LITERAL and acl.resource_name == WILDCARD


def _wildcard_first(acl: Acl) -> tuple[bool, str]:
    return (not _is_wildcard(acl), acl.id)
