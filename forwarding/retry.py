"""Which envelope errors are retried, and at which controller (KIP-590, KIP-801).

forwarding.net.forwarder calls this after each attempt and reads the clock. It starts an attempt only before
the request's deadline; after it the client gets REQUEST_TIMED_OUT.
"""

from enum import Enum

from proxy.wire.error_codes import ErrorCode

AUTHORIZER_NOT_READY = 10_001
"""KIP-801 names this error without a number, and Kafka never assigned one. Penstock sends it in Envelope
version 1 only, and never to a client."""


class Step(Enum):
    """What follows an attempt."""

    DONE = "done"  # The result is final, success or error.
    FIND_CONTROLLER = "find controller"  # Another controller is active: find it, then retry.
    SAME_CONTROLLER = "same controller"  # This controller is not ready yet: wait, then retry.


CONNECTION_LOST = None
"""Stands for an error code when the connection failed before the response arrived."""

STEPS = {
    CONNECTION_LOST: Step.FIND_CONTROLLER,
    ErrorCode.NOT_CONTROLLER: Step.FIND_CONTROLLER,
    AUTHORIZER_NOT_READY: Step.SAME_CONTROLLER,
}
"""The results that are retried. Retrying after a lost connection is safe: the controller remembers the
forward ids that it has committed, and responds to the second attempt as to the first."""


def next_step(envelope_error: int | None) -> Step:
    """Return what follows an attempt that ended with this envelope-level error, or with CONNECTION_LOST."""
    return STEPS.get(envelope_error, Step.DONE)
