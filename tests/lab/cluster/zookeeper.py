"""A ZooKeeper server on loopback, for brokers before 4.0; and their SCRAM users, which are kept there.

ZooKeeper's classes are among the jars of those releases.
"""

import socket
from collections.abc import Mapping
from pathlib import Path

from tests.lab.cluster import jvm
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.run import run

START_TIMEOUT_MS = 30_000
_TOOL_TIMEOUT_MS = 60_000
_FLAGS = (*jvm.FIRST_COMPILER, "-XX:+UseSerialGC", "-Xmx128m", "-Dzookeeper.admin.enableServer=false")


class ZooKeeper:
    def __init__(self, libs: Path, directory: Path, log: Path) -> None:
        self._libs = libs
        self._directory = directory
        (self.address,) = free_addresses(1)
        host, _, port = self.address.rpartition(":")
        self._endpoint = host, int(port)
        self._settings = (
            f"dataDir={directory}/data\nclientPort={port}\nclientPortAddress={host}\nmaxClientCnxns=0\n"
        )
        main_class = "org.apache.zookeeper.server.ZooKeeperServerMain"
        command = jvm.command(libs, main_class, [str(self._file)], _FLAGS, "INFO")
        self.process = ChildProcess("ZooKeeper", command, log)

    def start(self) -> None:
        """Return once it accepts connections; else SetupError."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._file.write_text(self._settings, encoding="utf-8")
        self.process.start()
        self.process.wait_until(self._accepts, START_TIMEOUT_MS)

    def add_scram_users(self, passwords: Mapping[str, str]) -> None:
        """Users that brokers know from their first start, by name."""
        for user, password in passwords.items():
            secret = f"SCRAM-SHA-256=[password={password}],SCRAM-SHA-512=[password={password}]"
            entity = ["--alter", "--entity-type", "users", "--entity-name", user, "--add-config", secret]
            arguments = ["--zookeeper", self.address, *entity]
            done = run(
                jvm.command(self._libs, "kafka.admin.ConfigCommand", arguments, jvm.SHORT_LIVED, "WARN"),
                timeout_ms=_TOOL_TIMEOUT_MS,
            )
            if done.returncode != 0:
                raise SetupError(f"kafka-configs --zookeeper failed: {done.stdout}{done.stderr}")

    @property
    def _file(self) -> Path:
        return self._directory / "zookeeper.properties"

    def _accepts(self) -> bool:
        try:
            with socket.create_connection(self._endpoint, timeout=1):
                return True
        except OSError:
            return False
