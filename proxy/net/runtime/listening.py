"""What to say when an address cannot be listened on: one line for the operator, not a traceback.

Raised by what opens listening sockets; proxy.process, proxy.workers and forwarding end with exit code 2.
"""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

_REASONS = {
    errno.EADDRINUSE: "the port is in use; choose another one, or stop the process that has it",
    errno.EADDRNOTAVAIL: "no network interface of this machine has that address",
    errno.EACCES: "permission denied; ports below 1024 need CAP_NET_BIND_SERVICE",
}


class CannotListen(OSError):
    """The address and the reason, and what to do."""


@contextmanager
def opening(host: str, port: int) -> Iterator[None]:
    """Around what opens a listening socket: CannotListen for its OSError."""
    try:
        yield
    except OSError as error:
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        raise CannotListen(f"cannot listen on {address}: {reason(error)}") from error


def reason(error: OSError) -> str:
    """In words, with what to do."""
    if isinstance(error, socket.gaierror):
        return f"the name cannot be resolved ({error.strerror})"
    return _REASONS.get(error.errno or 0, error.strerror or str(error))


def refused(error: BaseException) -> CannotListen | None:
    """The first one in an error, which may be a task group's; None: it is about something else."""
    if isinstance(error, CannotListen):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((found for each in error.exceptions if (found := refused(each)) is not None), None)
    return None
