"""Penstock's own topics, group and transactional id: no client may change them, and few may read them.

    topics               metadata log, audit trail,   read by super users, and by an ACL on exactly that name
                         quota shares
    groups               election of the controllers  described by super users only
    transactional ids    the log's only writer        described by super users only

ProtectedResources wraps the configured authorizer, at the proxy and at the controller. Not even super users
may write: a client that writes the metadata log can give itself any right, one that writes the audit trail
can forge it, one that writes quota shares can take all of them, and one that uses the transactional id or
joins the election stops all administrative changes. The topics where brokers store groups and transactions
are not writable either: a broker permits that to clients with the client id of Kafka's tools. The metadata
log contains password verifiers, so ACLs on `*` or on a prefix do not allow to read it, nor do ownership or
allow.everyone.if.no.acl.found (decision 0042).
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from proxy.metadata.acl import Operation, PatternType, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import (
    ACL,
    FILE_ACL,
    SUPER_USERS,
    Action,
    Authorizer,
    Decision,
    GuardedAuthorizer,
    RequestContext,
)
from proxy.security.principal import GROUP_TYPE
from proxy.security.shadow import Shadow
from proxy.security.simple import SimpleAclAuthorizer

PROTECTED_TOPIC = "protected.topic"
PROTECTED_GROUP = "protected.group"
PROTECTED_TRANSACTIONAL_ID = "protected.transactional.id"

DEFAULT_METADATA_TOPIC = "__penstock_metadata"
DEFAULT_AUDIT_TOPIC = "__penstock_audit"
DEFAULT_SHARES_TOPIC = "__penstock_quota_shares"
DEFAULT_WITNESSES_TOPIC = "__penstock_witnesses"
DEFAULT_TRANSACTIONAL_ID = "penstock-controller"

_DENIED = {
    ResourceType.TOPIC: Decision(False, PROTECTED_TOPIC),
    ResourceType.GROUP: Decision(False, PROTECTED_GROUP),
    ResourceType.TRANSACTIONAL_ID: Decision(False, PROTECTED_TRANSACTIONAL_ID),
}

_DESCRIBING = frozenset((Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS))

READING = {
    ResourceType.TOPIC: _DESCRIBING | {Operation.READ},
    # READ on a group allows to join it.
    ResourceType.GROUP: _DESCRIBING,
    ResourceType.TRANSACTIONAL_ID: _DESCRIBING,
}
"""The operations on a protected resource that some clients may have; all others are denied."""

COORDINATOR_TOPICS = frozenset(("__consumer_offsets", "__transaction_state"))
"""The topics where brokers store groups and transactions, the controller's among them."""

_NO_NAMES: frozenset[str] = frozenset()


def election_group(transactional_id: str) -> str:
    """Return the consumer group in which the controllers elect the active one."""
    return f"{transactional_id}-election"


@dataclass(frozen=True, slots=True)
class OwnResources:
    """The names of Penstock's own resources."""

    topics: frozenset[str] = _NO_NAMES
    groups: frozenset[str] = _NO_NAMES
    transactional_ids: frozenset[str] = _NO_NAMES

    @property
    def read_only_topics(self) -> frozenset[str]:
        """Topics of Kafka's that no client may write."""
        return COORDINATOR_TOPICS if self.transactional_ids else _NO_NAMES

    @classmethod
    def of(
        cls, metadata_topic: str, audit_topic: str, transactional_id: str | None, *other_topics: str
    ) -> "OwnResources":
        """`transactional_id`: None for Kafka's own metadata log, which has neither id nor group."""
        own = cls(frozenset((metadata_topic, audit_topic, *other_topics)))
        return own if transactional_id is None else own.with_transactional_id(transactional_id)

    def with_transactional_id(self, transactional_id: str) -> "OwnResources":
        """Add the transactional id and the election group of another controller."""
        return OwnResources(
            self.topics,
            self.groups | {election_group(transactional_id)},
            self.transactional_ids | {transactional_id},
        )


class ProtectedResources:
    """Protects Penstock's own resources, and leaves all other decisions to `authorizer`.

    authorize_by_resource_type is left to it too: it gives access to no particular resource.
    """

    def __init__(self, authorizer: Authorizer, own: OwnResources, shadow: Shadow | None = None) -> None:
        """`shadow`: decides beside it, about all that is not protected (SPEC D19)."""
        self.authorizer = authorizer
        self.own = own
        self.shadow = shadow
        self._names: Mapping[ResourceType, frozenset[str]] = {
            ResourceType.TOPIC: own.topics,
            ResourceType.GROUP: own.groups,
            ResourceType.TRANSACTIONAL_ID: own.transactional_ids,
        }
        # A list of all topics makes thousands of calls: unprotected names cost one look-up each.
        self._decided_here = {**self._names, ResourceType.TOPIC: own.topics | own.read_only_topics}
        self._file_acls_name_one_resource = isinstance(underlying(authorizer), SimpleAclAuthorizer)

    def configure(self, settings: Mapping[str, str]) -> None:
        self.authorizer.configure(settings)

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        decisions = self.authorizer.authorize(context, actions)
        if self.shadow is not None:
            here = self._decided_here
            free = [each.resource_name not in here.get(each.resource_type, _NO_NAMES) for each in actions]
            self.shadow.compare(context, list(compress(actions, free)), list(compress(decisions, free)))
        return [
            self._guarded(context, action, decision)
            if action.resource_name in self._decided_here.get(action.resource_type, _NO_NAMES)
            else decision
            for action, decision in zip(actions, decisions, strict=True)
        ]

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        decision = self.authorizer.authorize_by_resource_type(context, operation, resource_type)
        if self.shadow is not None:
            self.shadow.compare_by_type(context, Action(operation, resource_type, ""), decision)
        return decision

    def acl_count(self, image: MetadataImage) -> int:
        return self.authorizer.acl_count(image)

    def names(self, resource_type: ResourceType) -> frozenset[str]:
        """Return the protected resources of that type."""
        return self._names.get(resource_type, _NO_NAMES)

    def _guarded(self, context: RequestContext, action: Action, decision: Decision) -> Decision:
        denied = _DENIED[action.resource_type]
        if action.resource_name not in self.names(action.resource_type):
            return denied if action.operation is Operation.WRITE and decision.allowed else decision
        if action.operation not in READING[action.resource_type]:
            return denied
        # A denial of the authorizer stays, with its own rule.
        return decision if not decision.allowed or self._is_enough(context, action, decision) else denied

    def _is_enough(self, context: RequestContext, action: Action, decision: Decision) -> bool:
        """Whether an ALLOW is meant for this very resource.

        StandardAuthorizer prefers an ALLOW on the literal name to others.
        """
        if decision.rule == SUPER_USERS:
            return True
        if action.resource_type is not ResourceType.TOPIC:
            return False
        if decision.rule == ACL:
            return _names_literally(context.image, decision.acl_id, action)
        return decision.rule == FILE_ACL and self._file_acls_name_one_resource


def _names_literally(image: MetadataImage | None, acl_id: str | None, action: Action) -> bool:
    acl = None if image is None or acl_id is None else image.acls.by_id.get(acl_id)
    return (
        acl is not None
        and acl.resource_type is action.resource_type
        and acl.pattern_type is PatternType.LITERAL
        and acl.resource_name == action.resource_name
    )


def unprotected(authorizer: Authorizer) -> Authorizer:
    """Return the configured authorizer without the protection."""
    return authorizer.authorizer if isinstance(authorizer, ProtectedResources) else authorizer


def underlying(authorizer: Authorizer) -> Authorizer:
    """Return the object that authorizer.class.name names, without protection and guard."""
    inner = unprotected(authorizer)
    return inner.authorizer if isinstance(inner, GuardedAuthorizer) else inner


def with_deciding_groups(
    authorizer: Authorizer, context: RequestContext, excluded: Container[str] = ()
) -> RequestContext:
    """Return the context with the groups of its principal that decide; itself if it has none.

    `excluded`: the principals without quotas, which are groups that decide, too. So do those with quotas.
    """
    guarded = unprotected(authorizer)
    if not context.principal.groups or not isinstance(guarded, GuardedAuthorizer):
        return context
    groups = guarded.deciding_groups(context)
    if groups is None:
        return context
    also = (name for name in context.principal.groups if f"{GROUP_TYPE}:{name}" in excluded)
    return replace(context, groups=tuple(sorted({*groups, *context.quota_groups, *also})))


def acls_in_log(authorizer: Authorizer) -> bool:
    """Whether ACLs of the metadata log have an effect, so that they may be created, deleted and described."""
    return getattr(underlying(authorizer), "acls_in_log", True)


def protected_names(authorizer: Authorizer, resource_type: ResourceType) -> frozenset[str]:
    """Return the resources of that type that a right on the whole cluster does not cover."""
    return authorizer.names(resource_type) if isinstance(authorizer, ProtectedResources) else _NO_NAMES


def protected_among(
    authorizer: Authorizer, resource_type: ResourceType, names: Iterable[str]
) -> dict[str, None]:
    """Return the names that a right on the whole cluster does not cover, without duplicates, in order."""
    protected = protected_names(authorizer, resource_type)
    return dict.fromkeys(name for name in names if name in protected)
