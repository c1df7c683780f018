"""Topic ids and names, from the broker's Metadata responses (KIP-516).

Filled by every response that has both, and by lookups of ids that a request names (topic_lookup); read when a
request names a topic by its id only. An id is never reused, so what one client's request has shown is true
for all clients, also after the topic was deleted and created again.
"""

MAX_TOPICS = 1_000_000
"""Beyond this the oldest are forgotten, and looked up again when a request names them."""

MAX_MISSING = 10_000
"""Ids that the broker does not know; beyond this the oldest are forgotten."""

MISSING_MS = 500
"""The time until an unknown id is looked up again: the topic may just have been created."""


class TopicNames:
    """A bounded map of 16-byte topic ids to topic names, both ways, and of ids that have no name."""

    def __init__(self, max_topics: int = MAX_TOPICS, max_missing: int = MAX_MISSING) -> None:
        self._max_topics = max_topics
        self._max_missing = max_missing
        self._names: dict[bytes, str] = {}
        self._ids: dict[str, bytes] = {}
        self._missing: dict[bytes, int] = {}  # Id -> when its lookup failed; the oldest first.

    def learn(self, topic_id: bytes, name: str) -> None:
        """Store the name of an id; the zero id means no id and is not stored."""
        if self._names.get(topic_id) == name:
            self._ids.setdefault(name, topic_id)
            return
        if not any(topic_id):
            return
        if len(self._names) >= self._max_topics:
            oldest = next(iter(self._names))
            self._ids.pop(self._names.pop(oldest), None)
        self._names[topic_id] = name
        self._ids[name] = topic_id
        self._missing.pop(topic_id, None)

    def note_missing(self, topic_id: bytes, now_ms: int) -> None:
        """Remember that the broker has no topic with this id."""
        self._missing.pop(topic_id, None)
        if len(self._missing) >= self._max_missing:
            del self._missing[next(iter(self._missing))]
        self._missing[topic_id] = now_ms

    def is_missing(self, topic_id: bytes, now_ms: int) -> bool:
        """Whether the broker had no topic with this id a moment ago."""
        noted_ms = self._missing.get(topic_id)
        return noted_ms is not None and 0 <= now_ms - noted_ms < MISSING_MS

    def forget(self, name: str) -> None:
        """Forget the id of a name that has no topic any more. The names of ids stay: ids are never reused."""
        self._ids.pop(name, None)

    def name(self, topic_id: bytes) -> str | None:
        """Return the name; None if no response has had it yet."""
        return self._names.get(topic_id)

    def topic_id(self, name: str) -> bytes | None:
        """Return the newest id of the name; None if there is none, or the topic is gone."""
        return self._ids.get(name)
