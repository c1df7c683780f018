"""Brokers, controller and proxies as child processes on loopback: configured, started, stopped again.

One broker, or three with a proxy in front of each. The story and the tests stand on it.
"""

import secrets
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.lab.cluster import certificates, probe, settings
from tests.lab.cluster.at_once import at_once
from tests.lab.cluster.broker import BROKER_AT_CONTROLLER, Broker, BrokerSettings, by_plain, guard, join
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.node import CHECKOUT, READY_TIMEOUT_MS, node, numbered, penstock
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.release import Feature, Release
from tests.lab.cluster.settings import Wiring
from tests.lab.cluster.tools import KafkaTools, ToolRun
from tests.lab.cluster.users import Entrance, User, java_properties
from tests.lab.cluster.zookeeper import ZooKeeper

LISTENERS = ("SASL_PLAINTEXT", "SASL_SSL", "REAUTH")
_BROKER_PASSWORD = secrets.token_urlsafe(16)
"""One for all stacks of a process: their brokers' storage is formatted once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSettings:
    directory: Path
    libs: Path
    """Of Kafka's tools."""
    release: Release = field(default_factory=Release.chosen)
    """Of the brokers."""
    brokers: int = 1
    """1, or 3 with a quorum of all three and everything replicated."""
    controller: Literal["penstock", "kraft"] = "penstock"
    """`kraft`: no controller process of ours, Kafka's own does its work."""
    reauth_ms: int = 6_000
    """connections.max.reauth.ms of the listener REAUTH; the others set no limit."""
    broker_properties: MutableMapping[str, str] = field(default_factory=dict)
    """Read when a broker starts: what depends on its addresses may be put in once the stack is made."""
    broker_certificate: Path | None = None
    """A PEM file of private key and certificate chain: the brokers have an SSL listener then."""
    broker_flags: Sequence[str] = ()
    """Further flags for the brokers' Java."""
    proxy_changes: Mapping[str, object] = field(default_factory=dict)
    """Parts of proxy.yaml to be replaced, by their top-level key."""
    controller_changes: Mapping[str, object] = field(default_factory=dict)
    proxy_environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the proxies have besides ours."""
    holds_sockets: bool = False
    """Hold the proxies' listening sockets while they restart, as systemd may do (LISTEN_FDS)."""
    controller_environment: Mapping[str, str] = field(default_factory=dict)
    """The same for the controller."""


class Stack:
    """`nodes` are the brokers with their proxies; what has no number is the first one's."""

    def __init__(self, wanted: StackSettings) -> None:
        self.directory = wanted.directory.resolve()
        self.libs = wanted.libs
        self.users = {name: User(name, *login) for name, login in _logins().items()}
        self._wanted = wanted
        self.tls = certificates.write(self.directory / "tls")
        mechanism = "SCRAM-SHA-256" if wanted.release.has(Feature.SCRAM) else "PLAIN"
        broker_login = User("penstock", mechanism, _BROKER_PASSWORD)
        self._zookeeper = self._a_zookeeper()
        self._broker_login = broker_login
        self._proxies = [
            User(f"proxy-{number}", "PLAIN", secrets.token_urlsafe(16))
            for number in range(1, wanted.brokers + 1)
        ]
        self._token_key = secrets.token_urlsafe(32)
        self._signing_key = Ed25519PrivateKey.generate()
        self._controller_users = self._controller_logins()
        brokers = [self._broker(number, broker_login) for number in range(1, wanted.brokers + 1)]
        join(brokers)
        wirings = self._wirings(brokers, broker_login)
        self.nodes = tuple(
            node(
                self.directory,
                broker,
                wiring,
                self.tls,
                wanted.proxy_changes,
                wanted.proxy_environment,
                holds_sockets=wanted.holds_sockets,
            )
            for broker, wiring in zip(brokers, wirings, strict=True)
        )
        self._controllers = [] if self.kraft else [self._controller()]

    @property
    def holds_sockets(self) -> bool:
        """Whether the proxies' listening sockets stay open while they restart."""
        return self._wanted.holds_sockets

    @property
    def kraft(self) -> bool:
        """Kafka's own controller is the only one."""
        return self._wanted.controller == "kraft"

    @property
    def controller(self) -> ChildProcess:
        """Ours; SetupError where there is none."""
        if not self._controllers:
            raise SetupError("this stack has no controller of ours: Kafka's own does its work")
        return self._controllers[0]

    @property
    def controller_file(self) -> Path:
        return self.directory / "controller" / "controller.yaml"

    @property
    def broker(self) -> Broker:
        return self.nodes[0].broker

    @property
    def proxy(self) -> ChildProcess:
        return self.nodes[0].proxy

    @property
    def proxy_file(self) -> Path:
        return self.nodes[0].proxy_file

    @property
    def wiring(self) -> Wiring:
        return self.nodes[0].wiring

    @property
    def checkout(self) -> Path:
        """Where our packages lie."""
        return CHECKOUT

    @property
    def processes(self) -> tuple[ChildProcess, ...]:
        """In the order in which they are started."""
        brokers = (each.broker.process for each in self.nodes)
        return *brokers, *self._controllers, *(each.proxy for each in self.nodes)

    @property
    def release(self) -> Release:
        """The release of the brokers."""
        return self._wanted.release

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    def entrance(self, listener: str = "SASL_PLAINTEXT", number: int = 1) -> Entrance:
        """The listener of the proxy before the broker of that node id."""
        bootstrap = self.nodes[number - 1].wiring.listeners[listener]
        return Entrance(bootstrap, self.tls.ca if listener == "SASL_SSL" else None)

    def add_user(self, name: str, mechanism: str = "SCRAM-SHA-256") -> User:
        """One more user that clients here can log in as; the proxy has still to be told of it."""
        self.users[name] = User(name, mechanism, secrets.token_urlsafe(12))
        return self.users[name]

    def tools(self, user: str, listener: str = "SASL_PLAINTEXT", number: int = 1) -> KafkaTools:
        """Kafka's command-line tools, as that user through the proxy before that broker."""
        entrance = self.entrance(listener, number)
        return KafkaTools(self.libs, entrance.bootstrap, self.properties_file(user, listener))

    def tools_at_the_broker(self) -> KafkaTools:
        """The same tools past the proxy, to see what the broker itself holds."""
        return KafkaTools(self.libs, self.broker.plaintext)

    def properties_file(self, user: str, listener: str = "SASL_PLAINTEXT") -> Path:
        suffix = "" if listener == "SASL_PLAINTEXT" else f"-{listener.lower()}"
        path = self.directory / "clients" / f"{user}{suffix}.properties"
        path.parent.mkdir(exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(java_properties(self.users[user], self.entrance(listener)), encoding="utf-8")
        return path

    def start(self, report: Callable[[str], None] = lambda line: None) -> None:
        """Everything up and ready, or SetupError; what did start before an error is stopped by `stop`."""
        several = len(self.nodes) > 1
        report(f"starting {len(self.nodes)} Kafka brokers" if several else "starting a Kafka broker")
        if self._zookeeper is not None:
            self._zookeeper.start()
            self._zookeeper.add_scram_users({self._broker_login.name: self._broker_login.password})
        # At once: none of several is up before most of them are.
        at_once([each.broker.start for each in self.nodes])
        if not self.kraft:
            report("starting the controller")
            self.start_controller()
        report("starting the proxies, one for each broker" if several else "starting the proxy")
        at_once([each.start_proxy for each in self.nodes])

    def start_controller(self) -> None:
        self.controller.start()
        self.wait_for_controller()

    def wait_for_controller(self) -> None:
        self.controller.wait_until(lambda: probe.is_ready(self.wiring.controller_http), READY_TIMEOUT_MS)

    def start_proxy(self) -> None:
        self.nodes[0].start_proxy()

    def stop(self) -> list[str]:
        """Everything down, the brokers last so that audit records still find them; names what was killed."""
        for process in self.processes:
            process.start_no_more()
        brokers = [each.broker.process for each in self.nodes]
        others = [process for process in self.processes if process not in brokers]
        killed = [process.name for process in reversed(others) if not process.stop()]
        # At once here too: a broker hands over its partitions first, to those that are there to take them.
        stopped = at_once([process.stop for process in brokers])
        names = [process.name for process, by_itself in zip(brokers, stopped, strict=True) if not by_itself]
        if self._zookeeper is not None:
            self._zookeeper.process.stop()
        return killed + names

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Started, and stopped at the end whatever happened; AssertionError if a process had to be killed."""
        try:
            self.start()
            yield self
        finally:
            assert self.stop() == [], "these did not stop by themselves"

    def metrics(self) -> dict[str, float]:
        """The proxy's metrics now, by series as Prometheus writes them."""
        return self.nodes[0].metrics()

    def create_users(self, *names: str) -> None:
        """SCRAM users, made as an operator makes them: kafka-configs, as admin, through the proxy."""
        for run in at_once([partial(self._create_user, name) for name in names]):
            if run.returncode != 0:
                raise SetupError(f"kafka-configs {' '.join(run.arguments[:5])} failed:\n{run.said}")

    def _create_user(self, name: str) -> ToolRun:
        secret = f"SCRAM-SHA-256=[iterations=4096,password={self.users[name].password}]"
        entity = ("--entity-type", "users", "--entity-name", name)
        return self.tools("admin").run("kafka-configs", "--alter", *entity, "--add-config", secret)

    def _controller(self) -> ChildProcess:
        file = settings.write_controller(
            self.directory / "controller", self.wiring, self._proxies, self._wanted.controller_changes
        )
        return penstock("controller", "controller", file, self.logs, self._wanted.controller_environment)

    def _a_zookeeper(self) -> ZooKeeper | None:
        if not self.release.zookeeper:
            return None
        return ZooKeeper(self.release.libs, self.directory / "zookeeper", self.logs / "zookeeper.log")

    def _broker(self, number: int, login: User) -> Broker:
        by_scram = login.mechanism != "PLAIN"
        login_properties = {} if by_scram else by_plain({login.name: login.password})
        wanted = BrokerSettings(
            directory=self.directory / numbered("broker", number),
            node_id=number,
            log=self.logs / f"{numbered('broker', number)}.log",
            properties=ChainMap(self._wanted.broker_properties, self._guard(login), login_properties),
            controller_users=self._controller_users,
            certificate=self._wanted.broker_certificate,
            flags=self._wanted.broker_flags,
            scram_users={login.name: login.password} if by_scram else {},
            zookeeper=None if self._zookeeper is None else self._zookeeper.address,
            heap_mb=512 if self._wanted.brokers == 1 else 384,
        )
        return Broker(self.release.libs, wanted)

    def _wirings(self, brokers: Sequence[Broker], broker_login: User) -> list[Wiring]:
        controller, controller_http = free_addresses(2)
        entrances = {
            broker.node_id: dict(zip(LISTENERS, free_addresses(len(LISTENERS)), strict=True))
            for broker in brokers
        }
        return [
            Wiring(
                node_id=broker.node_id,
                broker=broker.sasl_plaintext,
                listeners=entrances[broker.node_id],
                others={number: at for number, at in entrances.items() if number != broker.node_id},
                controller=controller,
                quorum=tuple(each.controller for each in brokers) if self.kraft else (),
                proxy_http=free_addresses(1)[0],
                controller_http=controller_http,
                reauth_ms=self._wanted.reauth_ms,
                admin=self.users["admin"],
                guests=(self.users["alice"], self.users["bob"]),
                proxy=proxy,
                broker_login=broker_login,
                token_key=self._token_key,
                signing_key=self._signing_key,
            )
            for broker, proxy in zip(brokers, self._proxies, strict=True)
        ]

    def _controller_logins(self) -> dict[str, str]:
        """Who logs in at Kafka's own controllers: the brokers and, where those are ours too, the proxies."""
        if not self.kraft:
            return {}
        proxies = {proxy.name: proxy.password for proxy in self._proxies}
        return {BROKER_AT_CONTROLLER: secrets.token_urlsafe(16), **proxies}

    def _guard(self, broker_login: User) -> dict[str, str]:
        """What Kafka is told where its own controllers are ours too; docs/kraft.md says why."""
        if not self.kraft:
            return {}
        names = ("admin", broker_login.name, *(proxy.name for proxy in self._proxies))
        return guard(names, self._token_key)


def _logins() -> dict[str, tuple[str, str]]:
    """Name to mechanism and password of those who are always there."""
    return {
        "admin": ("PLAIN", secrets.token_urlsafe(12)),
        "alice": ("SCRAM-SHA-256", secrets.token_urlsafe(12)),
        "bob": ("SCRAM-SHA-256", secrets.token_urlsafe(12)),
    }
