"""Requests of users who have logged in and have no right: many small ones at once, and single large ones."""

import asyncio

from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.hostile.attack import Found, Size, attack
from tests.lab.hostile.client import Client, addresses, frame
from tests.lab.hostile.largest import Largest, all_largest
from tests.lab.hostile.place import BOB, ORDINARY, Scene
from tests.lab.hostile.target import Target

TWO_WORKERS = Scene("two-workers", {**ORDINARY.changes, "workers": 2})
MAKERS = 5
READ_BYTES = 256 * 1024
"""What the proxy reads at a time."""


@attack()
async def many_small_requests(target: Target, size: Size, found: Found) -> None:
    """One user makes delegation tokens, and then asks for all of them in each of many pipelined requests.

    17 bytes a request, which ask for hundreds of tokens: no right is needed for any of it (H1a).
    """
    await _describe_tokens(target, size, found, connections=1)


@attack(TWO_WORKERS, only_long=True)
async def many_small_requests_at_two_workers(target: Target, size: Size, found: Found) -> None:
    """As many-small-requests, from several connections, before two workers: none may be killed for it."""
    await _describe_tokens(target, size, found, connections=4)


@attack(only_long=True)
async def many_denied_requests(target: Target, size: Size, found: Found) -> None:
    """Read full of small requests, all denied: Metadata, DescribeGroups, FindCoordinator and others."""
    user = target.users[BOB]
    small = [
        frame(ApiKey.METADATA, 9, _metadata()),
        frame(ApiKey.DESCRIBE_GROUPS, 4, t.DescribeGroupsRequest(groups=["g"])),
        frame(ApiKey.FIND_COORDINATOR, 3, t.FindCoordinatorRequest(key="g", key_type=0)),
        frame(ApiKey.DESCRIBE_CONFIGS, 4, _configs()),
        frame(ApiKey.DELETE_GROUPS, 2, t.DeleteGroupsRequest(groups_names=["g"])),
    ]
    answered = 0
    for one in small:
        async with await Client.logged_in(target.address, user) as client:
            count = size.of(READ_BYTES // 8, 4 * READ_BYTES) // len(one)
            answered += await _pipelined(client, one, count)
    found.logged_in = True
    found.facts["answered"] = answered


@attack()
async def large_denied_requests(target: Target, size: Size, found: Found) -> None:
    """For each array of each served API one request with as many elements as fit, all of it denied (H1b).

    8 MB each in the long form; in the short form small ones, of which each is long enough to be seen.
    """
    size_bytes = size.of(48 * 1024, 8 * 1024 * 1024 - 1024)
    user = target.users[BOB]
    found.logged_in = True
    for largest in all_largest(of_each=size.of(1, 100)):
        await _large(target, user.name, largest, size_bytes, found)


@attack()
async def a_large_request_of_one_million_names(target: Target, size: Size, found: Found) -> None:
    """DescribeGroups with as many names as fit: its response is twice as large (H1b)."""
    found.logged_in = True
    size_bytes = size.of(1_000_000, 8 * 1024 * 1024 - 1024)
    await _large(target, BOB, Largest(ApiKey.DESCRIBE_GROUPS, 5, "groups"), size_bytes, found)


@attack()
async def unknown_topic_ids(target: Target, size: Size, found: Found) -> None:
    """Several connections of one user fetch by topic ids that do not exist, thousands in each request."""
    data, count = Largest(ApiKey.FETCH, 17, "topics").frame(size.of(100_000, 900_000))
    clients = [await Client.logged_in(target.address, target.users[BOB]) for _ in range(MAKERS)]
    async with asyncio.TaskGroup() as tasks:
        each = [tasks.create_task(_pipelined(client, data, size.of(2, 20))) for client in clients]
    found.facts |= {"ids in each": count, "answered": sum(task.result() for task in each)}
    found.connections, found.logged_in = MAKERS, True
    for client in clients:
        client.cut()


@attack(only_long=True)
async def many_connections_with_large_requests(target: Target, size: Size, found: Found) -> None:
    """Many connections of one user, each with a denied request of 1 MB at a time, and responses unread."""
    count = size.of(8, 100)
    data, _ = Largest(ApiKey.DESCRIBE_GROUPS, 5, "groups").frame(size.of(200_000, 1_000_000))
    clients = [await Client.logged_in(target.address, target.users[BOB], each) for each in addresses(count)]
    found.connections, found.logged_in = count, True
    for client in clients:
        client.deaf()
    try:
        async with asyncio.timeout(size.of(4, 60)), asyncio.TaskGroup() as tasks:
            for client in clients:
                tasks.create_task(client.send(data))
        await asyncio.sleep(size.of(1, 10))
    except TimeoutError:
        found.facts["not taken"] = "some"
    for client in clients:
        client.cut()


async def _describe_tokens(target: Target, size: Size, found: Found, connections: int) -> None:
    user = target.users[BOB]
    found.facts["tokens"] = await _have_tokens(target, size.of(60, 500))
    one = frame(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, t.DescribeDelegationTokenRequest(owners=None))
    clients = [await Client.logged_in(target.address, user) for _ in range(connections)]
    async with asyncio.TaskGroup() as tasks:
        each = [tasks.create_task(_pipelined(client, one, size.of(200, 2_000))) for client in clients]
    found.facts["answered"] = sum(task.result() for task in each)
    found.connections, found.logged_in = connections, True
    for client in clients:
        client.cut()


async def _have_tokens(target: Target, wanted: int) -> int:
    """As many tokens as that, at least; made by several connections at a time."""
    clients = [await Client.logged_in(target.address, target.users[BOB]) for _ in range(MAKERS)]
    message = t.DescribeDelegationTokenRequest(owners=None)
    there = len((await clients[0].ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, message)).tokens)
    made = t.CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)

    async def make(client: Client, count: int) -> None:
        for _ in range(count):
            await client.ask(ApiKey.CREATE_DELEGATION_TOKEN, 1, made)

    async with asyncio.TaskGroup() as tasks:
        for client in clients:
            tasks.create_task(make(client, max(0, wanted - there) // MAKERS))
    for client in clients:
        client.cut()
    return max(there, wanted)


async def _pipelined(client: Client, one: bytes, count: int) -> int:
    """The same request many times, written at once; how many were answered."""
    async with asyncio.TaskGroup() as tasks:
        answered = tasks.create_task(client.answers(count))
        await client.send(one * count)
    return answered.result()


async def _large(target: Target, user: str, largest: Largest, size_bytes: int, found: Found) -> None:
    """One request and its response; a connection that is closed instead is fine too."""
    data, count = largest.frame(size_bytes)
    async with await Client.logged_in(target.address, target.users[user]) as client:
        began = asyncio.get_running_loop().time()
        await client.send(data)
        answers = await client.answers(1)
        seconds = round(asyncio.get_running_loop().time() - began, 2)
    key = "answered" if answers else "closed"
    found.facts[key] = int(found.facts.get(key, 0)) + 1
    if seconds > float(found.facts.get("slowest s", 0)):
        found.facts |= {"slowest s": seconds, "slowest": f"{largest.name} with {count} elements"}


def _metadata() -> object:
    topic = t.MetadataRequest.MetadataRequestTopic(name="t")
    return t.MetadataRequest(topics=[topic], allow_auto_topic_creation=False)


def _configs() -> object:
    resource = t.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=2, resource_name="t", configuration_keys=None
    )
    return t.DescribeConfigsRequest(resources=[resource])
