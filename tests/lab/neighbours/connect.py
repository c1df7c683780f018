"""A distributed worker of Kafka Connect on loopback, configured by REST."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.lab.cluster import jvm, kafka
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.process import ChildProcess

START_TIMEOUT_MS = 120_000
_FLAGS = (*jvm.FIRST_COMPILER, "-XX:+UseSerialGC", "-Xmx512m")
TOPICS = ("connect-configs", "connect-offsets", "connect-status")
GROUP = "connect"


class Worker:
    def __init__(self, directory: Path, login: str, bootstrap: str, plugin: Path | None = None) -> None:
        """`login`: the lines of a client's .properties; the worker's own clients all have it.

        `plugin`: the directory of the jars of another connector.
        """
        plugins = directory / "plugins"
        plugins.mkdir(parents=True)
        (self._rest,) = free_addresses(1)
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            **dict(
                zip(
                    ("config.storage.topic", "offset.storage.topic", "status.storage.topic"),
                    TOPICS,
                    strict=True,
                )
            ),
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "offset.storage.partitions": "1",
            "status.storage.replication.factor": "1",
            "status.storage.partitions": "1",
            "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "offset.flush.interval.ms": "1000",
            "listeners": f"http://{self._rest}",
        }
        if plugin is not None:
            (plugins / plugin.name).symlink_to(plugin)
            settings["plugin.path"] = str(plugins)
        own = [
            f"{role}{line}"
            for role in ("", "producer.", "consumer.", "admin.")
            for line in login.splitlines()
        ]
        file = directory / "worker.properties"
        file.touch(mode=0o600)
        lines = [f"{name}={value}" for name, value in settings.items()]
        file.write_text("\n".join([*lines, *own, ""]), encoding="utf-8")
        main_class = "org.apache.kafka.connect.cli.ConnectDistributed"
        command = jvm.command(kafka.connect_libs(), main_class, [str(file)], _FLAGS, "WARN")
        self.process = ChildProcess("the Connect worker", command, directory / "worker.log")

    def start(self) -> None:
        """Return once it has joined its group."""
        self.process.start()
        self.process.wait_until(lambda: self.get("/connectors") is not None, START_TIMEOUT_MS)

    def get(self, path: str) -> Any:
        """The response, or None while there is none."""
        try:
            with urllib.request.urlopen(f"http://{self._rest}{path}", timeout=20) as response:
                return json.load(response)
        except OSError:
            return None

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Create the connector, or change it. AssertionError if the worker rejects it."""
        request = urllib.request.Request(
            f"http://{self._rest}/connectors/{name}/config",
            json.dumps(config).encode(),
            {"Content-Type": "application/json"},
            method="PUT",
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                assert response.status in (200, 201)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error
