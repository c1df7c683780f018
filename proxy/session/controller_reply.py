"""What came of an admin request that was sent to the controller.

Made by the forwarder that proxy.net hands a `ToController` to, read by the session that asked.
"""

from dataclasses import dataclass

from proxy.wire.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class ControllerReply:
    """Either the controller's answer, or an error that the client may see."""

    error_code: ErrorCode
    """NONE when `body` is the controller's answer."""
    body: bytes | memoryview | None
    """The response body in the request's version, without header."""
    forward_id: str
    last_offset: int | None = None
    """The last metadata offset the change was committed at, where the controller told.

    With a `first_offset`: of a controller that does not tell, the last one that it can be at.
    """
    first_offset: int | None = None
    """Of Kafka's own controller: what was changed stands here or later in the log."""
    attempts: int = 1
    """How often it was sent: from the second on, an earlier one may have been carried out."""
    close: bool = False
    """The controller does not speak this version any more: the client has to ask for ApiVersions again."""
