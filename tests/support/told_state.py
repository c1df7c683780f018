"""What a broker tells of ACLs, quotas, users and its quorum, in the words of table metadata_log."""

import asyncio
from dataclasses import dataclass

from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from spark_audit.kraft.metadata_records import OPERATIONS, PATTERN_TYPES, PERMISSION_TYPES, RESOURCE_TYPES
from tests.support.acl_filters import describe_acls
from tests.support.two_sides import DEADLINE_MS, Door

ANY = 1


@dataclass(frozen=True, slots=True)
class ToldState:
    acls: frozenset[tuple[str, ...]]
    """Resource type, name, pattern, principal, host, operation, permission."""
    quotas: frozenset[tuple[tuple[tuple[str, str | None], ...], str, float]]
    """Entity (type, name; sorted), key, value."""
    users: frozenset[tuple[str, int, int]]
    """Name, number of the mechanism, iterations."""


async def told_by(door: Door) -> ToldState:
    return ToldState(await _acls(door), await _quotas(door), await _users(door))


async def _acls(door: Door) -> frozenset[tuple[str, ...]]:
    told = await door.ask(ApiKey.DESCRIBE_ACLS, describe_acls())
    return frozenset(
        (
            RESOURCE_TYPES[resource.resource_type],
            resource.resource_name,
            PATTERN_TYPES[resource.pattern_type],
            acl.principal,
            acl.host,
            OPERATIONS[acl.operation],
            PERMISSION_TYPES[acl.permission_type],
        )
        for resource in told.resources
        for acl in resource.acls
    )


async def _quotas(door: Door) -> frozenset[tuple[tuple[tuple[str, str | None], ...], str, float]]:
    told = await door.ask(
        ApiKey.DESCRIBE_CLIENT_QUOTAS, types.DescribeClientQuotasRequest(components=[], strict=False)
    )
    return frozenset(
        (tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity)), value.key, value.value)
        for entry in told.entries
        for value in entry.values
    )


async def _users(door: Door) -> frozenset[tuple[str, int, int]]:
    told = await door.ask(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, types.DescribeUserScramCredentialsRequest(users=None)
    )
    return frozenset(
        (result.user, info.mechanism, info.iterations)
        for result in told.results
        for info in result.credential_infos
    )


async def leader_by(door: Door, *, but: int = -1) -> int:
    """The node that leads the quorum, as soon as it is another one than `but`."""
    request = types.DescribeQuorumRequest
    of_log = request.TopicData(
        topic_name="__cluster_metadata", partitions=[request.PartitionData(partition_index=0)]
    )
    async with asyncio.timeout(3 * DEADLINE_MS / 1000):
        while True:
            told = await door.ask(ApiKey.DESCRIBE_QUORUM, request(topics=[of_log]))
            leader = -1 if told.error_code else told.topics[0].partitions[0].leader_id
            if leader not in (-1, but):
                return int(leader)
