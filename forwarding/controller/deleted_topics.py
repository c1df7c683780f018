"""Topics that were deleted directly at a broker: the log removes their owners and ACLs (decision 0028).

forwarding.net.request_processor calls this every topic.owner.check.interval.ms with the topics that a broker
knows. A broker's metadata can be stale, so a topic has to be missing twice in a row.
"""

from collections.abc import Mapping

from forwarding.controller.topic_owner import removal_records
from proxy.metadata.acl import uuid_text
from proxy.metadata.image import MetadataImage
from proxy.wire.message import Message

MAX_TOPICS_AT_ONCE = 1_000


class DeletedTopics:
    """Remembers the topics that were missing at the last check, by name and id."""

    def __init__(self) -> None:
        self._missing: set[tuple[str, str | None]] = set()

    def records(self, image: MetadataImage, found: Mapping[str, bytes | None]) -> tuple[Message, ...]:
        """Return the removal records. `found`: the id of each topic at a broker, None for a missing topic.

        A topic that is not in `found` was not looked up, or the broker returned another error.
        """
        missing = {
            (name, topic.id)
            for name, topic_id in found.items()
            if (topic := image.topics.by_name.get(name)) is not None
            and (topic_id is None or topic.id != uuid_text(topic_id))
        }
        names = sorted((name for name, topic_id in missing & self._missing))[:MAX_TOPICS_AT_ONCE]
        self._missing = missing
        return tuple(record for name in names for record in removal_records(name, image))
