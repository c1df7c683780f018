"""Topics that were deleted at a broker without us: what the log has of them is taken back (decision 0028).

Fed by forwarding.net.writer every topic.owner.check.interval.ms with what a broker knows of the log's topics.
A broker can be behind, so a topic has to be missing twice in a row.
"""

from collections.abc import Mapping

from forwarding.controller.topic_owner import forgotten
from proxy.metadata.acl import uuid_text
from proxy.metadata.image import MetadataImage
from proxy.wire.message import Message

MAX_TOPICS_AT_ONCE = 1_000


class GoneTopics:
    """Remembers which topics were missing the last time, by name and id."""

    def __init__(self) -> None:
        self._missing: set[tuple[str, str | None]] = set()

    def records(self, image: MetadataImage, found: Mapping[str, bytes | None]) -> tuple[Message, ...]:
        """`found`: the id that each topic has at a broker, None where it has no such topic.

        A topic that is not in it was not asked for, or the broker did not say.
        """
        missing = {
            (name, topic.id)
            for name, topic_id in found.items()
            if (topic := image.topics.by_name.get(name)) is not None
            and (topic_id is None or topic.id != uuid_text(topic_id))
        }
        gone = sorted((name for name, topic_id in missing & self._missing))[:MAX_TOPICS_AT_ONCE]
        self._missing = missing
        return tuple(record for name in gone for record in forgotten(name, image))
