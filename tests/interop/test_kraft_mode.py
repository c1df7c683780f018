"""Without a controller of ours: some of the end-to-end tests again, in the mode `kraft`.

`make interop TARGET=kraft` is all of tests/interop on such a stack.
"""

import asyncio
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from proxy.net.kafka.channel import EndpointSettings
from proxy.wire.api_keys import ApiKey
from tests.interop import test_kafka_tools as kafka_tools_tests
from tests.interop import test_live_changes as live_changes
from tests.interop import test_rights as rights
from tests.lab.cluster import probe
from tests.lab.cluster.release import Feature
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import User, librdkafka_settings
from tests.support.cluster_admin import TIMEOUT_S, ClusterAdmin
from tests.support.gates import Gate, a_stack
from tests.support.two_sides import (
    Door,
    allow_request,
    doors,
    limit_request,
    token_request,
    until,
    user_request,
    withdraw_request,
)

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.needs(Feature.KRAFT)]

DEFAULT_QUOTAS = "degraded: the broker applies default quotas to all users of this proxy as one"


@pytest.fixture(scope="module")
def gate(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """In place of the one that all others share."""
    with a_stack(kafka_libs, tmp_path_factory.mktemp("kraft"), "kraft") as stack:
        yield stack


@pytest.fixture(scope="module")
def cluster_admin(gate: Gate) -> ClusterAdmin:
    return ClusterAdmin(gate)


test_acls = kafka_tools_tests.test_acls_are_added_listed_and_removed_by_one_who_may
test_scram_users = kafka_tools_tests.test_scram_users_are_added_described_used_and_deleted_by_one_who_may
test_a_right_withdrawn = live_changes.test_a_consumer_whose_right_is_withdrawn_in_the_middle_gets_nothing_more
test_rights_by_the_page = pytest.mark.long(rights.test_the_commands_of_the_page_work_as_they_stand)
test_rights_pruned = pytest.mark.long(
    rights.test_an_export_is_applied_without_a_change_and_what_was_added_since_is_pruned
)
test_rights_by_an_operator = pytest.mark.long(
    rights.test_the_requests_of_strimzis_user_operator_reconcile_a_user_and_find_nothing_to_do_again
)
test_a_transaction = live_changes.test_a_transaction_commits_for_one_who_may_write_under_its_id


@pytest.mark.needs(Feature.NETWORKS)
@pytest.mark.spec("S12", "S8")
def test_a_network_is_denied(gate: Stack, cluster_admin: ClusterAdmin, alice: User, topic: str) -> None:
    same = kafka_tools_tests.test_a_network_that_is_denied_with_kafka_acls_is_denied_to_a_producer_in_it
    same(gate, cluster_admin, alice, topic)


@pytest.mark.spec("O2")
def test_the_proxy_tells_where_it_stands_in_kafkas_log(gate: Stack) -> None:
    told = gate.metrics()

    assert (told["penstock_quorum_connected"], told["penstock_controller_connected"]) == (1, 1)
    assert told["penstock_quorum_applied_offset"] >= told["penstock_metadata_offset"] > 0
    assert told["penstock_quorum_leader_epoch"] >= 1


@pytest.mark.spec("E13", "Q8", "R9", "S8")
@pytest.mark.parametrize("direct", [True, False], ids=["at the broker", "at the proxy"])
async def test_what_is_changed_at_one_door_counts_at_the_other(gate: Stack, topic: str, direct: bool) -> None:
    here, there = doors(gate) if direct else reversed(doors(gate))
    user, password = f"both-ways-{here.name}", "secret"
    at_here, at_there = here.as_user(user, password), there.as_user(user, password)
    took_ms = {}

    await here.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, user_request(user, password))
    took_ms["user"] = await until(lambda: there.lets_in(at_there))
    assert not await there.shows(topic, at_there)
    await here.ask(ApiKey.CREATE_ACLS, allow_request(topic, user))
    took_ms["ACL"] = await until(lambda: there.shows(topic, at_there))
    await here.ask(ApiKey.DELETE_ACLS, withdraw_request(topic, user))
    took_ms["no ACL"] = await until(lambda: hides(there, topic, at_there))
    await here.ask(ApiKey.ALTER_CLIENT_QUOTAS, limit_request(user, 12_345.0))
    took_ms["quota"] = await until(lambda: limits(there, user, 12_345.0))
    await until(lambda: here.lets_in(at_here))
    token = await here.ask(ApiKey.CREATE_DELEGATION_TOKEN, token_request(), at_here)
    bearer = there.as_user(token.token_id, b64encode(token.hmac).decode(), token=True)
    took_ms["token"] = await until(lambda: there.lets_in(bearer))

    sys.stderr.write(f"changed at the {here.name}, counts at the {there.name} after (ms): {took_ms}\n")
    assert token.error_code == 0


@pytest.mark.spec("Q8", "O2")
def test_a_default_quota_is_one_limit_for_all_users_until_the_proxys_own_user_has_one(
    gate: Stack, cluster_admin: ClusterAdmin, topic: str
) -> None:
    proxy, limit, own = doors(gate)[1], 20_100.0, gate.wiring.broker_login.name

    def limited(user: str | None, limit: float | None) -> None:
        asyncio.run(proxy.ask(ApiKey.ALTER_CLIENT_QUOTAS, limit_request(user, limit)))

    def bursts(*names: str) -> list[bool]:
        """Whether each of these users is throttled after a burst that a quota of its own would allow."""
        users = [cluster_admin.user(f"quota-{name}") for name in names]
        for user in users:
            cluster_admin.allow(user, "WRITE", "DESCRIBE", topic=topic)
        return [_is_throttled(gate, user, topic, 8 * limit) for user in users]

    def degraded() -> bool:
        ready = probe.get(gate.wiring.proxy_http, "/readyz")[1]
        return f"{DEFAULT_QUOTAS}: producer_byte_rate of users/<default>; user {own}" in ready

    limited(None, limit)
    try:
        assert degraded()
        # The first one too, if others have used the proxy in the broker's windows.
        assert bursts("one", "two")[1]
        limited(own, 1e12)
        assert not degraded()
        assert bursts("three", "four") == [False, False]
    finally:
        limited(None, None)
        limited(own, None)


def _is_throttled(stack: Stack, user: User, topic: str, size: float) -> bool:
    throttled: list[float] = []
    settings = {"throttle_cb": lambda event: throttled.append(event.throttle_time), "linger.ms": 0}
    producer = Producer(librdkafka_settings(user, stack.entrance()) | settings)
    producer.produce(topic, bytes(int(size)))
    assert producer.flush(TIMEOUT_S) == 0
    producer.poll(0.1)
    return any(throttled)


async def hides(door: Door, topic: str, endpoint: EndpointSettings) -> bool:
    return not await door.shows(topic, endpoint)


async def limits(door: Door, user: str, limit: float) -> bool:
    return await door.limit_of(user) == limit
