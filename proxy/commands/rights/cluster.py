"""Reads the rights of a running cluster, with one request for each section (two for the owners of topics)."""

from collections.abc import Awaitable, Callable, Collection

from proxy.admin.configs import TOPIC
from proxy.commands.acl_requests import RequestFailed, described_acls, fault_text, require_success
from proxy.commands.rights.changes import (
    ACLS,
    OWNERS,
    QUOTAS,
    USERS,
    Credential,
    Key,
    Rights,
    Value,
    end_value,
)
from proxy.metadata.acl import UNTIL_TAG, end_of_tags
from proxy.metadata.image import OWNER
from proxy.metadata.scram import ScramMechanism
from proxy.net.kafka.channel import Channel
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode

_METADATA_VERSIONS, _CONFIGS_VERSIONS = (4, 12), (1, 4)


async def read_cluster(channel: Channel, sections: Collection[str]) -> Rights:
    """Return these sections as the cluster describes them. RequestFailed, ChannelError."""
    return {section: await read(channel) for section, read in _READERS.items() if section in sections}


async def _acls(channel: Channel) -> dict[Key, Value]:
    ends, _ = await described_acls(channel)
    return {acl: end_value(until_ms) for acl, until_ms in ends.items()}


async def _quotas(channel: Channel) -> dict[Key, Value]:
    response = await channel.send(types.DescribeClientQuotasRequest(components=[], strict=False), (0, 1))
    require_success("DescribeClientQuotas", response)
    found: dict[Key, Value] = {}
    for entry in response.entries or ():
        entity = tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity))
        found |= {(entity, value.key): value.value for value in entry.values}
    return found


async def described_users(channel: Channel) -> tuple[dict[Key, Value], bool]:
    """Return the SCRAM users, and whether the cluster knows ends of their credentials."""
    response = await channel.send(types.DescribeUserScramCredentialsRequest(users=None), (0, 0))
    require_success("DescribeUserScramCredentials", response)
    found: dict[Key, Value] = {}
    for user in response.results:
        require_success(f"DescribeUserScramCredentials: {user.user}", user)
        for info in user.credential_infos:
            value = Credential(info.iterations, end_value(end_of_tags(info.unknown_tags)))
            found[user.user, ScramMechanism(info.mechanism).mechanism_name] = value
    return found, UNTIL_TAG in (response.unknown_tags or ())


async def _users(channel: Channel) -> dict[Key, Value]:
    return (await described_users(channel))[0]


async def _owners(channel: Channel) -> dict[Key, Value]:
    request = types.MetadataRequest(topics=None, allow_auto_topic_creation=False)
    metadata = await channel.send(request, _METADATA_VERSIONS)
    resource = types.DescribeConfigsRequest.DescribeConfigsResource
    resources = [
        resource(resource_type=TOPIC, resource_name=topic.name or "", configuration_keys=[OWNER])
        for topic in metadata.topics
    ]
    if not resources:
        return {}
    described = await channel.send(types.DescribeConfigsRequest(resources=resources), _CONFIGS_VERSIONS)
    found: dict[Key, Value] = {}
    for result in described.results:
        # The topic may have been deleted meanwhile.
        if result.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise RequestFailed(f"DescribeConfigs: topic {result.resource_name}: {fault_text(result)}")
        for config in result.configs:
            if config.name == OWNER and config.value:
                found[(result.resource_name,)] = config.value
    return found


_READERS: dict[str, Callable[[Channel], Awaitable[dict[Key, Value]]]] = {
    ACLS: _acls,
    QUOTAS: _quotas,
    USERS: _users,
    OWNERS: _owners,
}
