"""A broker that ends sessions (connections.max.reauth.ms) behind a proxy whose clients know nothing of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.users import librdkafka_settings
from tests.support.cluster_admin import ClusterAdmin
from tests.support.steady_clients import SteadyClients

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

BROKER_REAUTH_MS = 2_000
LOAD_S = 11.0
"""Five sessions of the broker and a little."""


@pytest.fixture(scope="module")
def ending_sessions(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    properties = {"listener.name.sasl_plaintext.connections.max.reauth.ms": str(BROKER_REAUTH_MS)}
    directory = tmp_path_factory.mktemp("ending-sessions")
    stack = Stack(StackSettings(directory=directory, libs=kafka_libs, broker_properties=properties))
    with stack.running():
        yield stack


@pytest.mark.long
@pytest.mark.spec("R10", "R5")
def test_our_sessions_at_the_broker_are_renewed_and_no_client_notices(ending_sessions: Stack) -> None:
    stack = ending_sessions
    cluster = ClusterAdmin(stack)
    alice = cluster.user("alice-all-day")
    topic = cluster.topic("all-day")
    cluster.allow_produce(alice, topic)
    cluster.allow_consume(alice, topic, "all-day")
    clients = SteadyClients(librdkafka_settings(alice, stack.entrance()), topic, group="all-day")
    before = stack.metrics()
    with clients.at_work():
        clients.work_for(LOAD_S)
        after = stack.metrics()

    assert (clients.trouble, clients.refused) == ([], [])
    assert sorted(clients.acknowledged) == sorted(clients.read) == list(range(clients.sent))
    grown = {series for series, value in after.items() if value > before.get(series, 0.0)}
    cut = [series for series in grown if "connections_closed" in series and "upstream" in series]
    assert cut == []
