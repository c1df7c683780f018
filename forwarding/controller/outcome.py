"""What a decision comes to: records for the metadata log and the response, or a request for a broker.

Made by the files of this package, carried out by forwarding.net.writer. The decision changes nothing by
itself: the log commits the records, the replay makes them count.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from proxy.metadata.image import MetadataImage
from proxy.session.apis.table import rejection
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message

MAX_RECORDS_PER_REQUEST = 10_000
"""As KRaft's controller: one request is one atomic batch, and a batch has to stay handy."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Append these records as one transaction, then give this response."""

    records: tuple[Any, ...]
    """Wire messages of metadata records, in the order in which they are to be replayed."""
    response: Any


def over_limit(api_key: int, request: Message, what: str) -> Outcome:
    """Nothing is done: the request would write more than MAX_RECORDS_PER_REQUEST records."""
    message = f"{what}, the limit is {MAX_RECORDS_PER_REQUEST}."
    # The rejections of the APIs that write records look the same in all versions.
    return Outcome((), rejection(api_key, 0, request, ErrorCode.POLICY_VIOLATION, message))


Brokers = TypeVar("Brokers", bound=Message)
"""The class of the broker's response, and of the whole one."""
Seen = TypeVar("Seen", bound=Message, contravariant=True)


class FollowUp(Protocol[Seen]):
    """What the metadata log has to be told once a broker has carried out its part."""

    def unknown_ids(self, response: Seen) -> list[str]:
        """Of the whole response: the topics whose ids it does not tell and the records need."""
        ...

    def records(
        self, response: Seen, image: MetadataImage, topic_ids: Mapping[str, bytes]
    ) -> tuple[Message, ...]:
        """To be committed before the response leaves; `image` is the newest, `topic_ids` what was asked for.

        None of what a broker refused: the response tells.
        """
        ...


@dataclass(frozen=True, slots=True)
class AskBroker(Generic[Brokers]):
    """A broker has to do it: send `request`, then answer with what `merge` makes of the broker's response."""

    request: Any
    """What is left of the client's request: allowed resources only."""
    merge: Callable[[Brokers], Brokers]
    """The broker's response -> the whole response, refused parts put back in the order of the request."""
    follow_up: FollowUp[Brokers] | None = None


Decision = Outcome | AskBroker[Any]
