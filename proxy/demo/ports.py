"""Free ports on loopback for processes that must be told their port before they start."""

import socket
from contextlib import ExitStack

LOOPBACK = "127.0.0.1"


def free_addresses(count: int) -> list[str]:
    """Different "host:port" that nobody listens on now; all are held until the last is found."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [f"{LOOPBACK}:{each.getsockname()[1]}" for each in sockets]
