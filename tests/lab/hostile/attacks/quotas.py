"""What a quota is to protect, and who means to get round it: memory, uncharged bytes, reads for nothing."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import decode_response_header
from tests.lab.cluster.settings import AUDIT_TOPIC
from tests.lab.hostile.asking_broker import log_bytes
from tests.lab.hostile.attack import Found, Size, attack
from tests.lab.hostile.client import Client, frame
from tests.lab.hostile.normal import batch, produce
from tests.lab.hostile.place import BIG_TOPIC, BOB, CAROL
from tests.lab.hostile.target import Target

MIB = 1024 * 1024
LONG_NAME = 32_000
LIMIT = 100_000
WINDOW_S = 10
RECORD_BYTES = 900_000
SETTLED_S = 4.0
"""Summaries are written every two seconds (summary.interval.ms), and shipped after that."""


@attack()
async def many_long_client_ids(target: Target, size: Size, found: Found) -> None:
    """A user without any right names another client of 32 kB in each request, under a quota per client id."""
    found.logged_in, found.memory_bytes = True, 16 * MIB
    message = t.MetadataRequest(topics=[], allow_auto_topic_creation=False)
    async with (
        _quota(target, BOB, None, producer_byte_rate=1e9),
        await Client.logged_in(target.address, target.users[BOB]) as client,
    ):
        for number in range(size.of(4_000, 12_000)):
            name = f"{number}-".ljust(LONG_NAME, "x")
            await client.send(frame(ApiKey.METADATA, 9, message, client_id=name))
            await client.answer()
            found.facts["answered"] = number + 1


@attack()
async def produces_of_connections_that_close(target: Target, size: Size, found: Found) -> None:
    """Connections that close as soon as their produce is sent: what is written is charged all the same."""
    found.logged_in, found.connections = True, 2
    user, client_id = target.users[CAROL], "closing"
    one = frame(ApiKey.PRODUCE, 9, produce(BIG_TOPIC, batch(RECORD_BYTES)), client_id=client_id)
    before = log_bytes(target.broker)[BIG_TOPIC]
    async with _quota(target, CAROL, client_id, producer_byte_rate=LIMIT):
        for _ in range(size.of(5, 20)):
            async with await Client.logged_in(target.address, user) as client:
                await client.send(one)
                client.writer.close()
                await client.writer.wait_closed()
        written = await _settled(lambda: log_bytes(target.broker)[BIG_TOPIC]) - before
        async with await Client.logged_in(target.address, user) as client:
            await client.send(frame(ApiKey.PRODUCE, 9, produce(BIG_TOPIC, batch()), client_id=client_id))
            told_ms = _decoded(ApiKey.PRODUCE, 9, await client.answer()).throttle_time_ms
    charged = LIMIT * (WINDOW_S + told_ms / 1_000)
    found.facts |= {"written": written, "charged": charged}
    if written > RECORD_BYTES and charged < 0.9 * written:
        found.faults.append(f"{written} bytes were written, {charged:.0f} charged")


@attack(only_long=True)
async def throttled_consumers_that_keep_asking(target: Target, size: Size, found: Found) -> None:
    """Consumers of one user: what is read from the broker is about what its quota lets be delivered."""
    user, client_id, count = target.users[CAROL], "asking", size.of(10, 80)
    found.logged_in, found.connections = True, count
    async with await Client.logged_in(target.address, user) as client:
        for _ in range(10):
            await client.ask(ApiKey.PRODUCE, 9, produce(BIG_TOPIC, batch(RECORD_BYTES)))
    one = frame(ApiKey.FETCH, 11, _fetch(), client_id=client_id)
    delivered = 0

    async def ask(client: Client) -> None:
        nonlocal delivered
        while await client.send(one):
            answer = await client.answer()
            delivered += len(answer)  # Not in one line, which reads `delivered` before it waits.

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(_quota(target, CAROL, client_id, consumer_byte_rate=1e6))
        clients = [
            await stack.enter_async_context(await Client.logged_in(target.address, user))
            for _ in range(count)
        ]
        before = _received(target.proxied)
        try:
            async with asyncio.timeout(size.of(10, 40)), asyncio.TaskGroup() as tasks:
                for client in clients:
                    tasks.create_task(ask(client))
        except TimeoutError:
            read = _received(target.proxied) - before
        found.facts |= {"delivered": delivered, "read from the broker": read}
    if read > 2 * delivered + 2 * MIB:
        found.faults.append(f"{read} bytes were read from the broker to deliver {delivered}")


@attack()
async def metadata_of_many_missing_names(target: Target, size: Size, found: Found) -> None:
    """One Metadata request with many permitted names that do not exist: its trail has a bound."""
    found.logged_in = True
    names = [f"missing-{number}-{'n' * 12}" for number in range(size.of(5_000, 20_000))]
    topics = [t.MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    data = frame(ApiKey.METADATA, 9, t.MetadataRequest(topics=topics, allow_auto_topic_creation=False))
    before = log_bytes(target.broker)[AUDIT_TOPIC]
    async with await Client.logged_in(target.address, target.users[CAROL]) as client:
        await client.send(data)
        await client.answers(1)
    await asyncio.sleep(SETTLED_S)
    written = log_bytes(target.broker)[AUDIT_TOPIC] - before
    found.facts |= {"request bytes": len(data), "audit bytes": written}
    if written > 2 * MIB + 4 * len(data):
        found.faults.append(f"a request of {len(data)} bytes made the trail write {written}")


@asynccontextmanager
async def _quota(target: Target, user: str, client_id: str | None, **limits: float) -> AsyncIterator[None]:
    """For that user with that client id, or with any; gone at the end."""
    await _alter_quota(target, user, client_id, limits)
    try:
        yield
    finally:
        await _alter_quota(target, user, client_id, dict.fromkeys(limits))


async def _alter_quota(target: Target, user: str, client_id: str | None, limits: Any) -> None:
    request = t.AlterClientQuotasRequest
    entity = [
        request.EntityData(entity_type=kind, entity_name=name)
        for kind, name in (("user", user), ("client-id", client_id))
    ]
    ops = [request.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in limits.items()]
    message = request(entries=[request.EntryData(entity=entity, ops=ops)])
    async with await Client.logged_in(target.address, target.users["admin"]) as admin:
        told = await admin.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, message)
    assert told.entries[0].error_code == 0, told


async def _settled(measure: Callable[[], int]) -> int:
    """Once it is the same a second later."""
    last, now = -1, measure()
    while now != last:
        await asyncio.sleep(1.0)
        last, now = now, measure()
    return now


def _received(address: str) -> int:
    """The bytes that this machine's open connections to that address have received."""
    told = subprocess.run(["ss", "-tinH", "dst", address], capture_output=True, text=True, check=True).stdout
    words = (word.partition(":") for word in told.split())
    return sum(int(value) for name, _, value in words if name == "bytes_received")


def _decoded(api_key: int, version: int, answer: bytes) -> Any:
    _, offset = decode_response_header(api_key, version, answer)
    return codecs.response(api_key, version).decode(answer, offset)[0]


def _fetch() -> Any:
    request = t.FetchRequest
    partition = request.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MIB)
    topic = request.FetchTopic(topic=BIG_TOPIC, partitions=[partition])
    return request(max_wait_ms=100, min_bytes=1, max_bytes=MIB, session_epoch=-1, topics=[topic])
