"""Which answers to a forwarded request are tried again, and where (KIP-590, KIP-801).

Asked by forwarding.net.forwarder after each attempt; the clock is the caller's. An attempt
begins only before the request's own deadline: beyond it the client is told REQUEST_TIMED_OUT.
"""

from enum import Enum

from proxy.wire.error_codes import ErrorCode

AUTHORIZER_NOT_READY = 10_001
"""KIP-801 names this error and gives it no number; Kafka never did. Ours is told in Envelope version 1 only,
and never reaches a client."""


class Step(Enum):
    """What follows an attempt."""

    DONE = "done"  # The answer, good or bad, is final.
    FIND_CONTROLLER = "find controller"  # The active controller is another one: look for it, then again.
    SAME_CONTROLLER = "same controller"  # It is the right one and not ready yet: pause, then again.


CONNECTION_LOST = None
"""In place of an error code: the connection went before the answer came, or never stood."""

STEPS = {
    CONNECTION_LOST: Step.FIND_CONTROLLER,
    ErrorCode.NOT_CONTROLLER: Step.FIND_CONTROLLER,
    AUTHORIZER_NOT_READY: Step.SAME_CONTROLLER,
}
"""All that is tried again. A lost connection is safe to repeat: the controller remembers the forward ids
it has committed and answers the second attempt as it answered the first."""


def next_step(envelope_error: int | None) -> Step:
    """What to do after an attempt ended with this envelope-level error, or with CONNECTION_LOST."""
    return STEPS.get(envelope_error, Step.DONE)
