"""Kafka's StandardAuthorizer over the ACLs of the metadata image (KIP-801).

Deny over allow; literal, prefixed and wildcard patterns; host exact or `*`; principals exact or
`User:*`; an ALLOW of some operations implies DESCRIBE or DESCRIBE_CONFIGS, a DENY implies nothing.
Where no ACL decides, the owner of a topic may do everything with it (KIP-11, decision 0028).
A decision costs O(length of the resource name) whatever the number of ACLs (see acls_image).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from proxy.metadata.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from proxy.metadata.acls_image import AclsImage, PatternAcls, ResourceAcls, Subject
from proxy.metadata.image import MetadataImage
from proxy.metadata.topic_acls import TOPIC_OPERATIONS
from proxy.metadata.topics import TopicsImage
from proxy.security.authorizer import (
    ACL,
    ALLOW_EVERYONE,
    DEFAULT_DENY,
    NOT_READY,
    SUPER_USERS,
    TOPIC_OWNER,
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
_OWNER = Decision(True, TOPIC_OWNER)

_OWNERS_OPERATIONS = frozenset(TOPIC_OPERATIONS) - {Operation.ALL}

_NO_ACLS = ResourceAcls()

_MAX_FOUND = 10_000

_ANY_NAME = "hardcode"
"""Kafka asks for a resource of this name first when it is asked by type, so that super users pass."""


class StandardAuthorizer:
    """See the module. All ACLs come with the image of each request."""

    def __init__(self) -> None:
        self._super_users: frozenset[str] = frozenset()
        self._without_acl = _DENIED
        self._found_in: tuple[AclsImage, TopicsImage] | None = None
        self._found: dict[tuple[str, str, Operation, ResourceType], Decision] = {}
        """Answers by resource type, of the ACLs and owners in `_found_in`."""

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
        image, subjects = context.image, _subjects(principal, context.host)
        return [self._decide(image, subjects, action) for action in actions]

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        """Allowed when some ALLOW of the caller is not covered by a DENY of the caller (KIP-679).

        The first such ALLOW ends the search; where DENYs cover them all, it takes O(number of the caller's
        ALLOWs), so what was found is kept as long as the ACLs stay. Only ACLs of exactly this operation
        or ALL count here, as in Kafka: nothing is implied.
        """
        (decision,) = self.authorize(context, [Action(operation, resource_type, _ANY_NAME)])
        if decision.allowed or context.image is None or operation not in DENYING:
            return decision
        acls, topics = context.image.acls, context.image.topics
        known = self._found_in
        if known is None or known[0] is not acls or known[1] is not topics or len(self._found) >= _MAX_FOUND:
            self._found_in, self._found = (acls, topics), {}
        key = (str(context.principal), context.host, operation, resource_type)
        found = self._found.get(key)
        if found is None:
            resource = acls.resources.get(resource_type, _NO_ACLS)
            owned = topics.owned_by(key[0]) if _is_owners(operation, resource_type) else ()
            found = _by_resource_type(resource, _subjects(*key[:2]), DENYING[operation], owned)
            self._found[key] = found
        return found

    def acl_count(self, image: MetadataImage) -> int:
        return image.acls.count

    def _decide(self, image: MetadataImage, subjects: Sequence[Subject], action: Action) -> Decision:
        if action.operation not in ALLOWING:
            return _DENIED
        resource = image.acls.resources.get(action.resource_type)
        if resource is None:
            return _OWNER if _owns(image.topics, subjects[0][0], action) else self._without_acl
        # Mostly only one of the four has ACLs at all; then the others need not be looked for.
        known = [subject for subject in subjects if subject in resource.acls_of_subject]
        if known:
            decided = _matching(resource.covering(action.resource_name), known, action.operation)
            if decided is not None:
                return Decision(decided.permission_type == PermissionType.ALLOW, ACL, decided.id)
        if _owns(image.topics, subjects[0][0], action):
            return _OWNER
        if self._without_acl is _DENIED or resource.covers(action.resource_name):
            return _DENIED
        return self._without_acl


def _is_owners(operation: Operation, resource_type: ResourceType) -> bool:
    return resource_type is ResourceType.TOPIC and operation in _OWNERS_OPERATIONS


def _owns(topics: TopicsImage, principal: str, action: Action) -> bool:
    """Asked when no ACL decides, so it costs those whom an ACL lets in nothing."""
    return (
        _is_owners(action.operation, action.resource_type) and topics.owner(action.resource_name) == principal
    )


def _matching(
    covering: Iterable[PatternAcls], subjects: Iterable[Subject], operation: Operation
) -> Acl | None:
    """The DENY that decides, else the first ALLOW, else None."""
    allowing, denying = ALLOWING[operation], DENYING[operation]
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


def _by_resource_type(
    resource: ResourceAcls,
    subjects: Sequence[Subject],
    operations: frozenset[Operation],
    owned: Iterable[str],
) -> Decision:
    everything = _restricting(resource.literal.get(WILDCARD), subjects, operations)
    if everything is not None:
        return Decision(False, ACL, everything.id)
    covered = None
    for allow in _grants(resource, subjects, operations):
        deny = None
        if not _is_wildcard(allow):
            name, pattern_type = allow.resource_name, allow.pattern_type
            deny = _covering_deny(resource, subjects, name, pattern_type, operations)
        if deny is None:
            return Decision(True, ACL, allow.id)
        covered = deny
    for name in owned:
        if _covering_deny(resource, subjects, name, PatternType.LITERAL, operations) is None:
            return _OWNER
    return _DENIED if covered is None else Decision(False, ACL, covered.id)


def _grants(
    resource: ResourceAcls, subjects: Iterable[Subject], operations: frozenset[Operation]
) -> Iterator[Acl]:
    for principal, host in subjects:
        for operation in operations:
            granted = resource.grants.get((principal, host, operation))
            if granted is not None:
                yield from granted.values()


def _covering_deny(
    resource: ResourceAcls,
    subjects: Sequence[Subject],
    name: str,
    pattern_type: PatternType,
    operations: frozenset[Operation],
) -> Acl | None:
    """A DENY on the same literal name or on a prefix of the allowed name (or prefix)."""
    literal = resource.literal.get(name) if pattern_type == PatternType.LITERAL else None
    # Kafka looks for denied prefixes of one character and more.
    for pattern in (literal, *resource.prefixes(name, shortest=1)):
        deny = _restricting(pattern, subjects, operations)
        if deny is not None:
            return deny
    return None


def _restricting(
    pattern: PatternAcls | None, subjects: Iterable[Subject], operations: frozenset[Operation]
) -> Acl | None:
    if pattern is None:
        return None
    for subject in subjects:
        for acl in pattern.get(subject) or ():
            if acl.permission_type != PermissionType.ALLOW and acl.operation in operations:
                return acl
    return None


def _is_wildcard(acl: Acl) -> bool:
    return acl.pattern_type == PatternType.LITERAL and acl.resource_name == WILDCARD
