"""One Kafka broker, and before it a proxy alone, one with two workers, and two that share the quotas.

Each is a side. A client at the broker's own listener is ANONYMOUS, whom the broker charges; through a proxy
it is alice, whom the proxy charges: to the broker she is the proxy's user, whom no quota of its own is for.
"""

import asyncio
import secrets
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from proxy.net.runtime.clock import monotonic_ms
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster import probe, settings
from tests.lab.cluster.at_once import at_once
from tests.lab.cluster.node import READY_TIMEOUT_MS, penstock
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.stack import LISTENERS, Stack, StackSettings
from tests.lab.cluster.users import Entrance, User, librdkafka_settings
from tests.lab.hostile.asking_broker import log_sizes, set_quotas
from tests.lab.hostile.client import Client
from tests.lab.side_by_side.dialogue import Dialogue
from tests.support.cluster_admin import ClusterAdmin, admin, done

BROKER, CLUSTER = "broker", "cluster"
ANONYMOUS, ALICE = "ANONYMOUS", "alice"
FURTHER: Mapping[str, Mapping[str, Any]] = {
    "workers": {"workers": 2},
    CLUSTER: {"quota": {"scope": "cluster"}},
    "cluster-idle": {"quota": {"scope": "cluster"}},
}
"""Proxies besides the first, and what their configuration has that the first one's has not."""
SIDES = (BROKER, "one", "workers", CLUSTER)
"""Where clients are. cluster-idle has none: its part of each quota goes to `cluster`."""
STORED = "stored"
"""A topic with records to read."""
TIMEOUT_S = 30.0
AGREED_S = 6.0
"""Until proxies that have started have agreed on coordinators, which know who may have used which credit."""


@dataclass(frozen=True)
class Side:
    name: str
    address: str
    user: User | None
    """None: no login."""

    async def connect(self) -> Client:
        client = await Client.open(self.address, "127.0.0.1")
        if self.user is not None:
            await client.log_in(self.user)
        return client

    def librdkafka(self, client_id: str) -> dict[str, object]:
        at = {"bootstrap.servers": self.address}
        login = at if self.user is None else librdkafka_settings(self.user, Entrance(self.address))
        return {**login, "client.id": client_id}


class Place:
    def __init__(self, directory: Path, libs: Path, samples: int) -> None:
        """`samples`: the number of one-second samples of a quota's window, the current one included."""
        self.stack = Stack(
            StackSettings(
                directory=directory,
                libs=libs,
                broker_properties={"quota.window.num": str(samples)},
                proxy_changes={"quota": {"window.num": samples}},
            )
        )
        wiring = self.stack.wiring
        self._proxies: dict[str, tuple[ChildProcess, str]] = {}
        logins, addresses = [wiring.proxy], {"one": self.stack.entrance().bootstrap}
        for number, (name, more) in enumerate(FURTHER.items(), 2):
            login = User(f"proxy-{number}", "PLAIN", secrets.token_urlsafe(16))
            *entrances, http = free_addresses(len(LISTENERS) + 1)
            its = replace(
                wiring, listeners=dict(zip(LISTENERS, entrances, strict=True)), proxy_http=http, proxy=login
            )
            quota = {"window.num": samples, **more.get("quota", {})}
            changes = {**more, "quota": quota}
            file = settings.write_proxy(self.stack.directory / name, its, self.stack.tls, changes)
            self._proxies[name] = penstock("proxy", name, file, self.stack.logs), http
            logins.append(login)
            addresses[name] = its.listeners["SASL_PLAINTEXT"]
        settings.write_controller(self.stack.directory / "controller", wiring, logins, {})
        alice = replace(self.stack.users[ALICE], mechanism="PLAIN")
        self.sides = [Side(BROKER, self.stack.broker.plaintext, None)]
        self.sides += [Side(name, addresses[name], alice) for name in SIDES[1:]]

    @contextmanager
    def running(self, names: Collection[str]) -> Iterator["Place"]:
        """`names`: the sides that are needed."""
        wanted = {each for each in self._proxies if each.partition("-")[0] in names}
        self.sides = [side for side in self.sides if side.name in names]
        processes = [self._proxies[name] for name in sorted(wanted)]
        with self.stack.running():
            try:
                for process, _ in processes:
                    process.start()
                for process, http in processes:
                    process.wait_until(partial(probe.is_ready, http), READY_TIMEOUT_MS)
                if CLUSTER in names:
                    asyncio.run(asyncio.sleep(AGREED_S))
                yield self
            finally:
                at_once([process.stop for process, _ in processes])

    def furnish(
        self,
        topics: Mapping[str, int],
        limits: Mapping[str | None, Mapping[str, float]],
        stored: bytes,
        count: int,
    ) -> None:
        """`topics` with so many partitions, `limits` by client id at each side, and records to read."""
        by_admin = ClusterAdmin(self.stack)
        done(by_admin.client.create_topics([admin.NewTopic(*each, 1) for each in topics.items()]))
        alice = self.stack.users[ALICE]
        by_admin.allow(alice, "READ", "WRITE", "DESCRIBE", topic="*")
        by_admin.allow(alice, "READ", group="*")
        by_admin.allow(alice, "WRITE", "DESCRIBE", transactional_id="*")
        admin_user = self.stack.users["admin"]
        with self.at_broker() as at_broker:
            set_quotas(at_broker, ANONYMOUS, limits)
            _wait_for_logs(at_broker, topics)
            _store(at_broker, stored, count)
        with Dialogue(self.stack.entrance().bootstrap, TIMEOUT_S) as at_proxy:
            set_quotas(at_proxy.log_in(admin_user.name, admin_user.password), ALICE, limits)

    def at_broker(self) -> Dialogue:
        """Of the observer, to whom no quota applies."""
        return Dialogue(self.stack.broker.plaintext, TIMEOUT_S, "observer")


def _wait_for_logs(dialogue: Dialogue, topics: Collection[str]) -> None:
    """Metadata names a leader before it is one; it has a log when it is."""
    deadline_ms = monotonic_ms() + 1_000 * TIMEOUT_S
    while not log_sizes(dialogue).keys() >= set(topics):
        assert monotonic_ms() < deadline_ms, "some topics have no log"


def _store(dialogue: Dialogue, batch: bytes, count: int) -> None:
    request = t.ProduceRequest
    part = request.PartitionProduceData(index=0, records=batch)
    data = [request.TopicProduceData(name=STORED, partition_data=[part])]
    for _ in range(count):
        told = dialogue.must(ApiKey.PRODUCE, 9, request(acks=1, timeout_ms=9_000, topic_data=data))
        assert told.responses[0].partition_responses[0].error_code == 0, told
