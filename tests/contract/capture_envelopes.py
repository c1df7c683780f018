"""What a real broker says to its controller when it forwards, and what it is told: written down as test data.

    python -m tests.contract.capture_envelopes tests/contract/corpus/envelopes.json

A Kafka broker that reaches its controller through a recording relay; Kafka's own tools (and librdkafka for
AlterConfigs, which they no longer send) ask the broker for each API that it forwards. Only the connection on
which Envelopes go is kept: its frames, without their lengths, in base64.
"""

import argparse
import base64
import importlib
import json
import socket
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proxy.wire.api_keys import ApiKey
from proxy.wire.header import decode_request_header
from tests.lab.cluster import kafka
from tests.lab.cluster.broker import Broker, BrokerSettings, scram_login
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.tools import KafkaTools

SECRET_KEY = "of the captured cluster"
TOPIC = "captured"
LOGIN = ("capturer", "capturer-secret")
_LENGTH_BYTES = 4
_HMAC_CHARACTERS = 88


class Recorder:
    """A TCP relay that keeps the frames of each connection, both ways."""

    def __init__(self, address: str, target: str) -> None:
        self._target = target.split(":")
        self.connections: list[tuple[list[bytes], list[bytes]]] = []
        host, port = address.split(":")
        self._server = socket.create_server((host, int(port)))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._server.accept()
            far = socket.create_connection((self._target[0], int(self._target[1])))
            frames: tuple[list[bytes], list[bytes]] = ([], [])
            self.connections.append(frames)
            for ends, kept in (((near, far), frames[0]), ((far, near), frames[1])):
                threading.Thread(target=_pass, args=(*ends, kept), daemon=True).start()

    def forwarded(self) -> tuple[list[bytes], list[bytes]]:
        """Requests and answers of the connection with the Envelopes, in order."""
        for asked, told in self.connections:
            if any(decode_request_header(frame).api_key == ApiKey.ENVELOPE for frame in asked):
                return asked, told
        raise RuntimeError("nothing was forwarded")


def _pass(source: socket.socket, sink: socket.socket, kept: list[bytes]) -> None:
    pending = b""
    while data := source.recv(65_536):
        sink.sendall(data)
        pending += data
        while len(pending) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(pending[:_LENGTH_BYTES], "big")
            if len(pending) < end:
                break
            kept.append(pending[_LENGTH_BYTES:end])
            pending = pending[end:]
    sink.shutdown(socket.SHUT_WR)


def capture(directory: Path) -> dict[str, Any]:
    """A broker with all of its tools run against it -> the exchanges."""
    (relayed,) = free_addresses(1)
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{LOGIN[0]}",
        "controller.quorum.voters": f"1@{relayed}",
        "delegation.token.secret.key": SECRET_KEY,
        "delegation.token.max.lifetime.ms": "3153600000000",
    }
    libs = kafka.libs()
    settings = BrokerSettings(directory=directory, properties=properties, scram_users=dict([LOGIN]))
    broker = Broker(libs, settings)
    recorder = Recorder(relayed, broker.controller)
    with broker.running():
        _run_everything(libs, broker, directory)
    asked, told = recorder.forwarded()
    exchanges = [
        {"asked": base64.b64encode(one).decode(), "told": base64.b64encode(other).decode()}
        for one, other in zip(asked, told, strict=True)
    ]
    return {
        "made_with": f"python -m tests.contract.capture_envelopes, Kafka {kafka.KAFKA_VERSION}",
        "delegation.token.secret.key": SECRET_KEY,
        "exchanges": exchanges,
    }


def _run_everything(libs: Path, broker: Broker, directory: Path) -> None:
    tools = KafkaTools(libs, broker.plaintext)
    topic = ("--topic", TOPIC)
    plan = directory / "plan.json"
    replicas = [{"topic": TOPIC, "partition": 0, "replicas": [1]}]
    plan.write_text(json.dumps({"version": 1, "partitions": replicas}), encoding="utf-8")
    of_topic = ("--entity-type", "topics", "--entity-name", TOPIC)
    acl = ("--allow-principal", "User:alice", "--operation", "Read", *topic)
    user = ("--entity-type", "users", "--entity-name", "alice")
    scram = "SCRAM-SHA-256=[iterations=4096,password=alice-secret]"
    limits = ("--entity-type", "users", "--entity-default", "--add-config", "producer_byte_rate=1048576")
    for words in (
        ("kafka-topics", "--create", *topic, "--partitions", "1", "--config", "retention.ms=60000000"),
        ("kafka-topics", "--alter", *topic, "--partitions", "2"),
        ("kafka-configs", "--alter", *of_topic, "--add-config", "cleanup.policy=compact"),
        ("kafka-configs", "--alter", *limits),
        ("kafka-configs", "--alter", *user, "--add-config", scram),
        ("kafka-configs", "--alter", *user, "--delete-config", "SCRAM-SHA-256"),
        ("kafka-leader-election", "--election-type", "preferred", *topic, "--partition", "0"),
        ("kafka-reassign-partitions", "--execute", "--reassignment-json-file", str(plan)),
        ("kafka-features", "upgrade", "--feature", "share.version=1", "--dry-run"),
        ("kafka-acls", "--add", *acl),
        ("kafka-acls", "--remove", "--force", *acl),
    ):
        _say(tools.run(*words).said)
    _alter_configs(broker.plaintext)
    _delegation_token(libs, broker, directory)
    _say(tools.run("kafka-topics", "--delete", *topic).said)


def _alter_configs(bootstrap: str) -> None:
    admin: Any = importlib.import_module("confluent_kafka.admin")
    resource = admin.ConfigResource("topic", TOPIC, set_config={"retention.ms": "70000000"})
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    for altering in client.alter_configs([resource]).values():
        altering.result(30)


def _delegation_token(libs: Path, broker: Broker, directory: Path) -> None:
    login = directory / "client.properties"
    login.write_text("\n".join(scram_login(*LOGIN)), encoding="utf-8")
    tools = KafkaTools(libs, broker.sasl_plaintext, login)
    made = tools.run("kafka-delegation-tokens", "--create", "--max-life-time-period", "-1").said
    _say(made)
    hmac = next(word for word in made.split() if len(word) == _HMAC_CHARACTERS)
    for words in (["--renew", "--renew-time-period", "-1"], ["--expire", "--expiry-time-period", "-1"]):
        _say(tools.run("kafka-delegation-tokens", *words, "--hmac", hmac).said)


def _say(text: str) -> None:
    sys.stderr.write(text)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.contract.capture_envelopes")
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        captured = capture(Path(directory))
    arguments.file.write_text(json.dumps(captured, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
