"""Free ports on loopback for processes that must be told their port before they start."""

import socket

LOOPBACK = "127.0.0.1"


def free_addresses(count: int) -> list[str]:
    """Different "host:port" that are given to nobody else as long as this process lives.

    Each is held by a socket that is bound and does not listen. Whoever binds the port itself with
    SO_REUSEADDR, as servers do, may listen on it; to all who ask for just any port it is taken.
    """
    return [f"{LOOPBACK}:{_held_port()}" for _ in range(count)]


def _held_port() -> int:
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((LOOPBACK, 0))
    port = int(held.getsockname()[1])
    held.detach()  # The descriptor stays open; nobody has to keep the socket.
    return port
