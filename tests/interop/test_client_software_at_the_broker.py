"""The broker's own metrics have the name and the version of a client's software, over JMX (O13)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.tools import KafkaTools
from tests.lab.hostile.client import Client
from tests.support.cluster_admin import ClusterAdmin

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long, pytest.mark.spec("O13")]

NAME, VERSION = "penstock-tested", "7.8.9"


@pytest.fixture(scope="module")
def jmx() -> str:
    return free_addresses(1)[0]


@pytest.fixture(scope="module")
def stack(kafka_libs: Path, jmx: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    host, _, port = jmx.rpartition(":")
    remote = "-Dcom.sun.management.jmxremote"
    flags = (
        *(f"{remote}.port={port}", f"{remote}.rmi.port={port}", f"{remote}.host={host}"),
        *(f"{remote}.authenticate=false", f"{remote}.ssl=false", f"-Djava.rmi.server.hostname={host}"),
    )
    settings = StackSettings(
        directory=tmp_path_factory.mktemp("jmx"), libs=kafka_libs, reauth_ms=60_000, broker_flags=flags
    )
    stack = Stack(settings)
    with stack.running():
        yield stack


def shown(stack: Stack, jmx: str) -> str:
    """The names of the broker's metrics of connections by software."""
    run = KafkaTools(stack.libs, stack.broker.plaintext).run(
        "kafka-jmx",
        *("--jmx-url", f"service:jmx:rmi:///jndi/rmi://{jmx}/jmxrmi"),
        *("--object-name", "kafka.server:type=socket-server-metrics,clientSoftwareName=*,*"),
        *("--attributes", "connections", "--one-time", "true"),
    )
    assert run.returncode == 0, run.said
    return run.stdout


async def test_the_broker_counts_the_clients_software_while_it_is_connected(stack: Stack, jmx: str) -> None:
    user = ClusterAdmin(stack).user("alice")
    async with await Client.open(stack.entrance("SASL_PLAINTEXT").bootstrap) as client:
        named = t.ApiVersionsRequest(client_software_name=NAME, client_software_version=VERSION)
        await client.ask(ApiKey.API_VERSIONS, 3, named)
        await client.log_in(user)
        await client.ask(ApiKey.METADATA, 9, t.MetadataRequest(topics=[]))
        found = await asyncio.to_thread(shown, stack, jmx)

    assert f"clientSoftwareName={NAME},clientSoftwareVersion={VERSION}" in found
