"""The forwarded principal's rights at one image; each decision becomes an audit event.

controller.py makes one for each request, with the forwarding principal in the context (KIP-590). The
configured authorizer decides. These requests are administrative, so allowed actions are recorded too, one by
one up to a limit, as at a proxy; denials, and allowed actions that change nothing, up to a lower one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from proxy.admin.authorization import MAX_SINGLE_CHANGES, Authorization, RecordedDecisions
from proxy.audit import events
from proxy.audit.record import AuditEvent
from proxy.metadata.acl import Operation, ResourceType
from proxy.security.authorizer import Action, Authorizer, Decision, RequestContext


@dataclass(slots=True)
class ForwardedAuthorization(Authorization):
    """Authorizes one forwarded request; `events` collects an event for each recorded decision."""

    authorizer: Authorizer
    context: RequestContext
    method: str
    api_version: int
    correlation_id: int
    forward_id: str | None = None
    events: list[AuditEvent] = field(default_factory=list)
    counts: RecordedDecisions = field(default_factory=RecordedDecisions)
    grants: RecordedDecisions = field(default_factory=partial(RecordedDecisions, MAX_SINGLE_CHANGES))

    def configured_authorizer(self) -> Authorizer:
        return self.authorizer

    def shows(self, operation: Operation, resource_type: ResourceType, names: Iterable[str]) -> set[str]:
        """Return the names on which the principal may do this. Names that stay hidden are not recorded."""
        shown = set()
        for action, decision in self.decided(operation, resource_type, names):
            if decision.allowed:
                self._count(action, decision, self.counts)
                shown.add(action.resource_name)
        return shown

    def note(self, action: Action, decision: Decision) -> None:
        self._count(action, decision, self.grants if decision.allowed else self.counts)

    def _count(self, action: Action, decision: Decision, counts: RecordedDecisions) -> None:
        counts.take(action, decision.allowed, partial(self._event, action, decision), self.events)

    def _event(self, action: Action, decision: Decision) -> AuditEvent:
        context = self.context
        forwarding = context.forwarding_principal
        return events.authorization(
            listener=context.listener,
            host=context.host,
            principal=str(context.principal),
            groups=context.groups or None,
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
            settings_generation=context.settings_generation or None,
        )
