"""Kafka's StandardAuthorizer on the ACLs of the metadata image (KIP-801).

DENY precedes ALLOW; patterns are literal, prefixed or wildcard; hosts are exact or `*`; principals are exact
or `User:*`. Some ALLOWs imply DESCRIBE or DESCRIBE_CONFIGS, a DENY implies nothing. If no ACL decides, the
owner of a topic may do everything with it (KIP-11, decision 0028). A decision costs O(length of the resource
name), whatever the number of ACLs (proxy.metadata.acls_image).
"""

from collections.abc import Iterable, Mapping, Sequence

from proxy.metadata.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PermissionType,
    ResourceType,
)
from proxy.metadata.acls_image import AclsImage, PatternAcls, ResourceAcls, Subject
from proxy.metadata.image import MetadataImage
from proxy.metadata.sorted_names import SortedNames
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
from proxy.security.by_resource_type import Search, caller_acls
from proxy.security.settings import parse_boolean, super_users

_IMPLIED_BY = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}

ALLOWING = {
    operation: frozenset({operation, Operation.ALL, *_IMPLIED_BY.get(operation, ())})
    for operation in Operation
    if operation > Operation.ALL
}
"""The operations of an ALLOW that allow an operation. UNKNOWN, ANY and ALL are never allowed."""

DENYING = {operation: frozenset({operation, Operation.ALL}) for operation in ALLOWING}
"""The operations of a DENY that deny an operation."""

_SUPER_USER = Decision(True, SUPER_USERS)
_NOT_READY = Decision(False, NOT_READY)
_DENIED = Decision(False, DEFAULT_DENY)
_EVERYONE = Decision(True, ALLOW_EVERYONE)
_OWNER = Decision(True, TOPIC_OWNER)

_OWNERS_OPERATIONS = frozenset(TOPIC_OPERATIONS) - {Operation.ALL}

_NO_ACLS = ResourceAcls()

_MAX_SEARCHES = 10_000

_ANY_NAME = "hardcode"
"""Kafka authorizes a resource of this name first, so that super users pass."""


class StandardAuthorizer:
    """Decides by the ACLs in the image of each request."""

    def __init__(self) -> None:
        self._super_users: frozenset[str] = frozenset()
        self._without_acl = _DENIED
        self._searches: dict[tuple[str, str, Operation, ResourceType], Search] = {}
        """Searches by resource type."""
        self._up_to_date: set[tuple[str, str, Operation, ResourceType]] = set()
        """The searches that are valid for the ACLs and owners in `_of`."""
        self._of: tuple[AclsImage, TopicsImage] | None = None

    def configure(self, settings: Mapping[str, str]) -> None:
        """`super.users`: "User:a;User:b". `allow.everyone.if.no.acl.found`: "true" or "false" (default)."""
        self._super_users = super_users(settings)
        self._without_acl = _EVERYONE if parse_boolean(settings, ALLOW_EVERYONE, default=False) else _DENIED

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        """Return one decision for each action, in order, all on the image of the context."""
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
        """Allow if some ALLOW of the caller is not covered by a DENY of the caller (KIP-679).

        The result is remembered until ACLs of this caller change, or topics that it owns. As in Kafka, only
        ACLs with exactly this operation or ALL count: nothing is implied.
        """
        (decision,) = self.authorize(context, [Action(operation, resource_type, _ANY_NAME)])
        if decision.allowed or context.image is None or operation not in DENYING:
            return decision
        return self._search(context, operation, resource_type, context.image).decision()

    def _search(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType, image: MetadataImage
    ) -> Search:
        if self._of is None or self._of[0] is not image.acls or self._of[1] is not image.topics:
            self._of, self._up_to_date = (image.acls, image.topics), set()
        principal = str(context.principal)
        key = (principal, context.host, operation, resource_type)
        known = self._searches.get(key)
        if known is not None and key in self._up_to_date:
            return known
        owned = (
            image.topics.owned_by(principal) if _is_owners(operation, resource_type) else SortedNames.EMPTY
        )
        resource = image.acls.resources.get(resource_type, _NO_ACLS)
        found = caller_acls(resource, _subjects(principal, context.host), sorted(DENYING[operation]), owned)
        if known is None or not known.caller_acls.is_same(found):
            known = Search(found)
        if len(self._searches) >= _MAX_SEARCHES:
            self._searches, self._up_to_date = {}, set()
        self._searches[key] = known
        self._up_to_date.add(key)
        return known

    def acl_count(self, image: MetadataImage) -> int:
        return image.acls.count

    def _decide(self, image: MetadataImage, subjects: Sequence[Subject], action: Action) -> Decision:
        if action.operation not in ALLOWING:
            return _DENIED
        resource = image.acls.resources.get(action.resource_type)
        if resource is None:
            return _OWNER if _owns(image.topics, subjects[0][0], action) else self._without_acl
        # Usually only one of the four has ACLs; the others need not be looked up.
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
    """Called only if no ACL decides, so allowed actions do not pay for it."""
    return (
        _is_owners(action.operation, action.resource_type) and topics.owner(action.resource_name) == principal
    )


def _matching(
    covering: Iterable[PatternAcls], subjects: Iterable[Subject], operation: Operation
) -> Acl | None:
    """Return the DENY that decides, else the first ALLOW, else None."""
    allowing, denying = ALLOWING[operation], DENYING[operation]
    allow = None
    for pattern in covering:
        for subject in subjects:
            for acl in pattern.get(subject) or ():
                if acl.permission_type == PermissionType.ALLOW:
                    if allow is None and acl.operation in allowing:
                        allow = acl
                # Anything but ALLOW restricts, also a permission type of a later version.
                elif acl.operation in denying:
                    return acl
    return allow


def _subjects(principal: str, host: str) -> tuple[Subject, ...]:
    """Return the subjects of ACLs that match this principal and host, without duplicates."""
    named = (
        (principal, host),
        (principal, WILDCARD),
        (WILDCARD_PRINCIPAL, host),
        (WILDCARD_PRINCIPAL, WILDCARD),
    )
    return named if principal != WILDCARD_PRINCIPAL else named[:2]
