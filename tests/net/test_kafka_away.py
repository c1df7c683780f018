"""Kafka is away while records are made, and processes are killed meanwhile: then it has them all, in order.

`make kafka-away AWAY=600000` does it with an hour's worth of records, and says how long the topic takes.
"""

import os
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from proxy.net.audit.shipper import BATCH_LINES
from proxy.net.audit.spool_files import segments
from tests.lab.cluster.broker import Broker, BrokerSettings
from tests.lab.cluster.process import ChildProcess
from tests.support.audit_topic import boots, lines

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("D3")]

RECORDS = int(os.environ.get("PENSTOCK_AWAY_RECORDS", "18000"))
TIMEOUT_S = max(120, RECORDS // 500)
PEAK_KIB = 220_000
"""Python, our packages, the queue, a segment's bytes and a batch; not the records of an outage."""


@pytest.fixture(scope="module")
def absent(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """It has an address, and nobody is there yet."""
    broker = Broker(kafka_libs, BrokerSettings(directory=tmp_path_factory.mktemp("away"), heap_mb=384))
    yield broker
    broker.stop()


def a_process(directory: Path, broker: Broker, count: int, boot_id: str) -> ChildProcess:
    module = ["-m", "tests.support.audit_child"]
    arguments = [str(directory / "spool"), broker.plaintext, str(count), boot_id]
    return ChildProcess(boot_id, [sys.executable, *module, *arguments], directory / f"{boot_id}.log")


def said(process: ChildProcess, word: str) -> list[list[str]]:
    told = [line.split() for line in process.log_text().splitlines()]
    return [line for line in told if line and line[0] == word]


def until_appended(process: ChildProcess, count: int) -> None:
    process.wait_until(
        lambda: any(int(line[1]) >= count for line in said(process, "appended")), TIMEOUT_S * 1_000
    )


def test_all_records_of_an_outage_arrive_in_order_whoever_was_killed_meanwhile(
    absent: Broker, tmp_path: Path
) -> None:
    part = RECORDS // 3
    first, second, third = (a_process(tmp_path, absent, part, f"boot-{n}") for n in (1, 2, 3))
    for process in (first, second):
        process.start()
        until_appended(process, part * 2 // 3)
        process.kill()
    third.start()
    fourth = a_process(tmp_path, absent, 1, "boot-4")
    try:
        until_appended(third, part)
        assert len(segments(tmp_path / "spool")) >= 3

        absent.start()
        third.wait_until(lambda: bool(said(third, "shipping")), TIMEOUT_S * 1_000)
        third.kill()
        fourth.start()
        # Not until it has said so: it may have ended by then.
        assert fourth.wait(TIMEOUT_S * 1_000) == 0
    finally:
        third.stop()
        fourth.stop()

    tell(fourth)
    found = lines(absent.plaintext, "away")
    assert len(found) - len(set(found)) <= BATCH_LINES, "twice is what was not noted down at the kill"
    whole = boots(absent.plaintext, "away")
    assert [boot.missing for boot in whole] == [[], [], [], []]
    assert len(whole[2].of("authorization")) == part
    for before, after in pairwise(whole):
        assert len(before.facts) > part * 2 // 3
        assert after.previous is not None
        boot_id, sequence, _ = after.previous.split("/")
        assert (boot_id, int(sequence)) == (before.facts[0]["boot_id"], before.facts[-1]["sequence"])
    assert len(segments(tmp_path / "spool")) <= 2, "what was shipped is gone"


def tell(process: ChildProcess) -> None:
    """How it went, for who runs it by hand; the peak is asserted."""
    ((_, seconds, peak_kib, cpu_ms, wall_ms),) = said(process, "shipped")
    sys.stdout.write(
        f"{RECORDS} records: {seconds} s, peak {int(peak_kib) // 1024} MiB, "
        f"the loop held for {cpu_ms} ms of its own time at most, {wall_ms} ms by the clock\n"
    )
    assert int(peak_kib) < PEAK_KIB
