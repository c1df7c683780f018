"""The effects that a session can return, and the outcome of one that is sent to the controller.

proxy.net carries the effects out in the order of the list. `data` may borrow the receive buffer: proxy.net
writes it before it reads again, and copies what the peer did not take. The classes are slotted but not
frozen: frozen ones cost three times as much to make, and these are made for every request.

The forwarder that carries out a `ToController` makes its `ControllerResponse`; the session that sent the
request reads it.
"""

from dataclasses import dataclass

from proxy.audit.record import AuditEvent
from proxy.security.sasl.exchange import Deferred
from proxy.wire.error_codes import ErrorCode

Data = bytes | bytearray | memoryview


@dataclass(slots=True)
class ToBroker:
    """Write these bytes to the broker; whole frames or a part of one, in order."""

    data: Data


@dataclass(slots=True)
class ToClient:
    """Write these bytes to the client."""

    data: Data


@dataclass(slots=True)
class ToController:
    """Send this admin request to the controller in an Envelope (KIP-590).

    The response goes to `Session.controller_responded` with the same correlation id; the session
    takes no further request of its client until then, as a broker would.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: bytes
    principal: bytes
    """The client's principal, encoded by the PrincipalSerde."""
    client_address: bytes
    """4 or 16 raw bytes."""
    timeout_ms: int
    """The request's own timeout: until then the forwarder may retry."""


@dataclass(slots=True)
class Verify:
    """Check a login outside the event loop: the check may take long, and raise.

    The outcome goes to `Session.verified`, an error as a `Rejected`; the session takes no further request of
    its client until then. If the check is impossible now, the connection is closed.
    """

    check: Deferred
    mechanism: str = ""


@dataclass(slots=True)
class LookUpTopics:
    """Look up the names of these topics at the broker (KIP-516), then call `Session.topics_looked_up`.

    `Gate.topic_names` learns the names; until then the session takes no further request of its client.
    """

    topic_ids: bytes
    """16 bytes each, concatenated: a request may have very many."""


@dataclass(slots=True)
class MuteClient:
    """Read nothing from the client for this long (KIP-219), then call `Session.unmuted`."""

    duration_ms: int


@dataclass(slots=True)
class Recorded:
    """Record this event: the audit record, the log line and the metrics are made from it."""

    event: AuditEvent


@dataclass(slots=True)
class UpstreamLoggedIn:
    """The proxy's session at the broker was renewed; it ends after this long, 0: never (KIP-368)."""

    session_lifetime_ms: int


@dataclass(slots=True)
class UpstreamLoginFailed:
    """The broker did not renew the proxy's session; a Close follows."""

    message: str


@dataclass(slots=True)
class Close:
    """Close the client's connection after `delay_ms`, writing `last_words` just before."""

    reason: str
    """A value of the label `reason` of penstock_connections_closed_total."""
    message: str = ""
    delay_ms: int = 0
    last_words: bytes = b""


Effect = (
    ToBroker
    | ToClient
    | ToController
    | Verify
    | LookUpTopics
    | MuteClient
    | Recorded
    | UpstreamLoggedIn
    | UpstreamLoginFailed
    | Close
)


@dataclass(frozen=True, slots=True)
class ControllerResponse:
    """Either the controller's response, or an error that the client may see."""

    error_code: ErrorCode
    """NONE when `body` is the controller's response."""
    body: bytes | memoryview | None
    """The response body in the request's version, without header."""
    forward_id: str
    last_offset: int | None = None
    """The last metadata offset at which the change was committed, if the controller returns it.

    With a `first_offset`: the controller does not return it, and this is the last one possible.
    """
    first_offset: int | None = None
    """With Kafka's own controller: the change is at this offset of its log or later."""
    attempts: int = 1
    """The number of times the request was sent: an earlier one may have been carried out."""
    close: bool = False
    """The controller does not support this version any more: the client has to request ApiVersions again."""
