"""A plan is a list of steps that a part of the session returns; the machine carries them out, in order.

A part (login, requests, responses, data) gets values, changes nothing of the session, and returns a plan.
A step is an effect for proxy.net, a request that goes in flight, or one of the classes below.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from proxy.audit.record import AuditEvent
from proxy.quota.throttle import Bucket
from proxy.session.call import Call
from proxy.session.effects import Close, Effect
from proxy.session.in_flight import Awaited, InFlight
from proxy.session.state import Transition
from proxy.wire.header import RequestHeader


@dataclass(slots=True)
class SendResponse:
    """The proxy's own response to a request taken at `since_ms`, behind those in flight."""

    data: bytes
    api_key: int
    since_ms: int


@dataclass(slots=True)
class Complete:
    """The response of the controller: `entry` leaves in its place in the order of responses."""

    entry: Awaited
    data: bytes


@dataclass(slots=True)
class ForgetLast:
    """The newest request in flight gets no response."""


@dataclass(slots=True)
class RecordDecisions:
    """Record the denials and administrative decisions of a call, and count the others.

    `by_handler`: the handler of its response has run, which may have decided too.
    """

    call: Call
    by_handler: bool = False


@dataclass(slots=True)
class LoggedIn:
    """A login or a re-authentication has succeeded: the client may be another principal now."""

    event: AuditEvent


@dataclass(slots=True)
class Throttle:
    """A quota throttles the client, or would do so if it were enforced."""

    bucket: Bucket
    throttle_time_ms: int


@dataclass(slots=True)
class Wait:
    """Take no further request for now."""

    why: Transition


@dataclass(slots=True)
class Take:
    """Decode this whole request and decide on it: the last step of its plan."""

    frame: memoryview


@dataclass(slots=True)
class FollowBasis:
    """Image, authorizer or settings have changed: the requests that come now are decided by the new ones."""


@dataclass(slots=True)
class DecideAgain:
    """The last bytes of a Produce request are here: the last step of a plan, which cuts off a client that is
    not allowed to send it any more."""


@dataclass(slots=True)
class Dropped:
    """Respond to a request of too many bytes, all of which have been dropped."""

    header: RequestHeader
    head: bytes
    """The header as it came, after the length of the request."""
    size_bytes: int
    since_ms: int
    """When it began."""


@dataclass(slots=True)
class Rewrite:
    """Rewrite this whole response of the broker, which is due now: the last step of its plan."""

    entry: InFlight
    frame: memoryview


@dataclass(slots=True)
class LookUp:
    """Look up the names of these topic ids at the broker (KIP-516), each of 16 bytes.

    `then` is the plan of what waited for the names; None: the frame that was held back is treated again.
    """

    topic_ids: Collection[bytes]
    then: "Callable[[], Plan] | None" = None


@dataclass(slots=True)
class HoldFrame:
    """Treat this frame again, before anything else is taken, once nothing is waited for."""

    frame: memoryview


@dataclass(slots=True)
class End:
    """Take nothing more from the client; it is closed once its earlier requests have their responses."""

    close: Close


@dataclass(slots=True)
class CutOff:
    """Close the connection at once, whatever is in flight."""

    close: Close


Step = (
    Effect
    | InFlight
    | SendResponse
    | Complete
    | ForgetLast
    | RecordDecisions
    | LoggedIn
    | Throttle
    | Wait
    | Take
    | FollowBasis
    | DecideAgain
    | Dropped
    | Rewrite
    | LookUp
    | HoldFrame
    | End
    | CutOff
)
Plan = list[Step]
