"""Topic ids to names, as the broker's own Metadata responses have them (KIP-516).

Filled by every response that carries both, and by lookups of ids that a request names (topic_lookup); read
where a request names a topic by its id only. An id is never given to another topic, so what was learned
through one client's request is true for all, also after the topic was deleted and created again.
"""

MAX_TOPICS = 1_000_000
"""Beyond it the oldest are forgotten, and looked up again when a request names them."""

MAX_MISSING = 10_000
"""Of ids that the broker does not know; beyond it the oldest are forgotten."""

MISSING_MS = 500
"""For how long the broker's word holds that it does not know an id: the topic may just have been created."""


class TopicNames:
    """A bounded map of 16-byte topic ids to topic names, both ways, and of ids that have no name."""

    def __init__(self, max_topics: int = MAX_TOPICS, max_missing: int = MAX_MISSING) -> None:
        self._max_topics = max_topics
        self._max_missing = max_missing
        self._names: dict[bytes, str] = {}
        self._ids: dict[str, bytes] = {}
        self._missing: dict[bytes, int] = {}  # Id -> when the broker did not know it; the oldest first.

    def learn(self, topic_id: bytes, name: str) -> None:
        """`name` is the topic of this id; the zero id stands for none and is not kept."""
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
        """The broker has no topic of this id."""
        self._missing.pop(topic_id, None)
        if len(self._missing) >= self._max_missing:
            del self._missing[next(iter(self._missing))]
        self._missing[topic_id] = now_ms

    def is_missing(self, topic_id: bytes, now_ms: int) -> bool:
        """Whether the broker had no topic of this id a moment ago."""
        noted_ms = self._missing.get(topic_id)
        return noted_ms is not None and 0 <= now_ms - noted_ms < MISSING_MS

    def forget(self, name: str) -> None:
        """A broker has said that there is no topic of this name; ids stay, for they are never given again."""
        self._ids.pop(name, None)

    def name(self, topic_id: bytes) -> str | None:
        """The name, or None where no response has told it yet."""
        return self._names.get(topic_id)

    def topic_id(self, name: str) -> bytes | None:
        """The newest id learned for the name; None where none was, or the topic is gone."""
        return self._ids.get(name)
