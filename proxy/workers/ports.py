"""Sockets that reserve the addresses of the listeners while workers start and end: bound, never listening.

Linux gives connections only to listening sockets, so these get none. No other process can bind the
port meanwhile, and if the configuration has port 0, all workers get the same port.
"""

import socket
from collections.abc import Iterable

from proxy.config import Listener, split_host_port
from proxy.net.runtime.listening import CannotListen, opening


class HeldPorts:
    """Holds one socket for each listener."""

    def __init__(self, listeners: Iterable[Listener]) -> None:
        """CannotListen names an address that cannot be bound."""
        self._sockets: dict[str, socket.socket] = {}
        for listener in listeners:
            host, port = split_host_port(listener.bind)
            try:
                with opening(host, port):
                    self._sockets[listener.name] = _held(host, port)
            except CannotListen:
                self.close()
                raise

    @property
    def numbers(self) -> dict[str, int]:
        """Name of each listener -> its port."""
        return {name: int(held.getsockname()[1]) for name, held in self._sockets.items()}

    def close(self) -> None:
        for held in self._sockets.values():
            held.close()


def _held(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    held = socket.socket(family, kind, protocol)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            # As the listeners do: the IPv4 port of that number is a separate one.
            held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        held.bind(address)
    except OSError:
        held.close()
        raise
    return held
