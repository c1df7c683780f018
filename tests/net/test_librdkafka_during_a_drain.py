"""librdkafka logs in at a proxy's process while that drains: it reports no failed login, and nor do we."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from tests.lab.cluster import certificates
from tests.support.edges import on_uvloop
from tests.support.lone_processes import PASSWORD, SHOULD_NOT_TAKE_S, LoneProcess, a_lone, address_of
from tests.support.waiting import turns_until

pytestmark = pytest.mark.spec("O4", "R9")

FAILED_LOGINS = {
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.ILLEGAL_SASL_STATE,
}


class _Holding:
    """Passes bytes between one connection and the proxy, and holds the client's from the `held`-th piece on.

    No further connection is accepted, since a relay that closes them would look like a fault of TLS.
    """

    def __init__(self, target: str, held: int) -> None:
        self._target = target.rpartition(":")
        self._held = held
        self.holds, self.goes_on = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        async with self._server:
            yield address_of(self._server.sockets[0])

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server.close()
        far_reader, far_writer = await asyncio.open_connection(self._target[0], int(self._target[2]))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._passes(reader, far_writer, self._held))
            tasks.create_task(self._passes(far_reader, writer, 0))

    async def _passes(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: int) -> None:
        pieces = 0
        try:
            while data := await reader.read(65_536):
                pieces += 1
                if pieces == held:
                    self.holds.set()
                    await self.goes_on.wait()
                writer.write(data)
        except OSError:
            return
        finally:
            writer.close()


def _settings(directory: Path, bind: str, secure: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the proxy's listener, and of its client."""
    both = {"security.protocol": "SASL_SSL" if secure else "SASL_PLAINTEXT"}
    listener = {"name": "SASL", "bind": bind, "sasl.enabled.mechanisms": ["PLAIN"]} | both
    client = {"sasl.mechanism": "PLAIN", "sasl.username": "admin", "sasl.password": PASSWORD} | both
    if not secure:
        return listener, client
    files = certificates.write(directory / "tls")
    own = {"ssl": {"certificate": str(files.certificate), "key": str(files.key)}}
    return listener | own, client | {"ssl.ca.location": str(files.ca)}


async def _logs_in_meanwhile(lone: LoneProcess, held: int, settings: dict[str, Any]) -> list[KafkaError]:
    """What the client reports until the proxy has ended and the client has lost its connection."""
    reported: list[KafkaError] = []
    relay = _Holding(lone.bind, held)
    async with relay.listening() as address:
        producer = Producer(settings | {"bootstrap.servers": address, "error_cb": reported.append})
        async with asyncio.timeout(SHOULD_NOT_TAKE_S):
            await relay.holds.wait()
            lone.process.send_signal(signal.SIGTERM)
            await lone.row("draining")
            relay.goes_on.set()
            assert await lone.process.wait() == 0

            def has_reported() -> bool:
                producer.poll(0)
                return bool(reported)

            await turns_until(has_reported)
    return reported


@pytest.mark.parametrize(("secure", "held"), [(False, 2), (False, 3), (True, 2), (True, 3), (True, 4)])
@on_uvloop
async def test_a_login_that_meets_a_drain_is_no_failed_login_to_the_client_nor_to_the_proxy(
    secure: bool, held: int, tmp_path: Path
) -> None:
    """What is held back: SaslHandshake or the token, or under TLS the end of the handshake, or later."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listener, client = _settings(tmp_path, address_of(listening), secure)
        async with a_lone("proxy", tmp_path, held=[listening], listeners=[listener]) as lone:
            listening.close()
            reported = await _logs_in_meanwhile(lone, held, client)
            assert not {error.code() for error in reported} & FAILED_LOGINS, reported
            assert len(lone.rows("authentication")) == 1
            assert lone.rows("authentication_failed") == []
