"""A tick in steps: how much work one of them is, and what may happen between two of them."""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from time import thread_time_ns
from typing import Any

import pytest

from proxy.app.quota_shares import ShareExchange
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.runtime.chunked import SLICE_MS
from proxy.quota.cluster.coordinator import Coordinator
from proxy.quota.cluster.holdings import ShareOrigin, Want
from proxy.quota.cluster.member import ClusterMember, Outgoing
from proxy.quota.cluster.messages import (
    Batch,
    Claim,
    Grants,
    Heartbeat,
    Report,
    ShareChange,
    Target,
    decode,
    encode,
)
from proxy.quota.cluster.share_rate import ShareRate
from proxy.quota.cluster.timing import MAX_REPORTED, MAX_SHARED_OUT, STEP_QUOTA_IDS, TICK_MS
from tests.support.waiting import turns_until

pytestmark = pytest.mark.spec("Q13", "O8")

LIMIT = 1000.0
NOWHERE = EndpointSettings(host="127.0.0.1", port=1)
QUOTA_IDS = MAX_SHARED_OUT + 500
WALL_MS = 1_700_000_000_000


class Alone:
    """A member that coordinates the only shard; it reads at once what it writes."""

    def __init__(self, quota_ids: int) -> None:
        self.member = ClusterMember("a", b"\1" * 8, "a:9092", 1, 1, 0, 1_000)
        names = [("producer_byte_rate", f"user-{number}", "") for number in range(quota_ids)]
        self.rates = [self.member.rate(name, 1000, 2) for name in names]
        self.now_ms = 0
        while self.now_ms < 5_000:
            self.tick()

    def use(self) -> None:
        for rate in self.rates:
            rate.record(LIMIT / 10, WALL_MS + self.now_ms)
            rate.throttle_ms(LIMIT, WALL_MS + self.now_ms)

    def tick(self, between: Callable[[int], None] = lambda step: None) -> list[Outgoing]:
        """`between` is called after each step, with its number."""
        self.now_ms += TICK_MS
        outgoing = []
        for step, out in enumerate(self.member.steps(lambda: self.now_ms)):
            if out is not None:
                outgoing.append(out)
            between(step)
        for out in outgoing:
            self.member.receive(out.partition, out.value, self.now_ms)
        return outgoing

    def smaller_share(self, rate: ShareRate) -> Batch:
        """Return grants that leave a tenth of the share, as the coordinator would write them next."""
        holdings = self.member.shards()[0]
        change = ShareChange(rate.digest, holdings.shares[rate.digest] / 10)
        sequence = self.member._sequence
        target = Target(self.member.key, sequence, holdings.generation, holdings.applied + 1, (change,))
        return Batch("a", b"\1" * 8, sequence, (Grants(0, holdings.epoch, (target,)),))


def found(outgoing: list[Outgoing], kind: type) -> list[Any]:
    sections = [section for out in outgoing for section in decode(out.value).sections]
    return [section for section in sections if isinstance(section, kind)]


def counted(monkeypatch: pytest.MonkeyPatch, into: Counter[str], of: type, name: str) -> None:
    """Count the calls of a method."""
    method = getattr(of, name)

    def calls(*arguments: Any) -> Any:
        into[name] += 1
        return method(*arguments)

    monkeypatch.setattr(of, name, calls)


def test_no_step_takes_more_than_a_few_quota_ids_however_many_are_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = Alone(QUOTA_IDS)
    done: Counter[str] = Counter()
    for of, name in ((Want, "measure"), (Want, "urgency"), (Want, "report"), (Coordinator, "_share_one")):
        counted(monkeypatch, done, of, name)
    most: Counter[str] = Counter()
    total: Counter[str] = Counter()
    shared_out = []

    def took(_: int) -> None:
        most.update({name: max(count - most[name], 0) for name, count in done.items()})
        total.update(done)
        done.clear()

    for turn in range(12):
        alone.use()
        if turn >= 6:
            # Another member may use its fallback soon, so all quota-ids have to be divided again.
            beat = Batch("b", b"\2" * 8, turn, (Heartbeat("b:9092"),))
            alone.member.take(0, beat, alone.now_ms)
        before = total["_share_one"]
        alone.tick(took)
        shared_out.append(total["_share_one"] - before)

    assert total["measure"] == 12 * QUOTA_IDS
    assert max(shared_out) == MAX_SHARED_OUT
    assert most["measure"] == most["urgency"] == most["_share_one"] == STEP_QUOTA_IDS
    assert most["report"] <= MAX_REPORTED


def test_a_smaller_share_that_comes_during_a_tick_applies_before_the_tick_acknowledges_it() -> None:
    alone = Alone(2 * STEP_QUOTA_IDS)
    for _ in range(8):
        alone.use()
        alone.tick()
    rate = alone.rates[0]
    assert isinstance(rate, ShareRate)
    former = rate.share
    at_once = []

    def receive(step: int) -> None:
        if step == 0:
            alone.member.take(0, alone.smaller_share(rate), alone.now_ms)
            at_once.append(rate.share)

    applied = alone.member.shards()[0].applied
    alone.use()
    reports = found(alone.tick(receive), Report)

    assert reports[0].applied == applied + 1
    assert at_once[0] < former / 5


def test_a_smaller_share_that_comes_between_two_ticks_applies_with_the_next_one() -> None:
    alone = Alone(2)
    for _ in range(8):
        alone.use()
        alone.tick()
    rate = alone.rates[0]
    assert isinstance(rate, ShareRate)
    former = rate.share

    alone.member.take(0, alone.smaller_share(rate), alone.now_ms)
    until_then = rate.share
    alone.tick()

    assert until_then == former
    assert rate.share < former / 5


def replaced(alone: Alone) -> None:
    claim = Batch("b", b"\2" * 8, 1, (Claim(0, 99),))
    alone.member.receive(0, encode(claim), alone.now_ms)


def left(alone: Alone) -> None:
    alone.member.leave(alone.now_ms)


@pytest.mark.parametrize(("happens", "grants"), [(None, True), (replaced, False), (left, False)])
def test_a_coordinator_that_is_none_any_more_when_its_tick_ends_writes_no_grants(
    happens: Callable[[Alone], None] | None, grants: bool
) -> None:
    alone = Alone(2 * STEP_QUOTA_IDS)
    alone.use()
    alone.tick()
    steps_of_measuring = 2

    def between(step: int) -> None:
        if happens is not None and step == steps_of_measuring:
            happens(alone)

    alone.use()
    assert bool(found(alone.tick(between), Grants)) == grants


def test_a_tick_takes_the_time_of_each_step() -> None:
    """A share must not be used until later than its lease ends, however long the tick takes."""
    alone = Alone(STEP_QUOTA_IDS + 1)
    for _ in range(8):
        alone.use()
        alone.tick()
    first, *_, last = alone.rates
    assert isinstance(first, ShareRate)
    assert isinstance(last, ShareRate)

    def pass_time(step: int) -> None:
        if step == 0:
            alone.now_ms += 500

    alone.use()
    alone.tick(pass_time)

    assert first._valid_ms - last._valid_ms == pytest.approx(500, abs=1)


class Busy(ClusterMember):
    """Its tick takes 20 slices of CPU time."""

    done = 0

    def steps(self, clock: Callable[[], float]) -> Iterator[Outgoing | None]:
        for _ in range(20):
            until = thread_time_ns() + SLICE_MS * 1_000_000
            while thread_time_ns() < until:
                pass
            yield None
        self.done += 1


async def test_the_loop_has_a_turn_after_each_slice_of_a_tick() -> None:
    member = Busy("a", b"\1" * 8, "a:9092", 1, 1, 0, 1_000)
    turns = 0
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(ShareExchange(NOWHERE, "shares", 1, member).run())
        while not member.done and not running.done():
            await asyncio.sleep(0)
            turns += 1
        running.cancel()

    assert member.done == 1
    assert turns >= 20


async def test_a_process_that_reaches_no_broker_ends_without_an_error() -> None:
    exchange = ShareExchange(NOWHERE, "shares", 1, ClusterMember("a", b"\1" * 8, "a:9092", 1, 1, 0, 1_000))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(exchange.run())
        await turns_until(lambda: exchange.reachability.cause is not None)
        running.cancel()

    assert running.cancelled()
    assert exchange.member.shards()[0].state is ShareOrigin.LEFT


class Probing(ClusterMember):
    """Wants to know of each address whether a process is there."""

    addresses: tuple[str, ...] = ()
    ticks = 0
    found: dict[bytes, bool]

    def steps(self, clock: Callable[[], float]) -> Iterator[Outgoing | None]:
        self.ticks += 1
        yield None

    def probes(self, _now_ms: float) -> dict[bytes, str]:
        return {address.encode(): address for address in self.addresses}

    def probed(self, key: bytes, gone: bool) -> None:
        self.found[key] = gone


@pytest.mark.spec("S13")
async def test_only_addresses_of_the_configuration_are_probed() -> None:
    connected = [0, 0]

    async def listening(number: int) -> asyncio.Server:
        def accepted(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connected[number] += 1
            writer.close()

        return await asyncio.start_server(accepted, "127.0.0.1", 0)

    servers = [await listening(number) for number in range(2)]
    known, forged = (f"127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in servers)
    member = Probing("a", b"\1" * 8, "a:9092", 1, 1, 0, 1_000)
    member.addresses, member.found = (forged, known), {}
    exchange = ShareExchange(NOWHERE, "shares", 1, member, frozenset((known,)))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(exchange.run())
        await turns_until(lambda: member.ticks > 1 and connected[0] > 0)
        running.cancel()
    for server in servers:
        server.close()

    assert connected[1] == 0
    assert member.found == {known.encode(): False}


async def test_a_process_is_gone_if_nothing_listens_at_its_ipv6_address() -> None:
    with socket.socket(socket.AF_INET6) as unused:
        unused.bind(("::1", 0))
        address = f"[::1]:{unused.getsockname()[1]}"
        member = Probing("a", b"\1" * 8, "a:9092", 1, 1, 0, 1_000)
        member.addresses, member.found = (address,), {}
        exchange = ShareExchange(NOWHERE, "shares", 1, member, frozenset((address,)))
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(exchange.run())
            await turns_until(lambda: bool(member.found))
            running.cancel()

    assert member.found == {address.encode(): True}
