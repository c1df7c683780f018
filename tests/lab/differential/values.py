"""The table of values: which kind of value a field of a request holds, by its path.

Read by filling, which says which line holds for a field. What is not here is a plain value of the field's
type. A line is here for one of three reasons: the field names something, it must not wait or do lasting harm
to a side (a quota on everybody, a broker taken out), or most values would make the request invalid.
"""

import math
from collections.abc import Callable
from typing import Any

from tests.lab.cluster.release import Feature, Release
from tests.lab.differential.choice import ZERO_ID, Choice

Value = Callable[[Choice], Any]


def among(*values: Any) -> Value:
    """One of these."""
    return lambda choice: choice.random.choice(values)


_MEMBER = among("", "", "nobody-1")
_TIMEOUT_MS = among(10_000)
_NUMBERS = {
    "partition_index": Choice.partition,
    "partition_indexes": Choice.partition,
    "partitions": Choice.partition,
    "partition": Choice.partition,
    "index": Choice.partition,
    "current_leader_epoch": among(-1, -1, -1, 0, 5),
    "replica_id": among(-1),
    "replica_epoch": among(-1),
    "isolation_level": among(0, 1),
    "timeout_ms": _TIMEOUT_MS,
    "session_timeout_ms": among(10_000),
    "rebalance_timeout_ms": among(10_000),
    "member_epoch": among(0, -1, 3),
    "generation_id": among(-1, 0, 1),
    "generation_id_or_member_epoch": among(-1, -1, -1, 1),
    "producer_id": among(-1, 0, 987_654),
    "producer_epoch": among(0, 0, -1),
    "validate_only": among(True, False, False),
}
_NAMES = {
    "topic": Choice.topic,
    "topic_name": Choice.topic,
    "topics.name": Choice.topic,
    "v3_and_below_topics.name": Choice.topic,
    "subscribed_topic_names": Choice.topic,
    "topic_id": Choice.topic_id,
    "group_id": Choice.group,
    "groups": Choice.group,
    "group_ids": Choice.group,
    "groups_names": Choice.group,
    "transactional_id": Choice.transactional_id,
    "v3_and_below_transactional_id": Choice.transactional_id,
    "transactional_ids": Choice.transactional_id,
    "member_id": _MEMBER,
    "group_instance_id": among(None, None, "instance-1"),
    "principal": Choice.principal,
    "host": Choice.host,
}
_DATA = {
    "Produce:transactional_id": among(None, None, None, "q-none"),
    "Produce:acks": among(-1, -1, 1, 1, 7),
    "Produce:topic_data.name": Choice.sink,
    "Produce:topic_data.topic_id": Choice.sink_id,
    "Produce:records": Choice.records,
    "Fetch:topic": Choice.data_topic,
    "ListOffsets:name": Choice.data_topic,
    "OffsetForLeaderEpoch:topic": Choice.data_topic,
    "DescribeProducers:name": Choice.data_topic,
    "Fetch:cluster_id": among(None),
    "Fetch:replica_id": among(-1, -1, -1, -1, -1, -1, 7),
    "Fetch:replica_state.replica_id": among(-1, -1, -1, -1, -1, -1, 7),
    "Fetch:max_wait_ms": among(0, 10),
    "Fetch:min_bytes": among(0, 1),
    "Fetch:max_bytes": among(1 << 20),
    "Fetch:session_id": among(0),
    "Fetch:session_epoch": among(-1, -1, 0),
    "Fetch:fetch_offset": among(0, 0, 1, 99),
    "Fetch:last_fetched_epoch": among(-1),
    "Fetch:log_start_offset": among(-1),
    "Fetch:partition_max_bytes": among(1 << 20),
    "Fetch:replica_directory_id": among(ZERO_ID),
    "Fetch:high_watermark": among((1 << 63) - 1),
    "Fetch:rack_id": among(""),
    "ListOffsets:timestamp": among(-1, -1, -2, -2, -3, -4, 0, 1 << 50),
    "OffsetForLeaderEpoch:replica_id": among(-1, -1, -2),
    "OffsetForLeaderEpoch:leader_epoch": among(0, 0, 5),
    "DeleteRecords:topics.name": Choice.own_topic,
    "DeleteRecords:offset": among(0, -1, 1, 50),
    "OffsetCommit:committed_offset": among(0, 1, 3),
    "OffsetCommit:committed_metadata": among(None, "", "note"),
    "OffsetCommit:retention_time_ms": among(-1),
    "committed_leader_epoch": among(-1, 0),
    "TxnOffsetCommit:committed_offset": among(0, 2),
}
_GROUPS = {
    "FindCoordinator:key": Choice.group,
    "FindCoordinator:coordinator_keys": Choice.group,
    "FindCoordinator:key_type": among(0, 0, 0, 1, 1, 2, 3),
    "JoinGroup:group_id": Choice.new_group,
    "JoinGroup:protocol_type": among("consumer"),
    "JoinGroup:protocols.name": among("range"),
    "JoinGroup:group_instance_id": among(None),
    "SyncGroup:protocol_type": among(None, "consumer"),
    "SyncGroup:protocol_name": among(None, "range"),
    "ListGroups:states_filter": among("Stable", "Empty", "nonsense"),
    "ListGroups:types_filter": among("classic", "consumer", "nonsense"),
    "ConsumerGroupHeartbeat:group_id": Choice.new_group,
    "ConsumerGroupHeartbeat:subscribed_topic_regex": among(None, None, "t-.*"),
    "ConsumerGroupHeartbeat:instance_id": among(None),
    "ConsumerGroupHeartbeat:server_assignor": among(None, "range", "nonsense"),
    "ConsumerGroupHeartbeat:topic_partitions.topic_id": Choice.topic_id,
    "ShareGroupHeartbeat:group_id": Choice.new_group,
    "ShareGroupHeartbeat:member_id": among("AAAAAAAAAAAAAAAAAAAAAQ"),
    "ShareGroupHeartbeat:member_epoch": among(0, 0, -1, 3),
    "ShareFetch:member_id": among("AAAAAAAAAAAAAAAAAAAAAQ", "nobody"),
    "ShareFetch:max_wait_ms": among(0),
    "ShareFetch:max_bytes": among(1 << 20),
    "ShareFetch:max_records": among(10),
    "ShareFetch:batch_size": among(10),
    "ShareFetch:share_session_epoch": among(0, 0, -1, 1),
    "ShareFetch:is_renew_ack": among(False),
    "ShareAcknowledge:member_id": among("AAAAAAAAAAAAAAAAAAAAAQ", "nobody"),
    "ShareAcknowledge:share_session_epoch": among(0, 1, -1),
    "AlterShareGroupOffsets:start_offset": among(0, 1),
    "StreamsGroupHeartbeat:group_id": Choice.new_group,
    "StreamsGroupHeartbeat:member_id": among("AAAAAAAAAAAAAAAAAAAAAQ"),
    "StreamsGroupHeartbeat:instance_id": among(None),
    "StreamsGroupHeartbeat:member_epoch": among(0, 0, -1),
    "StreamsGroupHeartbeat:subtopologies.source_topics": Choice.topic,
    "StreamsGroupHeartbeat:repartition_sink_topics": Choice.topic,
    "StreamsGroupHeartbeat:subtopologies.repartition_source_topics.name": Choice.new_topic,
    "StreamsGroupHeartbeat:state_changelog_topics.name": Choice.new_topic,
    "StreamsGroupHeartbeat:subtopologies.source_topic_regex": among("t-.*"),
    "ListTransactions:state_filters": among("Ongoing", "Empty", "nonsense"),
    "ListTransactions:duration_filter": among(-1, -1, 0),
    "ListTransactions:transactional_id_pattern": among(None, None, "q-.*", "["),
    "WriteTxnMarkers:name": Choice.sink,
    "InitProducerId:transactional_id": Choice.transactional_id,
    "InitProducerId:transaction_timeout_ms": among(10_000, 10_000, 0),
    "InitProducerId:producer_id": among(-1),
    "InitProducerId:producer_epoch": among(-1),
    "InitProducerId:enable2_pc": among(False, False, True),
    "InitProducerId:keep_prepared_txn": among(False, False, False, True),
}
_ADMIN = {
    "CreateTopics:topics.name": Choice.new_topic,
    "CreateTopics:num_partitions": among(1, 2, -1, 0),
    "CreateTopics:replication_factor": among(1, 1, -1, 3),
    "CreateTopics:broker_ids": Choice.replicas,
    "CreateTopics:configs.name": among("retention.ms", "cleanup.policy", "segment.bytes", "nonsense"),
    "CreateTopics:configs.value": among("60000000", "compact", "1048576"),
    "DeleteTopics:topic_names": Choice.own_topic,
    "DeleteTopics:topics.name": Choice.own_topic,
    "DeleteTopics:topics.topic_id": Choice.own_topic_id,
    "CreatePartitions:topics.name": Choice.own_topic,
    "CreatePartitions:count": among(2, 3, 1, 0),
    "CreatePartitions:broker_ids": Choice.replicas,
    "ElectLeaders:election_type": among(0, 0, 1),
    "AlterPartitionReassignments:topics.name": Choice.own_topic,
    "AlterPartitionReassignments:replicas": Choice.replicas,
    "AlterReplicaLogDirs:path": among("/nowhere"),
    "DescribeAcls:pattern_type_filter": among(*(1, 1, 1, 2, 3, 4) * 6, 0, 99),
    "DescribeAcls:operation": among(*(1, 1, 2, 3, 8) * 6, 0, 99),
    "DescribeAcls:permission_type": among(*(1, 1, 2, 3) * 6, 0, 99),
    "DescribeAcls:resource_type_filter": among(*(1, 1, 2, 3, 4, 5) * 6, 0, 99),
    "DeleteAcls:pattern_type_filter": among(*(1, 1, 1, 2, 3, 4) * 6, 0, 99),
    "DeleteAcls:operation": among(*(1, 1, 2, 3, 8) * 6, 0, 99),
    "DeleteAcls:permission_type": among(*(1, 1, 2, 3) * 6, 0, 99),
    "DeleteAcls:resource_type_filter": among(*(1, 2, 2, 3, 4, 5) * 6, 0, 99),
    "resource_name_filter": Choice.topic,
    "principal_filter": Choice.principal,
    "host_filter": Choice.host,
    "CreateAcls:resource_name": Choice.topic,
    "CreateAcls:resource_type": among(*(2, 2, 3, 4, 5, 6, 7) * 5, 0, 99, 1),
    "CreateAcls:resource_pattern_type": among(*(3, 3, 3, 4, 4) * 5, 0, 99, 1, 2),
    "CreateAcls:operation": among(*(2, 3, 3, 4, 8, 8) * 5, 0, 99, 1),
    "CreateAcls:permission_type": among(*(3, 3, 2) * 8, 0, 99, 1),
    "UpdateFeatures:feature": among("nonsense", "", "metadata.version"),
    "UpdateFeatures:max_version_level": among(99, 120),
    "UnregisterBroker:broker_id": among(99),
    "UnregisterController:controller_id": among(99),
    "DescribeCluster:endpoint_type": among(1, 1, 1, 2, 3),
    "DescribeQuorum:topic_name": among("__cluster_metadata", "__cluster_metadata", "t-alpha"),
    "ListConfigResources:resource_types": among(2, 4, 8, 16, 32, 99),
    "DescribeTopicPartitions:response_partition_limit": among(2000, 2000, 1, 2, 0),
}
_USERS = {
    "DescribeClientQuotas:entity_type": among("user", "client-id", "ip", "nonsense"),
    "DescribeClientQuotas:match_type": among(0, 0, 1, 2, 2, 3),
    "DescribeClientQuotas:match": Choice.user,
    "AlterClientQuotas:entity_type": among("user", "user", "client-id", "client-id", "ip", "nonsense"),
    "AlterClientQuotas:entity_name": Choice.user,
    "AlterClientQuotas:key": among(
        *("producer_byte_rate", "consumer_byte_rate", "request_percentage", "nonsense") * 2,
        *("controller_mutation_rate", "connection_creation_rate"),
    ),
    "AlterClientQuotas:value": among(
        *((1000.0, 50.0, 1e6, 1.5, 0.0, -1.0) * 2 + (2.0**53, 1e19, 1000.0000001)),
        # Brokers before 4.4 store them.
        *((math.nan, math.inf) if Release.chosen().has(Feature.NETWORKS) else ()),
    ),
    "principal_type": among("User", "User", "User", "Group"),
    "principal_name": among("alice", "bob", "u-new"),
    "CreateDelegationToken:owner_principal_type": among(None, None, None, "User"),
    "CreateDelegationToken:owner_principal_name": among(None, None, None, "bob"),
    "CreateDelegationToken:max_lifetime_ms": among(-1, -1, 3_600_000),
    "RenewDelegationToken:renew_period_ms": among(-1, 600_000),
    "ExpireDelegationToken:expiry_time_period_ms": among(-1, 600_000),
    "hmac": among(b"nobody's"),
    "DescribeUserScramCredentials:users.name": among("alice", "bob", "u-none", ""),
    "AlterUserScramCredentials:name": Choice.user,
    "AlterUserScramCredentials:mechanism": among(1, 1, 2, 2, 0),
    "AlterUserScramCredentials:iterations": among(4096, 4096, 8192, 100, 20_000),
    "AlterUserScramCredentials:salt": among(b"salt", b"salt", b""),
    "AlterUserScramCredentials:salted_password": among(bytes(32), bytes(64), b"p", b""),
}

VALUES: dict[str, Value] = {**_NUMBERS, **_NAMES, **_DATA, **_GROUPS, **_ADMIN, **_USERS}

NOT_NULL: dict[str, bool] = dict.fromkeys(
    (
        # Null would set a quota for everybody, and the other cases would run under it.
        "AlterClientQuotas:entity_name",
        # Their values have a null of their own.
        "CreateDelegationToken:owner_principal_type",
        "CreateDelegationToken:owner_principal_name",
        "Produce:transactional_id",
    ),
    True,
)

COUNTS: dict[str, tuple[int, ...]] = {
    "Fetch:forgotten_topics_data": (0,),
    "Fetch:topics": (1, 1, 2, 3),
    "Fetch:partitions": (1, 1, 2),
    "CreateTopics:assignments": (0, 0, 0, 0, 1),
    "CreateTopics:broker_ids": (1,),
    "CreateTopics:configs": (0, 0, 0, 1),
    "CreatePartitions:assignments": (0, 1),
    "CreatePartitions:broker_ids": (1,),
    "AlterPartitionReassignments:replicas": (1,),
    "JoinGroup:protocols": (1,),
    "ConsumerGroupHeartbeat:topic_partitions": (0,),
    "ConsumerGroupHeartbeat:subscribed_topic_names": (1, 2),
    "UpdateFeatures:feature_updates": (1, 1, 2),
    "ListTransactions:producer_id_filters": (0, 0, 1),
    "ShareGroupHeartbeat:subscribed_topic_names": (1, 2),
    "StreamsGroupHeartbeat:source_topic_regex": (0, 0, 0, 1),
    "ListTransactions:state_filters": (0, 0, 1),
    "ListGroups:states_filter": (0, 0, 1),
    "ListGroups:types_filter": (0, 0, 1),
}
"""How many elements an array may have."""

ONCE: dict[str, bool] = dict.fromkeys(
    (
        "CreateTopics:assignments",
        "CreateTopics:broker_ids",
        "CreatePartitions:broker_ids",
        "AlterPartitionReassignments:replicas",
    ),
    True,
)
"""Lists that have no element twice."""
