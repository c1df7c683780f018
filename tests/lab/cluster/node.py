"""One broker of the stack with the proxy in front of it, as an operator would install the pair.

Made by tests.lab.cluster.stack, one for each broker of the cluster.
"""

import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.cluster import probe, settings
from tests.lab.cluster.broker import Broker
from tests.lab.cluster.certificates import Certificates
from tests.lab.cluster.held_sockets import listening
from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.settings import Wiring

READY_TIMEOUT_MS = 60_000
BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
"""An installed package has its bytecode. Where none may be written, each start compiles every module anew,
which takes as long as everything else until a proxy is ready."""
# Where our packages lie: child processes find them there, wherever the demo was started.
CHECKOUT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class Node:
    """A broker, its proxy, and what the proxy was told."""

    broker: Broker
    wiring: Wiring
    proxy_file: Path
    proxy: ChildProcess

    @property
    def number(self) -> int:
        """The broker's node id."""
        return self.wiring.node_id

    def start_proxy(self) -> None:
        """Up and ready for clients, or SetupError."""
        self.proxy.start()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Ready for clients, or SetupError."""
        self.proxy.wait_until(lambda: probe.is_ready(self.wiring.proxy_http), READY_TIMEOUT_MS)

    def metrics(self) -> dict[str, float]:
        """The proxy's metrics now, by series as Prometheus writes them."""
        return probe.series(self.wiring.proxy_http)


def node(
    directory: Path,
    broker: Broker,
    wiring: Wiring,
    tls: Certificates,
    changes: Mapping[str, object],
    environment: Mapping[str, str] | None = None,
    *,
    holds_sockets: bool = False,
) -> Node:
    """Write the proxy's files below the stack's directory; nothing is started."""
    name = numbered("proxy", wiring.node_id)
    held = listening(wiring.listeners.values()) if holds_sockets else []
    file = settings.write_proxy(directory / name, wiring, tls, changes)
    return Node(
        broker, wiring, file, penstock("proxy", name, file, directory / "logs", environment, held=held)
    )


def numbered(what: str, node_id: int) -> str:
    """The first of each kind bears no number, as in a stack of one."""
    return what if node_id == 1 else f"{what}-{node_id}"


def penstock(
    role: str,
    name: str,
    config: Path,
    logs: Path,
    environment: Mapping[str, str] | None = None,
    starter: Sequence[str] = (),
    held: Sequence[socket.socket] = (),
) -> ChildProcess:
    """`penstock proxy -c ...` or `penstock controller -c ...`, from this checkout.

    `starter`: a program that is given the command, and executes it.
    """
    return ChildProcess(
        f"the {name}" if name == role else name,
        [*starter, sys.executable, "-m", "proxy", role, "-c", str(config)],
        logs / f"{name}.log",
        {"PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1", **BYTECODE, **(environment or {})},
        held,
    )
