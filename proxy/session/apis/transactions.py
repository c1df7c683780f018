"""The APIs of transactional and idempotent producers (KIP-98, KIP-447, KIP-664, KIP-890, KIP-939, KIP-1319).

    InitProducerId            WRITE on the transactional id, TWO_PHASE_COMMIT too if it is requested;
                              without an id IDEMPOTENT_WRITE on the cluster, or WRITE on any topic at all
                              (KIP-679)
    AddPartitionsToTxn        WRITE on the transactional id and on each topic; from v4 on CLUSTER_ACTION
    AddOffsetsToTxn           WRITE on the transactional id, READ on the group
    TxnOffsetCommit           the same, and READ on each topic, which v6 names by id
    EndTxn                    WRITE on the transactional id
    WriteTxnMarkers           ALTER on the cluster, or CLUSTER_ACTION
    DescribeTransactions      DESCRIBE on each transactional id
    ListTransactions          the same: the others are omitted

Without the right on the transactional id or the group the whole request is denied. Brokers send
WriteTxnMarkers to each other, and administrators to end a hanging transaction; one that names a topic of
Penstock's own is denied as a whole: its marker could end a transaction of the controller.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from proxy.admin.objects import Known, Object, in_partitions
from proxy.admin.rejection import Error, TopicShape, code_only, each_part, in_request_order
from proxy.admin.topics import INTERNAL_TOPICS
from proxy.metadata.acl import CLUSTER_NAME, Operation, ResourceType
from proxy.session.apis.topic_existence import find_partitions
from proxy.session.apis.topic_filter import filter_topic_ids, filter_topics
from proxy.session.call import Api, Call, Forward, Respond, Verdict, deny
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

TXN_OFFSET_COMMIT = TopicShape(
    response="TxnOffsetCommitResponse",
    topic="TxnOffsetCommitResponseTopic",
    partition="TxnOffsetCommitResponsePartition",
    carried=("topic_id",),
    merges_topics=True,
)

ADD_PARTITIONS = TopicShape(
    response="AddPartitionsToTxnResponse",
    topic="AddPartitionsToTxnTopicResult",
    partition="AddPartitionsToTxnPartitionResult",
    request_topics="v3_and_below_topics",
    response_topics="results_by_topic_v3_and_below",
    request_index=None,
    response_partitions="results_by_partition",
    error_code="partition_error_code",
    merges_topics=True,
    reports_partitions_once=True,
)
_FIRST_FOR_BROKERS = 4
"""The first version of AddPartitionsToTxn that brokers send."""
_FIRST_COMMIT_WITH_TOPIC_IDS = 6


def decide_init_producer_id(call: Call, request: types.InitProducerIdRequest) -> Verdict:
    if request.transactional_id is None:
        if call.shows(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, (CLUSTER_NAME,)):
            return Forward()
        if call.allows_by_type(Operation.WRITE, ResourceType.TOPIC):
            return Forward()
        return deny(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    needed = [Operation.WRITE] + ([Operation.TWO_PHASE_COMMIT] if request.enable2_pc else [])
    for operation in needed:
        if not call.allows(operation, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
            return deny(call, request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return Forward()


def decide_add_partitions(call: Call, request: types.AddPartitionsToTxnRequest) -> Verdict:
    """Decide an AddPartitionsToTxn request: with one topic denied the others are OPERATION_NOT_ATTEMPTED.

    Of these, partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION.

    Kafka's internal topics are denied to all clients. A request of brokers that names a transactional id or a
    topic of Penstock's own is denied as a whole.
    """
    if call.version >= _FIRST_FOR_BROKERS:
        if not call.allows_cluster(Operation.CLUSTER_ACTION):
            return deny(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return _of_brokers(call, request)
    transactional_id = request.v3_and_below_transactional_id
    if not call.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return deny(call, request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    # As at a broker, a topic without partitions is neither checked nor in the response.
    requested = [topic for topic in request.v3_and_below_topics if topic.partitions]
    names = [topic.name for topic in requested if topic.name not in INTERNAL_TOPICS]
    allowed = call.allowed_names(Operation.WRITE, ResourceType.TOPIC, names)
    if allowed.issuperset(topic.name for topic in requested):
        return Forward()

    def found(existing: Mapping[str, Container[int]]) -> Verdict:
        results = [_not_added(topic, existing.get(topic.name, ()), allowed) for topic in requested]
        reported = ADD_PARTITIONS.as_reported(results)
        return Respond(types.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=reported))

    return find_partitions(call, sorted(allowed), found) if allowed else found({})


def _of_brokers(call: Call, request: types.AddPartitionsToTxnRequest) -> Verdict:
    ids = [transaction.transactional_id for transaction in request.transactions]
    if not call.within_cluster_right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, ids).issuperset(ids):
        return deny(call, request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    names = [topic.name for transaction in request.transactions for topic in transaction.topics]
    if not call.within_cluster_right(Operation.WRITE, ResourceType.TOPIC, names).issuperset(names):
        return deny(call, request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return Forward()


def _not_added(
    topic: types.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic,
    existing: Container[int],
    allowed: Container[str],
) -> types.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult:
    """Return the result of a topic in a request of which another topic is denied, or this one."""
    response = types.AddPartitionsToTxnResponse

    def error(index: int) -> ErrorCode:
        if topic.name not in allowed:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return (
            ErrorCode.OPERATION_NOT_ATTEMPTED if index in existing else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )

    return response.AddPartitionsToTxnTopicResult(
        name=topic.name,
        results_by_partition=[
            response.AddPartitionsToTxnPartitionResult(
                partition_index=index, partition_error_code=error(index)
            )
            for index in topic.partitions
        ],
    )


def _reject_add_partitions(
    version: int, request: types.AddPartitionsToTxnRequest, error: Error
) -> types.AddPartitionsToTxnResponse:
    if version >= _FIRST_FOR_BROKERS:
        return types.AddPartitionsToTxnResponse(error_code=error["error_code"])
    response: types.AddPartitionsToTxnResponse = ADD_PARTITIONS.reject_all(request, error["error_code"])
    return response


def decide_end(call: Call, request: types.EndTxnRequest) -> Verdict:
    if not call.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return deny(call, request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return Forward()


def denied_commit(
    call: Call, request: types.AddOffsetsToTxnRequest | types.TxnOffsetCommitRequest
) -> Respond | None:
    """Deny a request that adds a group's offsets to a transaction; None: both rights are there."""
    if not call.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return deny(call, request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return deny(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return None


def decide_offset_commit(call: Call, request: types.TxnOffsetCommitRequest) -> Verdict:
    filter_ = filter_topics if call.version < _FIRST_COMMIT_WITH_TOPIC_IDS else filter_topic_ids
    return denied_commit(call, request) or filter_(call, request, TXN_OFFSET_COMMIT, Operation.READ)


def _is_of_no_member(request: types.TxnOffsetCommitRequest) -> bool:
    """Whether no member of the group commits: a broker takes that of any producer, also while the group has
    members (KIP-447)."""
    return not request.member_id and request.generation_id_or_member_epoch < 0


def _commits(
    request: types.TxnOffsetCommitRequest, response: types.TxnOffsetCommitResponse | None, known: Known
) -> Iterator[Object]:
    return in_partitions(
        TXN_OFFSET_COMMIT,
        request,
        response,
        known,
        "ALTER_OFFSETS",
        lambda part: f"{part.partition_index}:{part.committed_offset}",
        transactional_id=request.transactional_id,
    )


def decide_write_markers(call: Call, request: types.WriteTxnMarkersRequest) -> Verdict:
    may_alter = call.shows(Operation.ALTER, ResourceType.CLUSTER, (CLUSTER_NAME,))
    if not call.allows_cluster(Operation.ALTER if may_alter else Operation.CLUSTER_ACTION):
        return deny(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    names = [topic.name for marker in request.markers for topic in marker.topics]
    if not call.within_cluster_right(Operation.WRITE, ResourceType.TOPIC, names).issuperset(names):
        return deny(call, request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return Forward()


def _reject_markers(
    _version: int, request: types.WriteTxnMarkersRequest, error: Error
) -> types.WriteTxnMarkersResponse:
    response, code = types.WriteTxnMarkersResponse, error["error_code"]
    return response(
        markers=[
            response.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    response.WritableTxnMarkerTopicResult(
                        name=name,
                        partitions=[
                            response.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index in indexes
                        ],
                    )
                    for name, indexes in _marked(marker).items()
                ],
            )
            # A broker groups them by producer: of two of one producer the last is reported.
            for marker in {marker.producer_id: marker for marker in request.markers}.values()
        ]
    )


def _marked(marker: types.WriteTxnMarkersRequest.WritableTxnMarker) -> dict[str, dict[int, None]]:
    """Return each partition once, whatever the request repeats, by topic. A topic without any is left out."""
    marked: dict[str, dict[int, None]] = {}
    for topic in marker.topics:
        for index in topic.partition_indexes:
            marked.setdefault(topic.name, {})[index] = None
    return marked


def decide_describe(call: Call, request: types.DescribeTransactionsRequest) -> Verdict:
    requested = request.transactional_ids
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, requested)
    state = types.DescribeTransactionsResponse.TransactionState
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    rejected = [state(transactional_id=name, error_code=code) for name in requested if name not in allowed]
    if rejected and not allowed:
        return Respond(types.DescribeTransactionsResponse(transaction_states=rejected))

    def on_response(response: types.DescribeTransactionsResponse) -> None:
        names = (topic.topic for state in response.transaction_states for topic in state.topics)
        shown = call.shows(Operation.DESCRIBE, ResourceType.TOPIC, names)
        for state in response.transaction_states:
            state.topics[:] = [topic for topic in state.topics if topic.topic in shown]
        parts = [*response.transaction_states, *rejected]
        response.transaction_states = in_request_order(requested, parts, lambda part: part.transactional_id)

    if not rejected:
        return Forward(None, on_response)
    request.transactional_ids = [name for name in requested if name in allowed]
    return Forward(request, on_response)


def decide_list(call: Call, request: types.ListTransactionsRequest) -> Verdict:

    def on_response(response: types.ListTransactionsResponse) -> None:
        states = response.transaction_states
        ids = (state.transactional_id for state in states)
        shown = call.shows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ids)
        states[:] = [state for state in states if state.transactional_id in shown]

    return Forward(None, on_response)


_MARKERS = TopicShape(
    response="WriteTxnMarkersResponse",
    topic="WritableTxnMarkerTopicResult",
    partition="WritableTxnMarkerPartitionResult",
    request_partitions="partition_indexes",
    request_index=None,
)


def _markers(
    request: types.WriteTxnMarkersRequest, response: types.WriteTxnMarkersResponse | None, known: Known
) -> Iterator[Object]:
    reported = {} if response is None else {marker.producer_id: marker for marker in response.markers}
    for marker in request.markers:
        operation = "COMMIT_TRANSACTION" if marker.transaction_result else "ABORT_TRANSACTION"
        found = reported.get(marker.producer_id)
        yield from in_partitions(
            _MARKERS,
            marker,
            found,
            known,
            operation,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
        )


APIS = (
    Api(
        ApiKey.INIT_PRODUCER_ID,
        decide_init_producer_id,
        code_only("InitProducerIdResponse", producer_epoch=-1),
    ),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, decide_add_partitions, _reject_add_partitions),
    Api(
        ApiKey.ADD_OFFSETS_TO_TXN,
        lambda call, request: denied_commit(call, request) or Forward(),
        code_only("AddOffsetsToTxnResponse"),
    ),
    Api(ApiKey.END_TXN, decide_end, code_only("EndTxnResponse")),
    Api(
        ApiKey.TXN_OFFSET_COMMIT,
        decide_offset_commit,
        TXN_OFFSET_COMMIT.reject,
        objects=_commits,
        administers=_is_of_no_member,
    ),
    Api(
        ApiKey.WRITE_TXN_MARKERS,
        decide_write_markers,
        _reject_markers,
        admin="broker",
        objects=_markers,
        between_brokers=True,
    ),
    Api(
        ApiKey.DESCRIBE_TRANSACTIONS,
        decide_describe,
        each_part(
            "DescribeTransactionsResponse",
            "transaction_states",
            "TransactionState",
            lambda request: ({"transactional_id": each} for each in request.transactional_ids),
        ),
    ),
    Api(ApiKey.LIST_TRANSACTIONS, decide_list, code_only("ListTransactionsResponse")),
)
