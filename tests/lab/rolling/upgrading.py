"""A rolling upgrade of three brokers under load: each restarts with newer releases, then come the features.

After each step every proxy has to offer its clients exactly what its own broker supports by then. For APIs
that Penstock's controller sends to a broker, that is the one which the controller is connected to.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event

from forwarding.net.forwarder import WITNESS_INTERVAL_MS
from proxy.net.kafka.broker_watch import REFRESH_INTERVAL_S
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.node import Node
from tests.lab.cluster.release import Release
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import channel_settings
from tests.lab.rolling.place import Kinds
from tests.lab.rolling.running import Rolling, Say, Step
from tests.support.cluster_admin import ClusterAdmin
from tests.support.controllers import endpoint_of
from tests.support.offered_apis import Told, told, wrongly_offered

LOOK_S = 0.5
WITHIN_S = 2 * (REFRESH_INTERVAL_S + WITNESS_INTERVAL_MS / 1000)
"""Proxies ask their broker and the controller at these intervals."""


def upgrade(stack: Stack, kinds: Kinds, say: Say, releases: Sequence[Release]) -> list[str]:
    """All brokers to each release in turn, and the features of the last one.

    What was found: faults of the clients, and versions that a proxy offers and its broker does not.
    """
    rolling = Rolling(stack, ClusterAdmin(stack), kinds, say)
    offers = _Offers(stack, say, rolling.faults)
    steps = [rolling.upgrade(node, release, offers.check) for release in releases for node in stack.nodes]
    last = releases[-1]
    finalized = Step(f"the features of {last} are enabled", partial(_finalize, stack, last), offers.check)
    rolling.play([rolling.nothing(), *steps, finalized])
    return rolling.faults


def _finalize(stack: Stack, release: Release) -> None:
    major, minor = release.version.split(".")[:2]
    run = stack.tools("admin").run("kafka-features", "upgrade", "--release-version", f"{major}.{minor}")
    assert run.returncode == 0, run.said


class _Offers:
    def __init__(self, stack: Stack, say: Say, faults: list[str]) -> None:
        self._stack, self._say, self._faults = stack, say, faults

    def check(self) -> None:
        """Each proxy offers what its broker has."""
        for node in self._stack.nodes:
            if not self._within(WITHIN_S, lambda node=node: not self._wrong(node)):  # type: ignore[misc]
                wrong = self._wrong(node)
                self._faults.append(f"{node.proxy.name} does not offer what its broker supports: {wrong}")
        heights = [self._offered(node)[0].get(ApiKey.FETCH) for node in self._stack.nodes]
        groups = [ApiKey.CONSUMER_GROUP_HEARTBEAT in self._offered(node)[0] for node in self._stack.nodes]
        self._say(f"  the proxies offer Fetch {heights}, groups of KIP-848 {groups}")

    def _wrong(self, node: Node) -> list[str]:
        behind = {each.number: self._behind(each) for each in self._stack.nodes}
        own, offered = behind[node.number], self._offered(node)
        features = [] if offered[1:] == own[1:] else [f"features {offered[1:]}, not {own[1:]}"]
        return wrongly_offered(offered[0], own[0], [each[0] for each in behind.values()]) + features

    @staticmethod
    def _behind(node: Node) -> Told:
        return asyncio.run(told(endpoint_of(node.broker.plaintext)))

    def _offered(self, node: Node) -> Told:
        entrance = self._stack.entrance(number=node.number)
        return asyncio.run(told(channel_settings(self._stack.users["admin"], entrance.bootstrap)))

    @staticmethod
    def _within(time_s: float, holds: Callable[[], bool]) -> bool:
        for _ in range(int(time_s / LOOK_S)):
            if holds():
                return True
            Event().wait(LOOK_S)
        return holds()
