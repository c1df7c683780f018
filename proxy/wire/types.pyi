# The types of Kafka's messages, for type checkers. Written by `make schemas`: do not edit.

from typing import ClassVar

from proxy.wire.message import Message, Request
from proxy.wire.primitives import Buffer

class AbortTransactionRecord(Message):
    api_key: ClassVar[int]
    reason: str | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., reason: str | None = ...) -> None: ...

class AbortedTxn(Message):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., producer_id: int = ..., first_offset: int = ..., last_offset: int = ..., last_stable_offset: int = ...) -> None: ...

class AccessControlEntryRecord(Message):
    api_key: ClassVar[int]
    id: bytes
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., id: bytes = ..., resource_type: int = ..., resource_name: str = ..., pattern_type: int = ..., principal: str = ..., host: str = ..., operation: int = ..., permission_type: int = ...) -> None: ...

class AddOffsetsToTxnResponse(Message):
    api_key: ClassVar[int]
    throttle_time_ms: int
    error_code: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ...) -> None: ...

class AddOffsetsToTxnRequest(Request[AddOffsetsToTxnResponse]):
    api_key: ClassVar[int]
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., transactional_id: str = ..., producer_id: int = ..., producer_epoch: int = ..., group_id: str = ...) -> None: ...

class AddPartitionsToTxnResponse(Message):
    api_key: ClassVar[int]
    class AddPartitionsToTxnResult(Message):
        transactional_id: str
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., transactional_id: str = ..., topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = ...) -> None: ...
    class AddPartitionsToTxnTopicResult(Message):
        name: str
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = ...) -> None: ...
    class AddPartitionsToTxnPartitionResult(Message):
        partition_index: int
        partition_error_code: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., partition_error_code: int = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult]
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = ..., results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = ...) -> None: ...

class AddPartitionsToTxnRequest(Request[AddPartitionsToTxnResponse]):
    api_key: ClassVar[int]
    class AddPartitionsToTxnTransaction(Message):
        transactional_id: str
        producer_id: int
        producer_epoch: int
        verify_only: bool
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., transactional_id: str = ..., producer_id: int = ..., producer_epoch: int = ..., verify_only: bool = ..., topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = ...) -> None: ...
    class AddPartitionsToTxnTopic(Message):
        name: str
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: list[int] = ...) -> None: ...
    transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction]
    v3_and_below_transactional_id: str
    v3_and_below_producer_id: int
    v3_and_below_producer_epoch: int
    v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = ..., v3_and_below_transactional_id: str = ..., v3_and_below_producer_id: int = ..., v3_and_below_producer_epoch: int = ..., v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = ...) -> None: ...

class AddRaftVoterResponse(Message):
    api_key: ClassVar[int]
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...

class AddRaftVoterRequest(Request[AddRaftVoterResponse]):
    api_key: ClassVar[int]
    class Listener(Message):
        name: str
        host: str
        port: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., host: str = ..., port: int = ...) -> None: ...
    cluster_id: str | None
    timeout_ms: int
    voter_id: int
    voter_directory_id: bytes
    listeners: list[AddRaftVoterRequest.Listener]
    ack_when_committed: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., cluster_id: str | None = ..., timeout_ms: int = ..., voter_id: int = ..., voter_directory_id: bytes = ..., listeners: list[AddRaftVoterRequest.Listener] = ..., ack_when_committed: bool = ...) -> None: ...

class AllocateProducerIdsResponse(Message):
    api_key: ClassVar[int]
    throttle_time_ms: int
    error_code: int
    producer_id_start: int
    producer_id_len: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., producer_id_start: int = ..., producer_id_len: int = ...) -> None: ...

class AllocateProducerIdsRequest(Request[AllocateProducerIdsResponse]):
    api_key: ClassVar[int]
    broker_id: int
    broker_epoch: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., broker_id: int = ..., broker_epoch: int = ...) -> None: ...

class AlterClientQuotasResponse(Message):
    api_key: ClassVar[int]
    class EntryData(Message):
        error_code: int
        error_message: str | None
        entity: list[AlterClientQuotasResponse.EntityData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., error_message: str | None = ..., entity: list[AlterClientQuotasResponse.EntityData] = ...) -> None: ...
    class EntityData(Message):
        entity_type: str
        entity_name: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., entity_type: str = ..., entity_name: str | None = ...) -> None: ...
    throttle_time_ms: int
    entries: list[AlterClientQuotasResponse.EntryData]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., entries: list[AlterClientQuotasResponse.EntryData] = ...) -> None: ...

class AlterClientQuotasRequest(Request[AlterClientQuotasResponse]):
    api_key: ClassVar[int]
    class EntryData(Message):
        entity: list[AlterClientQuotasRequest.EntityData]
        ops: list[AlterClientQuotasRequest.OpData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., entity: list[AlterClientQuotasRequest.EntityData] = ..., ops: list[AlterClientQuotasRequest.OpData] = ...) -> None: ...
    class EntityData(Message):
        entity_type: str
        entity_name: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., entity_type: str = ..., entity_name: str | None = ...) -> None: ...
    class OpData(Message):
        key: str
        value: float
        remove: bool
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., key: str = ..., value: float = ..., remove: bool = ...) -> None: ...
    entries: list[AlterClientQuotasRequest.EntryData]
    validate_only: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., entries: list[AlterClientQuotasRequest.EntryData] = ..., validate_only: bool = ...) -> None: ...

class AlterConfigsResponse(Message):
    api_key: ClassVar[int]
    class AlterConfigsResourceResponse(Message):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., error_message: str | None = ..., resource_type: int = ..., resource_name: str = ...) -> None: ...
    throttle_time_ms: int
    responses: list[AlterConfigsResponse.AlterConfigsResourceResponse]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., responses: list[AlterConfigsResponse.AlterConfigsResourceResponse] = ...) -> None: ...

class AlterConfigsRequest(Request[AlterConfigsResponse]):
    api_key: ClassVar[int]
    class AlterConfigsResource(Message):
        resource_type: int
        resource_name: str
        configs: list[AlterConfigsRequest.AlterableConfig]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., resource_type: int = ..., resource_name: str = ..., configs: list[AlterConfigsRequest.AlterableConfig] = ...) -> None: ...
    class AlterableConfig(Message):
        name: str
        value: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., value: str | None = ...) -> None: ...
    resources: list[AlterConfigsRequest.AlterConfigsResource]
    validate_only: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., resources: list[AlterConfigsRequest.AlterConfigsResource] = ..., validate_only: bool = ...) -> None: ...

class AlterPartitionResponse(Message):
    api_key: ClassVar[int]
    class TopicData(Message):
        topic_id: bytes
        partitions: list[AlterPartitionResponse.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[AlterPartitionResponse.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        isr: list[int]
        leader_recovery_state: int
        partition_epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., error_code: int = ..., leader_id: int = ..., leader_epoch: int = ..., isr: list[int] = ..., leader_recovery_state: int = ..., partition_epoch: int = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    topics: list[AlterPartitionResponse.TopicData]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., topics: list[AlterPartitionResponse.TopicData] = ...) -> None: ...

class AlterPartitionRequest(Request[AlterPartitionResponse]):
    api_key: ClassVar[int]
    class TopicData(Message):
        topic_id: bytes
        partitions: list[AlterPartitionRequest.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[AlterPartitionRequest.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition_index: int
        leader_epoch: int
        new_isr: list[int]
        new_isr_with_epochs: list[AlterPartitionRequest.BrokerState]
        leader_recovery_state: int
        partition_epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., leader_epoch: int = ..., new_isr: list[int] = ..., new_isr_with_epochs: list[AlterPartitionRequest.BrokerState] = ..., leader_recovery_state: int = ..., partition_epoch: int = ...) -> None: ...
    class BrokerState(Message):
        broker_id: int
        broker_epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., broker_id: int = ..., broker_epoch: int = ...) -> None: ...
    broker_id: int
    broker_epoch: int
    topics: list[AlterPartitionRequest.TopicData]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., broker_id: int = ..., broker_epoch: int = ..., topics: list[AlterPartitionRequest.TopicData] = ...) -> None: ...

class AlterPartitionReassignmentsResponse(Message):
    api_key: ClassVar[int]
    class ReassignableTopicResponse(Message):
        name: str
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = ...) -> None: ...
    class ReassignablePartitionResponse(Message):
        partition_index: int
        error_code: int
        error_message: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    allow_replication_factor_change: bool
    error_code: int
    error_message: str | None
    responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., allow_replication_factor_change: bool = ..., error_code: int = ..., error_message: str | None = ..., responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = ...) -> None: ...

class AlterPartitionReassignmentsRequest(Request[AlterPartitionReassignmentsResponse]):
    api_key: ClassVar[int]
    class ReassignableTopic(Message):
        name: str
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = ...) -> None: ...
    class ReassignablePartition(Message):
        partition_index: int
        replicas: list[int] | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., replicas: list[int] | None = ...) -> None: ...
    timeout_ms: int
    allow_replication_factor_change: bool
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., timeout_ms: int = ..., allow_replication_factor_change: bool = ..., topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = ...) -> None: ...

class AlterReplicaLogDirsResponse(Message):
    api_key: ClassVar[int]
    class AlterReplicaLogDirTopicResult(Message):
        topic_name: str
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_name: str = ..., partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = ...) -> None: ...
    class AlterReplicaLogDirPartitionResult(Message):
        partition_index: int
        error_code: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., error_code: int = ...) -> None: ...
    throttle_time_ms: int
    results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = ...) -> None: ...

class AlterReplicaLogDirsRequest(Request[AlterReplicaLogDirsResponse]):
    api_key: ClassVar[int]
    class AlterReplicaLogDir(Message):
        path: str
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., path: str = ..., topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = ...) -> None: ...
    class AlterReplicaLogDirTopic(Message):
        name: str
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: list[int] = ...) -> None: ...
    dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = ...) -> None: ...

class AlterShareGroupOffsetsResponse(Message):
    api_key: ClassVar[int]
    class AlterShareGroupOffsetsResponseTopic(Message):
        topic_name: str
        topic_id: bytes
        partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_name: str = ..., topic_id: bytes = ..., partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition] = ...) -> None: ...
    class AlterShareGroupOffsetsResponsePartition(Message):
        partition_index: int
        error_code: int
        error_message: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    responses: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., responses: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic] = ...) -> None: ...

class AlterShareGroupOffsetsRequest(Request[AlterShareGroupOffsetsResponse]):
    api_key: ClassVar[int]
    class AlterShareGroupOffsetsRequestTopic(Message):
        topic_name: str
        partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_name: str = ..., partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition] = ...) -> None: ...
    class AlterShareGroupOffsetsRequestPartition(Message):
        partition_index: int
        start_offset: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., start_offset: int = ...) -> None: ...
    group_id: str
    topics: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., topics: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic] = ...) -> None: ...

class AlterUserScramCredentialsResponse(Message):
    api_key: ClassVar[int]
    class AlterUserScramCredentialsResult(Message):
        user: str
        error_code: int
        error_message: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., user: str = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = ...) -> None: ...

class AlterUserScramCredentialsRequest(Request[AlterUserScramCredentialsResponse]):
    api_key: ClassVar[int]
    class ScramCredentialDeletion(Message):
        name: str
        mechanism: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., mechanism: int = ...) -> None: ...
    class ScramCredentialUpsertion(Message):
        name: str
        mechanism: int
        iterations: int
        salt: Buffer
        salted_password: Buffer
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., mechanism: int = ..., iterations: int = ..., salt: Buffer = ..., salted_password: Buffer = ...) -> None: ...
    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion]
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = ..., upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = ...) -> None: ...

class ApiVersionsResponse(Message):
    api_key: ClassVar[int]
    class ApiVersion(Message):
        api_key: int  # type: ignore[misc]
        min_version: int
        max_version: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., api_key: int = ..., min_version: int = ..., max_version: int = ...) -> None: ...
    class SupportedFeatureKey(Message):
        name: str
        min_version: int
        max_version: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., min_version: int = ..., max_version: int = ...) -> None: ...
    class FinalizedFeatureKey(Message):
        name: str
        max_version_level: int
        min_version_level: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., max_version_level: int = ..., min_version_level: int = ...) -> None: ...
    error_code: int
    api_keys: list[ApiVersionsResponse.ApiVersion]
    throttle_time_ms: int
    supported_features: list[ApiVersionsResponse.SupportedFeatureKey]
    finalized_features_epoch: int
    finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey]
    zk_migration_ready: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., api_keys: list[ApiVersionsResponse.ApiVersion] = ..., throttle_time_ms: int = ..., supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = ..., finalized_features_epoch: int = ..., finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = ..., zk_migration_ready: bool = ...) -> None: ...

class ApiVersionsRequest(Request[ApiVersionsResponse]):
    api_key: ClassVar[int]
    client_software_name: str
    client_software_version: str
    cluster_id: str | None
    node_id: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., client_software_name: str = ..., client_software_version: str = ..., cluster_id: str | None = ..., node_id: int = ...) -> None: ...

class AssignReplicasToDirsResponse(Message):
    api_key: ClassVar[int]
    class DirectoryData(Message):
        id: bytes
        topics: list[AssignReplicasToDirsResponse.TopicData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., id: bytes = ..., topics: list[AssignReplicasToDirsResponse.TopicData] = ...) -> None: ...
    class TopicData(Message):
        topic_id: bytes
        partitions: list[AssignReplicasToDirsResponse.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[AssignReplicasToDirsResponse.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition_index: int
        error_code: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., error_code: int = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    directories: list[AssignReplicasToDirsResponse.DirectoryData]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., directories: list[AssignReplicasToDirsResponse.DirectoryData] = ...) -> None: ...

class AssignReplicasToDirsRequest(Request[AssignReplicasToDirsResponse]):
    api_key: ClassVar[int]
    class DirectoryData(Message):
        id: bytes
        topics: list[AssignReplicasToDirsRequest.TopicData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., id: bytes = ..., topics: list[AssignReplicasToDirsRequest.TopicData] = ...) -> None: ...
    class TopicData(Message):
        topic_id: bytes
        partitions: list[AssignReplicasToDirsRequest.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[AssignReplicasToDirsRequest.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition_index: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ...) -> None: ...
    broker_id: int
    broker_epoch: int
    directories: list[AssignReplicasToDirsRequest.DirectoryData]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., broker_id: int = ..., broker_epoch: int = ..., directories: list[AssignReplicasToDirsRequest.DirectoryData] = ...) -> None: ...

class BeginQuorumEpochResponse(Message):
    api_key: ClassVar[int]
    class TopicData(Message):
        topic_name: str
        partitions: list[BeginQuorumEpochResponse.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_name: str = ..., partitions: list[BeginQuorumEpochResponse.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., error_code: int = ..., leader_id: int = ..., leader_epoch: int = ...) -> None: ...
    class NodeEndpoint(Message):
        node_id: int
        host: str
        port: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., node_id: int = ..., host: str = ..., port: int = ...) -> None: ...
    error_code: int
    topics: list[BeginQuorumEpochResponse.TopicData]
    node_endpoints: list[BeginQuorumEpochResponse.NodeEndpoint]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., topics: list[BeginQuorumEpochResponse.TopicData] = ..., node_endpoints: list[BeginQuorumEpochResponse.NodeEndpoint] = ...) -> None: ...

class BeginQuorumEpochRequest(Request[BeginQuorumEpochResponse]):
    api_key: ClassVar[int]
    class TopicData(Message):
        topic_name: str
        partitions: list[BeginQuorumEpochRequest.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_name: str = ..., partitions: list[BeginQuorumEpochRequest.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition_index: int
        voter_directory_id: bytes
        leader_id: int
        leader_epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., voter_directory_id: bytes = ..., leader_id: int = ..., leader_epoch: int = ...) -> None: ...
    class LeaderEndpoint(Message):
        name: str
        host: str
        port: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., host: str = ..., port: int = ...) -> None: ...
    cluster_id: str | None
    voter_id: int
    topics: list[BeginQuorumEpochRequest.TopicData]
    leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., cluster_id: str | None = ..., voter_id: int = ..., topics: list[BeginQuorumEpochRequest.TopicData] = ..., leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint] = ...) -> None: ...

class BeginTransactionRecord(Message):
    api_key: ClassVar[int]
    name: str | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str | None = ...) -> None: ...

class BrokerHeartbeatResponse(Message):
    api_key: ClassVar[int]
    throttle_time_ms: int
    error_code: int
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., is_caught_up: bool = ..., is_fenced: bool = ..., should_shut_down: bool = ...) -> None: ...

class BrokerHeartbeatRequest(Request[BrokerHeartbeatResponse]):
    api_key: ClassVar[int]
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: list[bytes]
    cordoned_log_dirs: list[bytes] | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., broker_id: int = ..., broker_epoch: int = ..., current_metadata_offset: int = ..., want_fence: bool = ..., want_shut_down: bool = ..., offline_log_dirs: list[bytes] = ..., cordoned_log_dirs: list[bytes] | None = ...) -> None: ...

class BrokerRegistrationResponse(Message):
    api_key: ClassVar[int]
    throttle_time_ms: int
    error_code: int
    broker_epoch: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., broker_epoch: int = ...) -> None: ...

class BrokerRegistrationRequest(Request[BrokerRegistrationResponse]):
    api_key: ClassVar[int]
    class Listener(Message):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., host: str = ..., port: int = ..., security_protocol: int = ...) -> None: ...
    class Feature(Message):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., min_supported_version: int = ..., max_supported_version: int = ...) -> None: ...
    broker_id: int
    cluster_id: str
    incarnation_id: bytes
    listeners: list[BrokerRegistrationRequest.Listener]
    features: list[BrokerRegistrationRequest.Feature]
    rack: str | None
    is_migrating_zk_broker: bool
    log_dirs: list[bytes]
    previous_broker_epoch: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., broker_id: int = ..., cluster_id: str = ..., incarnation_id: bytes = ..., listeners: list[BrokerRegistrationRequest.Listener] = ..., features: list[BrokerRegistrationRequest.Feature] = ..., rack: str | None = ..., is_migrating_zk_broker: bool = ..., log_dirs: list[bytes] = ..., previous_broker_epoch: int = ...) -> None: ...

class BrokerRegistrationChangeRecord(Message):
    api_key: ClassVar[int]
    broker_id: int
    broker_epoch: int
    fenced: int
    in_controlled_shutdown: int
    log_dirs: list[bytes]
    cordoned_log_dirs: list[bytes] | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., broker_id: int = ..., broker_epoch: int = ..., fenced: int = ..., in_controlled_shutdown: int = ..., log_dirs: list[bytes] = ..., cordoned_log_dirs: list[bytes] | None = ...) -> None: ...

class ClearElrRecord(Message):
    api_key: ClassVar[int]
    topic_name: str
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_name: str = ...) -> None: ...

class ClientQuotaRecord(Message):
    api_key: ClassVar[int]
    class EntityData(Message):
        entity_type: str
        entity_name: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., entity_type: str = ..., entity_name: str | None = ...) -> None: ...
    entity: list[ClientQuotaRecord.EntityData]
    key: str
    value: float
    remove: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., entity: list[ClientQuotaRecord.EntityData] = ..., key: str = ..., value: float = ..., remove: bool = ...) -> None: ...

class ConfigRecord(Message):
    api_key: ClassVar[int]
    resource_type: int
    resource_name: str
    name: str
    value: str | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., resource_type: int = ..., resource_name: str = ..., name: str = ..., value: str | None = ...) -> None: ...

class ConsumerGroupDescribeResponse(Message):
    api_key: ClassVar[int]
    class DescribedGroup(Message):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        assignor_name: str
        members: list[ConsumerGroupDescribeResponse.Member]
        authorized_operations: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., error_message: str | None = ..., group_id: str = ..., group_state: str = ..., group_epoch: int = ..., assignment_epoch: int = ..., assignor_name: str = ..., members: list[ConsumerGroupDescribeResponse.Member] = ..., authorized_operations: int = ...) -> None: ...
    class Member(Message):
        member_id: str
        instance_id: str | None
        rack_id: str | None
        member_epoch: int
        client_id: str
        client_host: str
        subscribed_topic_names: list[str]
        subscribed_topic_regex: str | None
        assignment: ConsumerGroupDescribeResponse.Assignment
        target_assignment: ConsumerGroupDescribeResponse.Assignment
        member_type: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., member_id: str = ..., instance_id: str | None = ..., rack_id: str | None = ..., member_epoch: int = ..., client_id: str = ..., client_host: str = ..., subscribed_topic_names: list[str] = ..., subscribed_topic_regex: str | None = ..., assignment: ConsumerGroupDescribeResponse.Assignment = ..., target_assignment: ConsumerGroupDescribeResponse.Assignment = ..., member_type: int = ...) -> None: ...
    class Assignment(Message):
        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = ...) -> None: ...
    class TopicPartitions(Message):
        topic_id: bytes
        topic_name: str
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., topic_name: str = ..., partitions: list[int] = ...) -> None: ...
    throttle_time_ms: int
    groups: list[ConsumerGroupDescribeResponse.DescribedGroup]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., groups: list[ConsumerGroupDescribeResponse.DescribedGroup] = ...) -> None: ...

class ConsumerGroupDescribeRequest(Request[ConsumerGroupDescribeResponse]):
    api_key: ClassVar[int]
    group_ids: list[str]
    include_authorized_operations: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_ids: list[str] = ..., include_authorized_operations: bool = ...) -> None: ...

class ConsumerGroupHeartbeatResponse(Message):
    api_key: ClassVar[int]
    class Assignment(Message):
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = ...) -> None: ...
    class TopicPartitions(Message):
        topic_id: bytes
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[int] = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: ConsumerGroupHeartbeatResponse.Assignment | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., member_id: str | None = ..., member_epoch: int = ..., heartbeat_interval_ms: int = ..., assignment: ConsumerGroupHeartbeatResponse.Assignment | None = ...) -> None: ...

class ConsumerGroupHeartbeatRequest(Request[ConsumerGroupHeartbeatResponse]):
    api_key: ClassVar[int]
    class TopicPartitions(Message):
        topic_id: bytes
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[int] = ...) -> None: ...
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    subscribed_topic_names: list[str] | None
    subscribed_topic_regex: str | None
    server_assignor: str | None
    topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., member_id: str = ..., member_epoch: int = ..., instance_id: str | None = ..., rack_id: str | None = ..., rebalance_timeout_ms: int = ..., subscribed_topic_names: list[str] | None = ..., subscribed_topic_regex: str | None = ..., server_assignor: str | None = ..., topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = ...) -> None: ...

class ConsumerProtocolAssignment(Message):
    class TopicPartition(Message):
        topic: str
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic: str = ..., partitions: list[int] = ...) -> None: ...
    assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition]
    user_data: Buffer | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition] = ..., user_data: Buffer | None = ...) -> None: ...

class ConsumerProtocolSubscription(Message):
    class TopicPartition(Message):
        topic: str
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic: str = ..., partitions: list[int] = ...) -> None: ...
    topics: list[str]
    user_data: Buffer | None
    owned_partitions: list[ConsumerProtocolSubscription.TopicPartition]
    generation_id: int
    rack_id: str | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topics: list[str] = ..., user_data: Buffer | None = ..., owned_partitions: list[ConsumerProtocolSubscription.TopicPartition] = ..., generation_id: int = ..., rack_id: str | None = ...) -> None: ...

class ControlRecordTypeSchema(Message):
    type: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., type: int = ...) -> None: ...

class ControllerRegistrationResponse(Message):
    api_key: ClassVar[int]
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...

class ControllerRegistrationRequest(Request[ControllerRegistrationResponse]):
    api_key: ClassVar[int]
    class Listener(Message):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., host: str = ..., port: int = ..., security_protocol: int = ...) -> None: ...
    class Feature(Message):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., min_supported_version: int = ..., max_supported_version: int = ...) -> None: ...
    controller_id: int
    incarnation_id: bytes
    zk_migration_ready: bool
    listeners: list[ControllerRegistrationRequest.Listener]
    features: list[ControllerRegistrationRequest.Feature]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., controller_id: int = ..., incarnation_id: bytes = ..., zk_migration_ready: bool = ..., listeners: list[ControllerRegistrationRequest.Listener] = ..., features: list[ControllerRegistrationRequest.Feature] = ...) -> None: ...

class CreateAclsResponse(Message):
    api_key: ClassVar[int]
    class AclCreationResult(Message):
        error_code: int
        error_message: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    results: list[CreateAclsResponse.AclCreationResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., results: list[CreateAclsResponse.AclCreationResult] = ...) -> None: ...

class CreateAclsRequest(Request[CreateAclsResponse]):
    api_key: ClassVar[int]
    class AclCreation(Message):
        resource_type: int
        resource_name: str
        resource_pattern_type: int
        principal: str
        host: str
        operation: int
        permission_type: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., resource_type: int = ..., resource_name: str = ..., resource_pattern_type: int = ..., principal: str = ..., host: str = ..., operation: int = ..., permission_type: int = ...) -> None: ...
    creations: list[CreateAclsRequest.AclCreation]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., creations: list[CreateAclsRequest.AclCreation] = ...) -> None: ...

class CreateDelegationTokenResponse(Message):
    api_key: ClassVar[int]
    error_code: int
    principal_type: str
    principal_name: str
    token_requester_principal_type: str
    token_requester_principal_name: str
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    token_id: str
    hmac: Buffer
    throttle_time_ms: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., principal_type: str = ..., principal_name: str = ..., token_requester_principal_type: str = ..., token_requester_principal_name: str = ..., issue_timestamp_ms: int = ..., expiry_timestamp_ms: int = ..., max_timestamp_ms: int = ..., token_id: str = ..., hmac: Buffer = ..., throttle_time_ms: int = ...) -> None: ...

class CreateDelegationTokenRequest(Request[CreateDelegationTokenResponse]):
    api_key: ClassVar[int]
    class CreatableRenewers(Message):
        principal_type: str
        principal_name: str
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., principal_type: str = ..., principal_name: str = ...) -> None: ...
    owner_principal_type: str | None
    owner_principal_name: str | None
    renewers: list[CreateDelegationTokenRequest.CreatableRenewers]
    max_lifetime_ms: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., owner_principal_type: str | None = ..., owner_principal_name: str | None = ..., renewers: list[CreateDelegationTokenRequest.CreatableRenewers] = ..., max_lifetime_ms: int = ...) -> None: ...

class CreatePartitionsResponse(Message):
    api_key: ClassVar[int]
    class CreatePartitionsTopicResult(Message):
        name: str
        error_code: int
        error_message: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = ...) -> None: ...

class CreatePartitionsRequest(Request[CreatePartitionsResponse]):
    api_key: ClassVar[int]
    class CreatePartitionsTopic(Message):
        name: str
        count: int
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., count: int = ..., assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = ...) -> None: ...
    class CreatePartitionsAssignment(Message):
        broker_ids: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., broker_ids: list[int] = ...) -> None: ...
    topics: list[CreatePartitionsRequest.CreatePartitionsTopic]
    timeout_ms: int
    validate_only: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = ..., timeout_ms: int = ..., validate_only: bool = ...) -> None: ...

class CreateTopicsResponse(Message):
    api_key: ClassVar[int]
    class CreatableTopicResult(Message):
        name: str
        topic_id: bytes
        error_code: int
        error_message: str | None
        topic_config_error_code: int
        num_partitions: int
        replication_factor: int
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., topic_id: bytes = ..., error_code: int = ..., error_message: str | None = ..., topic_config_error_code: int = ..., num_partitions: int = ..., replication_factor: int = ..., configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = ...) -> None: ...
    class CreatableTopicConfigs(Message):
        name: str
        value: str | None
        read_only: bool
        config_source: int
        is_sensitive: bool
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., value: str | None = ..., read_only: bool = ..., config_source: int = ..., is_sensitive: bool = ...) -> None: ...
    throttle_time_ms: int
    topics: list[CreateTopicsResponse.CreatableTopicResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., topics: list[CreateTopicsResponse.CreatableTopicResult] = ...) -> None: ...

class CreateTopicsRequest(Request[CreateTopicsResponse]):
    api_key: ClassVar[int]
    class CreatableTopic(Message):
        name: str
        num_partitions: int
        replication_factor: int
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment]
        configs: list[CreateTopicsRequest.CreatableTopicConfig]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., num_partitions: int = ..., replication_factor: int = ..., assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = ..., configs: list[CreateTopicsRequest.CreatableTopicConfig] = ...) -> None: ...
    class CreatableReplicaAssignment(Message):
        partition_index: int
        broker_ids: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., broker_ids: list[int] = ...) -> None: ...
    class CreatableTopicConfig(Message):
        name: str
        value: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., value: str | None = ...) -> None: ...
    topics: list[CreateTopicsRequest.CreatableTopic]
    timeout_ms: int
    validate_only: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topics: list[CreateTopicsRequest.CreatableTopic] = ..., timeout_ms: int = ..., validate_only: bool = ...) -> None: ...

class DefaultPrincipalData(Message):
    type: str
    name: str
    token_authenticated: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., type: str = ..., name: str = ..., token_authenticated: bool = ...) -> None: ...

class DelegationTokenRecord(Message):
    api_key: ClassVar[int]
    owner: str
    requester: str
    renewers: list[str]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int
    token_id: str
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., owner: str = ..., requester: str = ..., renewers: list[str] = ..., issue_timestamp: int = ..., max_timestamp: int = ..., expiration_timestamp: int = ..., token_id: str = ...) -> None: ...

class DeleteAclsResponse(Message):
    api_key: ClassVar[int]
    class DeleteAclsFilterResult(Message):
        error_code: int
        error_message: str | None
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., error_message: str | None = ..., matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = ...) -> None: ...
    class DeleteAclsMatchingAcl(Message):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        pattern_type: int
        principal: str
        host: str
        operation: int
        permission_type: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., error_message: str | None = ..., resource_type: int = ..., resource_name: str = ..., pattern_type: int = ..., principal: str = ..., host: str = ..., operation: int = ..., permission_type: int = ...) -> None: ...
    throttle_time_ms: int
    filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = ...) -> None: ...

class DeleteAclsRequest(Request[DeleteAclsResponse]):
    api_key: ClassVar[int]
    class DeleteAclsFilter(Message):
        resource_type_filter: int
        resource_name_filter: str | None
        pattern_type_filter: int
        principal_filter: str | None
        host_filter: str | None
        operation: int
        permission_type: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., resource_type_filter: int = ..., resource_name_filter: str | None = ..., pattern_type_filter: int = ..., principal_filter: str | None = ..., host_filter: str | None = ..., operation: int = ..., permission_type: int = ...) -> None: ...
    filters: list[DeleteAclsRequest.DeleteAclsFilter]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., filters: list[DeleteAclsRequest.DeleteAclsFilter] = ...) -> None: ...

class DeleteGroupsResponse(Message):
    api_key: ClassVar[int]
    class DeletableGroupResult(Message):
        group_id: str
        error_code: int
        error_message: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    results: list[DeleteGroupsResponse.DeletableGroupResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., results: list[DeleteGroupsResponse.DeletableGroupResult] = ...) -> None: ...

class DeleteGroupsRequest(Request[DeleteGroupsResponse]):
    api_key: ClassVar[int]
    groups_names: list[str]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., groups_names: list[str] = ...) -> None: ...

class DeleteRecordsResponse(Message):
    api_key: ClassVar[int]
    class DeleteRecordsTopicResult(Message):
        name: str
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = ...) -> None: ...
    class DeleteRecordsPartitionResult(Message):
        partition_index: int
        low_watermark: int
        error_code: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., low_watermark: int = ..., error_code: int = ...) -> None: ...
    throttle_time_ms: int
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = ...) -> None: ...

class DeleteRecordsRequest(Request[DeleteRecordsResponse]):
    api_key: ClassVar[int]
    class DeleteRecordsTopic(Message):
        name: str
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = ...) -> None: ...
    class DeleteRecordsPartition(Message):
        partition_index: int
        offset: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., offset: int = ...) -> None: ...
    topics: list[DeleteRecordsRequest.DeleteRecordsTopic]
    timeout_ms: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = ..., timeout_ms: int = ...) -> None: ...

class DeleteShareGroupOffsetsResponse(Message):
    api_key: ClassVar[int]
    class DeleteShareGroupOffsetsResponseTopic(Message):
        topic_name: str
        topic_id: bytes
        error_code: int
        error_message: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_name: str = ..., topic_id: bytes = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    responses: list[DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., responses: list[DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic] = ...) -> None: ...

class DeleteShareGroupOffsetsRequest(Request[DeleteShareGroupOffsetsResponse]):
    api_key: ClassVar[int]
    class DeleteShareGroupOffsetsRequestTopic(Message):
        topic_name: str
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_name: str = ...) -> None: ...
    group_id: str
    topics: list[DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., topics: list[DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic] = ...) -> None: ...

class DeleteShareGroupStateResponse(Message):
    api_key: ClassVar[int]
    class DeleteStateResult(Message):
        topic_id: bytes
        partitions: list[DeleteShareGroupStateResponse.PartitionResult]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[DeleteShareGroupStateResponse.PartitionResult] = ...) -> None: ...
    class PartitionResult(Message):
        partition: int
        error_code: int
        error_message: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    results: list[DeleteShareGroupStateResponse.DeleteStateResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., results: list[DeleteShareGroupStateResponse.DeleteStateResult] = ...) -> None: ...

class DeleteShareGroupStateRequest(Request[DeleteShareGroupStateResponse]):
    api_key: ClassVar[int]
    class DeleteStateData(Message):
        topic_id: bytes
        partitions: list[DeleteShareGroupStateRequest.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[DeleteShareGroupStateRequest.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition: int = ...) -> None: ...
    group_id: str
    topics: list[DeleteShareGroupStateRequest.DeleteStateData]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., topics: list[DeleteShareGroupStateRequest.DeleteStateData] = ...) -> None: ...

class DeleteTopicsResponse(Message):
    api_key: ClassVar[int]
    class DeletableTopicResult(Message):
        name: str | None
        topic_id: bytes
        error_code: int
        error_message: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str | None = ..., topic_id: bytes = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    responses: list[DeleteTopicsResponse.DeletableTopicResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., responses: list[DeleteTopicsResponse.DeletableTopicResult] = ...) -> None: ...

class DeleteTopicsRequest(Request[DeleteTopicsResponse]):
    api_key: ClassVar[int]
    class DeleteTopicState(Message):
        name: str | None
        topic_id: bytes
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str | None = ..., topic_id: bytes = ...) -> None: ...
    topics: list[DeleteTopicsRequest.DeleteTopicState]
    topic_names: list[str]
    timeout_ms: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topics: list[DeleteTopicsRequest.DeleteTopicState] = ..., topic_names: list[str] = ..., timeout_ms: int = ...) -> None: ...

class DescribeAclsResponse(Message):
    api_key: ClassVar[int]
    class DescribeAclsResource(Message):
        resource_type: int
        resource_name: str
        pattern_type: int
        acls: list[DescribeAclsResponse.AclDescription]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., resource_type: int = ..., resource_name: str = ..., pattern_type: int = ..., acls: list[DescribeAclsResponse.AclDescription] = ...) -> None: ...
    class AclDescription(Message):
        principal: str
        host: str
        operation: int
        permission_type: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., principal: str = ..., host: str = ..., operation: int = ..., permission_type: int = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    resources: list[DescribeAclsResponse.DescribeAclsResource]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., resources: list[DescribeAclsResponse.DescribeAclsResource] = ...) -> None: ...

class DescribeAclsRequest(Request[DescribeAclsResponse]):
    api_key: ClassVar[int]
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., resource_type_filter: int = ..., resource_name_filter: str | None = ..., pattern_type_filter: int = ..., principal_filter: str | None = ..., host_filter: str | None = ..., operation: int = ..., permission_type: int = ...) -> None: ...

class DescribeClientQuotasResponse(Message):
    api_key: ClassVar[int]
    class EntryData(Message):
        entity: list[DescribeClientQuotasResponse.EntityData]
        values: list[DescribeClientQuotasResponse.ValueData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., entity: list[DescribeClientQuotasResponse.EntityData] = ..., values: list[DescribeClientQuotasResponse.ValueData] = ...) -> None: ...
    class EntityData(Message):
        entity_type: str
        entity_name: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., entity_type: str = ..., entity_name: str | None = ...) -> None: ...
    class ValueData(Message):
        key: str
        value: float
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., key: str = ..., value: float = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    entries: list[DescribeClientQuotasResponse.EntryData] | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., entries: list[DescribeClientQuotasResponse.EntryData] | None = ...) -> None: ...

class DescribeClientQuotasRequest(Request[DescribeClientQuotasResponse]):
    api_key: ClassVar[int]
    class ComponentData(Message):
        entity_type: str
        match_type: int
        match: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., entity_type: str = ..., match_type: int = ..., match: str | None = ...) -> None: ...
    components: list[DescribeClientQuotasRequest.ComponentData]
    strict: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., components: list[DescribeClientQuotasRequest.ComponentData] = ..., strict: bool = ...) -> None: ...

class DescribeClusterResponse(Message):
    api_key: ClassVar[int]
    class DescribeClusterBroker(Message):
        broker_id: int
        host: str
        port: int
        rack: str | None
        is_fenced: bool
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., broker_id: int = ..., host: str = ..., port: int = ..., rack: str | None = ..., is_fenced: bool = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    endpoint_type: int
    cluster_id: str
    controller_id: int
    brokers: list[DescribeClusterResponse.DescribeClusterBroker]
    cluster_authorized_operations: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., endpoint_type: int = ..., cluster_id: str = ..., controller_id: int = ..., brokers: list[DescribeClusterResponse.DescribeClusterBroker] = ..., cluster_authorized_operations: int = ...) -> None: ...

class DescribeClusterRequest(Request[DescribeClusterResponse]):
    api_key: ClassVar[int]
    include_cluster_authorized_operations: bool
    endpoint_type: int
    include_fenced_brokers: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., include_cluster_authorized_operations: bool = ..., endpoint_type: int = ..., include_fenced_brokers: bool = ...) -> None: ...

class DescribeConfigsResponse(Message):
    api_key: ClassVar[int]
    class DescribeConfigsResult(Message):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., error_message: str | None = ..., resource_type: int = ..., resource_name: str = ..., configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = ...) -> None: ...
    class DescribeConfigsResourceResult(Message):
        name: str
        value: str | None
        read_only: bool
        config_source: int
        is_sensitive: bool
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym]
        config_type: int
        documentation: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., value: str | None = ..., read_only: bool = ..., config_source: int = ..., is_sensitive: bool = ..., synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = ..., config_type: int = ..., documentation: str | None = ...) -> None: ...
    class DescribeConfigsSynonym(Message):
        name: str
        value: str | None
        source: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., value: str | None = ..., source: int = ...) -> None: ...
    throttle_time_ms: int
    results: list[DescribeConfigsResponse.DescribeConfigsResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., results: list[DescribeConfigsResponse.DescribeConfigsResult] = ...) -> None: ...

class DescribeConfigsRequest(Request[DescribeConfigsResponse]):
    api_key: ClassVar[int]
    class DescribeConfigsResource(Message):
        resource_type: int
        resource_name: str
        configuration_keys: list[str] | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., resource_type: int = ..., resource_name: str = ..., configuration_keys: list[str] | None = ...) -> None: ...
    resources: list[DescribeConfigsRequest.DescribeConfigsResource]
    include_synonyms: bool
    include_documentation: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., resources: list[DescribeConfigsRequest.DescribeConfigsResource] = ..., include_synonyms: bool = ..., include_documentation: bool = ...) -> None: ...

class DescribeDelegationTokenResponse(Message):
    api_key: ClassVar[int]
    class DescribedDelegationToken(Message):
        principal_type: str
        principal_name: str
        token_requester_principal_type: str
        token_requester_principal_name: str
        issue_timestamp: int
        expiry_timestamp: int
        max_timestamp: int
        token_id: str
        hmac: Buffer
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., principal_type: str = ..., principal_name: str = ..., token_requester_principal_type: str = ..., token_requester_principal_name: str = ..., issue_timestamp: int = ..., expiry_timestamp: int = ..., max_timestamp: int = ..., token_id: str = ..., hmac: Buffer = ..., renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = ...) -> None: ...
    class DescribedDelegationTokenRenewer(Message):
        principal_type: str
        principal_name: str
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., principal_type: str = ..., principal_name: str = ...) -> None: ...
    error_code: int
    tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken]
    throttle_time_ms: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken] = ..., throttle_time_ms: int = ...) -> None: ...

class DescribeDelegationTokenRequest(Request[DescribeDelegationTokenResponse]):
    api_key: ClassVar[int]
    class DescribeDelegationTokenOwner(Message):
        principal_type: str
        principal_name: str
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., principal_type: str = ..., principal_name: str = ...) -> None: ...
    owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None = ...) -> None: ...

class DescribeGroupsResponse(Message):
    api_key: ClassVar[int]
    class DescribedGroup(Message):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        protocol_type: str
        protocol_data: str
        members: list[DescribeGroupsResponse.DescribedGroupMember]
        authorized_operations: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., error_message: str | None = ..., group_id: str = ..., group_state: str = ..., protocol_type: str = ..., protocol_data: str = ..., members: list[DescribeGroupsResponse.DescribedGroupMember] = ..., authorized_operations: int = ...) -> None: ...
    class DescribedGroupMember(Message):
        member_id: str
        group_instance_id: str | None
        client_id: str
        client_host: str
        member_metadata: Buffer
        member_assignment: Buffer
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., member_id: str = ..., group_instance_id: str | None = ..., client_id: str = ..., client_host: str = ..., member_metadata: Buffer = ..., member_assignment: Buffer = ...) -> None: ...
    throttle_time_ms: int
    groups: list[DescribeGroupsResponse.DescribedGroup]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., groups: list[DescribeGroupsResponse.DescribedGroup] = ...) -> None: ...

class DescribeGroupsRequest(Request[DescribeGroupsResponse]):
    api_key: ClassVar[int]
    groups: list[str]
    include_authorized_operations: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., groups: list[str] = ..., include_authorized_operations: bool = ...) -> None: ...

class DescribeLogDirsResponse(Message):
    api_key: ClassVar[int]
    class DescribeLogDirsResult(Message):
        error_code: int
        log_dir: str
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic]
        total_bytes: int
        usable_bytes: int
        is_cordoned: bool
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., log_dir: str = ..., topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = ..., total_bytes: int = ..., usable_bytes: int = ..., is_cordoned: bool = ...) -> None: ...
    class DescribeLogDirsTopic(Message):
        name: str
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = ...) -> None: ...
    class DescribeLogDirsPartition(Message):
        partition_index: int
        partition_size: int
        offset_lag: int
        is_future_key: bool
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., partition_size: int = ..., offset_lag: int = ..., is_future_key: bool = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    results: list[DescribeLogDirsResponse.DescribeLogDirsResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = ...) -> None: ...

class DescribeLogDirsRequest(Request[DescribeLogDirsResponse]):
    api_key: ClassVar[int]
    class DescribableLogDirTopic(Message):
        topic: str
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic: str = ..., partitions: list[int] = ...) -> None: ...
    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = ...) -> None: ...

class DescribeProducersResponse(Message):
    api_key: ClassVar[int]
    class TopicResponse(Message):
        name: str
        partitions: list[DescribeProducersResponse.PartitionResponse]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: list[DescribeProducersResponse.PartitionResponse] = ...) -> None: ...
    class PartitionResponse(Message):
        partition_index: int
        error_code: int
        error_message: str | None
        active_producers: list[DescribeProducersResponse.ProducerState]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., error_code: int = ..., error_message: str | None = ..., active_producers: list[DescribeProducersResponse.ProducerState] = ...) -> None: ...
    class ProducerState(Message):
        producer_id: int
        producer_epoch: int
        last_sequence: int
        last_timestamp: int
        coordinator_epoch: int
        current_txn_start_offset: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., producer_id: int = ..., producer_epoch: int = ..., last_sequence: int = ..., last_timestamp: int = ..., coordinator_epoch: int = ..., current_txn_start_offset: int = ...) -> None: ...
    throttle_time_ms: int
    topics: list[DescribeProducersResponse.TopicResponse]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., topics: list[DescribeProducersResponse.TopicResponse] = ...) -> None: ...

class DescribeProducersRequest(Request[DescribeProducersResponse]):
    api_key: ClassVar[int]
    class TopicRequest(Message):
        name: str
        partition_indexes: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partition_indexes: list[int] = ...) -> None: ...
    topics: list[DescribeProducersRequest.TopicRequest]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topics: list[DescribeProducersRequest.TopicRequest] = ...) -> None: ...

class DescribeQuorumResponse(Message):
    api_key: ClassVar[int]
    class TopicData(Message):
        topic_name: str
        partitions: list[DescribeQuorumResponse.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_name: str = ..., partitions: list[DescribeQuorumResponse.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition_index: int
        error_code: int
        error_message: str | None
        leader_id: int
        leader_epoch: int
        high_watermark: int
        current_voters: list[DescribeQuorumResponse.ReplicaState]
        observers: list[DescribeQuorumResponse.ReplicaState]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., error_code: int = ..., error_message: str | None = ..., leader_id: int = ..., leader_epoch: int = ..., high_watermark: int = ..., current_voters: list[DescribeQuorumResponse.ReplicaState] = ..., observers: list[DescribeQuorumResponse.ReplicaState] = ...) -> None: ...
    class ReplicaState(Message):
        replica_id: int
        replica_directory_id: bytes
        log_end_offset: int
        last_fetch_timestamp: int
        last_caught_up_timestamp: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., replica_id: int = ..., replica_directory_id: bytes = ..., log_end_offset: int = ..., last_fetch_timestamp: int = ..., last_caught_up_timestamp: int = ...) -> None: ...
    class Node(Message):
        node_id: int
        listeners: list[DescribeQuorumResponse.Listener]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., node_id: int = ..., listeners: list[DescribeQuorumResponse.Listener] = ...) -> None: ...
    class Listener(Message):
        name: str
        host: str
        port: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., host: str = ..., port: int = ...) -> None: ...
    error_code: int
    error_message: str | None
    topics: list[DescribeQuorumResponse.TopicData]
    nodes: list[DescribeQuorumResponse.Node]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., error_message: str | None = ..., topics: list[DescribeQuorumResponse.TopicData] = ..., nodes: list[DescribeQuorumResponse.Node] = ...) -> None: ...

class DescribeQuorumRequest(Request[DescribeQuorumResponse]):
    api_key: ClassVar[int]
    class TopicData(Message):
        topic_name: str
        partitions: list[DescribeQuorumRequest.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_name: str = ..., partitions: list[DescribeQuorumRequest.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition_index: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ...) -> None: ...
    topics: list[DescribeQuorumRequest.TopicData]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topics: list[DescribeQuorumRequest.TopicData] = ...) -> None: ...

class DescribeShareGroupOffsetsResponse(Message):
    api_key: ClassVar[int]
    class DescribeShareGroupOffsetsResponseGroup(Message):
        group_id: str
        topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic]
        error_code: int
        error_message: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic] = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    class DescribeShareGroupOffsetsResponseTopic(Message):
        topic_name: str
        topic_id: bytes
        partitions: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_name: str = ..., topic_id: bytes = ..., partitions: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition] = ...) -> None: ...
    class DescribeShareGroupOffsetsResponsePartition(Message):
        partition_index: int
        start_offset: int
        leader_epoch: int
        lag: int
        error_code: int
        error_message: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., start_offset: int = ..., leader_epoch: int = ..., lag: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    groups: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., groups: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup] = ...) -> None: ...

class DescribeShareGroupOffsetsRequest(Request[DescribeShareGroupOffsetsResponse]):
    api_key: ClassVar[int]
    class DescribeShareGroupOffsetsRequestGroup(Message):
        group_id: str
        topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None = ...) -> None: ...
    class DescribeShareGroupOffsetsRequestTopic(Message):
        topic_name: str
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_name: str = ..., partitions: list[int] = ...) -> None: ...
    groups: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., groups: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup] = ...) -> None: ...

class DescribeTopicPartitionsResponse(Message):
    api_key: ClassVar[int]
    class DescribeTopicPartitionsResponseTopic(Message):
        error_code: int
        name: str | None
        topic_id: bytes
        is_internal: bool
        partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition]
        topic_authorized_operations: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., name: str | None = ..., topic_id: bytes = ..., is_internal: bool = ..., partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = ..., topic_authorized_operations: int = ...) -> None: ...
    class DescribeTopicPartitionsResponsePartition(Message):
        error_code: int
        partition_index: int
        leader_id: int
        leader_epoch: int
        replica_nodes: list[int]
        isr_nodes: list[int]
        eligible_leader_replicas: list[int] | None
        last_known_elr: list[int] | None
        offline_replicas: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., partition_index: int = ..., leader_id: int = ..., leader_epoch: int = ..., replica_nodes: list[int] = ..., isr_nodes: list[int] = ..., eligible_leader_replicas: list[int] | None = ..., last_known_elr: list[int] | None = ..., offline_replicas: list[int] = ...) -> None: ...
    class Cursor(Message):
        topic_name: str
        partition_index: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_name: str = ..., partition_index: int = ...) -> None: ...
    throttle_time_ms: int
    topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic]
    next_cursor: DescribeTopicPartitionsResponse.Cursor | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = ..., next_cursor: DescribeTopicPartitionsResponse.Cursor | None = ...) -> None: ...

class DescribeTopicPartitionsRequest(Request[DescribeTopicPartitionsResponse]):
    api_key: ClassVar[int]
    class TopicRequest(Message):
        name: str
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ...) -> None: ...
    class Cursor(Message):
        topic_name: str
        partition_index: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_name: str = ..., partition_index: int = ...) -> None: ...
    topics: list[DescribeTopicPartitionsRequest.TopicRequest]
    response_partition_limit: int
    cursor: DescribeTopicPartitionsRequest.Cursor | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topics: list[DescribeTopicPartitionsRequest.TopicRequest] = ..., response_partition_limit: int = ..., cursor: DescribeTopicPartitionsRequest.Cursor | None = ...) -> None: ...

class DescribeTransactionsResponse(Message):
    api_key: ClassVar[int]
    class TransactionState(Message):
        error_code: int
        transactional_id: str
        transaction_state: str
        transaction_timeout_ms: int
        transaction_start_time_ms: int
        producer_id: int
        producer_epoch: int
        topics: list[DescribeTransactionsResponse.TopicData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., transactional_id: str = ..., transaction_state: str = ..., transaction_timeout_ms: int = ..., transaction_start_time_ms: int = ..., producer_id: int = ..., producer_epoch: int = ..., topics: list[DescribeTransactionsResponse.TopicData] = ...) -> None: ...
    class TopicData(Message):
        topic: str
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic: str = ..., partitions: list[int] = ...) -> None: ...
    throttle_time_ms: int
    transaction_states: list[DescribeTransactionsResponse.TransactionState]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., transaction_states: list[DescribeTransactionsResponse.TransactionState] = ...) -> None: ...

class DescribeTransactionsRequest(Request[DescribeTransactionsResponse]):
    api_key: ClassVar[int]
    transactional_ids: list[str]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., transactional_ids: list[str] = ...) -> None: ...

class DescribeUserScramCredentialsResponse(Message):
    api_key: ClassVar[int]
    class DescribeUserScramCredentialsResult(Message):
        user: str
        error_code: int
        error_message: str | None
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., user: str = ..., error_code: int = ..., error_message: str | None = ..., credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = ...) -> None: ...
    class CredentialInfo(Message):
        mechanism: int
        iterations: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., mechanism: int = ..., iterations: int = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = ...) -> None: ...

class DescribeUserScramCredentialsRequest(Request[DescribeUserScramCredentialsResponse]):
    api_key: ClassVar[int]
    class UserName(Message):
        name: str
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ...) -> None: ...
    users: list[DescribeUserScramCredentialsRequest.UserName] | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., users: list[DescribeUserScramCredentialsRequest.UserName] | None = ...) -> None: ...

class ElectLeadersResponse(Message):
    api_key: ClassVar[int]
    class ReplicaElectionResult(Message):
        topic: str
        partition_result: list[ElectLeadersResponse.PartitionResult]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic: str = ..., partition_result: list[ElectLeadersResponse.PartitionResult] = ...) -> None: ...
    class PartitionResult(Message):
        partition_id: int
        error_code: int
        error_message: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_id: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = ...) -> None: ...

class ElectLeadersRequest(Request[ElectLeadersResponse]):
    api_key: ClassVar[int]
    class TopicPartitions(Message):
        topic: str
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic: str = ..., partitions: list[int] = ...) -> None: ...
    election_type: int
    topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None
    timeout_ms: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., election_type: int = ..., topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = ..., timeout_ms: int = ...) -> None: ...

class EndQuorumEpochResponse(Message):
    api_key: ClassVar[int]
    class TopicData(Message):
        topic_name: str
        partitions: list[EndQuorumEpochResponse.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_name: str = ..., partitions: list[EndQuorumEpochResponse.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., error_code: int = ..., leader_id: int = ..., leader_epoch: int = ...) -> None: ...
    class NodeEndpoint(Message):
        node_id: int
        host: str
        port: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., node_id: int = ..., host: str = ..., port: int = ...) -> None: ...
    error_code: int
    topics: list[EndQuorumEpochResponse.TopicData]
    node_endpoints: list[EndQuorumEpochResponse.NodeEndpoint]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., topics: list[EndQuorumEpochResponse.TopicData] = ..., node_endpoints: list[EndQuorumEpochResponse.NodeEndpoint] = ...) -> None: ...

class EndQuorumEpochRequest(Request[EndQuorumEpochResponse]):
    api_key: ClassVar[int]
    class TopicData(Message):
        topic_name: str
        partitions: list[EndQuorumEpochRequest.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_name: str = ..., partitions: list[EndQuorumEpochRequest.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition_index: int
        leader_id: int
        leader_epoch: int
        preferred_successors: list[int]
        preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., leader_id: int = ..., leader_epoch: int = ..., preferred_successors: list[int] = ..., preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo] = ...) -> None: ...
    class ReplicaInfo(Message):
        candidate_id: int
        candidate_directory_id: bytes
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., candidate_id: int = ..., candidate_directory_id: bytes = ...) -> None: ...
    class LeaderEndpoint(Message):
        name: str
        host: str
        port: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., host: str = ..., port: int = ...) -> None: ...
    cluster_id: str | None
    topics: list[EndQuorumEpochRequest.TopicData]
    leader_endpoints: list[EndQuorumEpochRequest.LeaderEndpoint]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., cluster_id: str | None = ..., topics: list[EndQuorumEpochRequest.TopicData] = ..., leader_endpoints: list[EndQuorumEpochRequest.LeaderEndpoint] = ...) -> None: ...

class EndTransactionRecord(Message):
    api_key: ClassVar[int]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ...) -> None: ...

class EndTxnResponse(Message):
    api_key: ClassVar[int]
    throttle_time_ms: int
    error_code: int
    producer_id: int
    producer_epoch: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., producer_id: int = ..., producer_epoch: int = ...) -> None: ...

class EndTxnRequest(Request[EndTxnResponse]):
    api_key: ClassVar[int]
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., transactional_id: str = ..., producer_id: int = ..., producer_epoch: int = ..., committed: bool = ...) -> None: ...

class EndTxnMarker(Message):
    coordinator_epoch: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., coordinator_epoch: int = ...) -> None: ...

class EnvelopeResponse(Message):
    api_key: ClassVar[int]
    response_data: Buffer | None
    error_code: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., response_data: Buffer | None = ..., error_code: int = ...) -> None: ...

class EnvelopeRequest(Request[EnvelopeResponse]):
    api_key: ClassVar[int]
    request_data: Buffer
    request_principal: Buffer | None
    client_host_address: Buffer
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., request_data: Buffer = ..., request_principal: Buffer | None = ..., client_host_address: Buffer = ...) -> None: ...

class ExpireDelegationTokenResponse(Message):
    api_key: ClassVar[int]
    error_code: int
    expiry_timestamp_ms: int
    throttle_time_ms: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., expiry_timestamp_ms: int = ..., throttle_time_ms: int = ...) -> None: ...

class ExpireDelegationTokenRequest(Request[ExpireDelegationTokenResponse]):
    api_key: ClassVar[int]
    hmac: Buffer
    expiry_time_period_ms: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., hmac: Buffer = ..., expiry_time_period_ms: int = ...) -> None: ...

class FeatureLevelRecord(Message):
    api_key: ClassVar[int]
    name: str
    feature_level: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., feature_level: int = ...) -> None: ...

class FenceBrokerRecord(Message):
    api_key: ClassVar[int]
    id: int
    epoch: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., id: int = ..., epoch: int = ...) -> None: ...

class FetchResponse(Message):
    api_key: ClassVar[int]
    class FetchableTopicResponse(Message):
        topic: str
        topic_id: bytes
        partitions: list[FetchResponse.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic: str = ..., topic_id: bytes = ..., partitions: list[FetchResponse.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition_index: int
        error_code: int
        high_watermark: int
        last_stable_offset: int
        log_start_offset: int
        diverging_epoch: FetchResponse.EpochEndOffset
        current_leader: FetchResponse.LeaderIdAndEpoch
        snapshot_id: FetchResponse.SnapshotId
        aborted_transactions: list[FetchResponse.AbortedTransaction] | None
        preferred_read_replica: int
        records: Buffer | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., error_code: int = ..., high_watermark: int = ..., last_stable_offset: int = ..., log_start_offset: int = ..., diverging_epoch: FetchResponse.EpochEndOffset = ..., current_leader: FetchResponse.LeaderIdAndEpoch = ..., snapshot_id: FetchResponse.SnapshotId = ..., aborted_transactions: list[FetchResponse.AbortedTransaction] | None = ..., preferred_read_replica: int = ..., records: Buffer | None = ...) -> None: ...
    class EpochEndOffset(Message):
        epoch: int
        end_offset: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., epoch: int = ..., end_offset: int = ...) -> None: ...
    class LeaderIdAndEpoch(Message):
        leader_id: int
        leader_epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., leader_id: int = ..., leader_epoch: int = ...) -> None: ...
    class SnapshotId(Message):
        end_offset: int
        epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., end_offset: int = ..., epoch: int = ...) -> None: ...
    class AbortedTransaction(Message):
        producer_id: int
        first_offset: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., producer_id: int = ..., first_offset: int = ...) -> None: ...
    class NodeEndpoint(Message):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., node_id: int = ..., host: str = ..., port: int = ..., rack: str | None = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    session_id: int
    responses: list[FetchResponse.FetchableTopicResponse]
    node_endpoints: list[FetchResponse.NodeEndpoint]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., session_id: int = ..., responses: list[FetchResponse.FetchableTopicResponse] = ..., node_endpoints: list[FetchResponse.NodeEndpoint] = ...) -> None: ...

class FetchRequest(Request[FetchResponse]):
    api_key: ClassVar[int]
    class ReplicaState(Message):
        replica_id: int
        replica_epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., replica_id: int = ..., replica_epoch: int = ...) -> None: ...
    class FetchTopic(Message):
        topic: str
        topic_id: bytes
        partitions: list[FetchRequest.FetchPartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic: str = ..., topic_id: bytes = ..., partitions: list[FetchRequest.FetchPartition] = ...) -> None: ...
    class FetchPartition(Message):
        partition: int
        current_leader_epoch: int
        fetch_offset: int
        last_fetched_epoch: int
        log_start_offset: int
        partition_max_bytes: int
        replica_directory_id: bytes
        high_watermark: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition: int = ..., current_leader_epoch: int = ..., fetch_offset: int = ..., last_fetched_epoch: int = ..., log_start_offset: int = ..., partition_max_bytes: int = ..., replica_directory_id: bytes = ..., high_watermark: int = ...) -> None: ...
    class ForgottenTopic(Message):
        topic: str
        topic_id: bytes
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic: str = ..., topic_id: bytes = ..., partitions: list[int] = ...) -> None: ...
    cluster_id: str | None
    replica_id: int
    replica_state: FetchRequest.ReplicaState
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchRequest.FetchTopic]
    forgotten_topics_data: list[FetchRequest.ForgottenTopic]
    rack_id: str
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., cluster_id: str | None = ..., replica_id: int = ..., replica_state: FetchRequest.ReplicaState = ..., max_wait_ms: int = ..., min_bytes: int = ..., max_bytes: int = ..., isolation_level: int = ..., session_id: int = ..., session_epoch: int = ..., topics: list[FetchRequest.FetchTopic] = ..., forgotten_topics_data: list[FetchRequest.ForgottenTopic] = ..., rack_id: str = ...) -> None: ...

class FetchSnapshotResponse(Message):
    api_key: ClassVar[int]
    class TopicSnapshot(Message):
        name: str
        partitions: list[FetchSnapshotResponse.PartitionSnapshot]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: list[FetchSnapshotResponse.PartitionSnapshot] = ...) -> None: ...
    class PartitionSnapshot(Message):
        index: int
        error_code: int
        snapshot_id: FetchSnapshotResponse.SnapshotId
        current_leader: FetchSnapshotResponse.LeaderIdAndEpoch
        size: int
        position: int
        unaligned_records: Buffer | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., index: int = ..., error_code: int = ..., snapshot_id: FetchSnapshotResponse.SnapshotId = ..., current_leader: FetchSnapshotResponse.LeaderIdAndEpoch = ..., size: int = ..., position: int = ..., unaligned_records: Buffer | None = ...) -> None: ...
    class SnapshotId(Message):
        end_offset: int
        epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., end_offset: int = ..., epoch: int = ...) -> None: ...
    class LeaderIdAndEpoch(Message):
        leader_id: int
        leader_epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., leader_id: int = ..., leader_epoch: int = ...) -> None: ...
    class NodeEndpoint(Message):
        node_id: int
        host: str
        port: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., node_id: int = ..., host: str = ..., port: int = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    topics: list[FetchSnapshotResponse.TopicSnapshot]
    node_endpoints: list[FetchSnapshotResponse.NodeEndpoint]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., topics: list[FetchSnapshotResponse.TopicSnapshot] = ..., node_endpoints: list[FetchSnapshotResponse.NodeEndpoint] = ...) -> None: ...

class FetchSnapshotRequest(Request[FetchSnapshotResponse]):
    api_key: ClassVar[int]
    class TopicSnapshot(Message):
        name: str
        partitions: list[FetchSnapshotRequest.PartitionSnapshot]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: list[FetchSnapshotRequest.PartitionSnapshot] = ...) -> None: ...
    class PartitionSnapshot(Message):
        partition: int
        current_leader_epoch: int
        snapshot_id: FetchSnapshotRequest.SnapshotId
        position: int
        replica_directory_id: bytes
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition: int = ..., current_leader_epoch: int = ..., snapshot_id: FetchSnapshotRequest.SnapshotId = ..., position: int = ..., replica_directory_id: bytes = ...) -> None: ...
    class SnapshotId(Message):
        end_offset: int
        epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., end_offset: int = ..., epoch: int = ...) -> None: ...
    cluster_id: str | None
    replica_id: int
    max_bytes: int
    topics: list[FetchSnapshotRequest.TopicSnapshot]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., cluster_id: str | None = ..., replica_id: int = ..., max_bytes: int = ..., topics: list[FetchSnapshotRequest.TopicSnapshot] = ...) -> None: ...

class FindCoordinatorResponse(Message):
    api_key: ClassVar[int]
    class Coordinator(Message):
        key: str
        node_id: int
        host: str
        port: int
        error_code: int
        error_message: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., key: str = ..., node_id: int = ..., host: str = ..., port: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    node_id: int
    host: str
    port: int
    coordinators: list[FindCoordinatorResponse.Coordinator]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., node_id: int = ..., host: str = ..., port: int = ..., coordinators: list[FindCoordinatorResponse.Coordinator] = ...) -> None: ...

class FindCoordinatorRequest(Request[FindCoordinatorResponse]):
    api_key: ClassVar[int]
    key: str
    key_type: int
    coordinator_keys: list[str]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., key: str = ..., key_type: int = ..., coordinator_keys: list[str] = ...) -> None: ...

class GetTelemetrySubscriptionsResponse(Message):
    api_key: ClassVar[int]
    throttle_time_ms: int
    error_code: int
    client_instance_id: bytes
    subscription_id: int
    accepted_compression_types: list[int]
    push_interval_ms: int
    telemetry_max_bytes: int
    delta_temporality: bool
    requested_metrics: list[str]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., client_instance_id: bytes = ..., subscription_id: int = ..., accepted_compression_types: list[int] = ..., push_interval_ms: int = ..., telemetry_max_bytes: int = ..., delta_temporality: bool = ..., requested_metrics: list[str] = ...) -> None: ...

class GetTelemetrySubscriptionsRequest(Request[GetTelemetrySubscriptionsResponse]):
    api_key: ClassVar[int]
    client_instance_id: bytes
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., client_instance_id: bytes = ...) -> None: ...

class HeartbeatResponse(Message):
    api_key: ClassVar[int]
    throttle_time_ms: int
    error_code: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ...) -> None: ...

class HeartbeatRequest(Request[HeartbeatResponse]):
    api_key: ClassVar[int]
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., generation_id: int = ..., member_id: str = ..., group_instance_id: str | None = ...) -> None: ...

class IncrementalAlterConfigsResponse(Message):
    api_key: ClassVar[int]
    class AlterConfigsResourceResponse(Message):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., error_message: str | None = ..., resource_type: int = ..., resource_name: str = ...) -> None: ...
    throttle_time_ms: int
    responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = ...) -> None: ...

class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsResponse]):
    api_key: ClassVar[int]
    class AlterConfigsResource(Message):
        resource_type: int
        resource_name: str
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., resource_type: int = ..., resource_name: str = ..., configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = ...) -> None: ...
    class AlterableConfig(Message):
        name: str
        config_operation: int
        value: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., config_operation: int = ..., value: str | None = ...) -> None: ...
    resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource]
    validate_only: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = ..., validate_only: bool = ...) -> None: ...

class InitProducerIdResponse(Message):
    api_key: ClassVar[int]
    throttle_time_ms: int
    error_code: int
    producer_id: int
    producer_epoch: int
    ongoing_txn_producer_id: int
    ongoing_txn_producer_epoch: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., producer_id: int = ..., producer_epoch: int = ..., ongoing_txn_producer_id: int = ..., ongoing_txn_producer_epoch: int = ...) -> None: ...

class InitProducerIdRequest(Request[InitProducerIdResponse]):
    api_key: ClassVar[int]
    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int
    producer_epoch: int
    enable2_pc: bool
    keep_prepared_txn: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., transactional_id: str | None = ..., transaction_timeout_ms: int = ..., producer_id: int = ..., producer_epoch: int = ..., enable2_pc: bool = ..., keep_prepared_txn: bool = ...) -> None: ...

class InitializeShareGroupStateResponse(Message):
    api_key: ClassVar[int]
    class InitializeStateResult(Message):
        topic_id: bytes
        partitions: list[InitializeShareGroupStateResponse.PartitionResult]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[InitializeShareGroupStateResponse.PartitionResult] = ...) -> None: ...
    class PartitionResult(Message):
        partition: int
        error_code: int
        error_message: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    results: list[InitializeShareGroupStateResponse.InitializeStateResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., results: list[InitializeShareGroupStateResponse.InitializeStateResult] = ...) -> None: ...

class InitializeShareGroupStateRequest(Request[InitializeShareGroupStateResponse]):
    api_key: ClassVar[int]
    class InitializeStateData(Message):
        topic_id: bytes
        partitions: list[InitializeShareGroupStateRequest.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[InitializeShareGroupStateRequest.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition: int
        state_epoch: int
        start_offset: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition: int = ..., state_epoch: int = ..., start_offset: int = ...) -> None: ...
    group_id: str
    topics: list[InitializeShareGroupStateRequest.InitializeStateData]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., topics: list[InitializeShareGroupStateRequest.InitializeStateData] = ...) -> None: ...

class JoinGroupResponse(Message):
    api_key: ClassVar[int]
    class JoinGroupResponseMember(Message):
        member_id: str
        group_instance_id: str | None
        metadata: Buffer
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., member_id: str = ..., group_instance_id: str | None = ..., metadata: Buffer = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    skip_assignment: bool
    member_id: str
    members: list[JoinGroupResponse.JoinGroupResponseMember]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., generation_id: int = ..., protocol_type: str | None = ..., protocol_name: str | None = ..., leader: str = ..., skip_assignment: bool = ..., member_id: str = ..., members: list[JoinGroupResponse.JoinGroupResponseMember] = ...) -> None: ...

class JoinGroupRequest(Request[JoinGroupResponse]):
    api_key: ClassVar[int]
    class JoinGroupRequestProtocol(Message):
        name: str
        metadata: Buffer
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., metadata: Buffer = ...) -> None: ...
    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: list[JoinGroupRequest.JoinGroupRequestProtocol]
    reason: str | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., session_timeout_ms: int = ..., rebalance_timeout_ms: int = ..., member_id: str = ..., group_instance_id: str | None = ..., protocol_type: str = ..., protocols: list[JoinGroupRequest.JoinGroupRequestProtocol] = ..., reason: str | None = ...) -> None: ...

class KRaftVersionRecord(Message):
    version: int
    kraft_version: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., version: int = ..., kraft_version: int = ...) -> None: ...

class LeaderChangeMessage(Message):
    class Voter(Message):
        voter_id: int
        voter_directory_id: bytes
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., voter_id: int = ..., voter_directory_id: bytes = ...) -> None: ...
    version: int
    leader_id: int
    voters: list[LeaderChangeMessage.Voter]
    granting_voters: list[LeaderChangeMessage.Voter]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., version: int = ..., leader_id: int = ..., voters: list[LeaderChangeMessage.Voter] = ..., granting_voters: list[LeaderChangeMessage.Voter] = ...) -> None: ...

class LeaveGroupResponse(Message):
    api_key: ClassVar[int]
    class MemberResponse(Message):
        member_id: str
        group_instance_id: str | None
        error_code: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., member_id: str = ..., group_instance_id: str | None = ..., error_code: int = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    members: list[LeaveGroupResponse.MemberResponse]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., members: list[LeaveGroupResponse.MemberResponse] = ...) -> None: ...

class LeaveGroupRequest(Request[LeaveGroupResponse]):
    api_key: ClassVar[int]
    class MemberIdentity(Message):
        member_id: str
        group_instance_id: str | None
        reason: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., member_id: str = ..., group_instance_id: str | None = ..., reason: str | None = ...) -> None: ...
    group_id: str
    member_id: str
    members: list[LeaveGroupRequest.MemberIdentity]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., member_id: str = ..., members: list[LeaveGroupRequest.MemberIdentity] = ...) -> None: ...

class ListConfigResourcesResponse(Message):
    api_key: ClassVar[int]
    class ConfigResource(Message):
        resource_name: str
        resource_type: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., resource_name: str = ..., resource_type: int = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    config_resources: list[ListConfigResourcesResponse.ConfigResource]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., config_resources: list[ListConfigResourcesResponse.ConfigResource] = ...) -> None: ...

class ListConfigResourcesRequest(Request[ListConfigResourcesResponse]):
    api_key: ClassVar[int]
    resource_types: list[int]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., resource_types: list[int] = ...) -> None: ...

class ListGroupsResponse(Message):
    api_key: ClassVar[int]
    class ListedGroup(Message):
        group_id: str
        protocol_type: str
        group_state: str
        group_type: str
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., protocol_type: str = ..., group_state: str = ..., group_type: str = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    groups: list[ListGroupsResponse.ListedGroup]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., groups: list[ListGroupsResponse.ListedGroup] = ...) -> None: ...

class ListGroupsRequest(Request[ListGroupsResponse]):
    api_key: ClassVar[int]
    states_filter: list[str]
    types_filter: list[str]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., states_filter: list[str] = ..., types_filter: list[str] = ...) -> None: ...

class ListOffsetsResponse(Message):
    api_key: ClassVar[int]
    class ListOffsetsTopicResponse(Message):
        name: str
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = ...) -> None: ...
    class ListOffsetsPartitionResponse(Message):
        partition_index: int
        error_code: int
        timestamp: int
        offset: int
        leader_epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., error_code: int = ..., timestamp: int = ..., offset: int = ..., leader_epoch: int = ...) -> None: ...
    throttle_time_ms: int
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = ...) -> None: ...

class ListOffsetsRequest(Request[ListOffsetsResponse]):
    api_key: ClassVar[int]
    class ListOffsetsTopic(Message):
        name: str
        partitions: list[ListOffsetsRequest.ListOffsetsPartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: list[ListOffsetsRequest.ListOffsetsPartition] = ...) -> None: ...
    class ListOffsetsPartition(Message):
        partition_index: int
        current_leader_epoch: int
        timestamp: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., current_leader_epoch: int = ..., timestamp: int = ...) -> None: ...
    replica_id: int
    isolation_level: int
    topics: list[ListOffsetsRequest.ListOffsetsTopic]
    timeout_ms: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., replica_id: int = ..., isolation_level: int = ..., topics: list[ListOffsetsRequest.ListOffsetsTopic] = ..., timeout_ms: int = ...) -> None: ...

class ListPartitionReassignmentsResponse(Message):
    api_key: ClassVar[int]
    class OngoingTopicReassignment(Message):
        name: str
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = ...) -> None: ...
    class OngoingPartitionReassignment(Message):
        partition_index: int
        replicas: list[int]
        adding_replicas: list[int]
        removing_replicas: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., replicas: list[int] = ..., adding_replicas: list[int] = ..., removing_replicas: list[int] = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = ...) -> None: ...

class ListPartitionReassignmentsRequest(Request[ListPartitionReassignmentsResponse]):
    api_key: ClassVar[int]
    class ListPartitionReassignmentsTopics(Message):
        name: str
        partition_indexes: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partition_indexes: list[int] = ...) -> None: ...
    timeout_ms: int
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., timeout_ms: int = ..., topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = ...) -> None: ...

class ListTransactionsResponse(Message):
    api_key: ClassVar[int]
    class TransactionState(Message):
        transactional_id: str
        producer_id: int
        transaction_state: str
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., transactional_id: str = ..., producer_id: int = ..., transaction_state: str = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    unknown_state_filters: list[str]
    transaction_states: list[ListTransactionsResponse.TransactionState]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., unknown_state_filters: list[str] = ..., transaction_states: list[ListTransactionsResponse.TransactionState] = ...) -> None: ...

class ListTransactionsRequest(Request[ListTransactionsResponse]):
    api_key: ClassVar[int]
    state_filters: list[str]
    producer_id_filters: list[int]
    duration_filter: int
    transactional_id_pattern: str | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., state_filters: list[str] = ..., producer_id_filters: list[int] = ..., duration_filter: int = ..., transactional_id_pattern: str | None = ...) -> None: ...

class MetadataResponse(Message):
    api_key: ClassVar[int]
    class MetadataResponseBroker(Message):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., node_id: int = ..., host: str = ..., port: int = ..., rack: str | None = ...) -> None: ...
    class MetadataResponseTopic(Message):
        error_code: int
        name: str | None
        topic_id: bytes
        is_internal: bool
        partitions: list[MetadataResponse.MetadataResponsePartition]
        topic_authorized_operations: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., name: str | None = ..., topic_id: bytes = ..., is_internal: bool = ..., partitions: list[MetadataResponse.MetadataResponsePartition] = ..., topic_authorized_operations: int = ...) -> None: ...
    class MetadataResponsePartition(Message):
        error_code: int
        partition_index: int
        leader_id: int
        leader_epoch: int
        replica_nodes: list[int]
        isr_nodes: list[int]
        offline_replicas: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., partition_index: int = ..., leader_id: int = ..., leader_epoch: int = ..., replica_nodes: list[int] = ..., isr_nodes: list[int] = ..., offline_replicas: list[int] = ...) -> None: ...
    throttle_time_ms: int
    brokers: list[MetadataResponse.MetadataResponseBroker]
    cluster_id: str | None
    controller_id: int
    topics: list[MetadataResponse.MetadataResponseTopic]
    cluster_authorized_operations: int
    error_code: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., brokers: list[MetadataResponse.MetadataResponseBroker] = ..., cluster_id: str | None = ..., controller_id: int = ..., topics: list[MetadataResponse.MetadataResponseTopic] = ..., cluster_authorized_operations: int = ..., error_code: int = ...) -> None: ...

class MetadataRequest(Request[MetadataResponse]):
    api_key: ClassVar[int]
    class MetadataRequestTopic(Message):
        topic_id: bytes
        name: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., name: str | None = ...) -> None: ...
    topics: list[MetadataRequest.MetadataRequestTopic] | None
    allow_auto_topic_creation: bool
    include_cluster_authorized_operations: bool
    include_topic_authorized_operations: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topics: list[MetadataRequest.MetadataRequestTopic] | None = ..., allow_auto_topic_creation: bool = ..., include_cluster_authorized_operations: bool = ..., include_topic_authorized_operations: bool = ...) -> None: ...

class NoOpRecord(Message):
    api_key: ClassVar[int]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ...) -> None: ...

class OffsetCommitResponse(Message):
    api_key: ClassVar[int]
    class OffsetCommitResponseTopic(Message):
        name: str
        topic_id: bytes
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., topic_id: bytes = ..., partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = ...) -> None: ...
    class OffsetCommitResponsePartition(Message):
        partition_index: int
        error_code: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., error_code: int = ...) -> None: ...
    throttle_time_ms: int
    topics: list[OffsetCommitResponse.OffsetCommitResponseTopic]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = ...) -> None: ...

class OffsetCommitRequest(Request[OffsetCommitResponse]):
    api_key: ClassVar[int]
    class OffsetCommitRequestTopic(Message):
        name: str
        topic_id: bytes
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., topic_id: bytes = ..., partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = ...) -> None: ...
    class OffsetCommitRequestPartition(Message):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        committed_metadata: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., committed_offset: int = ..., committed_leader_epoch: int = ..., committed_metadata: str | None = ...) -> None: ...
    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    retention_time_ms: int
    topics: list[OffsetCommitRequest.OffsetCommitRequestTopic]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., generation_id_or_member_epoch: int = ..., member_id: str = ..., group_instance_id: str | None = ..., retention_time_ms: int = ..., topics: list[OffsetCommitRequest.OffsetCommitRequestTopic] = ...) -> None: ...

class OffsetDeleteResponse(Message):
    api_key: ClassVar[int]
    class OffsetDeleteResponseTopic(Message):
        name: str
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = ...) -> None: ...
    class OffsetDeleteResponsePartition(Message):
        partition_index: int
        error_code: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., error_code: int = ...) -> None: ...
    error_code: int
    throttle_time_ms: int
    topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., throttle_time_ms: int = ..., topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = ...) -> None: ...

class OffsetDeleteRequest(Request[OffsetDeleteResponse]):
    api_key: ClassVar[int]
    class OffsetDeleteRequestTopic(Message):
        name: str
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = ...) -> None: ...
    class OffsetDeleteRequestPartition(Message):
        partition_index: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ...) -> None: ...
    group_id: str
    topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = ...) -> None: ...

class OffsetFetchResponse(Message):
    api_key: ClassVar[int]
    class OffsetFetchResponseTopic(Message):
        name: str
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = ...) -> None: ...
    class OffsetFetchResponsePartition(Message):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        metadata: str | None
        error_code: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., committed_offset: int = ..., committed_leader_epoch: int = ..., metadata: str | None = ..., error_code: int = ...) -> None: ...
    class OffsetFetchResponseGroup(Message):
        group_id: str
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics]
        error_code: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = ..., error_code: int = ...) -> None: ...
    class OffsetFetchResponseTopics(Message):
        name: str
        topic_id: bytes
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., topic_id: bytes = ..., partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = ...) -> None: ...
    class OffsetFetchResponsePartitions(Message):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        metadata: str | None
        error_code: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., committed_offset: int = ..., committed_leader_epoch: int = ..., metadata: str | None = ..., error_code: int = ...) -> None: ...
    throttle_time_ms: int
    topics: list[OffsetFetchResponse.OffsetFetchResponseTopic]
    error_code: int
    groups: list[OffsetFetchResponse.OffsetFetchResponseGroup]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = ..., error_code: int = ..., groups: list[OffsetFetchResponse.OffsetFetchResponseGroup] = ...) -> None: ...

class OffsetFetchRequest(Request[OffsetFetchResponse]):
    api_key: ClassVar[int]
    class OffsetFetchRequestTopic(Message):
        name: str
        partition_indexes: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partition_indexes: list[int] = ...) -> None: ...
    class OffsetFetchRequestGroup(Message):
        group_id: str
        member_id: str | None
        member_epoch: int
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., member_id: str | None = ..., member_epoch: int = ..., topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = ...) -> None: ...
    class OffsetFetchRequestTopics(Message):
        name: str
        topic_id: bytes
        partition_indexes: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., topic_id: bytes = ..., partition_indexes: list[int] = ...) -> None: ...
    group_id: str
    topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None
    groups: list[OffsetFetchRequest.OffsetFetchRequestGroup]
    require_stable: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None = ..., groups: list[OffsetFetchRequest.OffsetFetchRequestGroup] = ..., require_stable: bool = ...) -> None: ...

class OffsetForLeaderEpochResponse(Message):
    api_key: ClassVar[int]
    class OffsetForLeaderTopicResult(Message):
        topic: str
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic: str = ..., partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = ...) -> None: ...
    class EpochEndOffset(Message):
        error_code: int
        partition: int
        leader_epoch: int
        end_offset: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., partition: int = ..., leader_epoch: int = ..., end_offset: int = ...) -> None: ...
    throttle_time_ms: int
    topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = ...) -> None: ...

class OffsetForLeaderEpochRequest(Request[OffsetForLeaderEpochResponse]):
    api_key: ClassVar[int]
    class OffsetForLeaderTopic(Message):
        topic: str
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic: str = ..., partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = ...) -> None: ...
    class OffsetForLeaderPartition(Message):
        partition: int
        current_leader_epoch: int
        leader_epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition: int = ..., current_leader_epoch: int = ..., leader_epoch: int = ...) -> None: ...
    replica_id: int
    topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., replica_id: int = ..., topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = ...) -> None: ...

class PartitionChangeRecord(Message):
    api_key: ClassVar[int]
    partition_id: int
    topic_id: bytes
    isr: list[int] | None
    leader: int
    replicas: list[int] | None
    removing_replicas: list[int] | None
    adding_replicas: list[int] | None
    leader_recovery_state: int
    directories: list[bytes] | None
    eligible_leader_replicas: list[int] | None
    last_known_elr: list[int] | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_id: int = ..., topic_id: bytes = ..., isr: list[int] | None = ..., leader: int = ..., replicas: list[int] | None = ..., removing_replicas: list[int] | None = ..., adding_replicas: list[int] | None = ..., leader_recovery_state: int = ..., directories: list[bytes] | None = ..., eligible_leader_replicas: list[int] | None = ..., last_known_elr: list[int] | None = ...) -> None: ...

class PartitionRecord(Message):
    api_key: ClassVar[int]
    partition_id: int
    topic_id: bytes
    replicas: list[int]
    isr: list[int]
    removing_replicas: list[int]
    adding_replicas: list[int]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int
    directories: list[bytes]
    eligible_leader_replicas: list[int] | None
    last_known_elr: list[int] | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_id: int = ..., topic_id: bytes = ..., replicas: list[int] = ..., isr: list[int] = ..., removing_replicas: list[int] = ..., adding_replicas: list[int] = ..., leader: int = ..., leader_recovery_state: int = ..., leader_epoch: int = ..., partition_epoch: int = ..., directories: list[bytes] = ..., eligible_leader_replicas: list[int] | None = ..., last_known_elr: list[int] | None = ...) -> None: ...

class ProduceResponse(Message):
    api_key: ClassVar[int]
    class TopicProduceResponse(Message):
        name: str
        topic_id: bytes
        partition_responses: list[ProduceResponse.PartitionProduceResponse]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., topic_id: bytes = ..., partition_responses: list[ProduceResponse.PartitionProduceResponse] = ...) -> None: ...
    class PartitionProduceResponse(Message):
        index: int
        error_code: int
        base_offset: int
        log_append_time_ms: int
        log_start_offset: int
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage]
        error_message: str | None
        current_leader: ProduceResponse.LeaderIdAndEpoch
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., index: int = ..., error_code: int = ..., base_offset: int = ..., log_append_time_ms: int = ..., log_start_offset: int = ..., record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = ..., error_message: str | None = ..., current_leader: ProduceResponse.LeaderIdAndEpoch = ...) -> None: ...
    class BatchIndexAndErrorMessage(Message):
        batch_index: int
        batch_index_error_message: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., batch_index: int = ..., batch_index_error_message: str | None = ...) -> None: ...
    class LeaderIdAndEpoch(Message):
        leader_id: int
        leader_epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., leader_id: int = ..., leader_epoch: int = ...) -> None: ...
    class NodeEndpoint(Message):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., node_id: int = ..., host: str = ..., port: int = ..., rack: str | None = ...) -> None: ...
    responses: list[ProduceResponse.TopicProduceResponse]
    throttle_time_ms: int
    node_endpoints: list[ProduceResponse.NodeEndpoint]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., responses: list[ProduceResponse.TopicProduceResponse] = ..., throttle_time_ms: int = ..., node_endpoints: list[ProduceResponse.NodeEndpoint] = ...) -> None: ...

class ProduceRequest(Request[ProduceResponse]):
    api_key: ClassVar[int]
    class TopicProduceData(Message):
        name: str
        topic_id: bytes
        partition_data: list[ProduceRequest.PartitionProduceData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., topic_id: bytes = ..., partition_data: list[ProduceRequest.PartitionProduceData] = ...) -> None: ...
    class PartitionProduceData(Message):
        index: int
        records: Buffer | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., index: int = ..., records: Buffer | None = ...) -> None: ...
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topic_data: list[ProduceRequest.TopicProduceData]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., transactional_id: str | None = ..., acks: int = ..., timeout_ms: int = ..., topic_data: list[ProduceRequest.TopicProduceData] = ...) -> None: ...

class ProducerIdsRecord(Message):
    api_key: ClassVar[int]
    broker_id: int
    broker_epoch: int
    next_producer_id: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., broker_id: int = ..., broker_epoch: int = ..., next_producer_id: int = ...) -> None: ...

class PushTelemetryResponse(Message):
    api_key: ClassVar[int]
    throttle_time_ms: int
    error_code: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ...) -> None: ...

class PushTelemetryRequest(Request[PushTelemetryResponse]):
    api_key: ClassVar[int]
    client_instance_id: bytes
    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: Buffer
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., client_instance_id: bytes = ..., subscription_id: int = ..., terminating: bool = ..., compression_type: int = ..., metrics: Buffer = ...) -> None: ...

class ReadShareGroupStateResponse(Message):
    api_key: ClassVar[int]
    class ReadStateResult(Message):
        topic_id: bytes
        partitions: list[ReadShareGroupStateResponse.PartitionResult]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[ReadShareGroupStateResponse.PartitionResult] = ...) -> None: ...
    class PartitionResult(Message):
        partition: int
        error_code: int
        error_message: str | None
        state_epoch: int
        start_offset: int
        state_batches: list[ReadShareGroupStateResponse.StateBatch]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition: int = ..., error_code: int = ..., error_message: str | None = ..., state_epoch: int = ..., start_offset: int = ..., state_batches: list[ReadShareGroupStateResponse.StateBatch] = ...) -> None: ...
    class StateBatch(Message):
        first_offset: int
        last_offset: int
        delivery_state: int
        delivery_count: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., first_offset: int = ..., last_offset: int = ..., delivery_state: int = ..., delivery_count: int = ...) -> None: ...
    results: list[ReadShareGroupStateResponse.ReadStateResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., results: list[ReadShareGroupStateResponse.ReadStateResult] = ...) -> None: ...

class ReadShareGroupStateRequest(Request[ReadShareGroupStateResponse]):
    api_key: ClassVar[int]
    class ReadStateData(Message):
        topic_id: bytes
        partitions: list[ReadShareGroupStateRequest.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[ReadShareGroupStateRequest.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition: int
        leader_epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition: int = ..., leader_epoch: int = ...) -> None: ...
    group_id: str
    topics: list[ReadShareGroupStateRequest.ReadStateData]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., topics: list[ReadShareGroupStateRequest.ReadStateData] = ...) -> None: ...

class ReadShareGroupStateSummaryResponse(Message):
    api_key: ClassVar[int]
    class ReadStateSummaryResult(Message):
        topic_id: bytes
        partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult] = ...) -> None: ...
    class PartitionResult(Message):
        partition: int
        error_code: int
        error_message: str | None
        state_epoch: int
        leader_epoch: int
        start_offset: int
        delivery_complete_count: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition: int = ..., error_code: int = ..., error_message: str | None = ..., state_epoch: int = ..., leader_epoch: int = ..., start_offset: int = ..., delivery_complete_count: int = ...) -> None: ...
    results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult] = ...) -> None: ...

class ReadShareGroupStateSummaryRequest(Request[ReadShareGroupStateSummaryResponse]):
    api_key: ClassVar[int]
    class ReadStateSummaryData(Message):
        topic_id: bytes
        partitions: list[ReadShareGroupStateSummaryRequest.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[ReadShareGroupStateSummaryRequest.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition: int
        leader_epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition: int = ..., leader_epoch: int = ...) -> None: ...
    group_id: str
    topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData] = ...) -> None: ...

class RegisterBrokerRecord(Message):
    api_key: ClassVar[int]
    class BrokerEndpoint(Message):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., host: str = ..., port: int = ..., security_protocol: int = ...) -> None: ...
    class BrokerFeature(Message):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., min_supported_version: int = ..., max_supported_version: int = ...) -> None: ...
    broker_id: int
    is_migrating_zk_broker: bool
    incarnation_id: bytes
    broker_epoch: int
    end_points: list[RegisterBrokerRecord.BrokerEndpoint]
    features: list[RegisterBrokerRecord.BrokerFeature]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: list[bytes]
    cordoned_log_dirs: list[bytes] | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., broker_id: int = ..., is_migrating_zk_broker: bool = ..., incarnation_id: bytes = ..., broker_epoch: int = ..., end_points: list[RegisterBrokerRecord.BrokerEndpoint] = ..., features: list[RegisterBrokerRecord.BrokerFeature] = ..., rack: str | None = ..., fenced: bool = ..., in_controlled_shutdown: bool = ..., log_dirs: list[bytes] = ..., cordoned_log_dirs: list[bytes] | None = ...) -> None: ...

class RegisterControllerRecord(Message):
    api_key: ClassVar[int]
    class ControllerEndpoint(Message):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., host: str = ..., port: int = ..., security_protocol: int = ...) -> None: ...
    class ControllerFeature(Message):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., min_supported_version: int = ..., max_supported_version: int = ...) -> None: ...
    controller_id: int
    incarnation_id: bytes
    zk_migration_ready: bool
    end_points: list[RegisterControllerRecord.ControllerEndpoint]
    features: list[RegisterControllerRecord.ControllerFeature]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., controller_id: int = ..., incarnation_id: bytes = ..., zk_migration_ready: bool = ..., end_points: list[RegisterControllerRecord.ControllerEndpoint] = ..., features: list[RegisterControllerRecord.ControllerFeature] = ...) -> None: ...

class RemoveAccessControlEntryRecord(Message):
    api_key: ClassVar[int]
    id: bytes
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., id: bytes = ...) -> None: ...

class RemoveDelegationTokenRecord(Message):
    api_key: ClassVar[int]
    token_id: str
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., token_id: str = ...) -> None: ...

class RemoveRaftVoterResponse(Message):
    api_key: ClassVar[int]
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...

class RemoveRaftVoterRequest(Request[RemoveRaftVoterResponse]):
    api_key: ClassVar[int]
    cluster_id: str | None
    voter_id: int
    voter_directory_id: bytes
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., cluster_id: str | None = ..., voter_id: int = ..., voter_directory_id: bytes = ...) -> None: ...

class RemoveTopicRecord(Message):
    api_key: ClassVar[int]
    topic_id: bytes
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ...) -> None: ...

class RemoveUserScramCredentialRecord(Message):
    api_key: ClassVar[int]
    name: str
    mechanism: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., mechanism: int = ...) -> None: ...

class RenewDelegationTokenResponse(Message):
    api_key: ClassVar[int]
    error_code: int
    expiry_timestamp_ms: int
    throttle_time_ms: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., expiry_timestamp_ms: int = ..., throttle_time_ms: int = ...) -> None: ...

class RenewDelegationTokenRequest(Request[RenewDelegationTokenResponse]):
    api_key: ClassVar[int]
    hmac: Buffer
    renew_period_ms: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., hmac: Buffer = ..., renew_period_ms: int = ...) -> None: ...

class RequestHeader(Message):
    request_api_key: int
    request_api_version: int
    correlation_id: int
    client_id: str | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., request_api_key: int = ..., request_api_version: int = ..., correlation_id: int = ..., client_id: str | None = ...) -> None: ...

class ResponseHeader(Message):
    correlation_id: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., correlation_id: int = ...) -> None: ...

class SaslAuthenticateResponse(Message):
    api_key: ClassVar[int]
    error_code: int
    error_message: str | None
    auth_bytes: Buffer
    session_lifetime_ms: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., error_message: str | None = ..., auth_bytes: Buffer = ..., session_lifetime_ms: int = ...) -> None: ...

class SaslAuthenticateRequest(Request[SaslAuthenticateResponse]):
    api_key: ClassVar[int]
    auth_bytes: Buffer
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., auth_bytes: Buffer = ...) -> None: ...

class SaslHandshakeResponse(Message):
    api_key: ClassVar[int]
    error_code: int
    mechanisms: list[str]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., mechanisms: list[str] = ...) -> None: ...

class SaslHandshakeRequest(Request[SaslHandshakeResponse]):
    api_key: ClassVar[int]
    mechanism: str
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., mechanism: str = ...) -> None: ...

class ShareAcknowledgeResponse(Message):
    api_key: ClassVar[int]
    class ShareAcknowledgeTopicResponse(Message):
        topic_id: bytes
        partitions: list[ShareAcknowledgeResponse.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[ShareAcknowledgeResponse.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition_index: int
        error_code: int
        error_message: str | None
        current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., error_code: int = ..., error_message: str | None = ..., current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch = ...) -> None: ...
    class LeaderIdAndEpoch(Message):
        leader_id: int
        leader_epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., leader_id: int = ..., leader_epoch: int = ...) -> None: ...
    class NodeEndpoint(Message):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., node_id: int = ..., host: str = ..., port: int = ..., rack: str | None = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    acquisition_lock_timeout_ms: int
    responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse]
    node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., acquisition_lock_timeout_ms: int = ..., responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = ..., node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint] = ...) -> None: ...

class ShareAcknowledgeRequest(Request[ShareAcknowledgeResponse]):
    api_key: ClassVar[int]
    class AcknowledgeTopic(Message):
        topic_id: bytes
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = ...) -> None: ...
    class AcknowledgePartition(Message):
        partition_index: int
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = ...) -> None: ...
    class AcknowledgementBatch(Message):
        first_offset: int
        last_offset: int
        acknowledge_types: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., first_offset: int = ..., last_offset: int = ..., acknowledge_types: list[int] = ...) -> None: ...
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    is_renew_ack: bool
    topics: list[ShareAcknowledgeRequest.AcknowledgeTopic]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str | None = ..., member_id: str | None = ..., share_session_epoch: int = ..., is_renew_ack: bool = ..., topics: list[ShareAcknowledgeRequest.AcknowledgeTopic] = ...) -> None: ...

class ShareFetchResponse(Message):
    api_key: ClassVar[int]
    class ShareFetchableTopicResponse(Message):
        topic_id: bytes
        partitions: list[ShareFetchResponse.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[ShareFetchResponse.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition_index: int
        error_code: int
        error_message: str | None
        acknowledge_error_code: int
        acknowledge_error_message: str | None
        current_leader: ShareFetchResponse.LeaderIdAndEpoch
        records: Buffer | None
        acquired_records: list[ShareFetchResponse.AcquiredRecords]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., error_code: int = ..., error_message: str | None = ..., acknowledge_error_code: int = ..., acknowledge_error_message: str | None = ..., current_leader: ShareFetchResponse.LeaderIdAndEpoch = ..., records: Buffer | None = ..., acquired_records: list[ShareFetchResponse.AcquiredRecords] = ...) -> None: ...
    class LeaderIdAndEpoch(Message):
        leader_id: int
        leader_epoch: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., leader_id: int = ..., leader_epoch: int = ...) -> None: ...
    class AcquiredRecords(Message):
        first_offset: int
        last_offset: int
        delivery_count: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., first_offset: int = ..., last_offset: int = ..., delivery_count: int = ...) -> None: ...
    class NodeEndpoint(Message):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., node_id: int = ..., host: str = ..., port: int = ..., rack: str | None = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    acquisition_lock_timeout_ms: int
    responses: list[ShareFetchResponse.ShareFetchableTopicResponse]
    node_endpoints: list[ShareFetchResponse.NodeEndpoint]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., acquisition_lock_timeout_ms: int = ..., responses: list[ShareFetchResponse.ShareFetchableTopicResponse] = ..., node_endpoints: list[ShareFetchResponse.NodeEndpoint] = ...) -> None: ...

class ShareFetchRequest(Request[ShareFetchResponse]):
    api_key: ClassVar[int]
    class FetchTopic(Message):
        topic_id: bytes
        partitions: list[ShareFetchRequest.FetchPartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[ShareFetchRequest.FetchPartition] = ...) -> None: ...
    class FetchPartition(Message):
        partition_index: int
        partition_max_bytes: int
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., partition_max_bytes: int = ..., acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = ...) -> None: ...
    class AcknowledgementBatch(Message):
        first_offset: int
        last_offset: int
        acknowledge_types: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., first_offset: int = ..., last_offset: int = ..., acknowledge_types: list[int] = ...) -> None: ...
    class ForgottenTopic(Message):
        topic_id: bytes
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[int] = ...) -> None: ...
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    share_acquire_mode: int
    is_renew_ack: bool
    topics: list[ShareFetchRequest.FetchTopic]
    forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str | None = ..., member_id: str | None = ..., share_session_epoch: int = ..., max_wait_ms: int = ..., min_bytes: int = ..., max_bytes: int = ..., max_records: int = ..., batch_size: int = ..., share_acquire_mode: int = ..., is_renew_ack: bool = ..., topics: list[ShareFetchRequest.FetchTopic] = ..., forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic] = ...) -> None: ...

class ShareGroupDescribeResponse(Message):
    api_key: ClassVar[int]
    class DescribedGroup(Message):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        assignor_name: str
        members: list[ShareGroupDescribeResponse.Member]
        authorized_operations: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., error_message: str | None = ..., group_id: str = ..., group_state: str = ..., group_epoch: int = ..., assignment_epoch: int = ..., assignor_name: str = ..., members: list[ShareGroupDescribeResponse.Member] = ..., authorized_operations: int = ...) -> None: ...
    class Member(Message):
        member_id: str
        rack_id: str | None
        member_epoch: int
        client_id: str
        client_host: str
        subscribed_topic_names: list[str]
        assignment: ShareGroupDescribeResponse.Assignment
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., member_id: str = ..., rack_id: str | None = ..., member_epoch: int = ..., client_id: str = ..., client_host: str = ..., subscribed_topic_names: list[str] = ..., assignment: ShareGroupDescribeResponse.Assignment = ...) -> None: ...
    class Assignment(Message):
        topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions] = ...) -> None: ...
    class TopicPartitions(Message):
        topic_id: bytes
        topic_name: str
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., topic_name: str = ..., partitions: list[int] = ...) -> None: ...
    throttle_time_ms: int
    groups: list[ShareGroupDescribeResponse.DescribedGroup]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., groups: list[ShareGroupDescribeResponse.DescribedGroup] = ...) -> None: ...

class ShareGroupDescribeRequest(Request[ShareGroupDescribeResponse]):
    api_key: ClassVar[int]
    group_ids: list[str]
    include_authorized_operations: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_ids: list[str] = ..., include_authorized_operations: bool = ...) -> None: ...

class ShareGroupHeartbeatResponse(Message):
    api_key: ClassVar[int]
    class Assignment(Message):
        topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = ...) -> None: ...
    class TopicPartitions(Message):
        topic_id: bytes
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[int] = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: ShareGroupHeartbeatResponse.Assignment | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., member_id: str | None = ..., member_epoch: int = ..., heartbeat_interval_ms: int = ..., assignment: ShareGroupHeartbeatResponse.Assignment | None = ...) -> None: ...

class ShareGroupHeartbeatRequest(Request[ShareGroupHeartbeatResponse]):
    api_key: ClassVar[int]
    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    subscribed_topic_names: list[str] | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., member_id: str = ..., member_epoch: int = ..., rack_id: str | None = ..., subscribed_topic_names: list[str] | None = ...) -> None: ...

class SnapshotFooterRecord(Message):
    version: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., version: int = ...) -> None: ...

class SnapshotHeaderRecord(Message):
    version: int
    last_contained_log_timestamp: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., version: int = ..., last_contained_log_timestamp: int = ...) -> None: ...

class StreamsGroupDescribeResponse(Message):
    api_key: ClassVar[int]
    class DescribedGroup(Message):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        topology: StreamsGroupDescribeResponse.Topology | None
        members: list[StreamsGroupDescribeResponse.Member]
        authorized_operations: int
        topology_description: StreamsGroupDescribeResponse.TopologyDescription | None
        topology_description_status: int
        assignor_name: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., error_message: str | None = ..., group_id: str = ..., group_state: str = ..., group_epoch: int = ..., assignment_epoch: int = ..., topology: StreamsGroupDescribeResponse.Topology | None = ..., members: list[StreamsGroupDescribeResponse.Member] = ..., authorized_operations: int = ..., topology_description: StreamsGroupDescribeResponse.TopologyDescription | None = ..., topology_description_status: int = ..., assignor_name: str | None = ...) -> None: ...
    class Topology(Message):
        epoch: int
        subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., epoch: int = ..., subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None = ...) -> None: ...
    class Subtopology(Message):
        subtopology_id: str
        source_topics: list[str]
        repartition_sink_topics: list[str]
        state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo]
        repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., subtopology_id: str = ..., source_topics: list[str] = ..., repartition_sink_topics: list[str] = ..., state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo] = ..., repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo] = ...) -> None: ...
    class TopicInfo(Message):
        name: str
        partitions: int
        replication_factor: int
        topic_configs: list[StreamsGroupDescribeResponse.KeyValue]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: int = ..., replication_factor: int = ..., topic_configs: list[StreamsGroupDescribeResponse.KeyValue] = ...) -> None: ...
    class KeyValue(Message):
        key: str
        value: str
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., key: str = ..., value: str = ...) -> None: ...
    class Member(Message):
        member_id: str
        member_epoch: int
        instance_id: str | None
        rack_id: str | None
        client_id: str
        client_host: str
        topology_epoch: int
        process_id: str
        user_endpoint: StreamsGroupDescribeResponse.Endpoint | None
        client_tags: list[StreamsGroupDescribeResponse.KeyValue]
        task_offsets: list[StreamsGroupDescribeResponse.TaskOffset]
        task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset]
        assignment: StreamsGroupDescribeResponse.Assignment
        target_assignment: StreamsGroupDescribeResponse.Assignment
        is_classic: bool
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., member_id: str = ..., member_epoch: int = ..., instance_id: str | None = ..., rack_id: str | None = ..., client_id: str = ..., client_host: str = ..., topology_epoch: int = ..., process_id: str = ..., user_endpoint: StreamsGroupDescribeResponse.Endpoint | None = ..., client_tags: list[StreamsGroupDescribeResponse.KeyValue] = ..., task_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = ..., task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = ..., assignment: StreamsGroupDescribeResponse.Assignment = ..., target_assignment: StreamsGroupDescribeResponse.Assignment = ..., is_classic: bool = ...) -> None: ...
    class Endpoint(Message):
        host: str
        port: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., host: str = ..., port: int = ...) -> None: ...
    class TaskOffset(Message):
        subtopology_id: str
        partition: int
        offset: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., subtopology_id: str = ..., partition: int = ..., offset: int = ...) -> None: ...
    class Assignment(Message):
        active_tasks: list[StreamsGroupDescribeResponse.TaskIds]
        standby_tasks: list[StreamsGroupDescribeResponse.TaskIds]
        warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., active_tasks: list[StreamsGroupDescribeResponse.TaskIds] = ..., standby_tasks: list[StreamsGroupDescribeResponse.TaskIds] = ..., warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds] = ...) -> None: ...
    class TaskIds(Message):
        subtopology_id: str
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., subtopology_id: str = ..., partitions: list[int] = ...) -> None: ...
    class TopologyDescription(Message):
        subtopologies: list[StreamsGroupDescribeResponse.TopologyDescriptionSubtopology]
        global_stores: list[StreamsGroupDescribeResponse.TopologyDescriptionGlobalStore]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., subtopologies: list[StreamsGroupDescribeResponse.TopologyDescriptionSubtopology] = ..., global_stores: list[StreamsGroupDescribeResponse.TopologyDescriptionGlobalStore] = ...) -> None: ...
    class TopologyDescriptionSubtopology(Message):
        subtopology_id: str
        nodes: list[StreamsGroupDescribeResponse.TopologyDescriptionNode]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., subtopology_id: str = ..., nodes: list[StreamsGroupDescribeResponse.TopologyDescriptionNode] = ...) -> None: ...
    class TopologyDescriptionNode(Message):
        name: str
        node_type: int
        source_topics: list[str]
        sink_topic: str | None
        stores: list[str]
        successors: list[str]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., node_type: int = ..., source_topics: list[str] = ..., sink_topic: str | None = ..., stores: list[str] = ..., successors: list[str] = ...) -> None: ...
    class TopologyDescriptionGlobalStore(Message):
        source: StreamsGroupDescribeResponse.TopologyDescriptionNode
        processor: StreamsGroupDescribeResponse.TopologyDescriptionNode
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., source: StreamsGroupDescribeResponse.TopologyDescriptionNode = ..., processor: StreamsGroupDescribeResponse.TopologyDescriptionNode = ...) -> None: ...
    throttle_time_ms: int
    groups: list[StreamsGroupDescribeResponse.DescribedGroup]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., groups: list[StreamsGroupDescribeResponse.DescribedGroup] = ...) -> None: ...

class StreamsGroupDescribeRequest(Request[StreamsGroupDescribeResponse]):
    api_key: ClassVar[int]
    group_ids: list[str]
    include_authorized_operations: bool
    include_topology_description: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_ids: list[str] = ..., include_authorized_operations: bool = ..., include_topology_description: bool = ...) -> None: ...

class StreamsGroupHeartbeatResponse(Message):
    api_key: ClassVar[int]
    class Status(Message):
        status_code: int
        status_detail: str
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., status_code: int = ..., status_detail: str = ...) -> None: ...
    class TaskIds(Message):
        subtopology_id: str
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., subtopology_id: str = ..., partitions: list[int] = ...) -> None: ...
    class EndpointToPartitions(Message):
        user_endpoint: StreamsGroupHeartbeatResponse.Endpoint
        active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition]
        standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., user_endpoint: StreamsGroupHeartbeatResponse.Endpoint = ..., active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = ..., standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = ...) -> None: ...
    class Endpoint(Message):
        host: str
        port: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., host: str = ..., port: int = ...) -> None: ...
    class TopicPartition(Message):
        topic: str
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic: str = ..., partitions: list[int] = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    acceptable_recovery_lag_legacy: int
    task_offset_interval_ms: int
    acceptable_recovery_lag: int
    status: list[StreamsGroupHeartbeatResponse.Status] | None
    active_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None
    standby_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None
    warmup_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None
    topology_description_required: bool
    endpoint_information_epoch: int
    partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse.EndpointToPartitions] | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., member_id: str = ..., member_epoch: int = ..., heartbeat_interval_ms: int = ..., acceptable_recovery_lag_legacy: int = ..., task_offset_interval_ms: int = ..., acceptable_recovery_lag: int = ..., status: list[StreamsGroupHeartbeatResponse.Status] | None = ..., active_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = ..., standby_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = ..., warmup_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = ..., topology_description_required: bool = ..., endpoint_information_epoch: int = ..., partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse.EndpointToPartitions] | None = ...) -> None: ...

class StreamsGroupHeartbeatRequest(Request[StreamsGroupHeartbeatResponse]):
    api_key: ClassVar[int]
    class Topology(Message):
        epoch: int
        subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., epoch: int = ..., subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology] = ...) -> None: ...
    class Subtopology(Message):
        subtopology_id: str
        source_topics: list[str]
        source_topic_regex: list[str]
        state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo]
        repartition_sink_topics: list[str]
        repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo]
        copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., subtopology_id: str = ..., source_topics: list[str] = ..., source_topic_regex: list[str] = ..., state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = ..., repartition_sink_topics: list[str] = ..., repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = ..., copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup] = ...) -> None: ...
    class TopicInfo(Message):
        name: str
        partitions: int
        replication_factor: int
        topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: int = ..., replication_factor: int = ..., topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue] = ...) -> None: ...
    class KeyValue(Message):
        key: str
        value: str
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., key: str = ..., value: str = ...) -> None: ...
    class CopartitionGroup(Message):
        source_topics: list[int]
        source_topic_regex: list[int]
        repartition_source_topics: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., source_topics: list[int] = ..., source_topic_regex: list[int] = ..., repartition_source_topics: list[int] = ...) -> None: ...
    class TaskIds(Message):
        subtopology_id: str
        partitions: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., subtopology_id: str = ..., partitions: list[int] = ...) -> None: ...
    class Endpoint(Message):
        host: str
        port: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., host: str = ..., port: int = ...) -> None: ...
    class TaskOffset(Message):
        subtopology_id: str
        partition: int
        offset: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., subtopology_id: str = ..., partition: int = ..., offset: int = ...) -> None: ...
    group_id: str
    member_id: str
    member_epoch: int
    endpoint_information_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topology: StreamsGroupHeartbeatRequest.Topology | None
    active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None
    standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None
    warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None
    process_id: str | None
    user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None
    client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None
    task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None
    task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None
    shutdown_application: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., member_id: str = ..., member_epoch: int = ..., endpoint_information_epoch: int = ..., instance_id: str | None = ..., rack_id: str | None = ..., rebalance_timeout_ms: int = ..., topology: StreamsGroupHeartbeatRequest.Topology | None = ..., active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = ..., standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = ..., warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = ..., process_id: str | None = ..., user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None = ..., client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None = ..., task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = ..., task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = ..., shutdown_application: bool = ...) -> None: ...

class StreamsGroupTopologyDescriptionUpdateResponse(Message):
    api_key: ClassVar[int]
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...

class StreamsGroupTopologyDescriptionUpdateRequest(Request[StreamsGroupTopologyDescriptionUpdateResponse]):
    api_key: ClassVar[int]
    class TopologyDescription(Message):
        subtopologies: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionSubtopology]
        global_stores: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionGlobalStore]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., subtopologies: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionSubtopology] = ..., global_stores: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionGlobalStore] = ...) -> None: ...
    class TopologyDescriptionSubtopology(Message):
        subtopology_id: str
        nodes: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., subtopology_id: str = ..., nodes: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode] = ...) -> None: ...
    class TopologyDescriptionNode(Message):
        name: str
        node_type: int
        source_topics: list[str]
        sink_topic: str | None
        stores: list[str]
        successors: list[str]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., node_type: int = ..., source_topics: list[str] = ..., sink_topic: str | None = ..., stores: list[str] = ..., successors: list[str] = ...) -> None: ...
    class TopologyDescriptionGlobalStore(Message):
        source: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode
        processor: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., source: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode = ..., processor: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode = ...) -> None: ...
    group_id: str
    member_id: str
    topology_epoch: int
    topology_description: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescription
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., member_id: str = ..., topology_epoch: int = ..., topology_description: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescription = ...) -> None: ...

class SyncGroupResponse(Message):
    api_key: ClassVar[int]
    throttle_time_ms: int
    error_code: int
    protocol_type: str | None
    protocol_name: str | None
    assignment: Buffer
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., protocol_type: str | None = ..., protocol_name: str | None = ..., assignment: Buffer = ...) -> None: ...

class SyncGroupRequest(Request[SyncGroupResponse]):
    api_key: ClassVar[int]
    class SyncGroupRequestAssignment(Message):
        member_id: str
        assignment: Buffer
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., member_id: str = ..., assignment: Buffer = ...) -> None: ...
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: list[SyncGroupRequest.SyncGroupRequestAssignment]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., generation_id: int = ..., member_id: str = ..., group_instance_id: str | None = ..., protocol_type: str | None = ..., protocol_name: str | None = ..., assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = ...) -> None: ...

class TopicRecord(Message):
    api_key: ClassVar[int]
    name: str
    topic_id: bytes
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., topic_id: bytes = ...) -> None: ...

class TxnOffsetCommitResponse(Message):
    api_key: ClassVar[int]
    class TxnOffsetCommitResponseTopic(Message):
        name: str
        topic_id: bytes
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., topic_id: bytes = ..., partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = ...) -> None: ...
    class TxnOffsetCommitResponsePartition(Message):
        partition_index: int
        error_code: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., error_code: int = ...) -> None: ...
    throttle_time_ms: int
    topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = ...) -> None: ...

class TxnOffsetCommitRequest(Request[TxnOffsetCommitResponse]):
    api_key: ClassVar[int]
    class TxnOffsetCommitRequestTopic(Message):
        name: str
        topic_id: bytes
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., topic_id: bytes = ..., partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = ...) -> None: ...
    class TxnOffsetCommitRequestPartition(Message):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        committed_metadata: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., committed_offset: int = ..., committed_leader_epoch: int = ..., committed_metadata: str | None = ...) -> None: ...
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., transactional_id: str = ..., group_id: str = ..., producer_id: int = ..., producer_epoch: int = ..., generation_id_or_member_epoch: int = ..., member_id: str = ..., group_instance_id: str | None = ..., topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = ...) -> None: ...

class UnfenceBrokerRecord(Message):
    api_key: ClassVar[int]
    id: int
    epoch: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., id: int = ..., epoch: int = ...) -> None: ...

class UnregisterBrokerResponse(Message):
    api_key: ClassVar[int]
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...

class UnregisterBrokerRequest(Request[UnregisterBrokerResponse]):
    api_key: ClassVar[int]
    broker_id: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., broker_id: int = ...) -> None: ...

class UnregisterBrokerRecord(Message):
    api_key: ClassVar[int]
    broker_id: int
    broker_epoch: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., broker_id: int = ..., broker_epoch: int = ...) -> None: ...

class UnregisterControllerResponse(Message):
    api_key: ClassVar[int]
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...

class UnregisterControllerRequest(Request[UnregisterControllerResponse]):
    api_key: ClassVar[int]
    controller_id: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., controller_id: int = ...) -> None: ...

class UnregisterControllerRecord(Message):
    api_key: ClassVar[int]
    controller_id: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., controller_id: int = ...) -> None: ...

class UpdateFeaturesResponse(Message):
    api_key: ClassVar[int]
    class UpdatableFeatureResult(Message):
        feature: str
        error_code: int
        error_message: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., feature: str = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    results: list[UpdateFeaturesResponse.UpdatableFeatureResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = ...) -> None: ...

class UpdateFeaturesRequest(Request[UpdateFeaturesResponse]):
    api_key: ClassVar[int]
    class FeatureUpdateKey(Message):
        feature: str
        max_version_level: int
        allow_downgrade: bool
        upgrade_type: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., feature: str = ..., max_version_level: int = ..., allow_downgrade: bool = ..., upgrade_type: int = ...) -> None: ...
    timeout_ms: int
    feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey]
    validate_only: bool
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., timeout_ms: int = ..., feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = ..., validate_only: bool = ...) -> None: ...

class UpdateRaftVoterResponse(Message):
    api_key: ClassVar[int]
    class CurrentLeader(Message):
        leader_id: int
        leader_epoch: int
        host: str
        port: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., leader_id: int = ..., leader_epoch: int = ..., host: str = ..., port: int = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    current_leader: UpdateRaftVoterResponse.CurrentLeader
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., throttle_time_ms: int = ..., error_code: int = ..., current_leader: UpdateRaftVoterResponse.CurrentLeader = ...) -> None: ...

class UpdateRaftVoterRequest(Request[UpdateRaftVoterResponse]):
    api_key: ClassVar[int]
    class Listener(Message):
        name: str
        host: str
        port: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., host: str = ..., port: int = ...) -> None: ...
    class KRaftVersionFeature(Message):
        min_supported_version: int
        max_supported_version: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., min_supported_version: int = ..., max_supported_version: int = ...) -> None: ...
    cluster_id: str | None
    current_leader_epoch: int
    voter_id: int
    voter_directory_id: bytes
    listeners: list[UpdateRaftVoterRequest.Listener]
    kraft_version_feature: UpdateRaftVoterRequest.KRaftVersionFeature
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., cluster_id: str | None = ..., current_leader_epoch: int = ..., voter_id: int = ..., voter_directory_id: bytes = ..., listeners: list[UpdateRaftVoterRequest.Listener] = ..., kraft_version_feature: UpdateRaftVoterRequest.KRaftVersionFeature = ...) -> None: ...

class UserScramCredentialRecord(Message):
    api_key: ClassVar[int]
    name: str
    mechanism: int
    salt: Buffer
    stored_key: Buffer
    server_key: Buffer
    iterations: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., mechanism: int = ..., salt: Buffer = ..., stored_key: Buffer = ..., server_key: Buffer = ..., iterations: int = ...) -> None: ...

class VoteResponse(Message):
    api_key: ClassVar[int]
    class TopicData(Message):
        topic_name: str
        partitions: list[VoteResponse.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_name: str = ..., partitions: list[VoteResponse.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        vote_granted: bool
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., error_code: int = ..., leader_id: int = ..., leader_epoch: int = ..., vote_granted: bool = ...) -> None: ...
    class NodeEndpoint(Message):
        node_id: int
        host: str
        port: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., node_id: int = ..., host: str = ..., port: int = ...) -> None: ...
    error_code: int
    topics: list[VoteResponse.TopicData]
    node_endpoints: list[VoteResponse.NodeEndpoint]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., error_code: int = ..., topics: list[VoteResponse.TopicData] = ..., node_endpoints: list[VoteResponse.NodeEndpoint] = ...) -> None: ...

class VoteRequest(Request[VoteResponse]):
    api_key: ClassVar[int]
    class TopicData(Message):
        topic_name: str
        partitions: list[VoteRequest.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_name: str = ..., partitions: list[VoteRequest.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition_index: int
        replica_epoch: int
        replica_id: int
        replica_directory_id: bytes
        voter_directory_id: bytes
        last_offset_epoch: int
        last_offset: int
        pre_vote: bool
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., replica_epoch: int = ..., replica_id: int = ..., replica_directory_id: bytes = ..., voter_directory_id: bytes = ..., last_offset_epoch: int = ..., last_offset: int = ..., pre_vote: bool = ...) -> None: ...
    cluster_id: str | None
    voter_id: int
    topics: list[VoteRequest.TopicData]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., cluster_id: str | None = ..., voter_id: int = ..., topics: list[VoteRequest.TopicData] = ...) -> None: ...

class VotersRecord(Message):
    class Voter(Message):
        voter_id: int
        voter_directory_id: bytes
        endpoints: list[VotersRecord.Endpoint]
        kraft_version_feature: VotersRecord.KRaftVersionFeature
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., voter_id: int = ..., voter_directory_id: bytes = ..., endpoints: list[VotersRecord.Endpoint] = ..., kraft_version_feature: VotersRecord.KRaftVersionFeature = ...) -> None: ...
    class Endpoint(Message):
        name: str
        host: str
        port: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., host: str = ..., port: int = ...) -> None: ...
    class KRaftVersionFeature(Message):
        min_supported_version: int
        max_supported_version: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., min_supported_version: int = ..., max_supported_version: int = ...) -> None: ...
    version: int
    voters: list[VotersRecord.Voter]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., version: int = ..., voters: list[VotersRecord.Voter] = ...) -> None: ...

class WriteShareGroupStateResponse(Message):
    api_key: ClassVar[int]
    class WriteStateResult(Message):
        topic_id: bytes
        partitions: list[WriteShareGroupStateResponse.PartitionResult]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[WriteShareGroupStateResponse.PartitionResult] = ...) -> None: ...
    class PartitionResult(Message):
        partition: int
        error_code: int
        error_message: str | None
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    results: list[WriteShareGroupStateResponse.WriteStateResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., results: list[WriteShareGroupStateResponse.WriteStateResult] = ...) -> None: ...

class WriteShareGroupStateRequest(Request[WriteShareGroupStateResponse]):
    api_key: ClassVar[int]
    class WriteStateData(Message):
        topic_id: bytes
        partitions: list[WriteShareGroupStateRequest.PartitionData]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., topic_id: bytes = ..., partitions: list[WriteShareGroupStateRequest.PartitionData] = ...) -> None: ...
    class PartitionData(Message):
        partition: int
        state_epoch: int
        leader_epoch: int
        start_offset: int
        delivery_complete_count: int
        state_batches: list[WriteShareGroupStateRequest.StateBatch]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition: int = ..., state_epoch: int = ..., leader_epoch: int = ..., start_offset: int = ..., delivery_complete_count: int = ..., state_batches: list[WriteShareGroupStateRequest.StateBatch] = ...) -> None: ...
    class StateBatch(Message):
        first_offset: int
        last_offset: int
        delivery_state: int
        delivery_count: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., first_offset: int = ..., last_offset: int = ..., delivery_state: int = ..., delivery_count: int = ...) -> None: ...
    group_id: str
    topics: list[WriteShareGroupStateRequest.WriteStateData]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., group_id: str = ..., topics: list[WriteShareGroupStateRequest.WriteStateData] = ...) -> None: ...

class WriteTxnMarkersResponse(Message):
    api_key: ClassVar[int]
    class WritableTxnMarkerResult(Message):
        producer_id: int
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., producer_id: int = ..., topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = ...) -> None: ...
    class WritableTxnMarkerTopicResult(Message):
        name: str
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = ...) -> None: ...
    class WritableTxnMarkerPartitionResult(Message):
        partition_index: int
        error_code: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., partition_index: int = ..., error_code: int = ...) -> None: ...
    markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = ...) -> None: ...

class WriteTxnMarkersRequest(Request[WriteTxnMarkersResponse]):
    api_key: ClassVar[int]
    class WritableTxnMarker(Message):
        producer_id: int
        producer_epoch: int
        transaction_result: bool
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic]
        coordinator_epoch: int
        transaction_version: int
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., producer_id: int = ..., producer_epoch: int = ..., transaction_result: bool = ..., topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = ..., coordinator_epoch: int = ..., transaction_version: int = ...) -> None: ...
    class WritableTxnMarkerTopic(Message):
        name: str
        partition_indexes: list[int]
        def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., name: str = ..., partition_indexes: list[int] = ...) -> None: ...
    markers: list[WriteTxnMarkersRequest.WritableTxnMarker]
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = ...) -> None: ...

class ZkMigrationStateRecord(Message):
    api_key: ClassVar[int]
    zk_migration_state: int
    def __init__(self, *, unknown_tags: dict[int, bytes] | None = ..., zk_migration_state: int = ...) -> None: ...
