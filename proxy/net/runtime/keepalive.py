"""SO_KEEPALIVE for connections that live long: those that clients open, and those to brokers and controllers.

A peer behind a NAT or a load balancer may vanish without a FIN or RST. Without keepalive its connection would
count as open until connections.max.idle.ms. Kafka's brokers and clients set the option too. When the kernel
probes is the system's setting (net.ipv4.tcp_keepalive_time), unless a listener has its own.
"""

import asyncio
import socket
from typing import NamedTuple


class Keepalive(NamedTuple):
    """When the kernel probes an idle peer; None: as the system does."""

    idle_s: int | None = None
    """How long a connection is idle before the first probe."""
    interval_s: int | None = None
    """Between two probes without a response."""
    probes: int | None = None
    """Without a response after so many, the connection is reset."""


SYSTEM = Keepalive()
_OPTIONS = socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT


def set_keepalive(connection: socket.socket, keepalive: Keepalive = SYSTEM) -> None:
    """Let the kernel probe the peer while the connection is idle."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in zip(_OPTIONS, keepalive, strict=True):
        if value is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def set_keepalive_of(transport: asyncio.BaseTransport) -> None:
    """The same for a transport of the event loop."""
    set_keepalive(transport.get_extra_info("socket"))
