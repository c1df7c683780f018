"""SO_KEEPALIVE for connections that live long: those that clients open, and those to brokers and controllers.

A peer behind a NAT or a load balancer may vanish without a FIN or RST. Without keepalive its connection would
count as open until connections.max.idle.ms. Kafka's brokers and clients set the option too. How long the
kernel waits is the system's setting (net.ipv4.tcp_keepalive_time).
"""

import asyncio
import socket


def set_keepalive(connection: socket.socket) -> None:
    """Let the kernel probe the peer while the connection is idle."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def set_keepalive_of(transport: asyncio.BaseTransport) -> None:
    """The same for a transport of the event loop."""
    set_keepalive(transport.get_extra_info("socket"))
