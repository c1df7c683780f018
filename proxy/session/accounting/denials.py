"""The denials of one request as audit events: each of its own up to a limit, the rest as one.

Used by proxy.session.call. One request can name as many resources as fit into its bytes, and a record is
written to disk before the next request is looked at; what it costs us to say no must not grow with the
asking.
"""

from dataclasses import replace

from proxy.audit.record import AuditEvent
from proxy.metadata.acl import Operation, ResourceType
from proxy.security.authorizer import Action

MAX_SINGLE = 100
"""Of one operation on resources of one type, in one request."""

MESSAGE = f"one request, beyond its first {MAX_SINGLE} denials of this operation"

_Kind = tuple[Operation, ResourceType]


class Denials:
    """How many there were, by operation and resource type."""

    __slots__ = ("_collapsed", "_counts")

    def __init__(self) -> None:
        self._counts: dict[_Kind, int] = {}
        self._collapsed: dict[_Kind, AuditEvent] = {}

    def only_counts(self, action: Action) -> bool:
        """Count a denial in the event that stands for many, if there is one already."""
        collapsed = self._collapsed.get((action.operation, action.resource_type))
        if collapsed is None:
            return False
        collapsed.count = (collapsed.count or 0) + 1
        return True

    def take(self, action: Action, event: AuditEvent, events: list[AuditEvent]) -> None:
        """Add the event of a denial to `events`, as it is or as the one that stands for many."""
        key = action.operation, action.resource_type
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count > MAX_SINGLE:
            event = self._collapsed[key] = _of_many(event)
            event.count = 1
        events.append(event)

    def recorded(self) -> None:
        """The events that were given out are on their way, and to be changed no more."""
        self._collapsed.clear()


def _of_many(event: AuditEvent) -> AuditEvent:
    """Who, what and when stay; what differs from one to the next is not told."""
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
