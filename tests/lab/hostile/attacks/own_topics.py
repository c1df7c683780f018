"""Penstock's own topics, by ways that their names alone do not close (F-C1, F-R1, F-A2)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from proxy.quota.cluster.messages import Batch, Claim, encode
from proxy.security.protected import DEFAULT_SHARES_TOPIC
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster import probe
from tests.lab.cluster.settings import AUDIT_TOPIC, METADATA_TOPIC
from tests.lab.hostile.asking_broker import at, record
from tests.lab.hostile.attack import Found, Size, attack
from tests.lab.hostile.client import Client
from tests.lab.hostile.place import MALLORY, ORDINARY, Scene
from tests.lab.hostile.target import Target
from tests.lab.side_by_side.dialogue import Dialogue
from tests.support.controllers import cluster_right

CLUSTER = Scene("cluster-quotas", {**ORDINARY.changes, "quota": {"scope": "cluster"}})
OWN = (METADATA_TOPIC, AUDIT_TOPIC)
HIGHEST_EPOCH = 2**31 - 1
HEALED_S = 20
SHORT_MS = "1000"
_BROKER, _SET, _DELETE = 4, 0, 1
_CLUSTER, _LITERAL, _ALLOW, _ALTER, _ALTER_CONFIGS = 4, 3, 3, 7, 11


@attack(CLUSTER)
async def a_forged_claim_of_the_highest_epoch(target: Target, size: Size, found: Found) -> None:
    """Whoever may write to the shares topic at the broker claims all shards once, with epoch 2^31 - 1."""
    found.logged_in = True
    forged = Batch("mallory", bytes(8), 1, tuple(Claim(shard, HIGHEST_EPOCH) for shard in range(3)))
    if not await _without_fallback(target):
        found.faults.append("the attack could not begin: the proxy uses its fallback")
        return
    with at(target.broker) as broker:
        for partition in range(3):
            broker.must(ApiKey.PRODUCE, 9, record(DEFAULT_SHARES_TOPIC, partition, encode(forged)))
    await asyncio.sleep(size.of(5, 30))
    if not await _without_fallback(target):
        found.faults.append(f"the proxy still used its fallback {HEALED_S} s later")


@attack()
async def reassigning_and_electing_own_topics(target: Target, size: Size, found: Found) -> None:
    """A user with ALTER on the cluster reassigns partitions of own topics, and has leaders elected."""
    found.logged_in = True
    reassign, elect = t.AlterPartitionReassignmentsRequest, t.ElectLeadersRequest
    partition = reassign.ReassignablePartition(partition_index=0, replicas=[1])
    topics = [reassign.ReassignableTopic(name=name, partitions=[partition]) for name in OWN]
    elected = [elect.TopicPartitions(topic=name, partitions=[0]) for name in OWN]
    async with _mallory_with(target, _ALTER) as client:
        moved = await client.ask(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, reassign(timeout_ms=9_000, topics=topics)
        )
        chosen = await client.ask(
            ApiKey.ELECT_LEADERS, 2, elect(election_type=1, topic_partitions=elected, timeout_ms=9_000)
        )
    _only_denied(found, "reassigned", [part for each in moved.responses for part in each.partitions])
    results = [part for each in chosen.replica_election_results for part in each.partition_result]
    _only_denied(found, "elected", results)


@attack()
async def wiping_own_topics_by_the_brokers_retention(target: Target, size: Size, found: Found) -> None:
    """A user with ALTER_CONFIGS on the cluster lets all brokers keep records for a second: not ours."""
    found.logged_in = True
    async with _mallory_with(target, _ALTER_CONFIGS) as client:
        try:
            await _retention(client, _SET)
            with at(target.broker) as broker:
                for name in OWN:
                    kept_ms = _retention_of(broker, name)
                    found.facts[name] = kept_ms
                    if kept_ms == SHORT_MS:
                        found.faults.append(f"{name} keeps its records for {kept_ms} ms now")
        finally:
            await _retention(client, _DELETE)


@asynccontextmanager
async def _mallory_with(target: Target, operation: int) -> AsyncIterator[Client]:
    """Logged in, with that operation on the cluster; without it at the end."""
    right = t.DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=_CLUSTER,
        resource_name_filter="kafka-cluster",
        pattern_type_filter=_LITERAL,
        principal_filter=f"User:{MALLORY}",
        host_filter=None,
        operation=operation,
        permission_type=_ALLOW,
    )
    async with await Client.logged_in(target.address, target.users["admin"]) as admin:
        made = await admin.ask(ApiKey.CREATE_ACLS, 3, cluster_right(operation, f"User:{MALLORY}"))
        assert made.results[0].error_code == 0, made
        try:
            async with await Client.logged_in(target.address, target.users[MALLORY]) as client:
                yield client
        finally:
            await admin.ask(ApiKey.DELETE_ACLS, 3, t.DeleteAclsRequest(filters=[right]))


def _only_denied(found: Found, what: str, parts: list[Any]) -> None:
    denials = {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    codes = {part.error_code for part in parts}
    found.facts[what] = str(sorted(codes))
    if codes - denials:
        found.faults.append(f"partitions of own topics could be {what}: {sorted(codes)}")


async def _without_fallback(target: Target) -> bool:
    """As soon as no shard is in fallback; False when that takes too long."""
    for _ in range(HEALED_S * 4):
        if not json.loads(probe.get(target.http, "/quotas")[1])["cluster"]["fallback"]:
            return True
        await asyncio.sleep(0.25)
    return False


async def _retention(client: Client, operation: int) -> None:
    request = t.IncrementalAlterConfigsRequest
    configs = [
        request.AlterableConfig(name=name, config_operation=operation, value=SHORT_MS)
        for name in ("log.retention.ms", "log.roll.ms")
    ]
    resource = request.AlterConfigsResource(resource_type=_BROKER, resource_name="", configs=configs)
    told = await client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request(resources=[resource]))
    assert told.responses[0].error_code in (0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED), told


def _retention_of(broker: Dialogue, topic: str) -> str:
    request = t.DescribeConfigsRequest
    resource = request.DescribeConfigsResource(
        resource_type=2, resource_name=topic, configuration_keys=["retention.ms"]
    )
    told = broker.must(ApiKey.DESCRIBE_CONFIGS, 4, request(resources=[resource]))
    return str(told.results[0].configs[0].value)
