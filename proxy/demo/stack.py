"""Broker, controller and proxy as child processes on loopback: configured, started in order, stopped again.

The story and the tests stand on it.
"""

import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from proxy.demo import certificates, probe, settings
from proxy.demo.broker import Broker, BrokerSettings
from proxy.demo.errors import SetupError
from proxy.demo.ports import free_addresses
from proxy.demo.process import ChildProcess
from proxy.demo.settings import Wiring
from proxy.demo.side_by_side import side_by_side
from proxy.demo.tools import KafkaTools, ToolRun
from proxy.demo.users import Entrance, User, java_properties

READY_TIMEOUT_MS = 60_000
LISTENERS = ("SASL_PLAINTEXT", "SASL_SSL", "REAUTH")


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSettings:
    directory: Path
    libs: Path
    reauth_ms: int = 6_000
    """connections.max.reauth.ms of the listener REAUTH; the others set no limit."""
    broker_properties: Mapping[str, str] = field(default_factory=dict)
    proxy_changes: Mapping[str, Any] = field(default_factory=dict)
    """Parts of proxy.yaml to be replaced, by their top-level key."""
    controller_changes: Mapping[str, Any] = field(default_factory=dict)


class Stack:
    def __init__(self, wanted: StackSettings) -> None:
        self.directory = wanted.directory.resolve()
        self.libs = wanted.libs
        self.users = {name: User(name, *login) for name, login in _logins().items()}
        self._wanted = wanted
        self.tls = certificates.write(self.directory / "tls")
        proxy_login = User("penstock", "SCRAM-SHA-256", secrets.token_urlsafe(16))
        self.broker = Broker(
            wanted.libs,
            BrokerSettings(
                directory=self.directory / "broker",
                log=self.logs / "broker.log",
                properties=wanted.broker_properties,
                scram_users={proxy_login.name: proxy_login.password},
            ),
        )
        plaintext, ssl, reauth, controller, proxy_http, controller_http = free_addresses(6)
        self.wiring = Wiring(
            broker=self.broker.sasl_plaintext,
            listeners=dict(zip(LISTENERS, (plaintext, ssl, reauth), strict=True)),
            controller=controller,
            proxy_http=proxy_http,
            controller_http=controller_http,
            reauth_ms=wanted.reauth_ms,
            admin=self.users["admin"],
            guests=(self.users["alice"], self.users["bob"]),
            proxy=User("proxy-1", "PLAIN", secrets.token_urlsafe(16)),
            broker_login=proxy_login,
        )
        self.proxy_file = settings.write_proxy(
            self.directory / "proxy", self.wiring, self.tls, wanted.proxy_changes
        )
        self.controller_file = settings.write_controller(
            self.directory / "controller", self.wiring, wanted.controller_changes
        )
        self.controller = self._penstock("controller", self.controller_file)
        self.proxy = self._penstock("proxy", self.proxy_file)

    @property
    def checkout(self) -> Path:
        """Where our packages lie: child processes find them there, wherever the demo was started."""
        return Path(__file__).resolve().parents[2]

    @property
    def processes(self) -> tuple[ChildProcess, ...]:
        """In the order in which they are started."""
        return self.broker.process, self.controller, self.proxy

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    def entrance(self, listener: str = "SASL_PLAINTEXT") -> Entrance:
        return Entrance(self.wiring.listeners[listener], self.tls.ca if listener == "SASL_SSL" else None)

    def add_user(self, name: str, mechanism: str = "SCRAM-SHA-256") -> User:
        """One more user that clients here can log in as; the proxy has still to be told of it."""
        self.users[name] = User(name, mechanism, secrets.token_urlsafe(12))
        return self.users[name]

    def tools(self, user: str, listener: str = "SASL_PLAINTEXT") -> KafkaTools:
        """Kafka's command-line tools, as that user through the proxy."""
        entrance = self.entrance(listener)
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
        report("starting a Kafka broker")
        self.broker.start()
        report("starting the controller")
        self.start_controller()
        report("starting the proxy")
        self.start_proxy()

    def start_controller(self) -> None:
        self.controller.start()
        self.wait_for_controller()

    def wait_for_controller(self) -> None:
        self.controller.wait_until(lambda: probe.is_ready(self.wiring.controller_http), READY_TIMEOUT_MS)

    def start_proxy(self) -> None:
        self.proxy.start()
        self.proxy.wait_until(lambda: probe.is_ready(self.wiring.proxy_http), READY_TIMEOUT_MS)

    def stop(self) -> list[str]:
        """Everything down, the broker last so that audit records still find it; names what was killed."""
        return [process.name for process in reversed(self.processes) if not process.stop()]

    def metrics(self) -> dict[str, float]:
        """The proxy's metrics now, by series as Prometheus writes them."""
        return probe.series(self.wiring.proxy_http)

    def create_users(self, *names: str) -> None:
        """SCRAM users, made as an operator makes them: kafka-configs, as admin, through the proxy."""
        for run in side_by_side([partial(self._create_user, name) for name in names]):
            if run.returncode != 0:
                raise SetupError(f"kafka-configs {' '.join(run.arguments[:5])} failed:\n{run.said}")

    def _create_user(self, name: str) -> ToolRun:
        secret = f"SCRAM-SHA-256=[iterations=4096,password={self.users[name].password}]"
        entity = ("--entity-type", "users", "--entity-name", name)
        return self.tools("admin").run("kafka-configs", "--alter", *entity, "--add-config", secret)

    def _penstock(self, role: str, config: Path) -> ChildProcess:
        return ChildProcess(
            f"the {role}",
            [sys.executable, "-m", "proxy", role, "-c", str(config)],
            self.logs / f"{role}.log",
            {"PYTHONPATH": str(self.checkout), "PYTHONUNBUFFERED": "1"},
        )


def _logins() -> dict[str, tuple[str, str]]:
    """Name to mechanism and password of those who are always there."""
    return {
        "admin": ("PLAIN", secrets.token_urlsafe(12)),
        "alice": ("SCRAM-SHA-256", secrets.token_urlsafe(12)),
        "bob": ("SCRAM-SHA-256", secrets.token_urlsafe(12)),
    }
