"""Clients that ask for much and read little: what they do not take must not pile up here."""

import asyncio
from typing import Any

from proxy.net.runtime.clock import now_ms
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.hostile.attack import Found, Size, attack
from tests.lab.hostile.client import Client, addresses, frame
from tests.lab.hostile.largest import Largest
from tests.lab.hostile.normal import batch, produce
from tests.lab.hostile.place import BIG_TOPIC, BOB, CAROL, ORDINARY, Scene
from tests.lab.hostile.target import Target

MANY_PARTITIONS = Scene("many-partitions", ORDINARY.changes, partitions=60_000)
BATCH_BYTES = 900_000


@attack()
async def responses_of_ours_that_nobody_reads(target: Target, size: Size, found: Found) -> None:
    """Pipelined denied requests whose responses are larger than they are; none is ever read."""
    data, _ = Largest(ApiKey.DESCRIBE_GROUPS, 5, "groups").frame(size.of(50_000, 500_000))
    await _unread(target, target.users[BOB], data * 10, size.of(10, 200), size, found)


@attack(only_long=True)
async def fetches_that_nobody_reads(target: Target, size: Size, found: Found) -> None:
    """Fetches of all the data there is, pipelined on several connections that never read."""
    user = target.users[CAROL]
    async with await Client.logged_in(target.address, user) as client:
        for _ in range(size.of(8, 40)):
            await client.ask(ApiKey.PRODUCE, 9, produce(BIG_TOPIC, batch(BATCH_BYTES)))
    one = frame(ApiKey.FETCH, 11, _fetch())
    await _unread(target, user, one * 50, size.of(10, 200), size, found)


@attack(MANY_PARTITIONS)
async def large_metadata_responses(target: Target, size: Size, found: Found) -> None:
    """A user who may describe all asks again and again for the metadata of 60,000 partitions."""
    found.logged_in = True
    one = frame(ApiKey.METADATA, 9, t.MetadataRequest(topics=None))

    async def ask() -> int:
        async with await Client.logged_in(target.address, target.users[CAROL]) as client:
            await client.send(one * size.of(3, 30))
            return await client.answers(size.of(3, 30))

    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(ask()) for _ in range(size.of(2, 8))]
    found.connections = len(asked)
    found.facts["answered"] = sum(each.result() for each in asked)


@attack(MANY_PARTITIONS, only_long=True)
async def large_metadata_responses_that_nobody_reads(target: Target, size: Size, found: Found) -> None:
    """The same, and none of it is read."""
    one = frame(ApiKey.METADATA, 9, t.MetadataRequest(topics=None))
    await _unread(target, target.users[CAROL], one * 20, size.of(10, 200), size, found)


async def _unread(target: Target, user: Any, data: bytes, count: int, size: Size, found: Found) -> None:
    clients = [await Client.logged_in(target.address, user, each) for each in addresses(count)]
    found.connections, found.logged_in = count, True
    for client in clients:
        client.deaf()
        client.writer.write(data)
    began_ms = now_ms()
    await asyncio.sleep(size.of(1, 30))
    found.facts |= {"connections": count, "stayed ms": now_ms() - began_ms}
    for client in clients:
        client.cut()


def _fetch() -> Any:
    request = t.FetchRequest
    partition = request.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50_000_000)
    topic = request.FetchTopic(topic=BIG_TOPIC, partitions=[partition])
    return request(max_wait_ms=100, min_bytes=1, max_bytes=50_000_000, topics=[topic])
