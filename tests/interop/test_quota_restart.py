"""Quotas of every kind are there again, and hold, when all processes have been stopped and started."""

import asyncio
from typing import Any

import pytest

from proxy.net.kafka.channel import Channel
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.interop.test_quota_types import channel, described
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import User
from tests.session.conversation import produce

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

OF_A_USER = {
    "producer_byte_rate": 1.0,
    "consumer_byte_rate": 123456.0,
    "request_percentage": 12.5,
    "controller_mutation_rate": 0.25,
}
OF_AN_ADDRESS = {"connection_creation_rate": 7.0}


def entities(user: User) -> list[tuple[list[tuple[str, str | None]], dict[str, float]]]:
    return [
        ([("user", user.name)], OF_A_USER),
        ([("user", user.name), ("client-id", None)], {"consumer_byte_rate": 99.0}),
        ([("client-id", f"of-{user.name}")], {"producer_byte_rate": 5.0}),
        ([("ip", "10.9.8.7")], OF_AN_ADDRESS),
    ]


async def alter(by: Channel, user: User, *, remove: bool) -> None:
    request = t.AlterClientQuotasRequest
    entries = [
        request.EntryData(
            entity=[request.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            ops=[request.OpData(key=key, value=value, remove=remove) for key, value in limits.items()],
        )
        for entity, limits in entities(user)
    ]
    answer = await by.request(ApiKey.ALTER_CLIENT_QUOTAS, 1, request(entries=entries))
    assert [entry.error_code for entry in answer.entries] == [0] * len(entries)


async def told(by: Channel, user: User) -> set[str]:
    """What DescribeClientQuotas has of these entities."""
    found: list[Any] = []
    for kind in ("user", "client-id", "ip"):
        found += await described(by, kind)
    return {str(entry) for entry in found if user.name in str(entry) or "10.9.8.7" in str(entry)}


async def throttled_ms(stack: Stack, user: User) -> int:
    """What a produce request of the user is told; where it may not write, it is paid for all the same."""
    request = produce("nobody-writes-here", records=bytes(500))
    async with await channel(stack, user.name) as hers:
        answer = await hers.request(ApiKey.PRODUCE, 9, request)
    return int(answer.throttle_time_ms)


@pytest.mark.long
@pytest.mark.spec("Q11")
async def test_quotas_are_there_and_hold_after_everything_has_been_restarted(
    stack: Stack, alice: User
) -> None:
    async with await channel(stack, "admin") as ours:
        await alter(ours, alice, remove=False)
        before = await told(ours, alice)
    try:
        await asyncio.to_thread(restart, stack)
        async with await channel(stack, "admin") as ours:
            assert (await told(ours, alice), len(before)) == (before, len(entities(alice)))
        assert await throttled_ms(stack, alice) > 1_000
    finally:
        async with await channel(stack, "admin") as ours:
            await alter(ours, alice, remove=True)
            assert await told(ours, alice) == set()


def restart(stack: Stack) -> None:
    stack.proxy.stop()
    stack.controller.stop()
    stack.broker.stop()
    stack.broker.start()
    stack.start_controller()
    stack.start_proxy()
