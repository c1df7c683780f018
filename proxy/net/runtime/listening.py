"""Readable errors of listening sockets: one line for the operator, not a traceback.

proxy.process, proxy.workers and forwarding end with exit code 2 for them.
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
    """An address cannot be listened on; the message names it, the reason and a remedy."""


@contextmanager
def opening(host: str, port: int) -> Iterator[None]:
    """Turn an OSError of the block, which opens a listening socket, into CannotListen."""
    try:
        yield
    except OSError as error:
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        raise CannotListen(f"cannot listen on {address}: {reason(error)}") from error


def reason(error: OSError) -> str:
    """Describe the error, with a remedy where there is one."""
    if isinstance(error, socket.gaierror):
        return f"the name cannot be resolved ({error.strerror})"
    return _REASONS.get(error.errno or 0, error.strerror or str(error))


def listening_socket(host: str, port: int, backlog: int, *, reuse_port: bool = False) -> socket.socket:
    """CannotListen when the address cannot be used. `reuse_port`: other workers listen there too."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with opening(host, port):
        listening = socket.create_server((host, port), family=family, backlog=backlog, reuse_port=reuse_port)
    listening.setblocking(False)
    return listening


def find_cannot_listen(error: BaseException) -> CannotListen | None:
    """Return the first CannotListen in an error or exception group; None if there is none."""
    if isinstance(error, CannotListen):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(
            (found for each in error.exceptions if (found := find_cannot_listen(each)) is not None), None
        )
    return None
