"""Listening sockets that systemd holds open for a service, by the address that they are bound to.

Read by proxy.process at its start, used by proxy.listeners. While a proxy restarts, its clients' connections
wait in the queue of such a socket; without it they are refused (decision 0065). See sd_listen_fds(3).
"""

import os
import socket
from collections.abc import Iterable, MutableMapping

from proxy.net.runtime.listening import opening

FIRST_DESCRIPTOR = 3
VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


class InheritedSockets:
    """Open as long as the process: what a listener closes is a copy, so that connections go on waiting."""

    def __init__(self, sockets: Iterable[socket.socket] = ()) -> None:
        self._sockets = {_address(each): each for each in sockets}

    @classmethod
    def of_service(cls, environment: MutableMapping[str, str]) -> "InheritedSockets":
        """Those in LISTEN_FDS, if they are for this process; the variables are removed.

        ValueError for a descriptor that is no listening TCP socket.
        """
        pid, count, _ = (environment.pop(name, None) for name in VARIABLES)
        if pid != str(os.getpid()) or count is None:
            return cls()
        descriptors = range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + int(count))
        return cls(_listening(descriptor) for descriptor in descriptors)

    def __len__(self) -> int:
        return len(self._sockets)

    def require_no_workers(self) -> None:
        """ValueError if there are any: workers accept at sockets of their own."""
        if self._sockets:
            raise ValueError(
                "workers: several processes cannot share the sockets that systemd holds for this service"
                " (LISTEN_FDS); write workers: 1, or take the .socket unit away"
            )

    def at(self, host: str, port: int) -> socket.socket | None:
        """A copy of the one that is bound to this address; None if there is none."""
        addresses = _resolved(host, port) if self._sockets and port else []
        return next((self._sockets[each].dup() for each in addresses if each in self._sockets), None)

    def unused(self, binds: Iterable[tuple[str, int]]) -> list[str]:
        """Where none of `binds` would accept: whoever connects there would wait in vain."""
        if not self._sockets:
            return []
        used = {address for host, port in binds for address in _resolved(host, port)}
        return [_written(address) for address in self._sockets if address not in used]


Address = tuple[str, int]


def _listening(descriptor: int) -> socket.socket:
    try:
        found = socket.socket(fileno=descriptor)
        listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise ValueError(f"LISTEN_FDS: descriptor {descriptor}: {error.strerror}") from error
    if not listens or found.family not in (socket.AF_INET, socket.AF_INET6):
        raise ValueError(
            f"LISTEN_FDS: descriptor {descriptor} is no listening TCP socket: write ListenStream=ADDRESS:PORT"
            " and Accept=no in the .socket unit"
        )
    found.set_inheritable(False)
    found.setblocking(False)
    return found


def _resolved(host: str, port: int) -> list[Address]:
    """As a listening socket of our own would be bound. CannotListen for a name that has no address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with opening(host, port):
        found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
    return [(str(address[0]), int(address[1])) for *_, address in found]


def _address(listening: socket.socket) -> Address:
    host, port = listening.getsockname()[:2]
    return str(host), int(port)


def _written(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
