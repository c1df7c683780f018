"""Readable errors of listening sockets: one line for the operator, not a traceback.

proxy.app, proxy.workers and forwarding end with exit code 2 for them.
"""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from proxy.error_text import text_of

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
        raise CannotListen(f"cannot listen on {address_text(host, port)}: {reason(error)}") from error


def address_text(host: str, port: int) -> str:
    """Return `host:port`, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reason(error: OSError) -> str:
    """Describe the error, with a remedy where there is one."""
    if isinstance(error, socket.gaierror):
        return f"the name cannot be resolved ({error.strerror})"
    return _REASONS.get(error.errno or 0, error.strerror or text_of(error))


def listening_socket(host: str, port: int, backlog: int, *, reuse_port: bool = False) -> socket.socket:
    """CannotListen when the address cannot be used. `reuse_port`: other workers listen there too."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with opening(host, port):
        listening = socket.create_server((host, port), family=family, backlog=backlog, reuse_port=reuse_port)
    listening.setblocking(False)
    return listening


def bound_sockets(host: str, port: int, *, reuse_port: bool = False) -> Iterator[socket.socket]:
    """Yield a socket that is bound to each address of the host, and does not listen. CannotListen."""
    with opening(host, port):
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            bound = socket.socket(family, kind, protocol)
            try:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if reuse_port:
                    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                if family == socket.AF_INET6:
                    # As the listeners do: the IPv4 port of that number is a separate one.
                    bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                bound.bind(address)
            except OSError:
                bound.close()
                raise
            yield bound


def find_cannot_listen(error: BaseException) -> CannotListen | None:
    """Return the first CannotListen in an error or exception group; None if there is none."""
    if isinstance(error, CannotListen):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(
            (found for each in error.exceptions if (found := find_cannot_listen(each)) is not None), None
        )
    return None


def listening_ports(pid: int) -> frozenset[int]:
    """Return the TCP ports that a process and its children listen on; none if this user may not know them."""
    sockets = frozenset[str]().union(*map(_sockets_of, (pid, *_children(pid))))
    found = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
                _, local, _, state, *_, inode = line.split()[:10]
                if state == _LISTEN and f"socket:[{inode}]" in sockets:
                    found.add(int(local.rpartition(":")[2], 16))
    return frozenset(found)


_LISTEN = "0A"


def _sockets_of(pid: int) -> frozenset[str]:
    found = set()
    with suppress(OSError):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # It was closed meanwhile.
                found.add(os.readlink(file))
    return frozenset(found)


def _children(pid: int) -> tuple[int, ...]:
    """Return the children of a process, such as the workers of a supervisor."""
    try:
        return tuple(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()))
    except OSError:
        return ()
