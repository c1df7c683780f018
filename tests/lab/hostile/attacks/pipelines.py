"""Many requests in flight, and requests of more elements than the limit: what each of them may cost."""

import asyncio
from contextlib import suppress
from itertools import islice

from proxy.wire import catalog
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.hostile.attack import Found, Size, attack
from tests.lab.hostile.attacks.produces import allow, disallow, end_of
from tests.lab.hostile.client import Client, frame
from tests.lab.hostile.largest import Largest, all_largest
from tests.lab.hostile.normal import batch, produce
from tests.lab.hostile.place import BIG_TOPIC, BOB, MALLORY
from tests.lab.hostile.target import Target

IN_FLIGHT = 1_000
AT_THE_BROKER = 64
"""Requests of one connection that may be at the broker when a right is withdrawn."""
ELEMENTS = 50_001
_SOME_BYTES = 20_000


@attack()
async def a_revocation_in_a_pipelined_stream(target: Target, size: Size, found: Found) -> None:
    """1,000 produces in flight: after DeleteAcls is acknowledged few more are written."""
    found.logged_in = True
    mallory = target.users[MALLORY]
    one = frame(ApiKey.PRODUCE, 9, produce(BIG_TOPIC, batch(1_000)))
    async with (
        await Client.logged_in(target.address, target.users["admin"]) as root,
        await Client.logged_in(target.address, mallory) as client,
    ):
        most = 0
        for _ in range(size.of(2, 10)):
            await allow(root, mallory)
            free = asyncio.Semaphore(IN_FLIGHT)

            async def ask(free: asyncio.Semaphore = free) -> None:
                while await free.acquire() and await client.send(one):
                    pass

            async def hear(free: asyncio.Semaphore = free) -> None:
                while True:
                    await client.answer()
                    free.release()

            async with asyncio.TaskGroup() as tasks:
                both = [tasks.create_task(ask()), tasks.create_task(hear())]
                await asyncio.sleep(1)
                await disallow(root, mallory)
                written = await end_of(root)
                both[0].cancel()
                await asyncio.sleep(2)
                both[1].cancel()
            most = max(most, await end_of(root) - written)
    found.facts["written after"] = most
    if most > AT_THE_BROKER:
        found.faults.append(f"{most} produces were written after DeleteAcls was acknowledged")


@attack()
async def more_elements_than_the_limit(target: Target, size: Size, found: Found) -> None:
    """Each array of each API with 50,001 elements: an error where the API has one, and an open connection."""
    found.logged_in = True
    versions = frame(ApiKey.API_VERSIONS, 2, t.ApiVersionsRequest())
    for largest in islice(all_largest(of_each=size.of(1, 100)), 0, None, size.of(3, 1)):
        _, count = largest.frame(_SOME_BYTES)
        data, count = largest.frame(_SOME_BYTES * ELEMENTS // count + _SOME_BYTES)
        async with await Client.logged_in(target.address, target.users[BOB]) as client:
            await client.send(data)
            answers = 0
            with suppress(TimeoutError):
                async with asyncio.timeout(size.patience_s):
                    answers = await client.answers(1)
            if answers:
                await client.send(versions)
                answers += await client.answers(1)
        if answers != 2 and _has_error(largest):
            found.faults.append(f"{largest.name} with {count} elements: the connection was closed")
        key = ("closed", "answered, then closed", "answered")[answers]
        found.facts[key] = int(found.facts.get(key, 0)) + 1


def _has_error(largest: Largest) -> bool:
    """One for the whole request, in this version."""
    fields = catalog.response(largest.api_key).root.present(largest.version)
    return any(field.attribute == "error_code" for field in fields)
