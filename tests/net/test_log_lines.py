"""Log lines of processes whose standard error is blocked, full or flooded: lines are lost, nothing else."""

import asyncio
import json
import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest
import structlog

from proxy.net.telemetry import log_lines
from proxy.net.telemetry.log_lines import FAILED, FULL, LINES_A_SECOND, LogQueue, Sampling
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.support.edges import on_uvloop
from tests.support.lone_processes import LoneProcess, a_lone

pytestmark = pytest.mark.spec("O6", "O8")

DROPPED = "penstock_log_lines_dropped_total"
BAD_FRAME = (9).to_bytes(4, "big") + b"\xff" * 9
_BETWEEN_LOOKS = Event()


@contextmanager
def a_full_pipe() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe that takes nothing more."""
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    try:
        while True:
            os.write(writes, b"\n" * 4096)
    except BlockingIOError:
        os.set_blocking(writes, True)
    try:
        yield reads, writes
    finally:
        os.close(reads)
        os.close(writes)


async def is_harassed(lone: LoneProcess, times: int) -> None:
    """By strangers who send what is no request."""
    for _ in range(times):
        stranger = await lone.client()
        stranger.writer.write(BAD_FRAME)
        await stranger.is_cut_off()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["proxy", "controller"])
@on_uvloop
async def test_nobody_reads_standard_error_and_the_process_serves_and_ends(
    command: str, tmp_path: Path
) -> None:
    with a_full_pipe() as (_reads, writes):
        async with a_lone(command, tmp_path, writes) as lone:
            client = await lone.logs_in()
            await is_harassed(lone, 400)
            client.asks(ApiKey.API_VERSIONS, 0, t.ApiVersionsRequest())
            assert (await client.hears(ApiKey.API_VERSIONS, 0)).error_code == 0
            client.leaves()

            assert await lone.stops() == 0


@pytest.mark.slow
@pytest.mark.parametrize("command", ["proxy", "controller"])
@on_uvloop
async def test_standard_error_is_a_full_disk_and_the_process_starts_serves_and_ends(
    command: str, tmp_path: Path
) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        async with a_lone(command, tmp_path, full) as lone:
            (await lone.logs_in()).leaves()
            await lone.metric(f'{DROPPED}{{reason="write_failed"}}', lambda lost: lost > 0)
            (await lone.logs_in()).leaves()

            assert await lone.stops() == 0
    finally:
        os.close(full)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["proxy", "controller"])
@on_uvloop
async def test_lines_that_strangers_cause_are_sampled_and_the_rest_is_counted(
    command: str, tmp_path: Path
) -> None:
    async with a_lone(command, tmp_path) as lone:
        since_s = asyncio.get_running_loop().time()
        await is_harassed(lone, 200)
        seconds = int(asyncio.get_running_loop().time() - since_s) + 2
        sampled = await lone.metric(f'{DROPPED}{{reason="sampled"}}', lambda lines: lines > 0)
        assert await lone.stops() == 0
        lines = [json.loads(line) for line in lone.output.read_text(encoding="utf-8").splitlines()]

    refused = [line for line in lines if line["event"] == "request_refused"]
    assert 0 < len(refused) <= seconds * LINES_A_SECOND
    assert {line["level"] for line in refused} <= {"warning", "info"}
    suppressed = sum(line.get("suppressed", 0) for line in lines)
    assert suppressed <= sampled


def settled(queue: LogQueue, lost: int) -> None:
    for _ in range(1_000):
        if queue.lost.total() == lost:
            return
        _BETWEEN_LOOKS.wait(0.01)
    raise AssertionError(queue.lost)


def is_readable(descriptor: int, within_s: float) -> bool:
    # Not select(), which takes no descriptor above 1023.
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(within_s * 1_000))


def read_until(descriptor: int, end: bytes) -> bytes:
    text = b""
    while not text.endswith(end):
        assert is_readable(descriptor, 20), text
        text += os.read(descriptor, 65_536)
    return text.lstrip(b"\n")


def test_a_full_queue_loses_lines_and_says_how_many_when_it_is_read_again() -> None:
    with a_full_pipe() as (reads, writes):
        queue = LogQueue(writes, lambda lost: f"lost {lost}\n", max_bytes=20)
        for number in range(10):
            queue.write(f"line {number}\n")

        assert dict(queue.lost) == {FULL: 8}
        assert read_until(reads, b"lost 8\n") == b"line 0\nline 1\nlost 8\n"
        queue.finish(10)


def test_lines_that_follow_a_written_one_wait_for_the_end_of_the_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses, ends = Event(), Event()

    def pause(duration_s: float) -> None:
        pauses.set()
        ends.wait(20)

    monkeypatch.setattr(log_lines, "time", SimpleNamespace(sleep=pause))
    reads, writes = os.pipe()
    queue = LogQueue(writes, lambda lost: "")
    queue.write("first\n")
    assert pauses.wait(20)
    assert os.read(reads, 100) == b"first\n"
    queue.write("second\n")
    queue.write("third\n")
    assert not is_readable(reads, 0)
    ends.set()
    queue.finish(5)
    assert os.read(reads, 100) == b"second\nthird\n"
    os.close(reads)
    os.close(writes)


def test_a_line_that_cannot_be_written_is_lost_and_half_a_line_gets_its_end() -> None:
    reads, writes = os.pipe()
    full = os.open("/dev/full", os.O_WRONLY)
    spare = os.dup(writes)
    queue = LogQueue(spare, lambda lost: f"lost {lost}\n")
    queue.write("first\n")
    assert read_until(reads, b"first\n") == b"first\n"
    os.dup2(full, spare)
    queue.write("second\n")
    settled(queue, 1)
    os.dup2(writes, spare)
    queue.write("third\n")

    assert read_until(reads, b"lost 1\n") == b"third\nlost 1\n"
    assert dict(queue.lost) == {FAILED: 1}
    queue.finish(10)
    for descriptor in (reads, writes, full, spare):
        os.close(descriptor)


def test_the_end_of_the_process_waits_for_blocked_lines_only_for_a_while() -> None:
    with a_full_pipe() as (reads, writes):
        queue = LogQueue(writes, str)
        queue.write("line\n")
        queue.finish(0.05)

        assert read_until(reads, b"line\n") == b"line\n"
        queue.finish(10)


def test_some_lines_of_an_event_are_written_each_second_and_the_next_says_how_many_were_not() -> None:
    moment_ms = 5_000
    sampling = Sampling(lambda: moment_ms)

    def lines(event: str, count: int, **fields: object) -> list[dict[str, object]]:
        written = []
        for _ in range(count):
            try:
                written.append(dict(sampling(None, "info", {"event": event, **fields})))
            except structlog.DropEvent:
                continue
        return written

    assert lines("a", 50, stranger=True) == [{"event": "a"}] * LINES_A_SECOND
    assert lines("b", 1, stranger=True) == [{"event": "b"}]
    assert len(lines("a", 50)) == len(lines("a", 50, stranger=False)) == 50
    moment_ms += 1_000
    assert lines("a", 2, stranger=True) == [{"event": "a", "suppressed": 40}, {"event": "a"}]
    assert sampling.suppressed == 40
