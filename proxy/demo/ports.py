"""Free ports on loopback for processes that must be told their port before they start."""

import socket
import threading
from contextlib import ExitStack

LOOPBACK = "127.0.0.1"

_given: set[int] = set()
_giving = threading.Lock()


def free_addresses(count: int) -> list[str]:
    """Different "host:port" that nobody listens on now, and that were not given to anybody here before.

    Whoever got one may not listen on it yet, so that it looks free until then.
    """
    addresses: list[str] = []
    with ExitStack() as held, _giving:
        while len(addresses) < count:
            each = held.enter_context(socket.socket())
            each.bind((LOOPBACK, 0))
            port = each.getsockname()[1]
            if port not in _given:
                _given.add(port)
                addresses.append(f"{LOOPBACK}:{port}")
    return addresses
