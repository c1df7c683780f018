"""What a broker offers and what a client sees of it through the proxy: APIs, versions, features."""

import asyncio

import pytest

from proxy.net.kafka.channel import Channel, EndpointSettings
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import channel_settings
from tests.support.controllers import endpoint_of

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

Told = tuple[dict[int, tuple[int, int]], dict[str, tuple[int, int]], dict[str, tuple[int, int]]]

BROKERS_OWN = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
}
"""Between the brokers of a cluster; they need CLUSTER_ACTION."""


async def told(endpoint: EndpointSettings) -> Told:
    """APIs with their versions, supported features and finalized features."""
    async with await Channel.open(endpoint) as channel:
        request = t.ApiVersionsRequest(client_software_name="test", client_software_version="1")
        answer = await channel.request(ApiKey.API_VERSIONS, 4, request)
        return (
            {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys},
            {each.name: (each.min_version, each.max_version) for each in answer.supported_features},
            {
                each.name: (each.min_version_level, each.max_version_level)
                for each in answer.finalized_features
            },
        )


@pytest.mark.spec("A7", "E8")
def test_a_client_is_offered_every_api_that_the_broker_has_for_clients_in_the_same_versions(
    stack: Stack,
) -> None:
    admin = stack.users["admin"]

    behind = asyncio.run(told(endpoint_of(stack.broker.plaintext)))
    offered = asyncio.run(told(channel_settings(admin, stack.entrance().bootstrap)))

    tokens = {
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    }
    left_out = {key for key in behind[0] if key not in offered[0]}
    assert left_out - tokens == BROKERS_OWN
    assert offered[0] == {key: versions for key, versions in behind[0].items() if key not in left_out}
    assert offered[1:] == behind[1:]
    assert {"share.version", "streams.version", "group.version"} <= offered[2].keys()
