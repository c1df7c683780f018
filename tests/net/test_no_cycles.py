"""What ends is freed at once: the collector does not look at old objects while there are many (0045)."""

import asyncio
import gc
import ssl
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from proxy.net.clients.connection import Connection, Upstream
from proxy.net.files.tls import _ServerHandshake
from proxy.wire.api_keys import ApiKey
from tests.net.test_ends_of_certificates import Office, policy_of
from tests.session.conversation import produce
from tests.support.edges import Edge, an_edge_and_its_broker, on_uvloop

pytestmark = [pytest.mark.spec("O6", "O8"), pytest.mark.usefixtures("without_collector")]

CONNECTIONS = 5


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


def left() -> dict[str, int]:
    kinds = Connection, Upstream, _ServerHandshake
    objects = gc.get_objects()
    return {kind.__name__: found for kind in kinds if (found := sum(type(each) is kind for each in objects))}


async def come_and_go(edge: Edge, tls: ssl.SSLContext | None = None) -> None:
    for _ in range(CONNECTIONS):
        with suppress(ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
            client = await edge.client(tls)
            client.asks(ApiKey.PRODUCE, 9, produce("orders"))
            await client.hears(ApiKey.PRODUCE, 9)
    for client in edge.clients:
        client.leaves()
    edge.clients.clear()
    await edge.all_gone()


class Rejecting:
    def build(self, _context: object) -> Any:
        raise ValueError("no one is welcome")


@on_uvloop
async def test_a_connection_that_has_ended_leaves_nothing() -> None:
    async with an_edge_and_its_broker() as (edge, _):
        await come_and_go(edge)
        assert edge.opened_count == CONNECTIONS
        await edge.until(lambda: not left())


@pytest.mark.parametrize(("lasts", "builder"), [(1, None), (-1, None), (1, Rejecting())])
@on_uvloop
async def test_a_connection_under_tls_that_has_ended_or_was_rejected_leaves_nothing(
    tmp_path: Path, lasts: int, builder: Any
) -> None:
    office = Office(tmp_path)
    trusting, _ = office.client("ANONYMOUS", timedelta(days=lasts))
    policy = policy_of() if builder is None else policy_of(principal_builder=builder)
    async with an_edge_and_its_broker(policy=policy, tls=office.tls()) as (edge, _):
        await come_and_go(edge, trusting)
        assert edge.opened_count == (CONNECTIONS if lasts > 0 and builder is None else 0)
        await edge.until(lambda: not left())
