"""Connections of aiokafka that authenticate again before their session ends, and what that needs of it."""

import asyncio
import inspect
import logging
from collections.abc import Iterator
from pathlib import Path

import aiokafka.client
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.admin import SaslAuthenticateRequest

from forwarding.net.aiokafka_hooks import RenewedConnection
from forwarding.net.broker import Broker as BrokerChannel
from forwarding.net.log import connection_arguments
from tests.lab.cluster.broker import Broker, BrokerSettings
from tests.support.controllers import (
    a_controller,
    a_forwarder,
    acl_names,
    create_acls,
    endpoint_of,
    login,
)

LOGIN = ("penstock", "penstock-secret")
SESSION_MS = 2_000


@pytest.fixture(scope="module")
def ending_sessions(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    settings = BrokerSettings(
        directory=tmp_path_factory.mktemp("ending-sessions"),
        scram_users=dict([LOGIN]),
        properties={"connections.max.reauth.ms": str(SESSION_MS)},
    )
    broker = Broker(kafka_libs, settings)
    with broker.running():
        yield broker


@pytest.mark.spec("R10")
def test_aiokafka_still_has_what_we_hook_into() -> None:
    """Where it fails, forwarding/net/aiokafka_hooks.py has to follow aiokafka."""
    for make in ("bootstrap", "_get_conn"):
        assert "create_conn(" in inspect.getsource(getattr(aiokafka.client.AIOKafkaClient, make)), make
    assert aiokafka.client.create_conn.__module__ == "forwarding.net.aiokafka_hooks"
    login_source = inspect.getsource(AIOKafkaConnection._do_sasl_handshake)
    assert "self.send(SaslHandShakeRequest(" in login_source
    assert "self.send(SaslAuthenticateRequest(" in login_source
    assert list(inspect.signature(AIOKafkaConnection.send).parameters) == [
        "self",
        "request",
        "expect_response",
    ]
    newest = SaslAuthenticateRequest(b"").prepare({36: (0, 2)})
    assert "session_lifetime_ms" in newest.RESPONSE_TYPE.SCHEMA.names


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.spec("R10")
async def test_a_connection_of_aiokafka_outlives_its_session_with_many_requests_at_once(
    ending_sessions: Broker, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = endpoint_of(ending_sessions.sasl_plaintext, sasl=login(*LOGIN, "SCRAM-SHA-256"))
    broker = BrokerChannel(endpoint)
    await broker.ensure_topic(topic_name)
    await broker.close()
    producer = AIOKafkaProducer(enable_idempotence=True, **connection_arguments(endpoint))
    with caplog.at_level(logging.WARNING, "aiokafka"):
        await producer.start()
        await producer.send_and_wait(topic_name, b"first", b"key", partition=0)
        caplog.clear()
        (connection,) = {each for each in producer.client._conns.values() if each.connected()}
        over_s = asyncio.get_running_loop().time() + 3 * SESSION_MS / 1000
        while asyncio.get_running_loop().time() < over_s:
            await asyncio.gather(
                *(producer.send_and_wait(topic_name, b"x", b"key", partition=0) for _ in range(5)),
                *(producer.client.fetch_all_metadata() for _ in range(3)),
            )
        assert isinstance(connection, RenewedConnection)
        assert connection.connected()
        await producer.stop()

    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.spec("R10", "E12")
async def test_a_controller_keeps_its_leadership_over_many_sessions_at_the_broker(
    ending_sessions: Broker,
    topic_name: str,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    endpoint = endpoint_of(ending_sessions.sasl_plaintext, sasl=login(*LOGIN, "SCRAM-SHA-256"))
    async with (
        a_controller(endpoint, topic_name) as controller,
        a_forwarder(controller.endpoint) as forwarder,
    ):
        caplog.clear()
        capsys.readouterr()
        with caplog.at_level(logging.WARNING, "aiokafka"):
            for number in range(12):
                await create_acls(forwarder, f"t{number:02}")
                assert controller.process.processor.active
                # Longer than a session, so that it ends between two changes too.
                await asyncio.sleep(0.3 if number % 4 else 1.2 * SESSION_MS / 1000)
        said = capsys.readouterr().out

    assert len(acl_names(controller.image)) == 12
    assert [record.getMessage() for record in caplog.records] == []
    assert [line for line in said.splitlines() if "[warning" in line or "[error" in line] == []
    assert "election" not in said
    assert "controller is active" not in said
