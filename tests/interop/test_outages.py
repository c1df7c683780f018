"""One of the three processes is away for a while: what goes on, what waits, what clients are told."""

import pytest
from confluent_kafka import KafkaException

from tests.lab.cluster import probe
from tests.lab.cluster.node import READY_TIMEOUT_MS
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import User, librdkafka_settings
from tests.support.audit_topic import lines
from tests.support.cluster_admin import ClusterAdmin, admin
from tests.support.steady_clients import SteadyClients

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TIMEOUT_S = 60


@pytest.mark.spec("O4")
def test_a_proxy_that_drains_and_starts_again_loses_no_accepted_record(
    stack: Stack, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    producer = SteadyClients(librdkafka_settings(alice, stack.entrance()), topic)

    with producer.at_work():
        stopped_by_itself = stack.proxy.stop()
        returncode = stack.proxy.returncode
        stack.start_proxy()

    stored = [int(value) for value in lines(stack.broker.plaintext, topic)]
    assert (stopped_by_itself, returncode) == (True, 0)
    assert producer.refused == []
    assert set(producer.acknowledged) <= set(stored)
    assert len(stored) == len(set(stored))


@pytest.mark.spec("O4", "S3", "D3")
def test_a_broker_that_restarts_is_found_again(
    stack: Stack, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    producer = SteadyClients(librdkafka_settings(alice, stack.entrance()), topic)

    with producer.at_work():
        stack.broker.stop()
        stack.broker.start()

    assert producer.refused == []
    assert set(producer.acknowledged) <= set(map(int, lines(stack.broker.plaintext, topic)))
    # The controller has claimed its log anew, and the proxy follows it again.
    cluster_admin.topic(f"{topic}-after")
    cluster_admin.allow_produce(alice, f"{topic}-after")
    # Its own connection to the broker is opened again at intervals.
    stack.proxy.wait_until(lambda: probe.is_ready(stack.wiring.proxy_http), READY_TIMEOUT_MS)


@pytest.mark.spec("E5", "E13")
@pytest.mark.usefixtures("our_controller")
def test_without_a_controller_data_flows_and_changes_are_refused_in_time(
    stack: Stack, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    producer = SteadyClients(librdkafka_settings(alice, stack.entrance()), topic)
    client = cluster_admin.client

    stack.controller.kill()
    try:
        with producer.at_work():
            (creating,) = client.create_topics(
                [admin.NewTopic("nobody-there", 1, 1)], request_timeout=4
            ).values()
            with pytest.raises(KafkaException):
                creating.result(TIMEOUT_S)
    finally:
        stack.start_controller()

    assert producer.refused == []
    (creating,) = client.create_topics([admin.NewTopic(f"{topic}-again", 1, 1)], request_timeout=30).values()
    creating.result(TIMEOUT_S)
