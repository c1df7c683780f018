"""Every API that is forwarded, in our Envelope to a real KRaft quorum: what it answers, and what then holds.

Three nodes with Kafka's own authorizer. What proxies follow is read from a QuorumFeed, the rest is asked of a
broker. The last two tests kill the leader; the first of them looks at what the nodes' directories say then.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forwarding.net.forwarder import Forwarder
from proxy.metadata.acl import Operation
from proxy.metadata.quota_entity import QuotaEntity
from proxy.metadata.scram import ScramMechanism
from proxy.net.runtime.clock import now_ms
from proxy.security.delegation_tokens import TokenSecret
from proxy.security.principal import Principal
from proxy.session.apis.table import FORWARDED
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.controllers import ADMIN, a_forwarder, acl_names, acls_request, cluster_right, forward
from tests.support.kafka_quorum import TIMEOUT_MS, TOKEN_KEY, KafkaQuorum, a_quorum
from tests.support.kraft_directories import acls_in, in_time, lose, taken_of
from tests.support.quorum import Follower, following
from tests.support.recorded_spans import RecordedSpans
from tests.support.told_state import leader_by, told_by
from tests.support.two_sides import limit_request, user_request, withdraw_request

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("E1", "E2")]

MALLORY = Principal("User", "mallory")
TOPIC = 2
"""ConfigResource's and ResourceType's number of a topic."""
SET, PREFERRED, SAFE_DOWNGRADE, UPGRADE = 0, 0, 2, 1


@pytest.fixture(scope="module")
def quorum(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaQuorum]:
    with a_quorum(kafka_libs, tmp_path_factory.mktemp("quorum")) as quorum:
        yield quorum


@dataclass
class Plane:
    """What a proxy has in kraft mode, put together as the process does it."""

    quorum: KafkaQuorum
    follower: Follower
    forwarder: Forwarder

    async def __call__(self, api_key: int, request: Any, principal: Principal = ADMIN) -> Any:
        """The response inside; what was acknowledged is then in force here."""
        reply, response = await forward(self.forwarder, api_key, request, principal, TIMEOUT_MS)
        assert reply.error_code == ErrorCode.NONE, reply
        await self.follower.feed.wait_for_end(TIMEOUT_MS)
        return response

    async def once_known(self, api_key: int, request: Any) -> Any:
        """The same again while Kafka's controller has not heard of its own new token: it does so later."""
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            response = await self(api_key, request)
            while response.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND:
                response = await self(api_key, request)
        return response

    @property
    def image(self) -> Any:
        return self.follower.loader.image


@asynccontextmanager
async def plane(quorum: KafkaQuorum) -> AsyncIterator[Plane]:
    endpoints = quorum.controllers()
    async with following(*endpoints) as follower:
        await follower.loaded()
        leader = follower.feed.leader
        # Kafka's controllers skip the tag that names a span.
        spans = RecordedSpans()
        async with a_forwarder(*endpoints, leader=lambda: leader.endpoint, spans=spans) as forwarder:
            yield Plane(quorum, follower, forwarder)


def topic_request(name: str, *replicas: list[int]) -> Any:
    request = types.CreateTopicsRequest
    assignments = [
        request.CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
        for index, ids in enumerate(replicas)
    ]
    topic = request.CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=assignments
    )
    return request(topics=[topic], timeout_ms=TIMEOUT_MS)


async def create(plane: Plane, name: str, *replicas: list[int]) -> None:
    created = await plane(ApiKey.CREATE_TOPICS, topic_request(name, *replicas))
    assert [(t.name, t.error_code, t.num_partitions) for t in created.topics] == [(name, 0, len(replicas))]


async def until_config(quorum: KafkaQuorum, topic: str, key: str, value: str) -> None:
    """Until a broker says so: it hears of a change a moment later."""
    request = types.DescribeConfigsRequest
    resource = request.DescribeConfigsResource(
        resource_type=TOPIC, resource_name=topic, configuration_keys=[key]
    )
    async with asyncio.timeout(TIMEOUT_MS / 1000):
        told: list[str] = []
        while told != [value]:
            answer = await quorum.ask(ApiKey.DESCRIBE_CONFIGS, request(resources=[resource]))
            told = [config.value for config in answer.results[0].configs]


async def test_topics_are_created_grown_and_deleted(quorum: KafkaQuorum, topic_name: str) -> None:
    async with plane(quorum) as ask:
        await create(ask, topic_name, [1], [2])
        await quorum.until(topic_name, lambda told: len(told.partitions) == 2)
        more = types.CreatePartitionsRequest
        wanted = more.CreatePartitionsTopic(name=topic_name, count=3, assignments=None)
        grown = await ask(ApiKey.CREATE_PARTITIONS, more(topics=[wanted], timeout_ms=TIMEOUT_MS))
        await quorum.until(topic_name, lambda told: len(told.partitions) == 3)
        less = types.DeleteTopicsRequest
        gone = await ask(
            ApiKey.DELETE_TOPICS,
            less(topics=[less.DeleteTopicState(name=topic_name)], timeout_ms=TIMEOUT_MS),
        )
        await quorum.until(topic_name, lambda told: told.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    assert [(r.name, r.error_code) for r in grown.results] == [(topic_name, 0)]
    assert [(r.name, r.error_code) for r in gone.responses] == [(topic_name, 0)]


async def test_configs_are_altered_both_ways(quorum: KafkaQuorum, topic_name: str) -> None:
    one_by_one, whole = types.IncrementalAlterConfigsRequest, types.AlterConfigsRequest
    async with plane(quorum) as ask:
        await create(ask, topic_name, [1])
        config = one_by_one.AlterableConfig(name="retention.ms", config_operation=SET, value="11111")
        resource = one_by_one.AlterConfigsResource(
            resource_type=TOPIC, resource_name=topic_name, configs=[config]
        )
        changed = await ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, one_by_one(resources=[resource]))
        await until_config(quorum, topic_name, "retention.ms", "11111")
        other = whole.AlterableConfig(name="retention.ms", value="22222")
        everything = whole.AlterConfigsResource(
            resource_type=TOPIC, resource_name=topic_name, configs=[other]
        )
        replaced = await ask(ApiKey.ALTER_CONFIGS, whole(resources=[everything]))
        await until_config(quorum, topic_name, "retention.ms", "22222")

    assert [(r.resource_name, r.error_code) for r in changed.responses] == [(topic_name, 0)]
    assert [(r.resource_name, r.error_code) for r in replaced.responses] == [(topic_name, 0)]


async def test_replicas_are_moved_and_the_preferred_one_is_elected(
    quorum: KafkaQuorum, topic_name: str
) -> None:
    moves, elections = types.AlterPartitionReassignmentsRequest, types.ElectLeadersRequest
    async with plane(quorum) as ask:
        await create(ask, topic_name, [1, 2])
        await quorum.until(
            topic_name, lambda told: told.partitions and len(told.partitions[0].isr_nodes) == 2
        )
        partition = moves.ReassignablePartition(partition_index=0, replicas=[2, 1])
        topic = moves.ReassignableTopic(name=topic_name, partitions=[partition])
        moved = await ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, moves(topics=[topic]))
        told = await quorum.until(topic_name, lambda told: told.partitions[0].replica_nodes == [2, 1])
        wanted = elections.TopicPartitions(topic=topic_name, partitions=[0])
        elected = await ask(
            ApiKey.ELECT_LEADERS, elections(election_type=PREFERRED, topic_partitions=[wanted])
        )
        await quorum.until(topic_name, lambda told: told.partitions[0].leader_id == 2)

    assert told.partitions[0].leader_id == 1
    assert [p.error_code for r in moved.responses for p in r.partitions] == [0]
    assert [p.error_code for r in elected.replica_election_results for p in r.partition_result] == [0]


@pytest.mark.spec("S8", "E13")
async def test_acls_are_created_and_deleted(quorum: KafkaQuorum, topic_name: str) -> None:
    async with plane(quorum) as ask:
        created = await ask(ApiKey.CREATE_ACLS, acls_request(topic_name))
        then = topic_name in acl_names(ask.image)
        deleted = await ask(ApiKey.DELETE_ACLS, withdraw_request(topic_name, "alice"))
        left = topic_name in acl_names(ask.image)

    assert [result.error_code for result in created.results] == [0]
    assert [len(result.matching_acls) for result in deleted.filter_results] == [1]
    assert (then, left) == (True, False)


@pytest.mark.spec("Q8", "R9", "E13")
async def test_quotas_and_credentials_are_stored(quorum: KafkaQuorum, topic_name: str) -> None:
    async with plane(quorum) as ask:
        limited = await ask(ApiKey.ALTER_CLIENT_QUOTAS, limit_request(topic_name, 1e6))
        stored = await ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, user_request(topic_name, "secret"))
        image = ask.image

    assert [entry.error_code for entry in limited.entries] == [0]
    assert [(result.user, result.error_code) for result in stored.results] == [(topic_name, 0)]
    assert image.quotas.limit(QuotaEntity(user=topic_name), "producer_byte_rate") == 1e6
    assert image.scram.credential(ScramMechanism.SCRAM_SHA_256, topic_name).iterations == 4096


@pytest.mark.spec("R9", "E13")
async def test_a_delegation_token_is_created_renewed_and_expired(quorum: KafkaQuorum) -> None:
    secret = TokenSecret(TOKEN_KEY.encode())
    async with plane(quorum) as ask:
        created = await ask(
            ApiKey.CREATE_DELEGATION_TOKEN,
            types.CreateDelegationTokenRequest(
                renewers=[], max_lifetime_ms=3_600_000, owner_principal_type=None, owner_principal_name=None
            ),
        )
        mac = bytes(created.hmac)
        renewal = types.RenewDelegationTokenRequest(hmac=mac, renew_period_ms=60_000)
        renewed = await ask.once_known(ApiKey.RENEW_DELEGATION_TOKEN, renewal)
        kept = ask.image.tokens.by_id.get(created.token_id)
        end = types.ExpireDelegationTokenRequest(hmac=mac, expiry_time_period_ms=-1)
        expired = await ask(ApiKey.EXPIRE_DELEGATION_TOKEN, end)
        gone = ask.image.tokens.by_id.get(created.token_id)

    assert [created.error_code, renewed.error_code, expired.error_code] == [0, 0, 0]
    assert (created.principal_name, kept.owner) == ("admin", "User:admin")
    assert kept.expiry_timestamp_ms == renewed.expiry_timestamp_ms
    assert secret.hmac(created.token_id) == mac, "a token that one side made is proved at the other"
    assert gone is None


async def test_a_feature_is_set_back_and_raised_again(quorum: KafkaQuorum) -> None:
    features = types.UpdateFeaturesRequest
    async with plane(quorum) as ask:
        answers = []
        for level, kind in ((0, SAFE_DOWNGRADE), (1, UPGRADE)):
            update = features.FeatureUpdateKey(
                feature="share.version", max_version_level=level, upgrade_type=kind
            )
            answers.append(await ask(ApiKey.UPDATE_FEATURES, features(feature_updates=[update])))
        unknown = features.FeatureUpdateKey(feature="no.such", max_version_level=1)
        refused = await ask(ApiKey.UPDATE_FEATURES, features(feature_updates=[unknown]))

    assert [(answer.error_code, answer.error_message) for answer in answers] == [(0, None), (0, None)]
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "no.such" in refused.error_message


@pytest.mark.spec("E4")
async def test_the_client_is_authorised_by_the_controller_too(quorum: KafkaQuorum, topic_name: str) -> None:
    async with plane(quorum) as ask:
        refused = await ask(ApiKey.CREATE_ACLS, acls_request(topic_name), principal=MALLORY)

    assert [result.error_code for result in refused.results] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]


def test_no_api_is_left_out_here() -> None:
    said = Path(__file__).read_text(encoding="utf-8")

    assert [api for api in FORWARDED if f"ApiKey.{ApiKey(api).name}," not in said] == []


@pytest.mark.spec("E4", "E6")
async def test_whoever_has_no_cluster_action_is_shut_out_until_an_acl_grants_it(quorum: KafkaQuorum) -> None:
    endpoints = quorum.controllers("proxy-2")
    async with plane(quorum) as ask, following(*endpoints) as follower, a_forwarder(*endpoints) as stranger:
        refused, _ = await forward(stranger, ApiKey.CREATE_ACLS, acls_request("t"))
        before = follower.feed.loaded.is_set()
        await ask(ApiKey.CREATE_ACLS, cluster_right(Operation.CLUSTER_ACTION, "User:proxy-2"))
        await follower.loaded()
        taken, _ = await forward(stranger, ApiKey.CREATE_ACLS, acls_request("t"))

    assert (refused.error_code, before) == (ErrorCode.UNKNOWN_SERVER_ERROR, False)
    assert taken.error_code == ErrorCode.NONE


@pytest.mark.spec("D4", "D5")
async def test_what_is_imported_of_a_nodes_directory_is_never_taken_back(
    quorum: KafkaQuorum, topic_name: str, tmp_path: Path
) -> None:
    """A leader that nobody follows goes on writing; killed and back again, it has lost that."""
    nodes = {each.node_id: each for each in quorum.brokers}
    await quorum.ask(ApiKey.CREATE_ACLS, acls_request(topic_name))
    old = nodes[await leader_by(quorum.door(quorum.brokers[0]))]
    others = [each for each in quorum.brokers if each is not old]

    # Of one directory alone an import takes only what is old enough; on a fast machine nothing is yet.
    since_ms = now_ms()
    while not in_time(len(taken_of(old.metadata_log)) > 10, since_ms, "records that are settled"):
        pass
    lost = lose(old, others, tmp_path / "old")
    beside = taken_of(lost.disk, *(each.metadata_log for each in others))
    await leader_by(quorum.door(others[0]), but=old.node_id)
    await quorum.ask(ApiKey.CREATE_ACLS, acls_request(f"{topic_name}-after"), others[0])
    old.start()
    state = await told_by(quorum.door(others[0]))
    directories, since_ms = [each.metadata_log for each in quorum.brokers], now_ms()
    while not in_time(max(told := taken_of(*directories)) > max(lost.tail), since_ms, "what is new"):
        pass

    taken_back = [offset for offset, record in lost.tail.items() if told[offset] != record]
    assert len(lost.taken) > 10
    assert max(lost.taken) < min(taken_back)
    assert lost.taken.items() <= told.items()
    assert beside.items() <= told.items()
    assert max(told) > max(beside)
    assert acls_in(told) == state.acls


@pytest.mark.spec("E5", "E12", "E13")
async def test_when_the_leader_dies_the_next_one_is_followed_and_takes_what_is_forwarded(
    quorum: KafkaQuorum, topic_name: str
) -> None:
    names = [f"{topic_name}-{number}" for number in range(6)]
    async with plane(quorum) as ask:
        leader = ask.follower.feed.leader
        first, epoch = leader.endpoint, leader.epoch
        assert first is not None
        for number, name in enumerate(names):
            if number == 3:
                quorum.node_of(first).process.kill()
            created = await ask(ApiKey.CREATE_ACLS, acls_request(name))
            assert [result.error_code for result in created.results] == [0]
        image, second = ask.image, leader.endpoint

    assert second is not None
    assert second.address != first.address
    assert leader.epoch > epoch
    assert set(names) <= set(acl_names(image))
