"""Topic ids to names, as the broker's own Metadata answers told them (KIP-516).

Filled by every answer that carries both; asked where a request names a topic by id only. An id is never
given to another topic, so what was learned through one client's request is true for all.
"""

MAX_TOPICS = 1_000_000
"""Beyond it the oldest are forgotten; a client whose topic is unknown asks for Metadata again."""


class TopicNames:
    """A bounded map of 16-byte topic ids to topic names, both ways."""

    def __init__(self, max_topics: int = MAX_TOPICS) -> None:
        self._max_topics = max_topics
        self._names: dict[bytes, str] = {}
        self._ids: dict[str, bytes] = {}

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

    def forget(self, name: str) -> None:
        """A broker has said that there is no topic of this name; ids stay, for they are never given again."""
        self._ids.pop(name, None)

    def name(self, topic_id: bytes) -> str | None:
        """The name, or None where no answer has told it yet."""
        return self._names.get(topic_id)

    def topic_id(self, name: str) -> bytes | None:
        """The newest id learned for the name; None where none was, or the topic is gone."""
        return self._ids.get(name)
