"""Three of Kafka's controllers and a proxy before each broker: what all proxies decide when the leader dies.

tests/spark/test_kraft_quorum.py has what an import of the nodes' directories makes of such a day.
"""

import asyncio
import json
import signal
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.audit.checkpoints import Checkpoint
from proxy.net.kafka.channel import ChannelError, EndpointSettings
from proxy.net.runtime.clock import now_ms
from proxy.wire.api_keys import ApiKey
from spark_audit.kraft import log_directory
from spark_audit.kraft.commit import SETTLE_MS
from tests.lab.cluster.broker import Broker
from tests.lab.cluster.stack import Stack, StackSettings
from tests.support.audit_topic import lines
from tests.support.kraft_directories import end_of, told_of
from tests.support.signing import key_file
from tests.support.told_state import leader_by, told_by
from tests.support.topic_requests import create_topics
from tests.support.two_sides import (
    Door,
    allow_request,
    doors,
    limit_request,
    until,
    user_request,
    withdraw_request,
)

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long]

ALICE, PASSWORD = "alice-of-the-quorum", "secret"
GRANTED, SECRET = "granted", "secret"
DEADLINE_S = 120
States = dict[int, set[tuple[str, float]]]
"""Offset -> proxy and digest of the metadata that it had in effect there."""


@pytest.fixture(scope="module")
def stack(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Each proxy signs checkpoints with a key of its own."""
    directory = tmp_path_factory.mktemp("quorum")
    started = Stack(
        StackSettings(
            directory=directory / "stack",
            libs=kafka_libs,
            controller="kraft",
            brokers=3,
            # So long, and half as long again, a leader leads without followers.
            broker_properties={"controller.quorum.fetch.timeout.ms": "8000"},
        )
    )
    for node in started.nodes:
        document: dict[str, Any] = yaml.safe_load(node.proxy_file.read_text(encoding="utf-8"))
        key = key_file(directory, document["proxy.id"])
        document["audit"] |= {"signing.key.file": str(key)}
        node.proxy_file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    with started.running():
        asyncio.run(_prepared(started))
        yield started


async def _prepared(stack: Stack) -> None:
    proxy = doors(stack)[1]
    request = create_topics(GRANTED, SECRET, timeout_ms=30_000)
    for topic in request.topics:
        topic.replication_factor = 3
    await proxy.ask(ApiKey.CREATE_TOPICS, request)
    await proxy.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, user_request(ALICE, PASSWORD))
    for number in _numbers(stack):
        door = doors(stack, number)[1]
        await until(partial(door.lets_in, alice_at(door)))


def _numbers(stack: Stack) -> list[int]:
    return [node.number for node in stack.nodes]


def alice_at(door: Door) -> EndpointSettings:
    return door.as_user(ALICE, PASSWORD)


def in_log(broker: Broker, topic: str) -> bool:
    """Whether the node's file has an ACL of this topic, committed or not."""
    scan = log_directory.scan(log_directory.files_of(broker.metadata_log).segments, 0, SETTLE_MS, None)
    scan.commit(scan.end)
    return any(
        kind == "AccessControlEntryRecord" and json.loads(body or "{}")["resource_name"] == topic
        for _, kind, body in told_of(scan).values()
    )


async def holds(condition: Any, what: str) -> None:
    since_ms = now_ms()
    while not condition():
        assert now_ms() - since_ms < DEADLINE_S * 1000, f"waited in vain for {what}"
        await asyncio.sleep(0.05)


@pytest.mark.spec("S13", "S2", "O10")
async def test_a_grant_that_the_leader_never_commits_is_in_effect_at_no_proxy(stack: Stack) -> None:
    leader = await leader_by(doors(stack)[0])
    at_leader, before_it = doors(stack, leader)
    brokers = {node.number: node.broker for node in stack.nodes}
    others = [number for number in brokers if number != leader]
    assert not await before_it.shows(SECRET, alice_at(before_it))

    async def grant() -> None:
        # At the leader itself: a proxy would send the request again, to the next leader.
        with pytest.raises(ChannelError):
            await at_leader.ask(ApiKey.CREATE_ACLS, allow_request(SECRET, ALICE))

    for number in others:
        brokers[number].process.signal(signal.SIGSTOP)
    try:
        async with asyncio.TaskGroup() as tasks:
            # What followers have requested before they stopped they get: it must not be the grant.
            end = end_of(brokers[leader].metadata_log)
            await holds(lambda: end_of(brokers[leader].metadata_log) >= end + 2, "records of an idle leader")
            tasks.create_task(grant())
            await holds(lambda: in_log(brokers[leader], SECRET), "the grant in the log of the leader")
            assert not await before_it.shows(SECRET, alice_at(before_it))
            brokers[leader].process.kill()
    finally:
        for number in others:
            brokers[number].process.signal(signal.SIGCONT)
    await leader_by(doors(stack, others[0])[0], but=leader)
    await asyncio.to_thread(brokers[leader].start)

    at_broker = await told_by(doors(stack, others[0])[0])
    assert SECRET not in {name for _, name, *_ in at_broker.acls}, "the grant was committed after all"

    # A change after it: all proxies have read past the offset that the grant had.
    await doors(stack, others[0])[1].ask(ApiKey.CREATE_ACLS, allow_request(GRANTED, ALICE))
    for number in brokers:
        door = doors(stack, number)[1]
        await until(partial(door.shows, GRANTED, alice_at(door)))
        assert not await door.shows(SECRET, alice_at(door))
    await doors(stack, others[0])[1].ask(ApiKey.DELETE_ACLS, withdraw_request(GRANTED, ALICE))


async def change(door: Door, over: asyncio.Event, changed: list[int]) -> None:
    """Change ACLs and quotas at this proxy, each once the one before is in effect there.

    `changed` grows by the number of each round.
    """
    while not over.is_set():
        for request, shown in ((allow_request, True), (withdraw_request, False)):
            api_key = ApiKey.CREATE_ACLS if shown else ApiKey.DELETE_ACLS
            await acknowledged(door, api_key, request(GRANTED, ALICE))
            await until(partial(decides, door, shown))
        number = len(changed) + 1
        await acknowledged(door, ApiKey.ALTER_CLIENT_QUOTAS, limit_request(ALICE, 1e6 + number))
        await until(partial(limited, door, 1e6 + number))
        changed.append(number)


async def decides(door: Door, shown: bool) -> bool:
    return await door.shows(GRANTED, alice_at(door)) == shown


async def limited(door: Door, limit: float) -> bool:
    return await door.limit_of(ALICE) == limit


async def acknowledged(door: Door, api_key: int, request: Any) -> None:
    """Ask until there is a response without an error; each of the changes may be made twice."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            response = await door.ask(api_key, request)
            results = getattr(response, "results", None) or getattr(response, "filter_results", None)
            results = results or response.entries
            if not any(result.error_code for result in results):
                return
            await asyncio.sleep(0.1)


async def watch(stack: Stack, at: list[int], over: asyncio.Event, opened: list[int], states: States) -> None:
    """Look at the secret topic, which no one granted, through the proxies `at`, and at the digests of all."""
    while not over.is_set():
        for number in at:
            door = doors(stack, number)[1]
            if await door.shows(SECRET, alice_at(door)):
                opened.append(number)
        await add_states(stack, states)
        await asyncio.sleep(0.05)


async def add_states(stack: Stack, states: States) -> None:
    for node in stack.nodes:
        told = await asyncio.to_thread(node.metrics)
        offset = int(told["penstock_metadata_offset"])
        states.setdefault(offset, set()).add((node.wiring.proxy.name, told["penstock_metadata_digest"]))


@pytest.mark.spec("S2", "S14", "Q8", "O10")
async def test_proxies_follow_while_the_leader_dies_under_changes(stack: Stack) -> None:
    leader = await leader_by(doors(stack)[0])
    others = [number for number in _numbers(stack) if number != leader]
    broker = stack.nodes[leader - 1].broker
    states: States = {}
    opened: list[int] = []
    changed: list[int] = []
    over = asyncio.Event()

    async def further_changes(when: str) -> None:
        seen = len(changed)
        await holds(lambda: len(changed) >= seen + 3, f"changes {when}")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(watch(stack, others, over, opened, states))
        tasks.create_task(change(doors(stack, others[0])[1], over, changed))
        await further_changes("at the leader")
        broker.process.kill()
        new = await leader_by(doors(stack, others[1])[0], but=leader)
        await further_changes("at another leader")
        await asyncio.to_thread(broker.start)
        await further_changes("with all three again")
        over.set()

    last = 2e6
    proxies = [doors(stack, number)[1] for number in _numbers(stack)]
    await acknowledged(proxies[leader - 1], ApiKey.ALTER_CLIENT_QUOTAS, limit_request(ALICE, last))
    for door in proxies:
        await until(partial(limited, door, last))
    await add_states(stack, states)

    assert new != leader
    assert opened == []
    at_broker = await told_by(doors(stack, new)[0])
    assert [await told_by(door) for door in proxies] == [at_broker] * 3
    assert [offset for offset, said in states.items() if len({digest for _, digest in said}) > 1] == []
    assert len(states[max(states)]) == len(stack.nodes), states


@pytest.mark.spec("S14", "D14")
def test_what_the_proxies_signed_about_one_offset_is_one_state(stack: Stack) -> None:
    for node in stack.nodes:
        assert node.proxy.stop()

    signed: dict[tuple[str, int], dict[str, bytes]] = defaultdict(dict)
    for line in lines(stack.broker.plaintext):
        data = json.loads(line)["data"]
        if data["event"] != "checkpoint":
            continue
        said = Checkpoint.parse(data["message"])
        assert said is not None
        # The first one may be before the log has been read.
        if said.state is not None:
            signed[said.state.topic, said.state.offset][data["proxy_id"]] = said.state.digest

    assert all(len(set(by.values())) == 1 for by in signed.values()), signed
    assert any(len(by) == len(stack.nodes) for by in signed.values()), signed
