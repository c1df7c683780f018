"""The normal user, a process of its own: what it asks for, how long each answer took, and what went wrong.

    python -m tests.lab.hostile.normal TARGET.json SAMPLES

It produces small records on an open connection, logs in anew by SCRAM and by PLAIN, is denied a topic now and
then, and has an administrator beside it who creates and deletes an ACL. Each request is one line of JSON in
SAMPLES once it is over; tests.lab.hostile.judging reads them. It ends with SIGTERM.
"""

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import IO, Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings
from proxy.net.runtime.clock import now_ms
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.users import User, channel_settings
from tests.lab.hostile.target import PLAIN_USER, Target
from tests.support.two_sides import allow_request, withdraw_request

PRODUCE, LOGIN, PLAIN_LOGIN, DENIED, ADMIN = "produce", "login", "plain login", "denied", "administrator"
KINDS = (PRODUCE, LOGIN, PLAIN_LOGIN, DENIED, ADMIN)
PAUSES_S = {PRODUCE: 0.01, LOGIN: 0.4, PLAIN_LOGIN: 0.4, DENIED: 0.4, ADMIN: 0.5}
TIMEOUT_MS = 30_000
"""Kafka's request.timeout.ms: a client that waits longer has an error."""
VERSION = 9


class Wrong(Exception):
    """An answer other than the one a normal user gets."""


@dataclass(slots=True)
class NormalUser:
    """Everything it does, until cancelled."""

    target: Target
    samples: IO[str]

    async def work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._on_open_connection(PRODUCE, self.target.users["alice"], self._produce))
            tasks.create_task(self._on_open_connection(DENIED, self.target.users["alice"], self._denied))
            tasks.create_task(self._on_open_connection(ADMIN, self.target.users["admin"], self._administer))
            tasks.create_task(self._anew(LOGIN, self.target.users["alice"]))
            tasks.create_task(self._anew(PLAIN_LOGIN, self.target.users[PLAIN_USER]))

    async def _on_open_connection(
        self, kind: str, user: User, ask: Callable[[Channel, int], Awaitable[None]]
    ) -> None:
        """On one connection; where that ends, on another."""
        numbers = itertools.count()
        while True:
            async with (
                self._sampled(kind, of_setup=True),
                await Channel.open(self._endpoint(user)) as channel,
            ):
                while not channel.closed:
                    async with self._sampled(kind):
                        await ask(channel, next(numbers))
                    await asyncio.sleep(PAUSES_S[kind])
            await asyncio.sleep(PAUSES_S[kind])

    async def _anew(self, kind: str, user: User) -> None:
        while True:
            async with self._sampled(kind), await Channel.open(self._endpoint(user)) as channel:
                await self._produce(channel, 0)
            await asyncio.sleep(PAUSES_S[kind])

    @asynccontextmanager
    async def _sampled(self, kind: str, *, of_setup: bool = False) -> AsyncIterator[None]:
        """`of_setup`: only an error is of interest."""
        at_ms, began_ns, error = now_ms(), perf_counter_ns(), None
        try:
            yield
        except (ChannelError, Wrong, OSError) as fault:
            error = f"{type(fault).__name__}: {fault}"
        if error is not None or not of_setup:
            took = (perf_counter_ns() - began_ns) / 1e6
            self.samples.write(json.dumps({"at_ms": at_ms, "kind": kind, "ms": took, "error": error}) + "\n")
            self.samples.flush()

    async def _produce(self, channel: Channel, _number: int) -> None:
        await self._expect(channel, self.target.topic, ErrorCode.NONE)

    async def _denied(self, channel: Channel, _number: int) -> None:
        await self._expect(channel, "nobody-may-write", ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    async def _expect(self, channel: Channel, topic: str, code: ErrorCode) -> None:
        message = produce(topic, batch())
        answer = await channel.request(ApiKey.PRODUCE, VERSION, message, timeout_ms=TIMEOUT_MS)
        told = answer.responses[0].partition_responses[0].error_code
        if told != code:
            raise Wrong(f"produce to {topic}: error {told}")

    async def _administer(self, channel: Channel, number: int) -> None:
        """Make an ACL, and take it away with the next request."""
        name = f"made-by-admin-{number // 2}"
        if number % 2 == 0:
            made = await channel.request(
                ApiKey.CREATE_ACLS, 3, allow_request(name, "nobody"), timeout_ms=TIMEOUT_MS
            )
            code, said = made.results[0].error_code, made.results[0].error_message
        else:
            gone = await channel.request(
                ApiKey.DELETE_ACLS, 3, withdraw_request(name, "nobody"), timeout_ms=TIMEOUT_MS
            )
            result = gone.filter_results[0]
            code, said = result.error_code, result.error_message
            if code == 0 and len(result.matching_acls) != 1:
                raise Wrong(f"{len(result.matching_acls)} ACLs deleted, not 1")
        if code:
            raise Wrong(f"rejected: {code} {said}")

    def _endpoint(self, user: User) -> EndpointSettings:
        return channel_settings(user, self.target.address, client_id="normal", request_timeout_ms=TIMEOUT_MS)


def produce(topic: str, records: bytes) -> Any:
    """To partition 0, acknowledged by the leader."""
    request = t.ProduceRequest
    data = request.TopicProduceData(
        name=topic, partition_data=[request.PartitionProduceData(index=0, records=records)]
    )
    return request(acks=1, timeout_ms=TIMEOUT_MS, topic_data=[data])


def batch(size: int = 100) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, size + 1_000)
    assert builder.append(0, now_ms(), None, bytes(size), []) is not None
    return bytes(builder.build())


def main(target: Path, samples: Path) -> None:
    with samples.open("a", encoding="utf-8") as written:
        asyncio.run(NormalUser(Target.read(target), written).work())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
