"""Produce requests of which the last byte comes late: the decision of the first one has an end (M1)."""

import asyncio
from contextlib import suppress
from typing import Any

from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import decode_response_header
from tests.lab.cluster.users import User
from tests.lab.hostile.attack import Found, Size, attack
from tests.lab.hostile.client import Client, frame
from tests.lab.hostile.normal import batch, produce
from tests.lab.hostile.place import BIG_TOPIC, CAROL, IDLE_S, MALLORY, NARROW
from tests.lab.hostile.target import Target
from tests.support.two_sides import withdraw_request

WAIT_S = IDLE_S + 5
"""Connections are looked at every summary.interval.ms."""
VERSION = 9
RECORD_BYTES = 300_000
_TOPIC, _LITERAL, _ALLOW, _WRITE, _DESCRIBE = 2, 3, 3, 4, 8


@attack()
async def a_produce_that_ends_after_its_acl(target: Target, size: Size, found: Found) -> None:
    """All but the last byte of a produce; the ACL is removed; then the last byte. Nothing may be written."""
    mallory, admin = target.users[MALLORY], target.users["admin"]
    async with (
        await Client.logged_in(target.address, admin) as root,
        await Client.logged_in(target.address, mallory) as client,
    ):
        await allow(root, mallory)
        first = await client.ask(ApiKey.PRODUCE, VERSION, produce(BIG_TOPIC, batch(100)))
        if code := first.responses[0].partition_responses[0].error_code:
            found.faults.append(f"the attack could not begin: error {code}")
        before = await end_of(root)
        data = frame(ApiKey.PRODUCE, VERSION, produce(BIG_TOPIC, batch(RECORD_BYTES)))
        await client.send(data[:-1])
        await asyncio.sleep(0.5)
        await disallow(root, mallory)
        await client.send(data[-1:])
        await _told(client, found, size)
        if await end_of(root) != before:
            found.faults.append("a produce was written after its ACL was removed")


@attack(only_long=True)
async def a_produce_that_ends_after_its_session(target: Target, size: Size, found: Found) -> None:
    """The same where the session has ended by then (KIP-368)."""
    async with (
        await Client.logged_in(target.address, target.users["admin"]) as root,
        await Client.logged_in(target.reauth_address, target.users[CAROL]) as client,
    ):
        await client.ask(ApiKey.PRODUCE, VERSION, produce(BIG_TOPIC, batch(100)))
        before = await end_of(root)
        data = frame(ApiKey.PRODUCE, VERSION, produce(BIG_TOPIC, batch(RECORD_BYTES)))
        await client.send(data[:-1])
        await asyncio.sleep(target.reauth_ms / 1000 + 0.5)
        await client.send(data[-1:])
        await _told(client, found, size)
        if await end_of(root) != before:
            found.faults.append("a produce was written after its session had ended")


@attack(NARROW)
async def produces_that_never_end(target: Target, size: Size, found: Found) -> None:
    """Half a produce, and silence: connections.max.idle.ms holds for it as for any other connection."""
    user = target.users[CAROL]
    data = frame(ApiKey.PRODUCE, VERSION, produce(BIG_TOPIC, batch(RECORD_BYTES)))
    clients = [await Client.logged_in(target.address, user) for _ in range(size.of(5, 100))]
    found.connections, found.logged_in = len(clients), True
    for client in clients:
        # A first one, so that the next is let through as it comes.
        await client.ask(ApiKey.PRODUCE, VERSION, produce(BIG_TOPIC, batch(100)))
        await client.send(data[: len(data) // 2])
    await asyncio.sleep(WAIT_S)
    still = 0
    for client in clients:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                still -= await client.answers(1) == 0
        still += 1
        client.cut()
    if still:
        found.faults.append(f"{still} of {len(clients)} half produces were still open after {WAIT_S} s")


async def _told(client: Client, found: Found, size: Size) -> None:
    """What came of the produce."""
    try:
        async with asyncio.timeout(size.of(5, 10)):
            answer = await client.answer()
    except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
        found.facts["answer"] = type(error).__name__
        return
    _, offset = decode_response_header(ApiKey.PRODUCE, VERSION, answer)
    told, _ = codecs.response(ApiKey.PRODUCE, VERSION).decode(answer, offset)
    found.facts["answer"] = told.responses[0].partition_responses[0].error_code


async def end_of(root: Client) -> int:
    """The offset behind the last record of the topic's first partition."""
    request = t.ListOffsetsRequest
    partition = request.ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = request.ListOffsetsTopic(name=BIG_TOPIC, partitions=[partition])
    told = await root.ask(ApiKey.LIST_OFFSETS, 5, request(replica_id=-1, topics=[topic]))
    return int(told.topics[0].partitions[0].offset)


async def allow(root: Client, user: User) -> None:
    """The user may write to the topic."""
    creation: Any = t.CreateAclsRequest.AclCreation
    wanted = [
        creation(
            resource_type=_TOPIC,
            resource_name=BIG_TOPIC,
            resource_pattern_type=_LITERAL,
            principal=f"User:{user.name}",
            host="*",
            operation=operation,
            permission_type=_ALLOW,
        )
        for operation in (_WRITE, _DESCRIBE)
    ]
    await root.ask(ApiKey.CREATE_ACLS, 3, t.CreateAclsRequest(creations=wanted))


async def disallow(root: Client, user: User) -> None:
    """No longer, once it is acknowledged."""
    await root.ask(ApiKey.DELETE_ACLS, 3, withdraw_request(BIG_TOPIC, user.name))
