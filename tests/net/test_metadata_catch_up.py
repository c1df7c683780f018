"""Catching up with the metadata topic over a connection that ends in between: nothing read is lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from proxy.metadata.loader import Loader
from proxy.net.kafka.channel import ChannelError
from proxy.net.metadata import topic_feed
from proxy.net.metadata.topic_feed import PartitionLeader, TopicFeed
from proxy.net.runtime.reachability import Reachability
from tests.support.metadata_log import acl, acl_record, values


def batch(offset: int, value: bytes) -> bytes:
    """A batch of one record at that offset, as a broker stores it."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 10_000)
    builder.append(0, None, None, value, [])
    encoded = bytearray(builder.build())
    encoded[:8] = offset.to_bytes(8, "big")
    return bytes(encoded)


class Log:
    """A partition whose leader hangs up, or sends damaged bytes, when it is asked for these offsets first."""

    def __init__(self, batches: list[bytes], hangs_up_at: int | None = None) -> None:
        self.batches = batches
        self._hangs_up_at = hangs_up_at

    async def start_offset(self) -> int:
        return 0

    async def stable_offset(self) -> int:
        return len(self.batches)

    async def fetch(self, offset: int) -> bytes:
        if offset == self._hangs_up_at:
            self._hangs_up_at = None
            raise ChannelError("hung up")
        if offset >= len(self.batches):
            await asyncio.Event().wait()
        return self.batches[offset]


async def loaded_from(log: Any, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the ACLs that a feed has once it is loaded."""

    @asynccontextmanager
    async def at_leader(_endpoint: Any, _topic: str) -> AsyncIterator[Any]:
        yield log, PartitionLeader(bytes(16), "localhost", 1)

    monkeypatch.setattr(topic_feed, "at_leader", at_leader)
    loader = Loader(lambda _image, _changed: None)
    feed = TopicFeed(None, "metadata", loader)  # type: ignore[arg-type]
    feed.reachability = Reachability("up", "down", 1)
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        run = tasks.create_task(feed.run())
        await feed.loaded.wait()
        run.cancel()
    return {each.resource_name for each in loader.image.acls.by_id.values()}


@pytest.mark.spec("S2", "S3", "O8")
async def test_what_was_read_before_a_connection_ended_is_applied_after_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batches = [batch(n, values(acl_record(acl(f"t{n}")))[0]) for n in range(3)]

    assert await loaded_from(Log(batches, hangs_up_at=2), monkeypatch) == {"t0", "t1", "t2"}


@pytest.mark.spec("S2", "S3")
async def test_batches_before_a_damaged_one_are_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [batch(n, values(acl_record(acl(f"t{n}")))[0]) for n in range(3)]
    damaged = bytearray(batches[1])
    damaged[-1] ^= 1

    class Damaged(Log):
        """Sends the first two batches at once, the second damaged on its first way."""

        async def fetch(self, offset: int) -> bytes:
            return self.batches[0] + damaged if offset == 0 else await super().fetch(offset)

    assert await loaded_from(Damaged(batches), monkeypatch) == {"t0", "t1", "t2"}
