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
    """The last metadata offset the change was committed at, where the controller told."""
    close: bool = False
    """The controller does not speak this version any more: the client has to ask for ApiVersions again."""
