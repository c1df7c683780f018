"""Requests that reach the controller, or what it stands on: one client must not cost another its change."""

import asyncio
import struct
from typing import Any

from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.settings import METADATA_TOPIC
from tests.lab.hostile.attack import Found, Size, attack
from tests.lab.hostile.client import Client, Refused
from tests.lab.hostile.largest import Largest
from tests.lab.hostile.place import EVE, MALLORY
from tests.lab.hostile.target import Target

_MEMBERSHIP = struct.pack(">hih19si1s", 0, 1, len(METADATA_TOPIC), METADATA_TOPIC.encode(), 1, b"1")
"""Of a consumer that has waited for longer than any other."""


@attack()
async def requests_with_a_tiny_timeout(target: Target, size: Size, found: Found) -> None:
    """Several connections with CreateTopics of timeoutMs 0: another administrator's are not cut off."""
    topic = t.CreateTopicsRequest.CreatableTopic(
        name="made-by-mallory", num_partitions=1, replication_factor=1
    )
    message = t.CreateTopicsRequest(topics=[topic], timeout_ms=0)
    await _again_and_again(target, MALLORY, ApiKey.CREATE_TOPICS, 5, message, size, found)


@attack()
async def fencing_the_controller(target: Target, size: Size, found: Found) -> None:
    """InitProducerId with the controller's transactional id, by a user who has WRITE on all of them (F1)."""
    message = t.InitProducerIdRequest(
        transactional_id=target.transactional_id,
        transaction_timeout_ms=60_000,
        producer_id=-1,
        producer_epoch=-1,
    )
    await _again_and_again(target, EVE, ApiKey.INIT_PRODUCER_ID, 4, message, size, found)
    _only_denied(found, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


@attack()
async def joining_the_election(target: Target, size: Size, found: Found) -> None:
    """JoinGroup in the group that elects the active controller, by a user who has READ on all groups (F1)."""
    protocol = t.JoinGroupRequest.JoinGroupRequestProtocol(name="penstock-incumbency", metadata=_MEMBERSHIP)
    message = t.JoinGroupRequest(
        group_id=f"{target.transactional_id}-election",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[protocol],
    )
    await _again_and_again(target, EVE, ApiKey.JOIN_GROUP, 3, message, size, found)
    _only_denied(found, ErrorCode.GROUP_AUTHORIZATION_FAILED)


@attack()
async def large_requests_of_an_administrator(target: Target, size: Size, found: Found) -> None:
    """What one with every right may send in one request: nothing of it is made, all of it is looked at."""
    found.logged_in = True
    wanted = (
        Largest(ApiKey.DELETE_ACLS, 3, "filters"),
        Largest(ApiKey.CREATE_TOPICS, 7, "topics"),
        Largest(ApiKey.DELETE_TOPICS, 5, "topic_names"),
        Largest(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, "deletions"),
        Largest(ApiKey.DESCRIBE_CONFIGS, 4, "resources"),
    )
    for largest in wanted:
        data, count = largest.frame(size.of(30_000, 1_000_000))
        async with await Client.logged_in(target.address, target.users["admin"]) as client:
            await client.send(data)
            await client.answers(1)
        found.facts[largest.name] = count


async def _again_and_again(
    target: Target, user: str, api_key: int, version: int, message: Any, size: Size, found: Found
) -> None:
    """The same request on several connections, the next as soon as one is answered."""
    ends = asyncio.get_running_loop().time() + size.of(2, 40)
    codes: dict[str, int] = {}
    found.logged_in = True

    async def attack() -> None:
        async with await Client.logged_in(target.address, target.users[user]) as client:
            while asyncio.get_running_loop().time() < ends:
                async with asyncio.timeout_at(ends + 1):
                    told = await client.ask(api_key, version, message)
                code = str(_code(told))
                codes[code] = codes.get(code, 0) + 1

    async def patiently() -> None:
        while asyncio.get_running_loop().time() < ends:
            try:
                await attack()
            except (OSError, asyncio.IncompleteReadError, TimeoutError, Refused) as error:
                codes[type(error).__name__] = codes.get(type(error).__name__, 0) + 1
                await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(4):
            tasks.create_task(patiently())
    found.connections = 4
    found.facts |= {f"error {code}": count for code, count in codes.items()}


def _only_denied(found: Found, code: ErrorCode) -> None:
    """Whatever else came of it: the group or the id was a user's for a moment."""
    told = {name for name in found.facts if name.startswith("error ")} - {f"error {int(code)}"}
    if told:
        found.faults.append(f"the controller's own was open to a user: {sorted(told)}, not only {code.name}")


def _code(told: Any) -> int:
    return int(told.topics[0].error_code if hasattr(told, "topics") else told.error_code)
