"""Faults at random: proxies, controller and brokers are killed or frozen, alone or with their machine.

What happens when follows from the seed. Each is started again at once; ingests are killed meanwhile by
tests.lab.chaos.ingesting.
"""

import random
import signal
import threading
from collections.abc import Callable
from functools import partial

from proxy.net.runtime.clock import now_ms
from tests.lab.chaos.load import Ledger
from tests.lab.chaos.watched import LATE_MS, Watch, Watched
from tests.lab.cluster.at_once import at_once
from tests.lab.cluster.node import Node
from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.stack import Stack

PAUSE_S = (1.0, 5.0)
SHORT_PAUSE_S = (0.5, 2.0)
FROZEN_S = (0.5, 8.0)
READ_EVERY_S = 2.0


class Killing:
    """Of one stack. `done` is what was done, in order."""

    def __init__(self, stack: Stack, ledger: Ledger, seed: int) -> None:
        self.done: list[str] = []
        self.proxies = [_proxy(node) for node in stack.nodes]
        controller = Watched(
            "controller-1", stack.wiring.controller_http, stack.controller, stack.start_controller
        )
        self.watch = Watch([*self.proxies, controller], READ_EVERY_S)
        self._ledger = ledger
        self._random = random.Random(seed)
        self._faults: dict[str, list[Callable[[], None]]] = {
            "proxy": [partial(self._kill_proxy, proxy) for proxy in self.proxies],
            "controller": [controller.kill],
            "broker": [partial(_kill_broker, node) for node in stack.nodes],
            "machine": [
                partial(self._kill_machine, node, proxy)
                for node, proxy in zip(stack.nodes, self.proxies, strict=True)
            ],
            "frozen process": [partial(self._freeze, each) for each in self.watch.all],
            "frozen broker": [partial(self._freeze_broker, node.broker.process) for node in stack.nodes],
        }

    def in_turn(self, names: tuple[str, ...]) -> None:
        """These, one after the other."""
        for name in names:
            self._do(name, SHORT_PAUSE_S)

    def for_a_time(self, seconds: float) -> None:
        """At random until the time is over."""
        over_ms = now_ms() + seconds * 1000
        while now_ms() < over_ms:
            self._do(self._random.choice(("proxy", "proxy", *self._faults)))

    def _do(self, name: str, pause_s: tuple[float, float] = PAUSE_S) -> None:
        threading.Event().wait(self._random.uniform(*pause_s))  # A moment that nobody expects.
        self._random.choice(self._faults[name])()
        self.done.append(name)

    def _kill_proxy(self, proxy: Watched) -> None:
        proxy.kill(self._ledger.proxy_was_killed)

    def _kill_machine(self, node: Node, proxy: Watched) -> None:
        """A proxy and the broker behind it."""
        at_once([partial(self._kill_proxy, proxy), partial(_kill_broker, node)])

    def _freeze(self, process: Watched) -> None:
        process.freeze(self._random.uniform(*FROZEN_S))

    def _freeze_broker(self, process: ChildProcess) -> None:
        process.signal(signal.SIGSTOP)
        threading.Event().wait(self._random.uniform(*FROZEN_S))
        process.signal(signal.SIGCONT)


def _proxy(node: Node) -> Watched:
    return Watched(node.wiring.proxy.name, node.wiring.proxy_http, node.proxy, node.start_proxy)


def _kill_broker(node: Node) -> None:
    node.broker.process.kill()
    node.broker.start(LATE_MS)
