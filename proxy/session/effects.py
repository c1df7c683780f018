"""All that a session can ask for. proxy.net carries effects out in the order of the list.

`data` may borrow the receive buffer: whoever carries an effect out writes it before reading again and
copies what the peer did not take. Slotted but not frozen: frozen ones cost three times as much to make,
and these are made for every request.
"""

from dataclasses import dataclass

from proxy.audit.record import AuditEvent
from proxy.security.sasl.exchange import Deferred

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

    The answer comes back through `Session.controller_responded` with the same correlation id; the session
    takes no further request of its client until then, as a broker would.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: bytes
    principal: bytes
    """The client's principal as the PrincipalSerde wrote it."""
    client_address: bytes
    """4 or 16 raw bytes."""
    timeout_ms: int
    """The request's own timeout: until then the forwarder may try again."""
    traceparent: str | None = None
    """Names the trace span of the request (W3C Trace Context); None: there is none."""


@dataclass(slots=True)
class Verify:
    """Find out whether a login holds, away from the loop: the check may take long, and raise.

    What it gives comes back through `Session.verified`, an error as a `Rejected`; the session takes no
    further request of its client until then. Where it cannot be checked now, the connection is closed.
    """

    check: Deferred
    mechanism: str = ""


@dataclass(slots=True)
class LookUpTopics:
    """Have the broker name these topics (KIP-516), then call `Session.topics_looked_up`.

    `Gate.topic_names` learns the names; until then the session takes no further request of its client.
    """

    topic_ids: bytes
    """Of 16 bytes each, one behind the other: a request may have very many."""


@dataclass(slots=True)
class MuteClient:
    """Read nothing from the client for so long (KIP-219), then call `Session.unmuted`."""

    duration_ms: int


@dataclass(slots=True)
class Recorded:
    """This happened: the audit log, the log line and the metrics are made from it."""

    event: AuditEvent


@dataclass(slots=True)
class UpstreamLoggedIn:
    """Our session at the broker was renewed; it ends after so long, 0 for never (KIP-368)."""

    session_lifetime_ms: int


@dataclass(slots=True)
class UpstreamRefused:
    """The broker did not renew our session; a Close follows."""

    message: str


@dataclass(slots=True)
class Close:
    """Close the client's connection after `delay_ms`, writing `last_words` just before."""

    reason: str
    """One word of the `reason` label of penstock_connections_closed_total."""
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
    | UpstreamRefused
    | Close
)
