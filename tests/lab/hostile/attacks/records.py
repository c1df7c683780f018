"""Requests that each leave a record: denials must be kept, and administrators must not be blocked."""

import asyncio

from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.hostile.attack import Found, Size, attack
from tests.lab.hostile.client import Client, frame
from tests.lab.hostile.place import BIG_TOPIC, BOB, CAROL, NARROW, NARROW_BYTES
from tests.lab.hostile.target import Target

AT_A_TIME = 200


@attack(NARROW)
async def changing_client_ids(target: Target, size: Size, found: Found) -> None:
    """Another client id in each request: that must not be a record for each (H5)."""

    def one(number: int) -> bytes:
        topic = t.MetadataRequest.MetadataRequestTopic(name=BIG_TOPIC)
        return frame(ApiKey.METADATA, 1, t.MetadataRequest(topics=[topic]), client_id=f"c{number}")

    await _many(target, CAROL, size.of(3_000, 60_000), found, one)


@attack(NARROW)
async def descriptions_of_tokens(target: Target, size: Size, found: Found) -> None:
    """To look at one's own tokens is no administrative change, however often (H5)."""
    data = frame(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, t.DescribeDelegationTokenRequest(owners=[]))
    await _many(target, BOB, size.of(10_000, 60_000), found, lambda _: data)


@attack(NARROW)
async def a_flood_of_denials(target: Target, size: Size, found: Found) -> None:
    """One user's denied requests: no other user's denial is lost by it, no administrator is blocked (H5)."""

    def one(number: int) -> bytes:
        message = t.DescribeGroupsRequest(groups=[f"group-{number}"])
        return frame(ApiKey.DESCRIBE_GROUPS, 4, message)

    await _many(target, BOB, size.of(3_000, 60_000), found, one)


async def _many(target: Target, user: str, count: int, found: Found, one: object) -> None:
    assert callable(one)
    found.logged_in, found.memory_bytes = True, NARROW_BYTES
    answered = 0
    async with await Client.logged_in(target.address, target.users[user]) as client:
        for first in range(0, count, AT_A_TIME):
            await client.send(b"".join(one(number) for number in range(first, first + AT_A_TIME)))
            answered += await client.answers(AT_A_TIME)
            await asyncio.sleep(0)
    found.facts["answered"] = answered
