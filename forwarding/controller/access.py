"""The forwarded principal's rights at one image, each decision kept as an audit event.

Made by controller.py for each request, asked by the files of single APIs. What is right and wrong is the
Authorizer's; this only asks it, with the forwarding principal in the context (KIP-590), and remembers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from proxy.audit.record import AuditEvent
from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.security.authorizer import Action, Authorizer, Decision, RequestContext
from proxy.security.protected import protected_among
from proxy.wire.work import spend

_NAMES_AT_A_TIME = 32
_DECISION_UNITS = 8
"""What a decision and its event cost, in the units of proxy.wire.work."""


@dataclass(slots=True)
class Access:
    """Who asks, at which image; `events` grows by one for each decision told to the audit."""

    authorizer: Authorizer
    context: RequestContext
    method: str
    api_version: int
    correlation_id: int
    forward_id: str | None = None
    events: list[AuditEvent] = field(default_factory=list)

    def to_cluster(self, operation: Operation, *, quiet: bool = False) -> bool:
        """May the principal do this to the cluster? `quiet`: a denial is not told, there is another way."""
        return bool(self._allowed(operation, ResourceType.CLUSTER, (CLUSTER_NAME,), quiet))

    def to_topics(self, operation: Operation, names: Iterable[str], *, quiet: bool = False) -> set[str]:
        """Those of the topics that the principal may do this to."""
        return self._allowed(operation, ResourceType.TOPIC, names, quiet)

    def to_topics_of_cluster(self, operation: Operation, names: Iterable[str]) -> set[str]:
        """Those of the topics that a right on the whole cluster covers, once the principal has that right.

        It does not cover Penstock's own topics: each of them is decided, and its denial is recorded.
        """
        wanted = list(names)
        own = protected_among(self.authorizer, ResourceType.TOPIC, wanted)
        return set(wanted).difference(own) | self.to_topics(operation, own)

    def to_group(self, operation: Operation, name: str) -> bool:
        """May the principal do this to the group?"""
        return bool(self._allowed(operation, ResourceType.GROUP, (name,), quiet=False))

    def to_user(self, operation: Operation, principal: str) -> bool:
        """May the principal do this for another one, "User:alice" (KIP-373)?"""
        return bool(self._allowed(operation, ResourceType.USER, (principal,), quiet=False))

    def _allowed(
        self, operation: Operation, resource_type: ResourceType, names: Iterable[str], quiet: bool
    ) -> set[str]:
        wanted, allowed = list(dict.fromkeys(names)), set()
        for start in range(0, len(wanted), _NAMES_AT_A_TIME):
            few = wanted[start : start + _NAMES_AT_A_TIME]
            actions = [Action(operation, resource_type, name) for name in few]
            decisions = self.authorizer.authorize(self.context, actions)
            for action, decision in zip(actions, decisions, strict=True):
                if decision.allowed:
                    allowed.add(action.resource_name)
                if decision.allowed or not quiet:
                    self.events.append(self._event(action, decision))
            spend(_DECISION_UNITS * len(few))
        return allowed

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
