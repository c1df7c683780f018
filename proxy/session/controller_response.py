"""The outcome of an administrative request that was sent to the controller.

The forwarder that carries out a `ToController` makes it; the session that sent the request reads it.
"""

from dataclasses import dataclass

from proxy.wire.error_codes import ErrorCode


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
