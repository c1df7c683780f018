"""Listening sockets that are open before the process starts, by address.

systemd holds them for a service (decision 0065, sd_listen_fds(3)), or the process before this one has handed
them over (decision 0066). While a proxy restarts, new connections wait in the queue of such a socket;
otherwise they fail. proxy.commands.run_proxy reads them at the start, proxy.app.listeners uses them.
"""

import os
import socket
from collections.abc import Iterable, MutableMapping
from itertools import starmap

from proxy.net.runtime.listening import CannotListen, address_text, listening_socket, opening

FIRST_DESCRIPTOR = 3
VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


class InheritedSockets:
    """The sockets. Those that systemd holds stay open as long as the process: listeners get copies.

    Those that were handed over belong to the listener that accepts there.
    """

    def __init__(self, held: Iterable[socket.socket] = (), handed_over: Iterable[socket.socket] = ()) -> None:
        self._held = {_address(each): each for each in held}
        self._handed_over = {_address(each): each for each in handed_over}

    @classmethod
    def of_service(cls, environment: MutableMapping[str, str]) -> "InheritedSockets":
        """Read LISTEN_FDS, if it is for this process, and remove the variables.

        ValueError for a descriptor that is not a listening TCP socket.
        """
        pid, count, _ = (environment.pop(name, None) for name in VARIABLES)
        if pid != str(os.getpid()) or count is None:
            return cls()
        return cls(map(_listening, range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + int(count))))

    @classmethod
    def of_predecessor(cls, held: Iterable[int], handed_over: Iterable[int]) -> "InheritedSockets":
        """Take the descriptors of a predecessor's sockets: those that systemd holds, and all others."""
        return cls(map(_listening, held), map(_listening, handed_over))

    def __len__(self) -> int:
        return len(self._held) + len(self._handed_over)

    def require_no_workers(self) -> None:
        """ValueError if there are any: workers listen at sockets of their own."""
        if self._handed_over:
            raise ValueError(
                "workers: a proxy cannot start a successor with workers above 1; stop it and start it again"
            )
        if self._held:
            raise ValueError(
                "workers: several processes cannot share the sockets that systemd holds for this service"
                " (LISTEN_FDS); write workers: 1, or take the .socket unit away"
            )

    def at(self, host: str, port: int) -> socket.socket | None:
        """Return the socket that is bound to this address, for a listener; None if there is none."""
        for address in _resolved(host, port) if self and port else ():
            if address in self._held:
                return self._held[address].dup()
            if address in self._handed_over:
                return self._handed_over.pop(address)
        return None

    def open_new(self, host: str, port: int, backlog: int) -> None:
        """Open a listening socket for a listener, unless there is one at this address. CannotListen."""
        if not port or any(each in self._held or each in self._handed_over for each in _resolved(host, port)):
            return
        try:
            opened = listening_socket(host, port, backlog)
        except CannotListen as error:
            overlapping = [each for each in (*self._held, *self._handed_over) if each[1] == port]
            raise not_beside(overlapping, error) from error
        self._handed_over[_address(opened)] = opened

    def unused(self, binds: Iterable[tuple[str, int]]) -> list[str]:
        """Return the addresses that systemd holds and that are in none of `binds`.

        Connections to them would never be accepted.
        """
        if not self._held:
            return []
        used = {address for host, port in binds for address in _resolved(host, port)}
        return [address_text(*address) for address in self._held if address not in used]

    def close_unused(self, binds: Iterable[tuple[str, int]]) -> None:
        """Close the sockets that were handed over and are in none of `binds`."""
        used = {address for host, port in binds for address in _resolved(host, port)}
        for address in self._handed_over.keys() - used:
            self._handed_over.pop(address).close()

    def passed_on(
        self, listening: Iterable[socket.socket]
    ) -> tuple[list[socket.socket], list[socket.socket]]:
        """Return the sockets for a successor: those that systemd holds, and all others.

        `listening`: of the open listeners.
        """
        own = [each for each in listening if _address(each) not in self._held]
        return list(self._held.values()), [*own, *self._handed_over.values()]


Address = tuple[str, int]


def not_beside(addresses: Iterable[Address], error: CannotListen) -> CannotListen:
    """Return the error with the remedy if the predecessor listens at `addresses`, of the same port."""
    own = ", ".join(starmap(address_text, addresses))
    if not own:
        return error
    return CannotListen(f"{error}; the running process listens at {own}: stop it and start it again")


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
