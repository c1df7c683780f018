"""Quotas other than bytes, set by Kafka's own tool, and what a connected client sees of them.

The same holds at a broker with StandardAuthorizer: PENSTOCK_INTEROP_TARGET=broker.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from proxy.net.kafka.channel import Channel
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.tools import ToolRun
from tests.lab.cluster.users import User, channel_settings
from tests.support.cluster_admin import ClusterAdmin
from tests.support.gates import Gate
from tests.support.topic_requests import create_partitions, create_topics, delete_topics
from tests.support.two_sides import limit_request

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("Q8", "Q12")]

EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
HERE = ("ip", "127.0.0.1")


async def together(gate: Gate, *calls: list[str]) -> list[ToolRun]:
    """Run of kafka-configs that do not depend on one another."""
    tools = gate.tools("admin")
    runs = await asyncio.gather(*(asyncio.to_thread(tools.run, "kafka-configs", *call) for call in calls))
    for run in runs:
        assert run.returncode == 0, run.said
    return runs


async def test_an_address_that_connects_too_fast_is_closed_and_nobody_who_is_connected(gate: Gate) -> None:
    async with await channel(gate, "admin") as ours:
        await limit(ours, HERE, "connection_creation_rate", 1.0)
        try:
            closed = await asyncio.gather(*(closed_soon(gate) for _ in range(30)))
        finally:
            await limit(ours, HERE, "connection_creation_rate", None)
        after = await asyncio.gather(*(closed_soon(gate) for _ in range(20)))

    # Ten seconds' worth come in at once; what else of this machine connects meanwhile is among them. This
    # test is the first: while any quota on addresses is set, connections count.
    assert 20 <= sum(closed) <= 25
    assert not any(after)


async def test_kafka_configs_sets_describes_and_deletes_each_kind_and_the_next_request_meets_it(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User
) -> None:
    cluster_admin.allow(alice, "CREATE", "DESCRIBE", topic="first")
    cluster_admin.allow(alice, "CREATE", "DESCRIBE", topic="second")
    user = ["--entity-type", "users", "--entity-name", alice.name]
    address = ["--entity-type", "ips", "--entity-name", "10.9.8.7"]
    others = ["--entity-type", "ips", "--entity-default"]

    await together(
        gate,
        ["--alter", *user, "--add-config", "controller_mutation_rate=0.01,request_percentage=500"],
        ["--alter", *address, "--add-config", "connection_creation_rate=7"],
        ["--alter", *others, "--add-config", "connection_creation_rate=1000"],
    )
    of_user, of_ips = await together(gate, ["--describe", *user], ["--describe", "--entity-type", "ips"])
    async with await channel(gate, alice.name) as hers:
        made = await create(hers, "first")
    refused = await asyncio.to_thread(
        gate.tools(alice.name).run, "kafka-topics", "--create", "--topic", "second", "--partitions", "2"
    )
    await together(
        gate,
        ["--alter", *user, "--delete-config", "controller_mutation_rate,request_percentage"],
        ["--alter", *address, "--delete-config", "connection_creation_rate"],
        ["--alter", *others, "--delete-config", "connection_creation_rate"],
    )

    for quota in ("controller_mutation_rate=0.01", "request_percentage=500.0"):
        assert quota in of_user.stdout, of_user.said
    assert "Quota configs for ip '10.9.8.7' are connection_creation_rate=7.0" in of_ips.stdout, of_ips.said
    assert "Quota configs for the default ip are connection_creation_rate=1000.0" in of_ips.stdout
    assert codes(made.topics, "first") == [0]
    assert "The throttling quota has been exceeded." in refused.said
    async with await channel(gate, "admin") as ours, await channel(gate, alice.name) as hers:
        assert await described(ours, "ip") == []
        assert codes((await create(hers, "second")).topics, "second") == [0]


async def test_who_has_changed_too_many_partitions_is_refused_or_slowed_down_by_its_version(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User
) -> None:
    one, two, three = names = [f"of-{alice.name}-{number}" for number in range(3)]
    for name in names:
        cluster_admin.allow(alice, "CREATE", "DELETE", "ALTER", "DESCRIBE", topic=name)
    entity = ("user", alice.name)

    async def asked(request: Callable[[Channel], Awaitable[Any]]) -> Any:
        # Whoever is told to wait is not heard until then: each time a new connection.
        async with await channel(gate, alice.name) as hers:
            return await request(hers)

    async with await channel(gate, "admin") as ours:
        await limit(ours, entity, "controller_mutation_rate", 0.01)
        made = await asked(lambda hers: create(hers, one, two, "denied"))
        again = await asked(lambda hers: create(hers, one))
        grown = await asked(lambda hers: grow(hers, one, 4))
        gone = await asked(lambda hers: delete(hers, one, three))
        tried = await asked(lambda hers: create(hers, two, validate_only=True))
        permitted = await asked(lambda hers: create(hers, two, version=5))
        await limit(ours, entity, "controller_mutation_rate", None)
        freed = await asked(lambda hers: delete(hers, one, two))

    # A tenth of a token, three partitions a topic: the first one overdraws it.
    assert codes(made.topics, one, two, "denied") == [0, EXCEEDED, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert codes(again.topics, one) == [ErrorCode.TOPIC_ALREADY_EXISTS]
    assert codes(grown.results, one) == [EXCEEDED]
    assert codes(gone.responses, one, three) == [EXCEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert codes(tried.topics, two) == [EXCEEDED]
    assert codes(permitted.topics, two) == [0]
    assert codes(freed.responses, one, two) == [0, 0]
    told = [answer.throttle_time_ms // 1_000 for answer in (made, grown, gone, tried, permitted)]
    # 2.89 tokens are owed, and three more at the end; a hundred seconds bring one.
    assert told[0] in range(280, 290)
    assert sorted(told[:4], reverse=True) == told[:4]
    assert told[4] in range(540, 590)
    assert (again.throttle_time_ms, freed.throttle_time_ms) == (0, 0)


Entity = list[tuple[str, str | None]]
SOMEBODY: Entity = [("user", "somebody")]
ADDRESS: Entity = [("ip", "10.9.8.7")]
REFUSED: list[tuple[Entity, str, float]] = [
    (SOMEBODY, "connection_creation_rate", 5.0),
    (ADDRESS, "controller_mutation_rate", 5.0),
    (ADDRESS, "producer_byte_rate", 5.0),
    (ADDRESS, "request_percentage", 5.0),
    (ADDRESS, "connection_creation_rate", 0.0),
    (ADDRESS, "connection_creation_rate", -3.0),
    (ADDRESS, "connection_creation_rate", 2.5),
    (ADDRESS, "connection_creation_rate", 2.0**31),
    ([("ip", "no-such-host.invalid")], "connection_creation_rate", 5.0),
    ([*ADDRESS, *SOMEBODY], "connection_creation_rate", 5.0),
    (SOMEBODY, "controller_mutation_rate", 0.0),
    (SOMEBODY, "controller_mutation_rate", -0.5),
    (SOMEBODY, "request_percentage", 0.0),
    (SOMEBODY, "request_percentage", -1.0),
    (SOMEBODY, "no_such_rate", 1.0),
]
TAKEN: list[tuple[Entity, str, float]] = [
    (SOMEBODY, "controller_mutation_rate", 0.25),
    (SOMEBODY, "request_percentage", 0.5),
    ([("client-id", None)], "controller_mutation_rate", 5.0),
    ([("user", None), ("client-id", None)], "request_percentage", 50.0),
    (ADDRESS, "connection_creation_rate", 2.0**31 - 1),
    ([("ip", None)], "connection_creation_rate", 1.0),
    ([("ip", "2001:db8::7")], "connection_creation_rate", 1.0),
]


@pytest.mark.spec("Q11")
async def test_each_kind_of_entity_takes_its_own_quotas_and_only_values_that_make_sense(gate: Gate) -> None:
    async with await channel(gate, "admin") as ours:
        refused = [await error_of_altering(ours, *alteration) for alteration in REFUSED]
        taken = [await error_of_altering(ours, *alteration, validate_only=True) for alteration in TAKEN]
        stored = await described(ours, "ip") + await described(ours, "user")

    assert refused == [ErrorCode.INVALID_REQUEST] * len(REFUSED)
    assert taken == [ErrorCode.NONE] * len(TAKEN)
    assert [entry for entry in stored if "somebody" in str(entry) or "10.9.8.7" in str(entry)] == []


async def closed_soon(gate: Gate) -> bool:
    """Whether a connection that says nothing is closed within two seconds."""
    host, port = gate.entrance().bootstrap.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        async with asyncio.timeout(2):
            return await reader.read(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def channel(gate: Gate, user: str) -> Channel:
    return await Channel.open(channel_settings(gate.users[user], gate.entrance().bootstrap))


async def limit(by: Channel, entity: tuple[str, str], key: str, value: float | None) -> None:
    kind, name = entity
    answer = await by.request(ApiKey.ALTER_CLIENT_QUOTAS, 1, limit_request(name, value, key, kind))
    assert [entry.error_code for entry in answer.entries] == [0]
    await asyncio.sleep(0.5)  # A broker, unlike us, answers before it holds to it.


async def error_of_altering(
    by: Channel, entity: Entity, key: str, value: float, validate_only: bool = False
) -> int:
    request = t.AlterClientQuotasRequest
    parts = [request.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    entry = request.EntryData(entity=parts, ops=[request.OpData(key=key, value=value, remove=False)])
    asked = request(entries=[entry], validate_only=validate_only)
    answer = await by.request(ApiKey.ALTER_CLIENT_QUOTAS, 1, asked)
    return int(answer.entries[0].error_code)


async def described(by: Channel, kind: str) -> list[Any]:
    """All quotas of that kind of entity."""
    request = t.DescribeClientQuotasRequest
    every = request.ComponentData(entity_type=kind, match_type=2, match=None)
    answer = await by.request(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, request(components=[every]))
    assert answer.error_code == 0
    return list(answer.entries or [])


async def create(by: Channel, *names: str, version: int = 7, validate_only: bool = False) -> Any:
    request = create_topics(*names, partitions=3, validate_only=validate_only)
    return await by.request(ApiKey.CREATE_TOPICS, version, request)


async def grow(by: Channel, name: str, count: int) -> Any:
    return await by.request(ApiKey.CREATE_PARTITIONS, 3, create_partitions(count, name))


async def delete(by: Channel, *names: str) -> Any:
    return await by.request(ApiKey.DELETE_TOPICS, 6, delete_topics(*names))


def codes(results: list[Any], *names: str) -> list[int]:
    """Of these topics: brokers answer in no order."""
    by_name = {result.name: result.error_code for result in results}
    return [by_name[name] for name in names]
