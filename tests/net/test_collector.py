"""What the garbage collector is spared, and that nothing needs it that comes in great numbers."""

import asyncio
import gc
import ssl
import sys
import weakref
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from proxy.metadata.loader import Loader
from proxy.net.clients.connection import Connection, Upstream
from proxy.net.files.tls import _ServerHandshake
from proxy.net.runtime import garbage_collector
from proxy.session.session import Session
from proxy.wire.api_keys import ApiKey
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


@pytest.mark.usefixtures("no_collector")
async def test_what_is_made_of_many_records_is_not_looked_at_by_the_collector() -> None:
    images: list[list[object]] = []

    def steps() -> Iterator[None]:
        for _ in range(3):
            images.append([[] for _ in range(2 * garbage_collector.MANY_BLOCKS)])
            yield

    await garbage_collector.apply_image(steps())

    looked_at = set(map(id, gc.get_objects()))
    assert not any(id(part) in looked_at for image in images for part in image)


@pytest.mark.long
@pytest.mark.usefixtures("no_collector")
async def test_changes_leave_nothing_behind_of_what_was_under_way_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loader = Loader(lambda _image, _changed: None)
    loader.load_until(0)
    added = acl("orders")
    changes = values(acl_record(added)), values(removed_acl_record(added))
    for offset in range(2):  # Codecs are made at first use.
        await garbage_collector.apply_image(loader.batch_steps(offset, changes[offset]))
    before, frozen = sys.getallocatedblocks(), gc.get_freeze_count()
    monkeypatch.setattr(garbage_collector, "_settled_blocks", before)
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


@pytest.mark.usefixtures("no_collector")
def test_older_objects_are_looked_at_while_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage_collector, "_settled_blocks", sys.getallocatedblocks())
    many: list[object] = [[] for _ in range(2 * garbage_collector.FEW_BLOCKS)]
    cyclic = weakref.ref(Cyclic())
    garbage_collector.collect_if_few(connections=0)
    assert cyclic() is not None

    many.clear()
    garbage_collector.collect_if_few(connections=garbage_collector.FEW_CONNECTIONS + 1)
    assert cyclic() is not None

    garbage_collector.collect_if_few(connections=garbage_collector.FEW_CONNECTIONS)
    assert cyclic() is None


@pytest.mark.spec("O8")
@pytest.mark.usefixtures("no_collector")
def test_objects_are_many_although_as_many_frozen_ones_were_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by the blocks at the freeze: those that were there are gone, and these have come."""
    frozen: list[object] = [[] for _ in range(4 * garbage_collector.FEW_BLOCKS)]
    monkeypatch.setattr(garbage_collector, "_settled_blocks", sys.getallocatedblocks())
    frozen.clear()
    garbage_collector.collect_if_few(connections=0)
    many: list[object] = [[] for _ in range(2 * garbage_collector.FEW_BLOCKS)]
    cyclic = weakref.ref(Cyclic())

    garbage_collector.collect_if_few(connections=0)

    assert many
    assert cyclic() is not None


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
