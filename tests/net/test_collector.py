"""What the garbage collector is spared, and that nothing needs it that comes in great numbers."""

import asyncio
import gc
import ssl
import sys
import threading
import weakref
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import thread_time_ns
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from proxy.metadata.loader import Loader
from proxy.net.clients.connection import Connection, Upstream
from proxy.net.files.tls import _ServerHandshake
from proxy.net.kafka.channel import ResponseProtocol
from proxy.net.logins.verification import (
    BLOCKING_THREADS,
    MEMBER_LIMIT,
    QUEUE_FULL,
    NotChecked,
    Verifications,
)
from proxy.net.runtime import garbage_collector
from proxy.net.runtime.chunked import SLICE_MS, call_in_slices
from proxy.security.sasl.exchange import Deferred, Rejected
from proxy.session.session import Session
from proxy.wire.api_keys import ApiKey
from proxy.wire.work import PIECE, Work, spend
from tests.net.test_ends_of_certificates import Office, policy_of
from tests.net.test_reconfigured_proxy import Place
from tests.session.conversation import fetch, produce
from tests.support.edges import an_edge_and_its_broker, on_uvloop
from tests.support.metadata_log import acl, acl_record, removed_acl_record, values
from tests.support.waiting import turns_until

pytestmark = pytest.mark.spec("O8")


CHANGES = 20_000


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What earlier tests have left is frozen: collected here, a socket of theirs would fail this test."""
    gc.freeze()
    gc.disable()
    yield
    gc.unfreeze()
    gc.enable()


def alive() -> list[object]:
    return [
        each for each in gc.get_objects() if type(each) in (Connection, Upstream, Session, _ServerHandshake)
    ]


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("in_flight", [False, True])
@on_uvloop
async def test_a_connection_that_has_ended_is_free_without_the_collector(in_flight: bool) -> None:
    waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    async with an_edge_and_its_broker(answers={"fetch": lambda _request: waiting}) as (edge, broker):
        for _ in range(3):
            client = await edge.client()
            client.asks(ApiKey.PRODUCE, 9, produce("orders"))
            await client.hears(ApiKey.PRODUCE, 9)
            if in_flight:
                client.asks(ApiKey.FETCH, 12, fetch("orders"))
                await broker.wait_for(ApiKey.FETCH)
            client.leaves()
        await edge.all_gone()
        waiting.set_result(None)
        await edge.until(lambda: not alive())


class Cyclic:
    def __init__(self) -> None:
        self.own = self


class Weighty:
    """Such as a decoded response, which holds the frame it came in."""


@pytest.mark.spec("O6")
@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("at_once", [1, 3])
@on_uvloop
async def test_what_was_made_in_slices_is_free_without_the_collector(at_once: int) -> None:
    made: list[weakref.ref[Any]] = []

    def weighty() -> Weighty:
        result = Weighty()
        made.append(weakref.ref(result))
        began_ns = thread_time_ns()
        while thread_time_ns() - began_ns < 2 * SLICE_MS * 1_000_000:
            spend(PIECE)
        return result

    def works() -> list[object]:
        return [each for each in gc.get_objects() if type(each) is Work]

    await asyncio.gather(*(call_in_slices(weighty) for _ in range(at_once)))
    await asyncio.sleep(0)

    assert len(made) == at_once
    assert [each for each in made if each() is not None] == []
    assert len(works()) == 1  # It waits for the next work.


async def count_raised(kind: type[BaseException], *waiting: Coroutine[Any, Any, object]) -> int:
    return sum(isinstance(each, kind) for each in await asyncio.gather(*waiting, return_exceptions=True))


def exceptions(kind: type[BaseException]) -> list[object]:
    return [each for each in gc.get_objects() if type(each) is kind]


@pytest.mark.spec("O6")
@pytest.mark.usefixtures("no_collector")
@on_uvloop
async def test_checks_that_are_dropped_are_free_without_the_collector() -> None:
    is_over = threading.Event()

    def work() -> Rejected:
        is_over.wait()
        return Rejected("", "the password is wrong")

    registry = CollectorRegistry()
    verifications = Verifications(registry)
    checks = [verifications.outcome(Deferred(work)) for _ in range(MEMBER_LIMIT + BLOCKING_THREADS + 3)]
    dropped = partial(
        registry.get_sample_value, "penstock_authentication_checks_dropped_total", {"reason": QUEUE_FULL}
    )
    async with asyncio.TaskGroup() as tasks:
        raising = tasks.create_task(count_raised(NotChecked, *checks))
        await turns_until(lambda: dropped() == 3)
        is_over.set()
    verifications.close()

    assert raising.result() == 3
    assert exceptions(NotChecked) == []


@pytest.mark.spec("O6")
@pytest.mark.usefixtures("no_collector")
async def test_requests_on_a_connection_that_is_lost_are_free_without_the_collector() -> None:
    protocol = ResponseProtocol(1_000)
    protocol.connection_made(Mute())
    async with asyncio.TaskGroup() as tasks:
        waiting = [protocol.exchange(each, bytes(8)) for each in range(3)]
        raising = tasks.create_task(count_raised(ConnectionError, *waiting))
        waiting.clear()
        await turns_until(lambda: protocol.silent_ms > 0)
        protocol.connection_lost(None)

    assert raising.result() == 3
    assert exceptions(ConnectionError) == []


class Mute(asyncio.Transport):
    """Takes all bytes."""

    def write(self, data: Any) -> None:
        pass

    def is_closing(self) -> bool:
        return False


class Rejecting:
    def build(self, _context: object) -> Any:
        raise ValueError("no one is welcome")


@pytest.mark.spec("O6")
@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize(("lasts", "builder"), [(1, None), (-1, None), (1, Rejecting())])
@on_uvloop
async def test_a_connection_under_tls_that_has_ended_or_was_rejected_is_free_without_the_collector(
    tmp_path: Path, lasts: int, builder: Any
) -> None:
    office = Office(tmp_path)
    trusting, _ = office.client("ANONYMOUS", timedelta(days=lasts))
    policy = policy_of() if builder is None else policy_of(principal_builder=builder)
    async with an_edge_and_its_broker(policy=policy, tls=office.tls()) as (edge, _):
        for _ in range(3):
            with suppress(ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
                client = await edge.client(trusting)
                client.asks(ApiKey.PRODUCE, 9, produce("orders"))
                await client.hears(ApiKey.PRODUCE, 9)
                client.leaves()
        await edge.all_gone()
        assert edge.opened_count == (3 if lasts > 0 and builder is None else 0)
        await edge.until(lambda: not alive())


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set as in a process that has just started; what earlier tests have left is frozen."""
    monkeypatch.setattr(garbage_collector, "_old_objects", 0)
    callbacks, threshold = [*gc.callbacks], gc.get_threshold()
    garbage_collector.start()
    yield
    gc.callbacks[:] = callbacks
    gc.set_threshold(*threshold)
    gc.unfreeze()


@pytest.fixture
def looked_at(collector: None) -> Iterator[list[int]]:
    """How many objects each collection has looked at, of those that make room for older ones."""
    counts: list[int] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] > 0:
            counts.append(sum(len(gc.get_objects(generation=each)) for each in range(info["generation"] + 1)))

    gc.callbacks.append(count)
    yield counts
    gc.callbacks.remove(count)


MOST = garbage_collector.FEW_OBJECTS + 4 * garbage_collector.YOUNG_OBJECTS


async def test_what_is_made_of_many_records_is_not_looked_at_again(looked_at: list[int]) -> None:
    images: list[list[object]] = []

    def steps() -> Iterator[None]:
        for _ in range(3):
            images.append([[] for _ in range(5 * MOST)])
            yield

    await garbage_collector.apply_image(steps())
    garbage_collector.collect_if_few(connections=0)

    assert max(looked_at) < 4 * garbage_collector.YOUNG_OBJECTS
    assert len(gc.get_objects()) < MOST


async def test_an_image_in_the_place_of_an_older_one_is_looked_at_in_parts(looked_at: list[int]) -> None:
    """Each step frees as much as it makes, so Python begins no collection."""
    image: list[object] = [[] for _ in range(5 * MOST)]
    gc.freeze()
    a_step = 500

    def steps() -> Iterator[None]:
        for first in range(0, len(image), a_step):
            for each in range(first, first + a_step):
                image[each] = []
            yield

    await garbage_collector.apply_image(steps())

    assert max(looked_at) < 4 * garbage_collector.YOUNG_OBJECTS
    assert len(gc.get_objects()) < MOST


@pytest.mark.long
@pytest.mark.usefixtures("collector")
async def test_changes_leave_nothing_behind_of_what_was_under_way_meanwhile() -> None:
    loader = Loader(lambda _image, _changed: None)
    loader.load_until(0)
    added = acl("orders")
    changes = values(acl_record(added)), values(removed_acl_record(added))
    for offset in range(2):  # Codecs are made at first use.
        await garbage_collector.apply_image(loader.batch_steps(offset, changes[offset]))
    gc.freeze()
    before, frozen = sys.getallocatedblocks(), gc.get_freeze_count()
    under_way: list[weakref.ref[Cyclic]] = []

    for offset in range(2, CHANGES):
        request = Cyclic()
        await garbage_collector.apply_image(loader.batch_steps(offset, changes[offset % 2]))
        under_way.append(weakref.ref(request))
        del request
        if offset % 1_000 == 999:
            garbage_collector.collect_if_few(connections=0)
            assert [each for each in under_way if each() is not None] == []
            under_way.clear()

    assert gc.get_freeze_count() <= frozen
    assert sys.getallocatedblocks() - before < 2_000


@pytest.mark.usefixtures("collector")
def test_older_objects_are_looked_at_while_they_are_few() -> None:
    cyclic = weakref.ref(Cyclic())
    gc.disable()
    many: list[object] = [[] for _ in range(2 * garbage_collector.FEW_OBJECTS)]
    garbage_collector.collect_if_few(connections=0)
    assert cyclic() is not None

    many.clear()
    gc.enable()
    garbage_collector.collect_if_few(connections=garbage_collector.FEW_CONNECTIONS + 1)
    assert cyclic() is not None

    garbage_collector.collect_if_few(connections=garbage_collector.FEW_CONNECTIONS)
    assert cyclic() is None


@pytest.mark.usefixtures("collector")
def test_many_old_objects_are_frozen_although_as_many_frozen_ones_were_freed(looked_at: list[int]) -> None:
    """As when large requests wait, and others that waited before end."""
    frozen: list[object] = [[] for _ in range(5 * MOST)]
    gc.freeze()
    waiting: list[object] = []
    while frozen:
        for _ in range(100):
            frozen.pop()
            waiting.append([])
        gc.collect(1)
    cyclic = weakref.ref(Cyclic())
    garbage_collector.collect_if_few(connections=0)

    assert max(looked_at) < MOST
    assert cyclic() is None


@pytest.mark.usefixtures("collector")
def test_objects_that_were_freed_meanwhile_do_not_count() -> None:
    before = gc.get_freeze_count()
    for _ in range(10):
        some: list[object] = [[] for _ in range(garbage_collector.FEW_OBJECTS // 3)]
        gc.collect(1)
        some.clear()
    assert gc.get_freeze_count() <= before


@pytest.mark.spec("O8")
@pytest.mark.usefixtures("no_collector")
@on_uvloop
async def test_as_many_connections_that_come_as_go_are_looked_at_a_hundred_at_a_time() -> None:
    looked_at: list[int] = []

    def collected(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            looked_at.append(info["generation"])

    async with an_edge_and_its_broker() as (edge, _):
        gc.callbacks.append(collected)
        try:
            for _ in range(2 * garbage_collector.ACCEPTED):
                client = await edge.client()
                client.leaves()
        finally:
            gc.callbacks.remove(collected)

    assert looked_at == [1, 1]


@pytest.mark.spec("O8")
@on_uvloop
async def test_a_pass_over_connections_holds_none_that_it_is_done_with(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with place.runs() as process:
        for _ in range(3):
            await place.client()
        await turns_until(lambda: process._listeners.open_count == 3)
        passing = process._listeners.connections()
        next(passing)
        for client in place.clients:
            client.leaves()
        await turns_until(lambda: process._listeners.open_count == 0)

        (listener,) = process._listeners._listeners()
        held = [each for each in gc.get_objects() if type(each) is Connection and each._host is listener]
        assert len(held) == len([*passing]) == 2
