"""Kafka's StandardAuthorizer on the ACLs of the metadata image (KIP-801).

DENY precedes ALLOW; patterns are literal, prefixed or wildcard; hosts are addresses, networks (KIP-1276) or
`*`; principals are exact or `User:*`, or `Group:NAME` for a session with that group (SPEC A8; `Group:*` is no
wildcard). Some ALLOWs imply DESCRIBE or DESCRIBE_CONFIGS, a DENY implies nothing.
If no ACL decides, the owner of a topic may do everything with it (KIP-11, decision 0028). A decision costs
O(length of the resource name), whatever the number of ACLs (proxy.metadata.acls_image).

Whether a caller may do something to any resource of a type at all (KIP-679) needs an ALLOW of the caller that
no DENY of the caller covers. The search takes the ALLOWs in the order of their names, and skips all those
that one DENY covers at once, so its steps depend on the number of DENYs that cover something, not on the
number of ALLOWs. One call takes at most MAX_STEPS. A search that needs more returns "not ready" and continues
with the next call, so that no set of ACLs holds up the event loop.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from proxy.metadata.acl import (
    OPERATIONS_ON,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from proxy.metadata.acls_image import AclsImage, PatternAcls, ResourceAcls, Subject
from proxy.metadata.image import MetadataImage, TopicsImage
from proxy.metadata.sharded_map import ShardedMap
from proxy.metadata.sorted_names import Pair, SortedNames, after
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
    is_super_user,
    named_groups,
    parse_boolean,
    super_users,
)

MAX_STEPS = 1_000
"""About five milliseconds."""

_DENIED = Decision(False, DEFAULT_DENY)
_NOT_READY = Decision(False, NOT_READY)
_OWNER = Decision(True, TOPIC_OWNER)
_NOTHING = SortedNames.EMPTY
_FEW_LISTS = 16


@dataclass(frozen=True, slots=True, eq=False)
class CallerAcls:
    """The ACLs for one caller and one operation, and the topics that the caller owns."""

    allowed_literals: tuple[SortedNames, ...]
    allowed_prefixes: tuple[SortedNames, ...]
    denied_literals: tuple[SortedNames, ...]
    denied_prefixes: tuple[SortedNames, ...]
    owned: SortedNames

    def is_same(self, other: "CallerAcls") -> bool:
        """Whether nothing has changed: unchanged parts of two images are the same object."""
        # With another network that the caller's address is in, there are more parts.
        own, others = self._parts(), other._parts()
        return len(own) == len(others) and all(a is b for a, b in zip(own, others, strict=True))

    def _parts(self) -> tuple[SortedNames, ...]:
        return (
            *self.allowed_literals,
            *self.allowed_prefixes,
            *self.denied_literals,
            *self.denied_prefixes,
            self.owned,
        )


def caller_acls(
    resource: ResourceAcls,
    subjects: Sequence[Subject],
    operations: Sequence[Operation],
    owned: SortedNames = _NOTHING,
) -> CallerAcls:
    """Collect the ACLs that name a caller by any of `subjects`."""
    entries = [(*subject, operation) for subject, operation in product(subjects, operations)]

    def names(pattern_type: PatternType, *, allow: bool) -> tuple[SortedNames, ...]:
        return tuple(resource.names.get((*entry, pattern_type, allow)) or _NOTHING for entry in entries)

    return CallerAcls(
        names(PatternType.LITERAL, allow=True),
        names(PatternType.PREFIXED, allow=True),
        names(PatternType.LITERAL, allow=False),
        names(PatternType.PREFIXED, allow=False),
        owned,
    )


class Search:
    """A search that may take several calls."""

    def __init__(self, of: CallerAcls) -> None:
        self.caller_acls = of
        self._steps = _search(of)
        # A step looks a name up in each of these. A session with many groups has many.
        denying = sum(map(bool, (*of.denied_literals, *of.denied_prefixes)))
        self._max_steps = MAX_STEPS * _FEW_LISTS // max(_FEW_LISTS, denying)
        self._decision: Decision | None = None

    def decision(self) -> Decision:
        """Search for about as long as MAX_STEPS take; "not ready" if that is not enough."""
        for _ in range(self._max_steps):
            if self._decision is not None:
                return self._decision
            self._decision = next(self._steps)
        return self._decision or _NOT_READY


def _search(of: CallerAcls) -> Iterator[Decision | None]:
    """Yield None for each step without a result, then the decision."""
    wildcard = _named(of.denied_literals, WILDCARD)
    if wildcard is not None:
        yield Decision(False, ACL, wildcard[1])
        return
    # Denied prefixes of `*` do not cover an ALLOW on all resources.
    wildcard = _named(of.allowed_literals, WILDCARD)
    if wildcard is not None:
        yield Decision(True, ACL, wildcard[1])
        return
    covering: list[str] = []
    for names, deny in _grants(of):
        name: str | None = ""
        while name is not None and (pair := names.at_or_after(name)) is not None:
            covered = yield from deny(pair[0])
            if covered is None:
                yield _OWNER if names is of.owned else Decision(True, ACL, pair[1])
                return
            acl_id, name = covered
            if names is not of.owned:
                covering = [acl_id]
            yield None
    yield Decision(False, ACL, covering[0]) if covering else _DENIED


Covering = Generator[None, None, tuple[str, str | None] | None]
"""After some steps, what covers a name: the id of a DENY, and the first name that it does not cover."""


def _grants(of: CallerAcls) -> Iterator[tuple[SortedNames, Callable[[str], Covering]]]:
    """Yield the names of the caller's ALLOWs, with a function that finds the DENY covering a name."""
    denied_literals = [names for names in of.denied_literals if names]
    denied_prefixes = [names for names in of.denied_prefixes if names]

    def of_prefix(name: str) -> Covering:
        for names in denied_prefixes:
            shortest = None
            for pair in names.prefixes_of(name):
                shortest = pair or shortest
                yield None
            if shortest is not None:
                return shortest[1], after(shortest[0])
        return None

    def of_literal(name: str) -> Covering:
        found = _named(denied_literals, name)
        return (yield from of_prefix(name)) if found is None else (found[1], name + "\0")

    yield from ((names, of_literal) for names in of.allowed_literals)
    yield from ((names, of_prefix) for names in of.allowed_prefixes)
    yield of.owned, of_literal


def _named(denied: Sequence[SortedNames], name: str) -> Pair | None:
    for names in denied:
        found = names.at_or_after(name)
        if found is not None and found[0] == name:
            return found
    return None


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
_EVERYONE = Decision(True, ALLOW_EVERYONE)
_OWNERS_OPERATIONS = frozenset(OPERATIONS_ON[ResourceType.TOPIC])

_NO_ACLS = ResourceAcls()

_Key = tuple[str, tuple[str, ...], str, Operation, ResourceType]
"""The principal, its groups that decide, its address, and what is to be decided."""
_MAX_SEARCHES = 10_000

_ANY_NAME = "hardcode"
"""Kafka authorizes a resource of this name first, so that super users pass."""


class StandardAuthorizer:
    """Decides by the ACLs in the image of each request."""

    def __init__(self) -> None:
        self._super_users: frozenset[str] = frozenset()
        self._without_acl = _DENIED
        self._searches: dict[_Key, Search] = {}
        """Searches by resource type."""
        self._up_to_date: set[_Key] = set()
        """The searches that are valid for the ACLs and owners in `_of`."""
        self._of: tuple[AclsImage, ShardedMap[str, SortedNames]] | None = None

    def configure(self, settings: Mapping[str, str]) -> None:
        """`super.users`: "User:a;Group:b". `allow.everyone.if.no.acl.found`: "true" or "false" (default)."""
        self._super_users = super_users(settings)
        self._without_acl = _EVERYONE if parse_boolean(settings, ALLOW_EVERYONE, default=False) else _DENIED

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        """Return one decision for each action, in order, all on the image of the context."""
        principal = str(context.principal)
        if is_super_user(context, principal, self._super_users):
            return [_SUPER_USER] * len(actions)
        if context.image is None:
            return [_NOT_READY] * len(actions)
        image, subjects = context.image, _subjects(context, principal, context.image.acls)
        return [self._decide(image, subjects, action) for action in actions]

    def deciding_groups(self, context: RequestContext) -> tuple[str, ...]:
        with_acls = () if context.image is None else context.image.acls.acls_of_group
        return named_groups(context, self._super_users, with_acls)

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
        if self._of is None or self._of[0] is not image.acls or self._of[1] is not image.topics.owned:
            self._of, self._up_to_date = (image.acls, image.topics.owned), set()
        principal = str(context.principal)
        key = (principal, context.group_principals, context.host, operation, resource_type)
        known = self._searches.get(key)
        if known is not None and key in self._up_to_date:
            return known
        owned = (
            image.topics.owned_by(principal) if _is_owners(operation, resource_type) else SortedNames.EMPTY
        )
        resource = image.acls.resources.get(resource_type, _NO_ACLS)
        subjects = _subjects(context, principal, image.acls)
        found = caller_acls(resource, subjects, sorted(DENYING[operation]), owned)
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
                elif acl.operation in denying:
                    return acl
    return allow


def _subjects(context: RequestContext, principal: str, acls: AclsImage) -> tuple[Subject, ...]:
    """Return the subjects of ACLs that match the client: its principal first, without duplicates."""
    principals: tuple[str, ...] = (principal, WILDCARD_PRINCIPAL)
    if principal == WILDCARD_PRINCIPAL or context.principal.groups:
        principals = tuple(dict.fromkeys((*principals, *context.group_principals)))
    hosts = acls.hosts_of(context.host)
    return tuple((each, at) for each in principals for at in hosts)
