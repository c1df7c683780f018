"""The denials of one request as audit events: one each up to a limit, the others collapsed into one.

Used by proxy.session.call. One request can name as many resources as fit into its bytes, and a record is
written to disk before the next request is handled; so the cost of denials must not grow with the request.
"""

from dataclasses import replace

from proxy.audit.record import AuditEvent
from proxy.metadata.acl import Operation, ResourceType
from proxy.security.authorizer import Action

MAX_SINGLE = 100
"""The limit for one operation on resources of one type, in one request."""

MESSAGE = f"one request, beyond its first {MAX_SINGLE} denials of this operation"

_Kind = tuple[Operation, ResourceType]


class Denials:
    """Counts the denials of one request by operation and resource type."""

    __slots__ = ("_collapsed", "_counts")

    def __init__(self) -> None:
        self._counts: dict[_Kind, int] = {}
        self._collapsed: dict[_Kind, AuditEvent] = {}

    def only_counts(self, action: Action) -> bool:
        """Count a denial in the collapsed event; False: there is none yet."""
        collapsed = self._collapsed.get((action.operation, action.resource_type))
        if collapsed is None:
            return False
        collapsed.count = (collapsed.count or 0) + 1
        return True

    def take(self, action: Action, event: AuditEvent, events: list[AuditEvent]) -> None:
        """Add the event of a denial to `events`, as it is or as a collapsed one."""
        key = action.operation, action.resource_type
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count > MAX_SINGLE:
            event = self._collapsed[key] = _collapsed_event(event)
            event.count = 1
        events.append(event)

    def recorded(self) -> None:
        """Note that the events so far are being recorded and must not change."""
        self._collapsed.clear()


def _collapsed_event(event: AuditEvent) -> AuditEvent:
    """Return the collapsed event, without the fields that differ between denials."""
    return replace(
        event,
        event="authorization_collapsed",
        resource_name=None,
        pattern_type=None,
        rule=None,
        acl_id=None,
        count=0,
        message=MESSAGE,
    )
