"""Listening sockets that outlive the process that accepts at them, as systemd holds them for a service.

See sd_listen_fds(3) and docs/decisions/0065.
"""

import socket
import sys
from collections.abc import Iterable, Sequence

BACKLOG = 4_096
SYSTEMD = """
import os, sys
descriptors = [int(each) for each in sys.argv[1].split(",")]
for place, descriptor in enumerate(descriptors):
    os.dup2(descriptor, 3 + place)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(descriptors))}
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Starts a program as systemd starts a service whose sockets it holds."""


def as_service(program: Sequence[str], held: Sequence[socket.socket]) -> list[str]:
    """The command that starts a program with these sockets, as systemd does; they have to be passed on."""
    if not held:
        return list(program)
    descriptors = ",".join(str(each.fileno()) for each in held)
    return [sys.executable, "-c", SYSTEMD, descriptors, *program]


def listening(addresses: Iterable[str]) -> list[socket.socket]:
    """A listening socket at each HOST:PORT."""
    return [
        socket.create_server((host, int(port)), backlog=BACKLOG)
        for host, _, port in (each.rpartition(":") for each in addresses)
    ]
