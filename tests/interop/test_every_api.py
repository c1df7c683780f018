"""What a broker offers and what a client sees of it through the proxy: APIs, versions, features."""

import asyncio

import pytest

from tests.lab.cluster.release import Feature
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import channel_settings
from tests.support.controllers import endpoint_of
from tests.support.offered_apis import expected, told

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.spec("A7", "E8", "O10")
def test_a_client_is_offered_every_api_that_the_broker_has_for_clients_in_the_versions_that_penstock_knows(
    stack: Stack,
) -> None:
    admin = stack.users["admin"]

    behind = asyncio.run(told(endpoint_of(stack.broker.plaintext)))
    offered = asyncio.run(told(channel_settings(admin, stack.entrance().bootstrap)))

    assert offered[0] == expected(behind[0])
    assert offered[1:] == behind[1:]
    if stack.release.has(Feature.SHARE_GROUPS):
        assert {"share.version", "streams.version", "group.version"} <= offered[2].keys()
