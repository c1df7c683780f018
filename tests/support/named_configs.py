"""The configs of a topic that a DescribeConfigs names. librdkafka's Python client and Java's name none."""

import asyncio

from proxy.net.kafka.channel import Channel
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import User, channel_settings

TOPIC = 2


def topic_configs(stack: Stack, user: User, topic: str, *names: str) -> dict[str, str | None]:
    """Name -> value, as the user gets them through the proxy."""
    request = t.DescribeConfigsRequest
    resource = request.DescribeConfigsResource(
        resource_type=TOPIC, resource_name=topic, configuration_keys=list(names)
    )

    async def described() -> dict[str, str | None]:
        async with await Channel.open(channel_settings(user, stack.entrance().bootstrap)) as channel:
            response = await channel.request(ApiKey.DESCRIBE_CONFIGS, 4, request(resources=[resource]))
        (result,) = response.results
        assert result.error_code == 0, result
        return {config.name: config.value for config in result.configs}

    return asyncio.run(described())
