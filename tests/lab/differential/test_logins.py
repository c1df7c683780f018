"""Logins and re-authentication, step by step, at a real broker and at Penstock: the same comes of each.

Penstock's listener runs in this process, before that broker.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy.config import ListenerConfig as ListenerSettings
from proxy.metadata.scram import ScramMechanism, credential_from_password
from proxy.net.logins.credentials import Credentials, PlainUsers, StoredUser, sasl_listener
from proxy.security.passwords import hash_password
from tests.lab.cluster.broker import Broker, BrokerSettings, by_plain
from tests.lab.cluster.node import CHECKOUT
from tests.lab.differential.logins import PLAIN_MS, SCENARIOS, SCRAM_256_MS, USERS
from tests.lab.side_by_side.steps import both
from tests.session.conversation import gate_with
from tests.support.edges import an_edge
from tests.support.images import image_of
from tests.support.metadata_log import scram_record

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

DIFFERENT = {
    "SCRAM, the first message of an unknown user": "SCRAM, unknown user or delegation token",
}
"""Scenario -> its row in docs/differences.md."""


@pytest.fixture(scope="module")
def sasl_broker(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    passwords = {name: f"{name}-secret" for name in USERS}
    listener = "listener.name.sasl_plaintext"
    settings = BrokerSettings(
        directory=tmp_path_factory.mktemp("sasl-kafka"),
        properties={
            **by_plain(passwords),
            f"{listener}.plain.connections.max.reauth.ms": str(PLAIN_MS),
            f"{listener}.scram-sha-256.connections.max.reauth.ms": str(SCRAM_256_MS),
        },
        scram_users=passwords,
    )
    with Broker(kafka_libs, settings).running() as broker:
        yield broker


@asynccontextmanager
async def penstock(broker: str) -> AsyncIterator[int]:
    """The port of a listener with the same users and limits."""
    settings = ListenerSettings.model_validate(
        {
            "name": "SASL_PLAINTEXT",
            "bind": "127.0.0.1:0",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"],
            "sasl.mechanism.connections.max.reauth.ms": {"PLAIN": PLAIN_MS, "SCRAM-SHA-256": SCRAM_256_MS},
        }
    )
    image = image_of(
        *(
            scram_record(mechanism, user, credential_from_password(mechanism, f"{user}-secret", b"salt" * 4))
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
            for user in USERS
        )
    )
    gate = gate_with(image)
    gate.limits = type(gate.limits)(100 << 20, 16 << 20, 512 * 1024)
    users = PlainUsers({user: StoredUser(hash_password(f"{user}-secret", bytes(16))) for user in USERS})
    credentials = Credentials(users, lambda: image)
    async with an_edge(gate, broker, sasl_listener(settings, credentials)) as edge:
        yield edge.port


def _comparable(said: list[Any]) -> list[Any]:
    """Without what is random: nonces, salts and signatures of SCRAM."""
    return [
        {key: (value[:2] if key in ("token", "bare") else value) for key, value in each.items()}
        if isinstance(each, dict)
        else each
        for each in said
    ]


@pytest.mark.spec("A7", "O6", "R1", "R2", "R3", "R4", "R5", "R6", "R9")
async def test_each_step_has_the_brokers_outcome(sasl_broker: Broker) -> None:
    async with penstock(sasl_broker.plaintext) as port:
        heard = await asyncio.to_thread(both, sasl_broker.sasl_plaintext, f"127.0.0.1:{port}", SCENARIOS)

    different = {
        name: f"\n  Kafka    {_comparable(kafka)}\n  Penstock {_comparable(own)}"
        for name, (kafka, own) in heard.items()
        if _comparable(kafka) != _comparable(own)
    }
    rows = (CHECKOUT / "docs" / "differences.md").read_text(encoding="utf-8")
    assert [row for row in DIFFERENT.values() if f"| {row} |" not in rows] == []
    assert set(different) == set(DIFFERENT), "".join(f"\n{name}: {text}" for name, text in different.items())
