"""Admin calls of the scenarios in kafka-python. Used by kafka_python_driver."""

from contextlib import closing
from typing import Any

from tests.lab.clients.driver import COUNT, Work, python_settings, until, values
from tests.lab.clients.kafka_python_data import (
    a_topic,
    admin,
    client,
    consumer,
    deliver,
    kafka,
    take,
)


def _filled(work: Work) -> Any:
    topic = a_topic(work)
    deliver(work, topic)
    return kafka.TopicPartition(topic, 0)


def topics(work: Work) -> None:
    name = a_topic(work, partitions=3)
    with client(work) as cluster:
        (told,) = cluster.describe_topics([name])
        assert len(told["partitions"]) == 3
        cluster.delete_topics([name])
        until(cluster.list_topics, lambda found: name not in found)


def partitions(work: Work) -> None:
    name = a_topic(work)
    with client(work) as cluster:
        cluster.create_partitions({name: 4})
        until(lambda: cluster.describe_topics([name])[0]["partitions"], lambda found: len(found) == 4)


def _alter(work: Work, incremental: bool) -> None:
    name = a_topic(work)
    topic = admin.ConfigResourceType.TOPIC
    with client(work) as cluster:
        wanted = admin.ConfigResource(topic, name, {"retention.ms": "86400000"})
        cluster.alter_configs([wanted], incremental=incremental)
        until(
            lambda: str(cluster.describe_configs([admin.ConfigResource(topic, name)])),
            lambda found: "86400000" in found,
        )


def configs(work: Work) -> None:
    _alter(work, incremental=False)


def incremental_configs(work: Work) -> None:
    _alter(work, incremental=True)


def acls(work: Work) -> None:
    topic, principal = admin.ResourceType.TOPIC, f"User:{work.name}"
    prefix = admin.ResourcePattern(topic, work.name, admin.ACLResourcePatternType.PREFIXED)
    acl = admin.ACL(principal, "*", admin.ACLOperation.READ, admin.ACLPermissionType.ALLOW, prefix)
    matching = admin.ResourcePatternFilter(topic, f"{work.name}-x", admin.ACLResourcePatternType.MATCH)
    wanted = admin.ACLFilter(principal, None, admin.ACLOperation.ANY, admin.ACLPermissionType.ANY, matching)
    with client(work) as cluster:
        made = cluster.create_acls([acl])
        assert (made["succeeded"], made["failed"]) == ([acl], []), made
        assert until(lambda: cluster.describe_acls(wanted)[0], bool) == [acl]
        cluster.delete_acls([wanted])
        until(lambda: cluster.describe_acls(wanted)[0], lambda found: found == [])


def scram(work: Work) -> None:
    user, mechanism = work.name, admin.ScramMechanism.SCRAM_SHA_256
    upsertion = admin.UserScramCredentialUpsertion(user, mechanism, "secret", iterations=4096)
    with client(work) as cluster:
        assert cluster.alter_user_scram_credentials([upsertion]) == {user: None}
        told = until(lambda: _scram_of(cluster, user), bool)
        assert told == [{"mechanism": mechanism, "iterations": 4096}]
        deletion = admin.UserScramCredentialDeletion(user, mechanism)
        assert cluster.alter_user_scram_credentials([deletion]) == {user: None}
        until(lambda: _scram_of(cluster, user), lambda found: found == [])


def _scram_of(cluster: Any, user: str) -> Any:
    return cluster.describe_user_scram_credentials([user])[user]["credential_infos"]


def _consumed(work: Work, part: Any) -> str:
    """A group that has read all, committed less, and gone."""
    group = f"{work.name}-group"
    with consumer(work, group_id=group) as reader:
        reader.subscribe([part.topic])
        take(reader, COUNT)
        reader.commit({part: kafka.OffsetAndMetadata(40, "", -1)})
    return group


def groups(work: Work) -> None:
    group = _consumed(work, _filled(work))
    with client(work) as cluster:
        assert group in _listed(cluster)
        assert group in cluster.describe_groups([group])
        cluster.delete_groups([group])
        assert group not in _listed(cluster)


def _listed(cluster: Any) -> set[str]:
    return {each["group_id"] for each in cluster.list_groups()}


def offsets(work: Work) -> None:
    part = _filled(work)
    group = _consumed(work, part)
    with client(work) as cluster:
        before = cluster.list_group_offsets({group: [part]})[group][part].offset
        cluster.alter_group_offsets(group, {part: kafka.OffsetAndMetadata(7, "", -1)})
        after = cluster.list_group_offsets({group: [part]})[group][part].offset
        cluster.reset_group_offsets(group, {part: admin.OffsetSpec.LATEST})
        reset = cluster.list_group_offsets({group: [part]})[group][part].offset
        cluster.delete_group_offsets(group, [part])
        left = cluster.list_group_offsets([group])[group]
    assert (before, after, reset, part in left) == (40, 7, COUNT, False)


def delete_records(work: Work) -> None:
    part = _filled(work)
    with client(work) as cluster:
        assert cluster.delete_records({part: 30})[part]["low_watermark"] == 30


def list_offsets(work: Work) -> None:
    part = _filled(work)
    with client(work) as cluster:
        found = [
            cluster.list_partition_offsets({part: spec})[part].offset
            for spec in (admin.OffsetSpec.EARLIEST, admin.OffsetSpec.LATEST, admin.OffsetSpec.MAX_TIMESTAMP)
        ]
    assert found[:2] == [0, COUNT]
    assert 0 <= found[2] < COUNT


def cluster(work: Work) -> None:
    with client(work) as admin_client:
        told = admin_client.describe_cluster()
    assert [f"{b['host']}:{b['port']}" for b in told["brokers"]] == [work.login["bootstrap"]]


def elections(work: Work) -> None:
    name = a_topic(work)
    with client(work) as admin_client:
        told = str(admin_client.elect_leaders(0, {name: [0]}, raise_errors=False))
    assert "84" in told, told  # ELECTION_NOT_NEEDED


def log_dirs(work: Work) -> None:
    part = _filled(work)
    with client(work) as admin_client:
        told = str(admin_client.describe_log_dirs({part.topic: [0]}))
    assert part.topic in told, told


def producers(work: Work) -> None:
    topic = a_topic(work)
    part = kafka.TopicPartition(topic, 0)
    deliver(work, topic, enable_idempotence=True)
    with client(work) as admin_client:
        (told,) = admin_client.describe_producers([part])[part].active_producers
    assert told.last_sequence == COUNT - 1


def transactions(work: Work) -> None:
    topic, transactional_id = a_topic(work), f"{work.name}-id"
    chosen = {**python_settings(work), "transactional_id": transactional_id}
    with closing(kafka.KafkaProducer(**chosen)) as producer, client(work) as admin_client:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, values(1)[0]).get(30)
        listed = admin_client.list_transactions()
        told = admin_client.describe_transactions([transactional_id])[transactional_id]
        producer.abort_transaction()
    assert transactional_id in {each.transactional_id for some in listed.values() for each in some}
    assert topic in str(told)


def reassignments(work: Work) -> None:
    part = kafka.TopicPartition(a_topic(work), 0)
    with client(work) as admin_client:
        accepted = admin_client.alter_partition_reassignments({part: [1]})
        assert admin_client.list_partition_reassignments([part]) == {}
    assert accepted == {part: None}


FUNCTIONS = {
    "topics": topics,
    "partitions": partitions,
    "configs": configs,
    "incremental-configs": incremental_configs,
    "acls": acls,
    "scram": scram,
    "groups": groups,
    "offsets": offsets,
    "delete-records": delete_records,
    "list-offsets": list_offsets,
    "cluster": cluster,
    "elections": elections,
    "log-dirs": log_dirs,
    "producers": producers,
    "transactions": transactions,
    "reassignments": reassignments,
}
