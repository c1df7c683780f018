"""What the supervisor tells of its workers, while several ask at once and workers end meanwhile."""

import asyncio
import json
import socket

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from proxy.net.pages.readiness import Readiness
from proxy.workers.child import STARTING, Child
from proxy.workers.control import METRICS, READY, RELOAD, Asker, answer
from proxy.workers.front import Front

pytestmark = pytest.mark.spec("O2")


class SlowWorker(Child):
    """Has counted one more each time it is asked; the answer to the first question comes last."""

    def __init__(self) -> None:
        self.number = 0
        self.readiness, self.heard_ms = STARTING, 0
        self.count = 0
        self.first_may_go = asyncio.Event()
        self.asker = self  # type: ignore[assignment] # it is asked itself

    async def ask(self, page: str, _timeout_ms: int, _argument: str = "") -> bytes:
        if page != METRICS:
            return Readiness().encoded()
        self.count += 1
        told = json.dumps([("x", "A counter.", "counter", "sum", [("x_total", [], self.count)])])
        if self.count == 1:
            await self.first_may_go.wait()
        return told.encode()


def told(front: Front) -> list[str]:
    registry = CollectorRegistry()
    registry.register(front.exposition)
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


async def test_answers_that_overtake_each_other_do_not_count_twice() -> None:
    front, worker = Front(1, lambda _: 0), SlowWorker()
    front.children[0] = worker
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(front.ask_all())
        await asyncio.sleep(0)
        tasks.create_task(front.ask_all())
        for _ in range(10):
            await asyncio.sleep(0)
        worker.first_may_go.set()

    assert told(front) == ["x_total 2.0"]
    assert front.readiness().text(detailed=True) == "1 of 1 workers are ready\n"


async def test_the_answer_of_a_worker_that_has_ended_meanwhile_is_not_counted_again() -> None:
    front, worker = Front(1, lambda _: 0), SlowWorker()
    front.children[0] = worker
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(front.ask_all())
        for _ in range(10):
            await asyncio.sleep(0)
        del front.children[0]
        front.exposition.died(0, 1)
        worker.first_may_go.set()

    assert told(front) == []
    assert front.readiness().text(detailed=True) == (
        "not ready: 0 of 1 workers are ready\nnot ready: no worker runs\n"
    )


async def test_the_group_is_ready_when_all_of_its_workers_are() -> None:
    front, first, second = Front(2, lambda _: 0), SlowWorker(), SlowWorker()
    second.number = 1

    def page() -> str:
        return front.readiness().text(detailed=True)

    front.children[0] = first
    await front._ask_ready()
    assert page() == "not ready: 1 of 2 workers are ready\nnot ready: a worker does not run\n"
    front.children[1] = second
    assert page() == "not ready: 1 of 2 workers are ready\nnot ready: worker 1: starting\n"
    await front._ask_ready()
    assert page() == "2 of 2 workers are ready\n"


@pytest.mark.spec("O4", "O9")
async def test_neither_a_reload_that_hangs_nor_a_fault_in_a_page_ends_a_worker() -> None:
    asked, ours_and_theirs = asyncio.Event(), socket.socketpair()

    async def hangs(_argument: str) -> bytes:
        asked.set()
        await asyncio.Event().wait()
        return b""

    async def fails(_argument: str) -> bytes:
        raise ValueError("a defect")

    async def ready(_argument: str) -> bytes:
        return b"ready"

    ours, theirs = ours_and_theirs
    ours.setblocking(False)
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        pages = {RELOAD: hangs, METRICS: fails, READY: ready}
        answering = tasks.create_task(answer(theirs.detach(), pages))
        asker = Asker(*await asyncio.open_unix_connection(sock=ours))
        running = tasks.create_task(asker.run())
        reloading = tasks.create_task(asker.ask(RELOAD, 60_000))
        await asked.wait()
        assert await asker.ask(METRICS, 100) is None
        assert await asker.ask(READY, 10_000) == b"ready"

        reloading.cancel()
        running.cancel()
        asker._writer.close()
        await answering
