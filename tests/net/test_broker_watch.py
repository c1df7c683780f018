"""What the proxy learns of the broker behind it, and keeps asking for."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from proxy.net.kafka.broker_watch import BrokerFacts, BrokerWatch
from proxy.net.kafka.channel import EndpointSettings
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.fake_broker import Answer, FakeBroker, Request

OWN_NODE = "2"


def cluster(_: Request) -> Any:
    broker = t.MetadataResponse.MetadataResponseBroker
    return t.MetadataResponse(
        brokers=[broker(node_id=node, host=f"broker-{node}", port=9092) for node in (1, 2)]
    )


def settings_of_node_2(value: str, error_code: int = 0) -> Answer:
    """As a broker does, of itself only."""

    def describe(request: Request) -> Any:
        response = t.DescribeConfigsResponse
        config = response.DescribeConfigsResourceResult(name="auto.create.topics.enable", value=value)
        return response(
            results=[
                response.DescribeConfigsResult(
                    error_code=error_code if asked.resource_name == OWN_NODE else ErrorCode.INVALID_REQUEST,
                    resource_type=asked.resource_type,
                    resource_name=asked.resource_name,
                    configs=[config] if asked.resource_name == OWN_NODE and not error_code else [],
                )
                for asked in request.message.resources
            ]
        )

    return describe


async def facts_of(answers: Mapping[int, Answer]) -> BrokerFacts:
    told: list[BrokerFacts] = []
    async with FakeBroker({ApiKey.METADATA: cluster, **answers}) as broker:
        host, port = broker.address.split(":")
        watch = BrokerWatch(EndpointSettings(host=host, port=int(port)), told.append)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(watch.run())
            await watch.known.wait()
            running.cancel()
    return told[0]


@pytest.mark.spec("A7")
@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({ApiKey.DESCRIBE_CONFIGS: settings_of_node_2("true")}, True),
        ({ApiKey.DESCRIBE_CONFIGS: settings_of_node_2("false")}, False),
        ({ApiKey.DESCRIBE_CONFIGS: settings_of_node_2("", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)}, False),
        ({}, False),
    ],
    ids=["on", "off", "not for us to know", "not to be asked"],
)
async def test_a_broker_is_asked_whether_it_makes_topics(
    answers: Mapping[int, Answer], expected: bool
) -> None:
    facts = await facts_of(answers)

    assert facts.auto_creates_topics is expected
    assert facts.nodes == {1: ("broker-1", 9092), 2: ("broker-2", 9092)}


@pytest.mark.spec("O10")
async def test_the_nodes_are_known_of_a_broker_without_describe_cluster() -> None:
    facts = await facts_of({})

    assert ApiKey.DESCRIBE_CLUSTER not in facts.api_versions
    assert facts.nodes == {1: ("broker-1", 9092), 2: ("broker-2", 9092)}


@pytest.mark.spec("R9", "O2")
@pytest.mark.parametrize(
    ("versions", "checks"),
    [
        ({ApiKey.FETCH: (0, 12)}, False),  # Kafka 2.8
        ({ApiKey.FETCH: (0, 15)}, False),  # Kafka 3.6
        ({ApiKey.FETCH: (0, 16)}, False),  # Kafka 3.7 and 3.8, of which the last ones do
        ({ApiKey.FETCH: (0, 17)}, True),  # Kafka 3.9
        ({ApiKey.FETCH: (4, 18)}, True),  # Kafka 4.2
        ({}, True),
    ],
)
def test_the_versions_of_a_broker_say_whether_it_checks_the_nonce_of_scram_clients(
    versions: Mapping[int, tuple[int, int]], checks: bool
) -> None:
    assert BrokerFacts(versions, {}, {}, {}, 0).checks_scram_nonce is checks
