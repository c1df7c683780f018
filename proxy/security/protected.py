"""Topics of our own that no client may write to, delete or alter, not even a super user.

Wraps whatever authorizer is configured: who may rewrite the metadata log may do anything to anyone, and who
may write the audit topic may say anything of anyone. The controller has the same rule for what reaches it.
Put in place by proxy.process; reading and describing stay the authorizer's to decide.
"""

from collections.abc import Mapping, Sequence

from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import Action, Authorizer, Decision, GuardedAuthorizer, RequestContext

PROTECTED_TOPIC = "protected.topic"

LEFT_TO_THE_AUTHORIZER = frozenset((Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS))

_PROTECTED = Decision(False, PROTECTED_TOPIC)


class ProtectedTopics:
    """An authorizer that denies every change of the named topics before another one is asked."""

    def __init__(self, authorizer: Authorizer, topics: frozenset[str]) -> None:
        self.authorizer = authorizer
        self._topics = topics

    def configure(self, settings: Mapping[str, str]) -> None:
        self.authorizer.configure(settings)

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        decisions = self.authorizer.authorize(context, actions)
        return [
            _PROTECTED if self._protects(action) else decision
            for action, decision in zip(actions, decisions, strict=True)
        ]

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        return self.authorizer.authorize_by_resource_type(context, operation, resource_type)

    def acl_count(self, image: MetadataImage) -> int:
        return self.authorizer.acl_count(image)

    def protects(self, operation: Operation, name: str) -> bool:
        """Whether nobody may do this to the topic."""
        return name in self._topics and operation not in LEFT_TO_THE_AUTHORIZER

    def _protects(self, action: Action) -> bool:
        return action.resource_type is ResourceType.TOPIC and self.protects(
            action.operation, action.resource_name
        )


def unprotected(authorizer: Authorizer) -> Authorizer:
    """The authorizer that was configured, without the rule."""
    return authorizer.authorizer if isinstance(authorizer, ProtectedTopics) else authorizer


def underlying(authorizer: Authorizer) -> Authorizer:
    """The very object that authorizer.class.name names, without rule and guard."""
    inner = unprotected(authorizer)
    return inner.authorizer if isinstance(inner, GuardedAuthorizer) else inner


def acls_in_log(authorizer: Authorizer) -> bool:
    """Whether ACLs of the metadata log count, so that it makes sense to create, delete and describe them."""
    return getattr(underlying(authorizer), "acls_in_log", True)


def changeable(authorizer: Authorizer, operation: Operation, names: Sequence[str]) -> list[str]:
    """Those of the topics that a right on the whole cluster reaches too."""
    if not isinstance(authorizer, ProtectedTopics):
        return list(names)
    return [name for name in names if not authorizer.protects(operation, name)]
