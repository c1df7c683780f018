"""What workers share: several members of one group, in this process and in others that are killed."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from proxy.config import ProxyConfig
from proxy.metadata.image import QuotasImage
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.net.runtime.clock import now_ms
from proxy.quota.connections import (
    TOO_FAST,
    TOO_MANY,
    TOO_MANY_OF_ADDRESS,
    TOO_MANY_OF_LISTENER,
    UNLIMITED,
    ConnectionLimits,
    ConnectionQuotas,
)
from proxy.quota.keys import CONNECTION_CREATION_RATE
from proxy.quota.rate import Rates
from proxy.quota.shared import SAMPLES as FIRST_SAMPLE
from proxy.quota.shared import TOTAL, VALUE, SharedRate, column_cells
from proxy.workers.member import Member
from proxy.workers.segment import PROBES, Segment, Table, TableFull, extent, layout
from tests.support.metadata_log import quotas_image
from tests.support.set_clock import set_own_clock_by

WORKERS, WINDOW_MS, SAMPLES = 4, 1_000, 11
ALICE = ("producer_byte_rate", "alice", "")
CONNECTIONS = ("connections",)
NOTHING = QuotasImage()


def _rates_of(member: Member, _key: str, _entity: QuotaEntity | None) -> Rates:
    return member.rate


def configuration(workers: int = WORKERS) -> ProxyConfig:
    return ProxyConfig.model_validate(
        {
            "proxy.id": "p",
            "workers": workers,
            "listeners": [{"name": "PLAIN", "bind": "h:1", "security.protocol": "PLAINTEXT"}],
            "upstream": {"bootstrap": "h:2"},
            "controller": {"endpoints": ["h:3"]},
            "audit": {"spool.dir": "spool"},
        }
    )


@pytest.fixture
def segment() -> Iterator[Segment]:
    made = Segment.create(layout(configuration()))
    yield made
    os.close(made.file)


@pytest.fixture
def members(segment: Segment) -> list[Member]:
    return [Member(segment, number) for number in range(WORKERS)]


def rate(member: Member, name: tuple[str, ...] = ALICE) -> SharedRate:
    return member.rate(name, WINDOW_MS, SAMPLES)


@pytest.mark.spec("Q4", "Q6")
def test_a_bucket_is_one_of_all_workers_by_its_name(members: list[Member]) -> None:
    moment_ms = now_ms()
    ours, theirs = rate(members[0]), rate(members[3])
    others = rate(members[3], ("consumer_byte_rate", "alice", ""))

    ours.record(30_000, moment_ms)

    assert [each.measure(moment_ms) for each in (ours, theirs, others)] == [3_000.0, 3_000.0, 0.0]


@pytest.mark.spec("Q4")
def test_names_are_told_apart_wherever_their_parts_end(members: list[Member]) -> None:
    names = [("k", "ab", "c"), ("k", "a", "bc"), ("k", "abc", ""), ("k", "", "abc"), ("k", "abc")]
    moment_ms = now_ms()
    for number, name in enumerate(names):
        rate(members[0], name).record(10_000 * (number + 1), moment_ms)

    found = [rate(members[1], name).measure(moment_ms) for name in names]

    assert found == [1_000.0, 2_000.0, 3_000.0, 4_000.0, 5_000.0]


@pytest.mark.spec("Q12")
def test_a_limit_on_connections_holds_for_all_workers(members: list[Member]) -> None:
    address = ("address", "10.0.0.1")

    taken = [members[turn % WORKERS].take(address, 6) for turn in range(8)]
    members[2].release(address)
    again = [member.take(address, 6) for member in members]

    assert taken == [True] * 6 + [False] * 2
    assert again == [True, False, False, False]
    assert [member.own(address) for member in members] == [3, 2, 0, 1]
    with pytest.raises(ValueError, match=r"there is none of address 10\.0\.0\.1"):
        members[2].release(address)


@pytest.mark.spec("Q12")
def test_of_two_workers_that_take_the_last_place_at_once_neither_exceeds_the_limit(
    segment: Segment, members: list[Member]
) -> None:
    where = segment.where
    assert members[0].take(CONNECTIONS, 2)
    # Worker 1 has added its own and not looked at the sum yet.
    segment.cells[where.count_at(0, 1)] = 1.0

    assert not members[2].take(CONNECTIONS, 2)
    assert [segment.connections(number) for number in range(WORKERS)] == [1, 1, 0, 0]


@pytest.mark.spec("Q12")
def test_the_connections_of_a_dead_worker_are_cleared_and_what_it_used_stays_used(
    segment: Segment, members: list[Member]
) -> None:
    moment_ms, address = now_ms(), ("address", "10.0.0.1")
    dead = members[1]
    assert dead.take(CONNECTIONS, 9)
    assert dead.take(address, 1)
    rate(dead).record(30_000, moment_ms)
    dead.publish(5)

    segment.forget(1)

    replacement = Member(segment, 1)
    assert members[0].behind(100) == []
    assert segment.connections(1) == 0
    assert members[0].take(address, 1)
    assert rate(replacement).measure(moment_ms) == 3_000.0


@pytest.mark.spec("Q8")
async def test_a_change_is_waited_for_until_no_worker_that_serves_is_behind(members: list[Member]) -> None:
    for member, offset in zip(members, (7, -1, 7), strict=False):
        member.publish(offset)

    behind = await members[0].everywhere(7, 10)
    members[1].leave()

    assert behind == [1]
    assert await members[0].everywhere(7, 10) == []
    assert await members[0].everywhere(8, 10) == [0, 2]


@pytest.mark.spec("Q8")
async def test_a_clock_that_is_set_back_does_not_prolong_the_wait(
    members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    members[1].publish(7)
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(members[0].everywhere(8, 100))
        await asyncio.sleep(0)
        set_own_clock_by(-3_600, monkeypatch)

    assert waiting.result() == [1]


@pytest.mark.spec("Q12")
def test_connections_are_turned_away_by_what_all_workers_have_let_in(members: list[Member]) -> None:
    limits = ConnectionLimits(max_connections=5, max_connections_per_ip=3, of_listener={"PLAIN": 4})
    image = quotas_image({QuotaEntity(ip=DEFAULT): {CONNECTION_CREATION_RATE: 0.4}})
    doors = [
        ConnectionQuotas(limits, counts=member, rates_of=partial(_rates_of, member)) for member in members[:2]
    ]
    moment_ms = now_ms()

    def opened(worker: int, listener: str, address: str, image: QuotasImage = NOTHING) -> str | None:
        away = doors[worker].open(listener, address, image, moment_ms)
        return None if away is None else away.reason

    let_in = [opened(turn % 2, "PLAIN", "10.0.0.1") for turn in range(3)]
    assert let_in == [None] * 3
    assert opened(1, "PLAIN", "10.0.0.1") == TOO_MANY_OF_ADDRESS
    assert opened(1, "PLAIN", "10.0.0.2") is None
    assert opened(0, "PLAIN", "10.0.0.3") == TOO_MANY_OF_LISTENER
    # Four connections in ten seconds are 0.4 a second; the fifth is too fast, at whichever worker.
    fast = [opened(turn % 2, "OTHER", "10.0.0.4", image) for turn in range(2)]
    assert fast == [None, TOO_MANY]
    doors[0].close("OTHER", "10.0.0.4")
    again = []
    for turn in range(4):
        again.append(opened(turn % 2, "OTHER", "10.0.0.4", image))
        if again[-1] is None:
            doors[turn % 2].close("OTHER", "10.0.0.4")
    assert again == [None, None, None, TOO_FAST]
    assert [door.count for door in doors] == [2, 2]


def crowded(segment: Segment, idle_ms: int) -> Table:
    """A table of as many places as a name may have."""
    small = extent(segment.where.quotas.entries, PROBES, WORKERS, SAMPLES, idle_ms)
    return Table(segment.file, segment.cells, memoryview(segment.cells.obj).cast("Q"), small, b"")


@pytest.mark.spec("Q6", "Q12")
def test_a_full_table_says_so_and_gives_the_place_of_what_is_idle(segment: Segment) -> None:
    full = crowded(segment, idle_ms=3_600_000)
    slots = {full.slot(("k", str(number))) for number in range(PROBES)}

    with pytest.raises(TableFull):
        full.slot(("k", "one more"))

    idle = crowded(segment, idle_ms=-1_000)
    before = [segment.cells[idle.generation_at(slot)] for slot in range(PROBES)]
    slot = idle.slot(("k", "one more"))
    after = [segment.cells[idle.generation_at(slot)] for slot in range(PROBES)]
    assert slots == set(range(PROBES))
    assert [number for number in range(PROBES) if before[number] != after[number]] == [slot]


@pytest.mark.spec("Q14", "O8")
def test_nobody_can_choose_names_that_take_the_places_of_another() -> None:
    """They would have to know where a name is: each memory has another secret."""
    segments = [Segment.create(layout(configuration())) for _ in range(2)]
    names = [("producer_byte_rate", "", f"client-{number}") for number in range(50)]

    (one, another) = ([segment.quotas.slot(name) for name in names] for segment in segments)
    of_another_worker = Segment(segments[0].file, segments[0].where)
    again = [of_another_worker.quotas.slot(name) for name in names]
    hosts = []
    for segment in segments:
        assert segment.hosts.put("team", "m", bytes([10, 0, 0, 1]))
        hosts.append(bytes(segment.cells[segment.where.hosts : segment.where.key]))
        os.close(segment.file)

    assert sum(mine == other for mine, other in zip(one, another, strict=True)) < 5
    assert again == one
    assert hosts[0] != hosts[1]


@pytest.mark.spec("Q12")
def test_a_place_where_connections_are_counted_is_not_idle(segment: Segment) -> None:
    table = crowded(segment, idle_ms=-1_000)
    for number in range(PROBES):
        segment.cells[table.count_at(table.slot(("k", str(number))), 2)] = 1.0

    with pytest.raises(TableFull):
        table.slot(("k", "one more"))


@pytest.mark.spec("Q6", "Q12")
def test_without_a_place_each_worker_keeps_to_its_part_of_the_limit(
    segment: Segment, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "quotas", crowded(segment, idle_ms=3_600_000))
    for number in range(PROBES):
        segment.quotas.slot(("k", str(number)))
    moment_ms = now_ms()
    ours, theirs = rate(members[0]), rate(members[1])

    ours.record(20_000, moment_ms)

    # 2,000 a second, and 1,000 of 4,000 are ours: Kafka's (rate - bound) / bound of a full window.
    assert ours.throttle_ms(4_000, moment_ms) == 10_000
    assert not ours.record_within(1, 8_000, moment_ms)
    assert theirs.record_within(1, 4_000, moment_ms) is False
    theirs.record(1, moment_ms)
    assert theirs.throttle_ms(4_000, moment_ms) == 0
    assert [member.unshared_count for member in members] == [1, 1, 0, 0]


@pytest.mark.spec("Q4", "Q12")
def test_a_lock_that_is_not_let_go_stops_nobody(segment: Segment, members: list[Member]) -> None:
    with in_another_process(segment, HOLDING) as holder:
        holder.stdout_line()
        rate(members[0], ("k", "stopped"))
        unshared = members[0].unshared_count
        holder.kill()

        rate(members[0], ("k", "killed"))

    assert (unshared, members[0].unshared_count) == (1, 1)


@pytest.mark.spec("Q4", "Q12")
def test_a_worker_that_is_killed_at_any_point_leaves_the_others_what_they_had(
    segment: Segment, members: list[Member]
) -> None:
    ours = rate(members[0])
    for _ in range(5):
        with in_another_process(segment, RECORDING) as worker:
            worker.stdout_line()
            ours.record(1_000, now_ms())
            worker.kill()
        segment.forget(1)
    replacement = rate(Member(segment, 1))
    moment_ms = now_ms()
    replacement.record(0, moment_ms)

    own = replacement._own
    values = segment.cells[own + FIRST_SAMPLE + VALUE : own + column_cells(SAMPLES) : 3]
    recorded = segment.cells[own + TOTAL]
    assert recorded == sum(values.tolist())
    assert ours.measure(moment_ms) == replacement.measure(moment_ms) >= (5_000 + recorded) / 20
    assert members[0].unshared_count == 0


class Other:
    """A process that has the same memory, and is killed in the end."""

    def __init__(self, segment: Segment, program: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, str(segment.file)],
            stdout=subprocess.PIPE,
            pass_fds=(segment.file,),
            env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        )

    def stdout_line(self) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> "Other":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()


def in_another_process(segment: Segment, program: str) -> Other:
    return Other(segment, program)


_BEGIN = """
import sys
from proxy.net.runtime.clock import now_ms
from proxy.workers.member import Member
from proxy.workers.segment import Segment, layout
from tests.net.test_workers_memory import ALICE, configuration
segment = Segment(int(sys.argv[1]), layout(configuration()))
"""
RECORDING = (
    _BEGIN
    + """
rate = Member(segment, 1).rate(ALICE, 1_000, 11)
rate.record(1, now_ms())
print("recording", flush=True)
while True:
    rate.record(1, now_ms())
"""
)
_HOLD = """
import threading
with {lock}:
    print("locked", flush=True)
    threading.Event().wait()
"""
HOLDING = _BEGIN + _HOLD.format(lock="segment.quotas._locked()")
HOLDING_HOSTS = (
    _BEGIN
    + "from proxy.workers.segment import _locked"
    + _HOLD.format(lock="_locked(segment.file, segment.where.hosts)")
)


@pytest.mark.spec("Q12")
def test_addresses_without_a_limit_are_not_looked_up(members: list[Member]) -> None:
    name = ("address", "10.0.0.2")

    assert all(members[0].take(name, UNLIMITED) for _ in range(3))
    assert (members[0].own(name), members[1].own(name)) == (3, 0)


@pytest.mark.spec("Q12")
def test_the_rate_of_an_address_is_that_at_all_workers(members: list[Member]) -> None:
    moment_ms, name = now_ms(), (CONNECTION_CREATION_RATE, "10.0.0.3")
    for member in members:
        rate(member, name).record(10, moment_ms)

    assert rate(members[0], name).measure(moment_ms) == 4.0


@pytest.mark.spec("A7")
def test_the_host_of_a_group_member_is_known_to_all_workers(members: list[Member]) -> None:
    addresses = {"m4": bytes([127, 0, 0, 5]), "m6": bytes(15) + b"\x01"}
    for name, address in addresses.items():
        members[0].hosts.put("team", name, address)
    members[1].hosts.put("team", "m6", bytes([10, 0, 0, 1]))

    found = [members[3].hosts.get("team", name) for name in ("m4", "m6", "m8")]

    assert found == [bytes([127, 0, 0, 5]), bytes([10, 0, 0, 1]), None]


@pytest.mark.spec("A7")
def test_the_host_that_was_learnt_first_gives_way_when_all_slots_for_a_name_are_in_use() -> None:
    segment = Segment.create(layout(configuration(), slots=2))
    hosts = Member(segment, 0).hosts
    for number in range(3):
        until_later(now_ms())
        hosts.put("team", f"m{number}", bytes([10, 0, 0, number]))

    found = [hosts.get("team", f"m{number}") for number in range(3)]
    os.close(segment.file)

    assert found == [None, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])]


@pytest.mark.spec("A7")
def test_a_host_is_not_stored_while_another_process_has_the_lock(segment: Segment) -> None:
    hosts = Member(segment, 0).hosts
    hosts.put("team", "m1", bytes([10, 0, 0, 1]))
    with in_another_process(segment, HOLDING_HOSTS) as holder:
        holder.stdout_line()
        stored = hosts.put("team", "m2", bytes([10, 0, 0, 2]))
        found = hosts.get("team", "m1")
        holder.kill()

    again = hosts.put("team", "m2", bytes([10, 0, 0, 2]))

    assert (stored, found, again) == (False, bytes([10, 0, 0, 1]), True)


def until_later(moment_ms: int) -> None:
    while now_ms() <= moment_ms:
        continue
