"""SIGTERM to a proxy as a process of its own: what an operator sees meanwhile, and a second signal."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from proxy.net.runtime.stop_signals import SAME_S
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster import probe
from tests.session.conversation import produce, produced
from tests.support.edges import on_uvloop
from tests.support.fake_broker import Answer, FakeBroker, Request
from tests.support.lone_processes import SHOULD_NOT_TAKE_S, LoneProcess, a_lone, metadata

pytestmark = pytest.mark.spec("O4")

PRODUCE = ApiKey.PRODUCE


class _Busy:
    """A proxy with a produce request in flight, which its broker answers when `answers` is set."""

    def __init__(self) -> None:
        self.asked, self.answers = asyncio.Event(), asyncio.Event()

    async def produced(self, _request: Request) -> object:
        self.asked.set()
        await self.answers.wait()
        return produced("orders")

    @asynccontextmanager
    async def process(self, directory: Path, workers: int) -> AsyncIterator[LoneProcess]:
        answers: dict[int, Answer] = {ApiKey.METADATA: metadata, PRODUCE: self.produced}
        async with FakeBroker(answers) as broker:
            upstream = {"bootstrap": broker.address}
            async with a_lone("proxy", directory, upstream=upstream, workers=workers) as lone:
                yield lone
                self.answers.set()


async def _drained(lone: LoneProcess) -> None:
    async with asyncio.timeout(SHOULD_NOT_TAKE_S):
        while '"draining"' not in lone.output.read_text(encoding="utf-8"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@on_uvloop
async def test_while_it_drains_it_is_not_ready_and_says_how_it_went(tmp_path: Path) -> None:
    busy = _Busy()
    async with busy.process(tmp_path, workers=1) as lone:
        client = await lone.logs_in()
        client.asks(PRODUCE, 9, produce("orders"))
        await busy.asked.wait()

        lone.process.send_signal(signal.SIGTERM)

        assert await lone.metric("penstock_draining", lambda value: value == 1) == 1
        status, page = await asyncio.to_thread(probe.get, lone.http, "/readyz")
        assert (status, page.splitlines()[0]) == (503, "not ready: draining")
        busy.answers.set()
        assert (await client.hears(PRODUCE, 9)).responses[0].name == "orders"
        async with asyncio.timeout(SHOULD_NOT_TAKE_S):
            assert await lone.process.wait() == 0
    assert '"connections": 1, "cut": 0' in lone.output.read_text(encoding="utf-8")


@pytest.mark.parametrize("workers", [1, 2])
@on_uvloop
async def test_a_second_signal_cuts_what_is_in_flight_and_ends_it(tmp_path: Path, workers: int) -> None:
    busy = _Busy()
    async with busy.process(tmp_path, workers) as lone:
        client = await lone.logs_in()
        client.asks(PRODUCE, 9, produce("orders"))
        await busy.asked.wait()
        lone.process.send_signal(signal.SIGTERM)
        await _drained(lone)

        await asyncio.sleep(1.5 * SAME_S)  # Before that it would count as the same signal.
        lone.process.send_signal(signal.SIGTERM)

        assert await client.is_cut_off() == b""
        async with asyncio.timeout(SHOULD_NOT_TAKE_S):
            assert await lone.process.wait() == 0
    assert '"cut": 1' in lone.output.read_text(encoding="utf-8")
