"""The denials of one request as audit events: each of its own up to a limit, the rest as one.

Used by proxy.session.call. One request can name as many resources as fit into its bytes, and a record is
written to disk before the next request is looked at; what it costs us to say no must not grow with the
asking.
"""

from dataclasses import replace

from proxy.audit.record import AuditEvent

MAX_SINGLE = 100
"""Of one operation on resources of one type, in one request."""

MESSAGE = f"one request, beyond its first {MAX_SINGLE} denials of this operation"


class Denials:
    """How many there were, by operation and resource type."""

    __slots__ = ("_collapsed", "_counts")

    def __init__(self) -> None:
        self._counts: dict[tuple[str | None, str | None], int] = {}
        self._collapsed: dict[tuple[str | None, str | None], AuditEvent] = {}

    def take(self, event: AuditEvent, events: list[AuditEvent]) -> bool:
        """Count a denial; True when it went into the one that stands in `events` for many."""
        key = event.operation, event.resource_type
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count <= MAX_SINGLE:
            return False
        collapsed = self._collapsed.get(key)
        if collapsed is None:
            collapsed = self._collapsed[key] = _of_many(event)
            events.append(collapsed)
        collapsed.count = (collapsed.count or 0) + 1
        return True

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
