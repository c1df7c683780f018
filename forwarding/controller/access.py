"""The forwarded principal's rights at one image, each decision kept as an audit event.

Made by controller.py for each request, asked by the files of single APIs. What is right and wrong is the
Authorizer's; this only asks it, with the forwarding principal in the context (KIP-590), and remembers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from proxy.audit.record import AuditEvent
from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.security.authorizer import Action, Authorizer, Decision, RequestContext


@dataclass(slots=True)
class Access:
    """Who asks, at which image; `events` grows by one for each decision told to the audit."""

    authorizer: Authorizer
    context: RequestContext
    method: str
    api_version: int
    correlation_id: int
    forward_id: str | None = None
    protected_topics: frozenset[str] = frozenset()
    """Topics no client may touch through the controller: the metadata log itself and the audit topic."""
    events: list[AuditEvent] = field(default_factory=list)

    def to_cluster(self, operation: Operation, *, quiet: bool = False) -> bool:
        """May the principal do this to the cluster? `quiet`: a denial is not told, there is another way."""
        return bool(self._allowed(operation, ResourceType.CLUSTER, (CLUSTER_NAME,), quiet))

    def to_topics(self, operation: Operation, names: Iterable[str], *, quiet: bool = False) -> set[str]:
        """Those of the topics that the principal may do this to."""
        return self._allowed(operation, ResourceType.TOPIC, names, quiet)

    def to_group(self, operation: Operation, name: str) -> bool:
        """May the principal do this to the group?"""
        return bool(self._allowed(operation, ResourceType.GROUP, (name,), quiet=False))

    def to_user(self, operation: Operation, principal: str) -> bool:
        """May the principal do this for another one, "User:alice" (KIP-373)?"""
        return bool(self._allowed(operation, ResourceType.USER, (principal,), quiet=False))

    def _allowed(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str], quiet: bool
    ) -> set[str]:
        wanted = list(dict.fromkeys(names))
        actions = [Action(operation, resource_type, name) for name in wanted]
        allowed = set()
        for action, decision in zip(actions, self._decisions(actions), strict=True):
            if decision.allowed:
                allowed.add(action.resource_name)
            if decision.allowed or not quiet:
                self.events.append(self._event(action, decision))
        return allowed

    def _decisions(self, actions: list[Action]) -> list[Decision]:
        decisions = self.authorizer.authorize(self.context, actions)
        return [
            PROTECTED if self._protects(action) else decision
            for action, decision in zip(actions, decisions, strict=True)
        ]

    def _protects(self, action: Action) -> bool:
        # Not even a super user: who may rewrite the metadata log may do anything to anyone, unrecorded.
        return action.resource_type == ResourceType.TOPIC and action.resource_name in self.protected_topics

    def _event(self, action: Action, decision: Decision) -> AuditEvent:
        context = self.context
        forwarding = context.forwarding_principal
        return AuditEvent(
            event="authorization",
            listener=context.listener,
            host=context.host,
            principal=str(context.principal),
            forwarding_principal=None if forwarding is None else str(forwarding),
            client_id=context.client_id,
            method=self.method,
            api_version=self.api_version,
            correlation_id=self.correlation_id,
            forward_id=self.forward_id,
            resource_type=action.resource_type.name,
            resource_name=action.resource_name,
            pattern_type="LITERAL",
            operation=action.operation.name,
            granted=decision.allowed,
            rule=decision.rule,
            acl_id=decision.acl_id,
            metadata_offset=None if context.image is None else context.image.offset,
        )


PROTECTED = Decision(allowed=False, rule="protected.topic", acl_id=None)
