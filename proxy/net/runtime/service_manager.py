"""Notifications to the service manager, as sd_notify(3) sends them: one datagram to NOTIFY_SOCKET.

Each process of a unit with Type=notify reports READY=1 when it runs (proxy.app, proxy.workers,
forwarding). proxy.app.handover names the process that takes over, and asks `ends_successors` before.
"""

import os
import socket
from collections.abc import Mapping

import structlog

from proxy.error_text import text_of

VARIABLE = "NOTIFY_SOCKET"
SEND_S = 1.0

log = structlog.get_logger(__name__)


def notify(*assignments: str) -> None:
    """Send assignments such as READY=1. Do nothing without a service manager; log an error of the socket."""
    address = os.environ.get(VARIABLE)
    if not address:
        return
    # "@" stands for the null byte of an abstract address.
    path = f"\0{address[1:]}" if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
        sending.settimeout(SEND_S)
        try:
            sending.sendto("\n".join(assignments).encode(), path)
        except OSError as error:
            log.error(
                "service manager not notified",
                assignments=assignments,
                socket=address,
                error=text_of(error),
            )


def ends_successors(environment: Mapping[str, str], pid: int, parent_pid: int) -> str | None:
    """Return why a successor would be ended together with this process, and what to do; else None.

    `environment`: of the process `pid`, which `parent_pid` has started.
    """
    if pid == 1:
        return (
            "this process is PID 1: the container ends with it, and a new process with the container;"
            " restart the container"
        )
    of_systemd = parent_pid == 1 or environment.get("SYSTEMD_EXEC_PID") == str(pid)
    if "INVOCATION_ID" in environment and of_systemd and not environment.get(VARIABLE):
        return (
            "the systemd unit of this process has no Type=notify: systemd would end the new process with this"
            " one; install the unit that penstock init writes, or run systemctl restart"
        )
    return None
