"""Listening sockets that systemd holds open for a service, by address.

proxy.process reads them at the start, proxy.listeners uses them. While a proxy restarts, new connections wait
in the queue of such a socket; otherwise they fail (decision 0065). See sd_listen_fds(3).
"""

import os
import socket
from collections.abc import Iterable, MutableMapping

from proxy.net.runtime.listening import opening

FIRST_DESCRIPTOR = 3
VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


class InheritedSockets:
    """The sockets, open as long as the process. Listeners get copies: connections wait after a close."""

    def __init__(self, sockets: Iterable[socket.socket] = ()) -> None:
        self._sockets = {_address(each): each for each in sockets}

    @classmethod
    def of_service(cls, environment: MutableMapping[str, str]) -> "InheritedSockets":
        """Read LISTEN_FDS, if it is for this process, and remove the variables.

        ValueError for a descriptor that is not a listening TCP socket.
        """
        pid, count, _ = (environment.pop(name, None) for name in VARIABLES)
        if pid != str(os.getpid()) or count is None:
            return cls()
        descriptors = range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + int(count))
        return cls(_listening(descriptor) for descriptor in descriptors)

    def __len__(self) -> int:
        return len(self._sockets)

    def require_no_workers(self) -> None:
        """ValueError if there are any: workers listen at sockets of their own."""
        if self._sockets:
            raise ValueError(
                "workers: several processes cannot share the sockets that systemd holds for this service"
                " (LISTEN_FDS); write workers: 1, or take the .socket unit away"
            )

    def at(self, host: str, port: int) -> socket.socket | None:
        """Return a copy of the socket that is bound to this address; None if there is none."""
        addresses = _resolved(host, port) if self._sockets and port else []
        return next((self._sockets[each].dup() for each in addresses if each in self._sockets), None)

    def unused(self, binds: Iterable[tuple[str, int]]) -> list[str]:
        """Return the addresses that are in none of `binds`: connections to them would never be accepted."""
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
    """Resolve an address as for a listening socket. CannotListen for a name without an address."""
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
