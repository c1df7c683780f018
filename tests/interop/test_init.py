"""The files of `penstock init`, with nothing changed but addresses, in front of a real broker."""

import importlib
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from proxy.commands.init import Wanted, write_examples
from tests.lab.cluster.broker import Broker
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.process import ChildProcess

kafka_admin: Any = importlib.import_module("confluent_kafka.admin")

pytestmark = [pytest.mark.kafka, pytest.mark.spec("O5"), pytest.mark.slow]

CHECKOUT = Path(__file__).resolve().parents[2]
DEADLINE_MS = 120_000


def elsewhere(path: Path, addresses: dict[str, str]) -> None:
    """Other ports, and topics that no other test has."""
    text = path.read_text(encoding="utf-8")
    for old, new in addresses.items():
        text = text.replace(old, new)
    text = text.replace("audit:\n", "audit:\n  topic: init-audit\n")
    text = text.replace("metadata: {", "metadata: {topic: init-metadata, transactional.id: init, ")
    path.write_text(text, encoding="utf-8")


def test_a_client_administers_through_what_init_has_written(kafka: Broker, tmp_path: Path) -> None:
    write_examples(Wanted(tmp_path))
    clients, controller, *http = (address.rpartition(":")[2] for address in free_addresses(4))
    addresses = {
        "localhost:9092": kafka.plaintext,
        "0.0.0.0:9093": f"127.0.0.1:{clients}",
        ":9093": f":{clients}",
        ":9094": f":{controller}",
        "127.0.0.1:9190": f"127.0.0.1:{http[0]}",
        "127.0.0.1:9191": f"127.0.0.1:{http[1]}",
    }
    with ExitStack() as stack:
        processes = {}
        for name in ("controller", "proxy"):
            elsewhere(tmp_path / f"{name}.yaml", addresses)
            command = [sys.executable, "-m", "proxy", name, "-c", str(tmp_path / f"{name}.yaml")]
            log = tmp_path / f"{name}.log"
            process = ChildProcess(name, command, log, {"PYTHONPATH": str(CHECKOUT)})
            processes[name] = stack.enter_context(process)
        proxy = processes["proxy"]
        proxy.wait_until(lambda: '"event": "listening"' in proxy.log_text(), DEADLINE_MS)
        admin = kafka_admin.AdminClient(
            {
                "bootstrap.servers": f"localhost:{clients}",
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "admin",
                "sasl.password": (tmp_path / "secrets" / "admin.password").read_text().strip(),
                "ssl.ca.location": str(tmp_path / "secrets" / "ca.crt"),
            }
        )
        binding = kafka_admin.AclBinding(
            kafka_admin.ResourceType.TOPIC,
            "orders",
            kafka_admin.ResourcePatternType.LITERAL,
            "User:alice",
            "*",
            kafka_admin.AclOperation.READ,
            kafka_admin.AclPermissionType.ALLOW,
        )

        for made in admin.create_acls([binding], request_timeout=60).values():
            assert made.result() is None

        everything = kafka_admin.AclBindingFilter(
            kafka_admin.ResourceType.ANY,
            None,
            kafka_admin.ResourcePatternType.ANY,
            None,
            None,
            kafka_admin.AclOperation.ANY,
            kafka_admin.AclPermissionType.ANY,
        )
        assert admin.describe_acls(everything).result() == [binding]
