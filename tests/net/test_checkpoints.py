"""Checkpoints of a process: when it signs them, with which key, and what a witness outside gets."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from proxy.audit import events
from proxy.audit.chain import Chain
from proxy.audit.checkpoints import Checkpoint, SignedNote, Signer, StateInEffect
from proxy.audit.record import Author
from proxy.net.audit import outside_witness
from proxy.net.audit.audit_log import AuditLog
from proxy.net.audit.capacity import AuditPolicy
from proxy.net.audit.outside_witness import WitnessTopic
from proxy.net.audit.spool import Spool
from proxy.net.audit.writer import LOOK_S
from proxy.net.pages.audit_page import concerns
from proxy.wire.error_codes import ErrorCode
from tests.net.test_audit_log_and_http import Sink
from tests.support.controllers import endpoint_of
from tests.support.fake_audit_topic import FakeAuditTopic, Fault
from tests.support.signing import public_key, signing_key
from tests.support.waiting import turns_until

pytestmark = pytest.mark.spec("D14")

AUTHOR = Author(role="proxy", proxy_id="proxy-1", boot_id="cafe")
NOW_MS = 1_795_435_200_000
STATE = StateInEffect("__penstock_metadata", 7, b"d" * 32)


def an_audit_log(
    directory: Path, now_ms: Any = lambda: NOW_MS, kind: type[Spool] = Spool, **policy: Any
) -> AuditLog:
    settings = AuditPolicy(fsync_interval_ms=10, **({"signing_key": signing_key("proxy-1")} | policy))
    audit = AuditLog(AUTHOR, kind(directory / "spool", 1 << 20), Sink(), now_ms, settings)  # type: ignore[arg-type]
    audit.state = lambda: STATE
    return audit


def written(audit: AuditLog) -> list[dict[str, Any]]:
    """The records of a log that was closed."""
    assert isinstance(audit.delivery, Sink)
    return [json.loads(line) for line in audit.delivery.lines]


def checked(record: dict[str, Any], key: str = "proxy-1") -> Checkpoint:
    """What a checkpoint says, with a signature of this key."""
    note = SignedNote.parse(record["data"]["message"])
    assert note is not None
    assert note.signer("proxy-1", [public_key("proxy-1", key)]) is not None
    found = Checkpoint.parse(note.text)
    assert found is not None
    return found


async def test_the_start_and_the_end_of_a_boot_are_signed(tmp_path: Path) -> None:
    audit = an_audit_log(tmp_path)
    audit.start({})
    audit.append(events.stopped())
    await audit.close(1_000)

    records = written(audit)
    assert [each["data"]["event"] for each in records] == ["started", "checkpoint", "checkpoint", "stopped"]
    assert records[0]["data"]["settings"]["audit.chain"] == "sha256"
    first, last = checked(records[1]), checked(records[2])
    assert first == Checkpoint("proxy-1", "cafe", 1, records[0]["chain"], NOW_MS, STATE)
    assert last == Checkpoint("proxy-1", "cafe", 2, records[1]["chain"], NOW_MS, STATE, stops=True)
    assert records[1]["data"]["metadata_offset"] == 7
    end = Checkpoint.parse(audit.end)
    assert end is not None
    assert (end.size, end.link) == (4, records[3]["chain"])


class SlowToClose(Spool):
    """On a disk that takes long to sync."""

    synced = threading.Event()

    def close(self) -> None:
        self.synced.wait(5)
        super().close()


@pytest.mark.spec("D2")
async def test_nothing_follows_the_end_of_a_boot(tmp_path: Path) -> None:
    audit = an_audit_log(tmp_path, kind=SlowToClose)
    audit.start({})
    assert await audit.wait_until_durable()
    for segment in (tmp_path / "spool").glob("*.spool"):
        segment.unlink()
    audit.append(events.stopped())
    asyncio.get_running_loop().call_later(4 * LOOK_S, SlowToClose.synced.set)

    await audit.close(1_000)

    assert [loss.fault for loss in audit.spool.losses] == ["removed"]
    assert [each["data"]["event"] for each in written(audit)] == [
        *("started", "checkpoint", "checkpoint", "stopped")
    ]
    assert audit.sequence == 4


async def test_before_there_is_a_record_in_the_log_a_checkpoint_has_no_state(tmp_path: Path) -> None:
    audit = an_audit_log(tmp_path)
    for state in (None, STATE._replace(offset=-1)):
        audit.state = repeat(state).__next__
        audit.sign_checkpoint()
    await audit.close(1_000)

    records = written(audit)
    assert [checked(each).state for each in records] == [None, None]
    assert [each["data"]["metadata_offset"] for each in records] == [None, None]


async def test_each_minute_is_signed_also_by_a_new_key(tmp_path: Path) -> None:
    moment = [NOW_MS]
    audit = an_audit_log(tmp_path, lambda: moment[0])
    audit.start({})
    sink = audit.delivery
    assert isinstance(sink, Sink)
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(audit.run())
        await sink.has(2)
        moment[0] += 60_000
        await sink.has(4)
        audit.reconfigure(AuditPolicy(fsync_interval_ms=10, signing_key=signing_key("second")))
        await sink.has(5)
        moment[0] += 60_000
        await sink.has(7)
        run.cancel()

    records = [json.loads(line) for line in sink.lines]
    assert [each["data"]["event"] for each in records] == [
        *("started", "checkpoint", "high_water", "checkpoint", "checkpoint", "high_water", "checkpoint")
    ]
    assert [checked(records[place]).size for place in (1, 3)] == [1, 3]
    assert [checked(records[place], "second").size for place in (4, 6)] == [4, 6]
    await audit.close(1_000)


async def test_without_a_key_nothing_is_signed_and_the_end_has_its_old_form(tmp_path: Path) -> None:
    audit = an_audit_log(tmp_path, signing_key=None)
    assert audit.end == f"proxy-1/cafe/-1/{Chain(AUTHOR.key).last}"
    audit.start({})
    audit.append(events.witnessed(message=f"proxy-2/b007/3/{'ab' * 32}"))
    audit.append(events.stopped())
    await audit.close(1_000)

    records = written(audit)
    assert [each["data"]["event"] for each in records] == ["started", "witnessed", "stopped"]
    assert audit.end == f"proxy-1/cafe/2/{records[2]['chain']}"


async def test_what_is_witnessed_is_cosigned(tmp_path: Path) -> None:
    other = an_audit_log(tmp_path / "other")
    audit = an_audit_log(tmp_path, signing_key=signing_key("witness"))
    end = other.end
    audit.append(events.witnessed(message=end))
    audit.append(events.witnessed(message=f"proxy-2/b007/3/{'ab' * 32}"))
    await audit.close(1_000)

    cosigned, plain = (each["data"]["message"] for each in written(audit))
    assert cosigned.startswith(end)
    assert cosigned == Signer("proxy-1", signing_key("witness")).cosigned(end, NOW_MS)
    assert plain == f"proxy-2/b007/3/{'ab' * 32}"


async def test_a_directory_outside_has_the_last_checkpoint_of_the_boot(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    audit = an_audit_log(tmp_path, witness=str(outside))
    audit.start({})
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(audit.run())
        await turns_until(lambda: (outside / "proxy-1.cafe.checkpoint").exists())
        run.cancel()
    audit.append(events.stopped())
    await audit.close(1_000)

    [path] = outside.iterdir()
    assert path.name == "proxy-1.cafe.checkpoint"
    assert path.read_text() == audit.end
    assert audit.faults["witness"] == 0


async def test_a_directory_that_is_gone_is_counted_and_named_and_stops_nothing(tmp_path: Path) -> None:
    audit = an_audit_log(tmp_path, witness=str(tmp_path / "gone"))
    audit.start({})
    await audit.close(1_000)

    assert audit.faults["witness"] == 1
    [said] = [each for each in concerns(audit) if "witness" in each]
    assert said.startswith("the witness does not get the checkpoints: ")
    assert "No such file" in said
    assert [each["data"]["event"] for each in written(audit)] == ["started", "checkpoint"]


@asynccontextmanager
async def a_server(status: str) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Respond with this status, and keeps what it is sent; without a status it never responds."""
    got: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        [length] = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        got.append(head + await reader.readexactly(int(length.split(b":")[1])))
        if status:
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
        else:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/checkpoints", got


async def test_a_url_gets_the_checkpoint_as_the_body_of_a_post(tmp_path: Path) -> None:
    async with a_server("204 No Content") as (url, got):
        audit = an_audit_log(tmp_path, witness=url)
        audit.start({})
        await audit.close(5_000)

    [request] = got
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /checkpoints HTTP/1.1\r\n")
    assert body.decode() == audit.end
    assert audit.faults["witness"] == 0


@pytest.mark.parametrize(
    ("status", "timeout_ms", "reason"),
    [("507 Insufficient Storage", 5_000, "HTTP status 507"), ("", 100, "no response within 0.1 s")],
)
async def test_a_url_that_does_not_take_it_is_counted_and_named(
    tmp_path: Path, status: str, timeout_ms: int, reason: str
) -> None:
    async with a_server(status) as (url, _):
        audit = an_audit_log(tmp_path, witness=url)
        audit.start({})
        await audit.close(timeout_ms)

    assert audit.faults["witness"] == 1
    assert f"the witness does not get the checkpoints: {reason}" in concerns(audit)


async def test_a_topic_of_another_cluster_gets_the_checkpoint_as_a_record(tmp_path: Path) -> None:
    topic = FakeAuditTopic()
    async with topic.broker:
        audit = an_audit_log(tmp_path, witness=WitnessTopic(endpoint_of(topic.broker.address), "ends"))
        audit.start({})
        await audit.close(5_000)

    assert topic.values == [audit.end.encode()]
    assert audit.faults["witness"] == 0


async def test_a_topic_that_refuses_the_checkpoint_gets_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outside_witness, "RETRY_S", 0.0)
    topic = FakeAuditTopic()
    topic.fails(
        Fault(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, True), Fault(ErrorCode.INVALID_RECORD, False)
    )
    async with topic.broker:
        audit = an_audit_log(tmp_path, witness=WitnessTopic(endpoint_of(topic.broker.address), "ends"))
        audit.start({})
        async with asyncio.TaskGroup() as tasks:
            run = tasks.create_task(audit.run())
            await turns_until(lambda: audit.faults["witness"] == 2 and audit.witness.cause is None)
            run.cancel()
        await audit.close(5_000)

    # The first was appended, although the broker responded with an error: it does not replace the next one.
    assert len(topic.values) == 3
    assert topic.values[-1] == audit.end.encode()


async def test_a_witness_that_failed_is_tried_again_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outside_witness, "RETRY_S", 0.0)
    outside = tmp_path / "outside"
    audit = an_audit_log(tmp_path, witness=str(outside))
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(audit.run())
        await turns_until(lambda: audit.faults["witness"] > 0)
        outside.mkdir()
        await turns_until(lambda: audit.witness.cause is None)
        run.cancel()
    assert (outside / "proxy-1.cafe.checkpoint").exists()
    await audit.close(1_000)
