"""An Apache Kafka broker on loopback: KRaft, broker and controller in one process, its own directory.

It has a PLAINTEXT listener and a SASL_PLAINTEXT one (SCRAM), and an SSL one when a certificate is given.
Alone it is a cluster of one; `join` makes one of several. With the address of a ZooKeeper it is a broker of
that cluster instead, without a controller listener. Knows nothing of Penstock.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.lab.cluster import jvm
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.process import ChildProcess

START_TIMEOUT_MS = 90_000
BROKER_AT_CONTROLLER = "kafka"
"""Who brokers are at the controller listener, where that asks for a login."""
_STARTED = re.compile(r"Kafka Server started|\[KafkaServer id=\d+\] started")
"""With KRaft, and with ZooKeeper."""
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
# object 16 bytes in base64url would do; one that says what it is makes the logs easier to read.
_CLUSTER_ID = "PenstockDemoCluster0AA"

_IN_THE_FORMAT = ("log.dir", "metadata.", "controller.quorum.", "unstable.", "inter.broker.protocol.")
"""How the names of properties begin that may change what a format writes."""
_FORMATTED: dict[tuple[object, ...], dict[Path, bytes]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    directory: Path
    node_id: int = 1
    properties: Mapping[str, str] = field(default_factory=dict)
    """Added to the broker's own, or in their place."""
    scram_users: Mapping[str, str] = field(default_factory=dict)
    """User to password, known to the SASL listener from the first moment. ZooKeeper keeps its own."""
    zookeeper: str | None = None
    """Its address, for a broker without KRaft."""
    certificate: Path | None = None
    """A PEM file of private key and certificate chain for the SSL listener."""
    controller_users: Mapping[str, str] = field(default_factory=dict)
    """User to password at the controller listener (PLAIN), with BROKER_AT_CONTROLLER; none: no login."""
    heap_mb: int = 512
    flags: Sequence[str] = ()
    """Further ones for its Java."""
    log: Path | None = None
    """What it prints; None: `broker.log` in its directory."""


class Broker:
    def __init__(self, libs: Path, settings: BrokerSettings) -> None:
        self._libs = libs
        self._settings = settings
        self.plaintext, self.sasl_plaintext, self.ssl, self.controller = free_addresses(4)
        self.quorum: Mapping[int, str] = {settings.node_id: self.controller}
        """Node id -> controller address of all brokers of the cluster."""
        self.behind: tuple[str, str] | None = None
        """Address and advertised address of one more SASL_PLAINTEXT listener: one that is behind a proxy."""
        self.process = ChildProcess(
            "the Kafka broker" if settings.node_id == 1 else f"Kafka broker {settings.node_id}",
            self._command(),
            settings.log or settings.directory / "broker.log",
        )

    def upgrade(self, libs: Path) -> None:
        """From its next start on it runs these jars."""
        self._libs = libs
        self.process.change_command(self._command())

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def node_id(self) -> int:
        return self._settings.node_id

    @property
    def addresses(self) -> frozenset[str]:
        """Where it listens: what no client of a proxy should ever be told."""
        return frozenset((self.plaintext, self.sasl_plaintext, self.ssl, self.controller))

    @property
    def metadata_log(self) -> Path:
        """The directory of Kafka's own metadata log at this node."""
        return self._data / "__cluster_metadata-0"

    def start(self, timeout_ms: int = START_TIMEOUT_MS) -> None:
        """Format the storage if it is new, start, return once clients are served; else SetupError."""
        self._settings.directory.mkdir(parents=True, exist_ok=True)
        properties = "".join(f"{name}={value}\n" for name, value in self._properties().items())
        self._properties_file.write_text(properties, encoding="utf-8")
        if self._settings.zookeeper is None and not (self._data / "meta.properties").exists():
            self._format()
        starts = self._starts()
        self.process.start()
        self.process.wait_until(lambda: self._starts() > starts, timeout_ms)

    def stop(self) -> bool:
        """True when it stopped by itself after SIGTERM."""
        return self.process.stop()

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Started, and stopped at the end whatever happened."""
        try:
            self.start()
            yield self
        finally:
            self.stop()

    def _command(self) -> list[str]:
        heap = [f"-Xmx{self._settings.heap_mb}m", f"-Xms{self._settings.heap_mb}m"]
        flags = [*heap, "-XX:+UseSerialGC", *jvm.FIRST_COMPILER, *self._settings.flags]
        return jvm.command(self._libs, "kafka.Kafka", [str(self._properties_file)], flags, "INFO")

    def _starts(self) -> int:
        return len(_STARTED.findall(self.process.log_text()))

    @property
    def _properties_file(self) -> Path:
        return self._settings.directory / "broker.properties"

    @property
    def _data(self) -> Path:
        return self._settings.directory / "data"

    def _format(self) -> None:
        """A process that starts many brokers formats each kind once, and copies: to format starts a Java."""
        kind = (self._libs, self.node_id, tuple(self._settings.scram_users.items()))
        if any(name.startswith(_IN_THE_FORMAT) for name in self._settings.properties):
            self._run_format()
        elif kind in _FORMATTED:
            for path, content in _FORMATTED[kind].items():
                (self._data / path).parent.mkdir(parents=True, exist_ok=True)
                (self._data / path).write_bytes(content)
        else:
            self._run_format()
            files = [path for path in self._data.rglob("*") if path.is_file()]
            _FORMATTED[kind] = {path.relative_to(self._data): path.read_bytes() for path in files}

    def _run_format(self) -> None:
        users = [
            f"{mechanism}=[name={user},password={password}]"
            for user, password in self._settings.scram_users.items()
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        ]
        arguments = ["format", "-t", _CLUSTER_ID, "-c", str(self._properties_file), "--ignore-formatted"]
        arguments += [word for user in users for word in ("--add-scram", user)]
        command = jvm.command(self._libs, "kafka.tools.StorageTool", arguments, jvm.SHORT_LIVED, "WARN")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SetupError(
                f"kafka-storage format ended with code {done.returncode}: {done.stdout}{done.stderr}"
            )

    def _properties(self) -> dict[str, str]:
        listeners = {"PLAINTEXT": self.plaintext, "SASL_PLAINTEXT": self.sasl_plaintext}
        if self._settings.certificate is not None:
            listeners["SSL"] = self.ssl
        advertised = dict(listeners)
        if self.behind is not None:
            listeners["BEHIND"], advertised["BEHIND"] = self.behind
        return {
            **self._cluster(listeners),
            "advertised.listeners": _listed(advertised),
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,BEHIND:SASL_PLAINTEXT,SSL:SSL"
                f",CONTROLLER:{'SASL_PLAINTEXT' if self._settings.controller_users else 'PLAINTEXT'}"
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self._data),
            **_SASL,
            **_SMALL_AND_QUICK,
            **(_REPLICATED if len(self.quorum) > 1 else {}),
            **_tls(self._settings.certificate),
            **_controller_login(self._settings.controller_users),
            **self._settings.properties,
        }

    def _cluster(self, listeners: Mapping[str, str]) -> dict[str, str]:
        if self._settings.zookeeper is not None:
            return {
                "broker.id": str(self.node_id),
                "zookeeper.connect": self._settings.zookeeper,
                # The last broker to stop looks for a controller in vain.
                "controlled.shutdown.retry.backoff.ms": "500",
                "listeners": _listed(listeners),
            }
        return {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "controller.quorum.voters": ",".join(
                f"{node}@{address}" for node, address in self.quorum.items()
            ),
            "controller.listener.names": "CONTROLLER",
            "listeners": _listed({**listeners, "CONTROLLER": self.controller}),
        }


def by_plain(passwords: Mapping[str, str]) -> dict[str, str]:
    """Properties of a broker whose SASL listener takes these users by PLAIN, and others by SCRAM."""
    users = " ".join(f'user_{name}="{password}"' for name, password in passwords.items())
    return {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{_PLAIN} required {users};",
        "listener.name.behind.plain.sasl.jaas.config": f"{_PLAIN} required {users};",
    }


def guard(super_users: Sequence[str], token_key: str) -> dict[str, str]:
    """Kafka's StandardAuthorizer at brokers and controllers, and delegation tokens: see docs/kraft.md."""
    # ANONYMOUS: brokers among each other, and whoever looks past the proxies, on the PLAINTEXT listener.
    names = ("ANONYMOUS", BROKER_AT_CONTROLLER, *super_users)
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join(f"User:{name}" for name in names),
        "delegation.token.secret.key": token_key,
        "delegation.token.expiry.check.interval.ms": "1000",
    }


def join(brokers: Sequence[Broker]) -> None:
    """One cluster of them; before any is started. With three, one may be away."""
    for broker in brokers:
        broker.quorum = {each.node_id: each.controller for each in brokers}


def _listed(listeners: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in listeners.items())


def _tls(certificate: Path | None) -> dict[str, str]:
    return (
        {} if certificate is None else {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificate)}
    )


def _controller_login(users: Mapping[str, str]) -> dict[str, str]:
    if not users:
        return {}
    known = " ".join(f'user_{user}="{password}"' for user, password in users.items())
    own = f'username="{BROKER_AT_CONTROLLER}" password="{users[BROKER_AT_CONTROLLER]}"'
    return {
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": f"{_PLAIN} required {own} {known};",
    }


_SASL = {"sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512"} | {
    f"listener.name.{listener}.{mechanism}.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    )
    for listener in ("sasl_plaintext", "behind")
    for mechanism in ("scram-sha-256", "scram-sha-512")
}

_SMALL_AND_QUICK = {
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "message.max.bytes": "16777216",
    "replica.fetch.max.bytes": "16777216",
    # One page of index instead of ten MiB for each partition.
    "log.index.size.max.bytes": "65536",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.cleaner.threads": "1",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
}

_REPLICATED = {
    # How soon a broker that was killed is taken for dead; nine seconds is Kafka's own.
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "500",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    # Several, so that partitions and coordinators of all kinds are spread over the brokers.
    "num.partitions": "6",
    "offsets.topic.num.partitions": "6",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "6",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}


def scram_login(user: str, password: str) -> Sequence[str]:
    """The lines of a client's .properties that log in to a SCRAM listener."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return (
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=SCRAM-SHA-256",
        f'sasl.jaas.config={module} required username="{user}" password="{password}";',
    )
