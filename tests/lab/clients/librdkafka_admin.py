"""Admin calls of the scenarios in librdkafka, by confluent-kafka. Used by librdkafka_driver."""

from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    ElectionType,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)

from tests.lab.clients.driver import COUNT, TIMEOUT_S, Work, until
from tests.lab.clients.librdkafka_data import a_topic, admin, deliver, settings, take


def _client(work: Work) -> Any:
    return admin.AdminClient(settings(work))


def _one(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(TIMEOUT_S)


def _filled(work: Work) -> str:
    topic = a_topic(work)
    deliver(Producer(settings(work)), topic)
    return topic


def topics(work: Work) -> None:
    client, name = _client(work), a_topic(work, partitions=3)
    (described,) = client.describe_topics(
        TopicCollection([name]), include_authorized_operations=True
    ).values()
    told = described.result(TIMEOUT_S)
    assert (len(told.partitions), admin.AclOperation.WRITE in told.authorized_operations) == (3, True)
    _one(client.delete_topics([name]))
    until(lambda: client.list_topics(timeout=TIMEOUT_S).topics, lambda found: name not in found)


def partitions(work: Work) -> None:
    client, name = _client(work), a_topic(work)
    _one(client.create_partitions([admin.NewPartitions(name, 4)]))
    until(lambda: len(client.list_topics(name, timeout=TIMEOUT_S).topics[name].partitions), lambda n: n == 4)


def _config(client: Any, name: str) -> str | None:
    resource = admin.ConfigResource(admin.ResourceType.TOPIC, name)
    value: str | None = _one(client.describe_configs([resource]))["retention.ms"].value
    return value


def configs(work: Work) -> None:
    client, name = _client(work), a_topic(work)
    wanted = admin.ConfigResource(admin.ResourceType.TOPIC, name, set_config={"retention.ms": "86400000"})
    _one(client.alter_configs([wanted]))
    until(lambda: _config(client, name), lambda value: value == "86400000")


def incremental_configs(work: Work) -> None:
    client, name = _client(work), a_topic(work)
    for operation, value in (
        (admin.AlterConfigOpType.SET, "3600000"),
        (admin.AlterConfigOpType.DELETE, None),
    ):
        entry = admin.ConfigEntry("retention.ms", value, incremental_operation=operation)
        wanted = admin.ConfigResource(admin.ResourceType.TOPIC, name, incremental_configs=[entry])
        _one(client.incremental_alter_configs([wanted]))
        until(lambda: _config(client, name), lambda found, v=value: found == (v or "604800000"))  # type: ignore[misc]


def acls(work: Work) -> None:
    client = _client(work)
    kind, prefixed = admin.ResourceType.TOPIC, admin.ResourcePatternType.PREFIXED
    principal, read = f"User:{work.name}", admin.AclOperation.READ
    binding = admin.AclBinding(kind, work.name, prefixed, principal, "*", read, admin.AclPermissionType.ALLOW)
    wanted = admin.AclBindingFilter(
        kind, f"{work.name}-x", admin.ResourcePatternType.MATCH, principal, None,
        admin.AclOperation.ANY, admin.AclPermissionType.ANY,
    )  # fmt: skip
    _one(client.create_acls([binding]))
    assert until(lambda: client.describe_acls(wanted).result(TIMEOUT_S), bool) == [binding]
    assert list(_one(client.delete_acls([wanted]))) == [binding]
    until(lambda: client.describe_acls(wanted).result(TIMEOUT_S), lambda found: found == [])


def scram(work: Work) -> None:
    client, user = _client(work), work.name
    mechanism = admin.ScramMechanism.SCRAM_SHA_256
    info = admin.ScramCredentialInfo(mechanism, 4096)
    _one(client.alter_user_scram_credentials([admin.UserScramCredentialUpsertion(user, info, b"secret")]))
    told = until(lambda: _scram_of(client, user), bool)
    assert [(i.mechanism, i.iterations) for i in told] == [(mechanism, 4096)]
    _one(client.alter_user_scram_credentials([admin.UserScramCredentialDeletion(user, mechanism)]))
    until(lambda: _scram_of(client, user), lambda found: found == [])


def _scram_of(client: Any, user: str) -> list[Any]:
    try:
        described = client.describe_user_scram_credentials([user])[user].result(TIMEOUT_S)
    except KafkaException as failure:
        if failure.args[0].name() == "RESOURCE_NOT_FOUND":
            return []
        raise
    return list(described.scram_credential_infos)


def _consumed(work: Work, topic: str) -> str:
    """A group that has read 40 records and gone."""
    group = f"{work.name}-group"
    consumer = Consumer(
        settings(work, **{"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    )
    consumer.subscribe([topic])
    take(consumer, COUNT)
    consumer.commit(offsets=[TopicPartition(topic, 0, 40)], asynchronous=False)
    consumer.unsubscribe()
    consumer.close()
    return group


def groups(work: Work) -> None:
    client, group = _client(work), _consumed(work, _filled(work))
    listed = client.list_consumer_groups().result(TIMEOUT_S).valid
    described = until(lambda: _one(client.describe_consumer_groups([group])), lambda g: not g.members)
    assert group in [each.group_id for each in listed]
    assert described.state.name == "EMPTY", described.state
    _one(client.delete_consumer_groups([group]))
    listed = client.list_consumer_groups().result(TIMEOUT_S).valid
    assert group not in [each.group_id for each in listed]


def offsets(work: Work) -> None:
    client, topic = _client(work), _filled(work)
    group = _consumed(work, topic)
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    (before,) = _one(client.list_consumer_group_offsets([wanted])).topic_partitions
    reset = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 7)])
    _one(client.alter_consumer_group_offsets([reset]))
    (after,) = _one(client.list_consumer_group_offsets([wanted])).topic_partitions
    assert (before.offset, after.offset) == (40, 7)


def delete_records(work: Work) -> None:
    client, topic = _client(work), _filled(work)
    deleted = _one(client.delete_records([TopicPartition(topic, 0, 30)]))
    assert deleted.low_watermark == 30


def list_offsets(work: Work) -> None:
    client, topic = _client(work), _filled(work)
    found = [
        _one(client.list_offsets({TopicPartition(topic, 0): spec}, isolation_level=level)).offset
        for level in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
        for spec in (
            admin.OffsetSpec.earliest(),
            admin.OffsetSpec.latest(),
            admin.OffsetSpec.for_timestamp(0),
        )
    ]
    assert found == [0, COUNT, 0] * 2


def cluster(work: Work) -> None:
    client = _client(work)
    told = client.describe_cluster(include_authorized_operations=True).result(TIMEOUT_S)
    assert told.cluster_id
    assert [f"{node.host}:{node.port}" for node in told.nodes] == [work.login["bootstrap"]]
    assert admin.AclOperation.ALTER in told.authorized_operations


def elections(work: Work) -> None:
    client, part = _client(work), TopicPartition(a_topic(work), 0)
    told = client.elect_leaders(ElectionType.PREFERRED, [part]).result(TIMEOUT_S)
    assert told[part] is not None
    assert told[part].name() == "ELECTION_NOT_NEEDED"


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
}
