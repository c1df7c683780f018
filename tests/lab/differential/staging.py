"""What a side holds before a case and what it is rid of after it; the same requests to either side, as admin.

`set_the_stage` once; for each case `prepare`, `put_in_force` (its ACLs), and `clear` at the end. A broker
applies what its controller has committed a moment later: here is waited until it shows.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from proxy.metadata.acl import Operation, PatternType, PermissionType, ResourceType
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.differential.choice import record_batch
from tests.lab.differential.naming import READ_TOPICS, SINK_TOPICS, Names, topic_id
from tests.lab.differential.rights import Rule
from tests.lab.side_by_side.sides import Side
from tests.support.acl_filters import acl_filter, describe_acls

_PAUSE_S = 0.01
_TRIES = 1_000
_RECORDS = 3
_pause = threading.Event()


def until(holds: Callable[[], bool], what: str) -> None:
    """Ask again until it does; RuntimeError when it never does."""
    for _ in range(_TRIES):
        if holds():
            return
        _pause.wait(_PAUSE_S)
    raise RuntimeError(f"waited in vain until {what}")


def set_the_stage(side: Side) -> None:
    """Topics with records, coordinators that answer, users with credentials."""
    create_topics(side, {**READ_TOPICS, **SINK_TOPICS})
    for kind in (0, 1, 2) if ApiKey.SHARE_FETCH in side.versions() else (0, 1):
        until(lambda kind=kind: _has_coordinator(side, kind), f"{side.name} has coordinators")  # type: ignore[misc]
    until(lambda: _gives_producer_ids(side), f"{side.name} gives out producer ids")
    for name, partitions in READ_TOPICS.items():
        _produce(side, name, partitions)
    _create_credentials(side)


def create_topics(side: Side, topics: Mapping[str, int]) -> None:
    """Make them, wait until they have leaders, and note their ids."""
    request = types.CreateTopicsRequest
    wanted = [
        request.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in topics.items()
    ]
    answer = side.admin(ApiKey.CREATE_TOPICS, 7, request(topics=wanted, timeout_ms=10_000))
    _must(side, answer.topics)
    until(lambda: _learn(side, topics), f"{side.name} has {', '.join(topics)}")


def create_sinks_again(side: Side) -> None:
    """Replace the topics that cases produce to by empty ones."""
    states = [types.DeleteTopicsRequest.DeleteTopicState(name=name) for name in SINK_TOPICS]
    side.admin(ApiKey.DELETE_TOPICS, 6, types.DeleteTopicsRequest(topics=states, timeout_ms=10_000))
    until(lambda: not _exist(side, SINK_TOPICS), f"{side.name} has deleted {', '.join(SINK_TOPICS)}")
    create_topics(side, SINK_TOPICS)


def prepare(side: Side, names: Names, *, topics: bool, groups: bool) -> None:
    """What the case is going to change."""
    if topics:
        create_topics(side, dict(zip(names.own_topics, (1, 2), strict=True)))
    if groups:
        for group in names.own_groups:
            _commit(side, group)


def put_in_force(side: Side, rules: Iterable[Rule], mark: Rule) -> None:
    """These ACLs and no others. `mark`: one of no other case, by which the broker's state is known."""
    request = types.CreateAclsRequest
    side.admin(ApiKey.DELETE_ACLS, 3, types.DeleteAclsRequest(filters=[acl_filter()]))
    wanted = [*rules, mark]
    answer = side.admin(ApiKey.CREATE_ACLS, 3, request(creations=[rule.creation() for rule in wanted]))
    _must(side, answer.results)
    await_rules(side, wanted)


def await_rules(side: Side, wanted: Iterable[Rule]) -> None:
    """Until DescribeAcls tells exactly these."""
    expected = {str(rule) for rule in wanted}
    until(lambda: rules_of(side) == expected, f"{side.name} has the case's ACLs")


def rules_of(side: Side) -> set[str]:
    """The ACLs that the side tells of, as people read them."""
    answer = side.admin(ApiKey.DESCRIBE_ACLS, 3, describe_acls())
    return {
        str(
            Rule(
                PermissionType(acl.permission_type),
                acl.principal,
                Operation(acl.operation),
                ResourceType(resource.resource_type),
                PatternType(resource.pattern_type),
                resource.resource_name,
                acl.host,
            )
        )
        for resource in answer.resources
        for acl in resource.acls
    }


def clear(side: Side, names: Names, *, topics: bool, groups: bool) -> None:
    """Remove what the case left behind; what it could not have made is not there, and that is fine."""
    if topics:
        states = [
            types.DeleteTopicsRequest.DeleteTopicState(name=name)
            for name in (*names.own_topics, *names.new_topics)
        ]
        side.admin(ApiKey.DELETE_TOPICS, 6, types.DeleteTopicsRequest(topics=states, timeout_ms=10_000))
    if groups:
        asked = [*names.own_groups, *names.new_groups]
        side.admin(ApiKey.DELETE_GROUPS, 2, types.DeleteGroupsRequest(groups_names=asked))


def _learn(side: Side, topics: Iterable[str]) -> bool:
    request = types.MetadataRequest
    asked = [request.MetadataRequestTopic(name=name) for name in topics]
    answer = side.admin(ApiKey.METADATA, 12, request(topics=asked, allow_auto_topic_creation=False))
    for topic in answer.topics:
        side.topic_ids[topic_id(topic.name)] = bytes(topic.topic_id)
    return all(
        topic.error_code == 0 and all(partition.error_code == 0 for partition in topic.partitions)
        for topic in answer.topics
    )


def _exist(side: Side, topics: Iterable[str]) -> bool:
    request = types.MetadataRequest
    asked = [request.MetadataRequestTopic(name=name) for name in topics]
    answer = side.admin(ApiKey.METADATA, 12, request(topics=asked, allow_auto_topic_creation=False))
    return any(topic.error_code == 0 for topic in answer.topics)


def _has_coordinator(side: Side, kind: int) -> bool:
    key = "g:AAAAAAAAAAAAAAAAAAAAAQ:0" if kind == 2 else "any"
    request = types.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    answer = side.admin(ApiKey.FIND_COORDINATOR, 6, request)
    return all(found.error_code == 0 for found in answer.coordinators)


def _gives_producer_ids(side: Side) -> bool:
    request = types.InitProducerIdRequest(transactional_id="penstock-stage", transaction_timeout_ms=10_000)
    code: int = side.admin(ApiKey.INIT_PRODUCER_ID, 4, request).error_code
    return code == ErrorCode.NONE


def _produce(side: Side, name: str, partitions: int) -> None:
    request = types.ProduceRequest
    data = [
        request.PartitionProduceData(index=index, records=record_batch(_RECORDS))
        for index in range(partitions)
    ]
    message = request(
        acks=-1, timeout_ms=10_000, topic_data=[request.TopicProduceData(name=name, partition_data=data)]
    )
    answer = side.admin(ApiKey.PRODUCE, 12, message)
    _must(side, answer.responses[0].partition_responses)


def _commit(side: Side, group: str) -> None:
    request = types.OffsetCommitRequest
    topics = [
        request.OffsetCommitRequestTopic(
            name=name,
            partitions=[request.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
        )
        for name in READ_TOPICS
    ]
    answer = side.admin(ApiKey.OFFSET_COMMIT, 9, request(group_id=group, topics=topics))
    _must(side, [partition for topic in answer.topics for partition in topic.partitions])


def _create_credentials(side: Side) -> None:
    request = types.AlterUserScramCredentialsRequest
    upsertions = [
        request.ScramCredentialUpsertion(
            name=name, mechanism=1, iterations=4096, salt=b"salt", salted_password=bytes(32)
        )
        for name in ("alice", "bob")
    ]
    answer = side.admin(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request(upsertions=upsertions))
    _must(side, answer.results)


def _must(side: Side, parts: Iterable[Any]) -> None:
    failed = [part for part in parts if part.error_code != ErrorCode.NONE]
    if failed:
        raise RuntimeError(f"{side.name}: {failed}")
