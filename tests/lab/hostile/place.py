"""One broker and one controller for all attacks, and proxies before them as each attack wants them.

Proxy, workers and controller measure their event loops (`slices`). Makes the users, topics and
ACLs that attacks and the normal user need; knows nothing of what they do.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.lab.cluster import probe, settings
from tests.lab.cluster.node import CHECKOUT, READY_TIMEOUT_MS, penstock
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.settings import Wiring
from tests.lab.cluster.stack import LISTENERS, Stack, StackSettings
from tests.lab.cluster.users import Entrance, User
from tests.lab.hostile import identities
from tests.lab.hostile.big_broker import longest_lag_ms
from tests.lab.hostile.target import BOB_BY_PLAIN, PLAIN_USER, TOPIC, Target
from tests.support.cluster_admin import ClusterAdmin

BIG_TOPIC = "big"
BIG_PARTITIONS = 50
REAUTH_MS = 5_000
BOB, CAROL, EVE, MALLORY = "bob", "carol", "eve", "mallory"
"""Without any right; reads all topics; has all groups and transactional ids; may create one topic."""
DRAIN_MS, STOP_MS = 5_000, 30_000


def with_limits(limits: Mapping[str, Any]) -> dict[str, Any]:
    """Parts of proxy.yaml; a normal user is not to wait for the failures of an attack's users."""
    return {"login.backoff": {"failures": 0}, "limits": {"drain.timeout.ms": DRAIN_MS, **limits}}


@dataclass(frozen=True, slots=True)
class Scene:
    """How the proxy is configured and started for an attack."""

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Parts of proxy.yaml, by their top-level key."""
    shell: str = 'exec "$@"'
    """What a shell does to start it; it gets the command as its words, and a named pipe as $PIPE."""

    partitions: int = 0
    """Before a broker in memory with so many, in place of Kafka."""
    balancers: tuple[str, ...] = ()
    """Networks from which connections of the listener REAUTH begin with a PROXY header."""
    has_identities: bool = False
    """Whether clients may log in with tokens and certificates (tests.lab.hostile.identities)."""

    @property
    def workers(self) -> int:
        return int(self.changes.get("workers", 1))


ORDINARY = Scene("ordinary", with_limits({}))


NARROW_BYTES = 16 * 1024 * 1024
IDLE_S = 4
NARROW = Scene(
    "narrow",
    {
        **with_limits(
            {
                "queued.max.request.bytes": NARROW_BYTES,
                "socket.request.max.bytes": NARROW_BYTES,
                "connections.max.idle.ms": IDLE_S * 1000,
            }
        ),
        "audit": {
            "topic": settings.AUDIT_TOPIC,
            "spool.dir": "spool",
            "summary.interval.ms": 2_000,
            "spool.max.bytes": 4 * 1024 * 1024,
        },
    },
)
"""Little memory, a small spool, and a short time to be idle."""


def measuring(directory: Path) -> dict[str, str]:
    """The variables with which a process measures its loop."""
    path = os.pathsep.join((str(CHECKOUT / "tests" / "lab" / "hostile" / "at_start"), str(CHECKOUT)))
    return {"PYTHONPATH": path, "PENSTOCK_SLICES": str(directory)}


class Place:
    """Broker and controller up, with users and topics."""

    def __init__(self, directory: Path, libs: Path) -> None:
        self.directory = directory
        self.slices = directory / "slices"
        self.slices.mkdir(parents=True)
        self.stack = Stack(
            StackSettings(
                directory=directory / "stack",
                libs=libs,
                reauth_ms=REAUTH_MS,
                controller_environment=measuring(self.slices),
            )
        )
        self._number = 0
        self._furnished = False

    @contextmanager
    def proxy(self, scene: Scene) -> Iterator["Proxy"]:
        """A proxy of that scene, ready for clients; stopped by SIGTERM at the end."""
        self._number += 1
        proxy = Proxy(self, scene, self.directory / f"{self._number}-{scene.name}")
        with ExitStack() as cleanup:
            cleanup.callback(proxy.end)
            proxy.start()
            if not self._furnished:
                _furnish(proxy)
                self._furnished = True
            yield proxy


class Proxy:
    """One process, or several workers. A gate as tests.support.gates has it."""

    def __init__(self, place: Place, scene: Scene, directory: Path) -> None:
        directory.mkdir()
        *entrances, http, big = free_addresses(len(LISTENERS) + 2)
        self._big_port = big.rpartition(":")[2]
        self.place = place
        self.scene = scene
        self.directory = directory
        self.slices = directory / "slices"
        self.slices.mkdir()
        self.wiring: Wiring = replace(
            place.stack.wiring,
            listeners=dict(zip(LISTENERS, entrances, strict=True)),
            proxy_http=http,
            balancers=scene.balancers,
        )
        self.users = place.stack.users
        self._broker = self._big_broker() if scene.partitions else None
        self.process = self._launched()
        self._pipe: int | None = None

    def start(self) -> None:
        """Up and ready, or SetupError."""
        self._pipe = os.open(self.directory / "pipe", os.O_RDWR)
        if self._broker is not None:
            self._broker.start()
        self.process.start()
        self.process.wait_until(lambda: probe.is_ready(self.wiring.proxy_http), READY_TIMEOUT_MS)

    def end(self) -> bool:
        """By SIGTERM; False when it had to be killed."""
        ended = self.process.stop(STOP_MS)
        if self._broker is not None:
            self._broker.stop()
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        return ended

    def entrance(self, listener: str = "SASL_PLAINTEXT") -> Entrance:
        ca = self.place.stack.tls.ca if listener == "SASL_SSL" else None
        return Entrance(self.wiring.listeners[listener], ca)

    def add_user(self, name: str, mechanism: str = "SCRAM-SHA-256") -> User:
        return self.place.stack.add_user(name, mechanism)

    def tools(self, user: str, listener: str = "SASL_PLAINTEXT") -> Any:
        raise NotImplementedError("no attack uses Kafka's tools")

    def upstream_held_ms(self, since_ms: int) -> int | None:
        """For how long the broker in memory was busy at the most; None where the broker is Kafka."""
        return None if self._broker is None else longest_lag_ms(self._broker.log_text(), since_ms)

    def metrics(self) -> dict[str, float]:
        return probe.series(self.wiring.proxy_http)

    def target(self) -> Path:
        """The file that attacks and the normal user read."""
        guests = [replace(each, mechanism="PLAIN") for each in self.wiring.guests]
        target = Target(
            address=self.wiring.listeners["SASL_PLAINTEXT"],
            reauth_address=self.wiring.listeners["REAUTH"],
            reauth_ms=REAUTH_MS,
            http=self.wiring.proxy_http,
            topic=TOPIC,
            broker=self.place.stack.broker.plaintext,
            proxied=self.place.stack.broker.sasl_plaintext,
            users=self.users | dict(zip((PLAIN_USER, BOB_BY_PLAIN), guests, strict=True)),
            log=str(self.process.log),
        )
        return target.write(self.directory / "target.json")

    def _launched(self) -> ChildProcess:
        changes = {**self.scene.changes, **self._upstream()}
        file = settings.write_proxy(self.directory, self.wiring, self.place.stack.tls, changes)
        if self.scene.has_identities:
            identities.furnish(file)
        os.mkfifo(self.directory / "pipe")
        more = measuring(self.slices) | {"PIPE": str(self.directory / "pipe")}
        name = f"proxy-{self.scene.name}"
        return penstock("proxy", name, file, self.directory, more, ("sh", "-c", self.scene.shell, "sh"))

    def _big_broker(self) -> ChildProcess:
        words = ["-m", "tests.lab.hostile.big_broker", self._big_port, str(self.scene.partitions)]
        log = self.directory / "big-broker.log"
        return ChildProcess("the big broker", [sys.executable, *words], log, {"PYTHONPATH": str(CHECKOUT)})

    def _upstream(self) -> dict[str, Any]:
        """The broker in memory for clients, Kafka for our own feed and trail."""
        if not self.scene.partitions:
            return {}
        at = {
            "bootstrap": f"127.0.0.1:{self._big_port}",
            "internal.bootstrap": self.place.stack.broker.plaintext,
        }
        return {"upstream": at | {"security.protocol": "PLAINTEXT"}}


@contextmanager
def a_place(directory: Path, libs: Path) -> Iterator[Place]:
    place = Place(directory, libs)
    try:
        place.stack.broker.start()
        place.stack.start_controller()
        yield place
    finally:
        place.stack.stop()


def _furnish(proxy: Proxy) -> None:
    admin = ClusterAdmin(proxy)
    admin.topic(TOPIC)
    admin.topic(BIG_TOPIC, BIG_PARTITIONS)
    users = {name: admin.user(name) for name in ("alice", BOB, CAROL, EVE, MALLORY)}
    admin.allow_produce(users["alice"], TOPIC)
    admin.allow(users[CAROL], "READ", "WRITE", "DESCRIBE", topic="*")
    admin.allow(users[EVE], "WRITE", "DESCRIBE", transactional_id="*")
    admin.allow(users[EVE], "READ", group="*")
    admin.allow(users[MALLORY], "CREATE", topic="made-by-mallory")
