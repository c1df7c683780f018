"""The result of a decision: records for the metadata log and the response, or a request to a broker.

The modules of this package make it; forwarding.net.request_processor carries it out. A decision changes
nothing by itself: the log commits the records, and replay applies them to the image.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from proxy.metadata.image import MetadataImage
from proxy.session.apis.table import rejection
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message

MAX_RECORDS_PER_REQUEST = 10_000
"""The limit of KRaft's controller: a request is one atomic batch of records."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Append these records as one transaction, then send this response."""

    records: tuple[Any, ...]
    """Wire messages of metadata records, in replay order."""
    response: Any


def over_limit(api_key: int, request: Message, what: str) -> Outcome:
    """Reject a request that would write more than MAX_RECORDS_PER_REQUEST records."""
    message = f"{what}, the limit is {MAX_RECORDS_PER_REQUEST}."
    # These APIs write records, and their rejections are the same in all versions.
    return Outcome((), rejection(api_key, 0, request, ErrorCode.POLICY_VIOLATION, message))


Brokers = TypeVar("Brokers", bound=Message)
"""The class of the broker's response, and of the merged one."""
Seen = TypeVar("Seen", bound=Message, contravariant=True)


class FollowUp(Protocol[Seen]):
    """The records to commit after a broker has carried out its part."""

    def unknown_ids(self, response: Seen) -> list[str]:
        """Return the topics whose ids the records need and the merged response lacks."""
        ...

    def records(
        self, response: Seen, image: MetadataImage, topic_ids: Mapping[str, bytes]
    ) -> tuple[Message, ...]:
        """Return the records to commit before the response is sent: none for what the broker rejected.

        `image` is the newest image, `topic_ids` the ids that were looked up.
        """
        ...


@dataclass(frozen=True, slots=True)
class SendToBroker(Generic[Brokers]):
    """Send `request` to a broker; `merge` turns the broker's response into the client's."""

    request: Any
    """The client's request, reduced to the allowed resources."""
    merge: Callable[[Brokers], Brokers]
    """Adds the rejected resources to the broker's response, in the order of the request."""
    follow_up: FollowUp[Brokers] | None = None


Decision = Outcome | SendToBroker[Any]
