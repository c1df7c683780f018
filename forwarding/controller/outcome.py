"""What a decision comes to: records for the metadata log and the response, or a request for a broker.

Made by the files of this package, carried out by forwarding.net.writer. The decision changes nothing by
itself: the log commits the records, the replay makes them count.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_RECORDS_PER_REQUEST = 10_000
"""As KRaft's controller: one request is one atomic batch, and a batch has to stay handy."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Append these records as one transaction, then give this response."""

    records: tuple[Any, ...]
    """Wire messages of metadata records, in the order in which they are to be replayed."""
    response: Any


@dataclass(frozen=True, slots=True)
class AskBroker:
    """A broker has to do it: send `request`, then answer with what `merge` makes of the broker's response."""

    request: Any
    """What is left of the client's request: allowed resources only."""
    merge: Callable[[Any], Any]
    """The broker's response -> the whole response, refused parts put back in the order of the request."""


Decision = Outcome | AskBroker
