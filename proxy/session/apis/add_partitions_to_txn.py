"""AddPartitionsToTxn (KIP-98; KIP-890 from v4): WRITE on the transactional id and on each topic.

All or nothing: with one topic denied its partitions are TOPIC_AUTHORIZATION_FAILED and all others
OPERATION_NOT_ATTEMPTED. Kafka's internal topics are denied to everybody. From v4 on it is a request of
brokers, which need CLUSTER_ACTION; one that names a transactional id or a topic of Penstock's own is denied
as a whole.
"""

from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.api import Api
from proxy.session.apis.refusal import denied
from proxy.session.apis.topic_name import INTERNAL_TOPICS
from proxy.session.apis.topic_shapes import TOPIC_SHAPES
from proxy.session.call import Answer, Call, Forward, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

_SHAPE = TOPIC_SHAPES[ApiKey.ADD_PARTITIONS_TO_TXN]
_FIRST_FOR_BROKERS = 4


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    if call.version >= _FIRST_FOR_BROKERS:
        if not call.allows_cluster(Operation.CLUSTER_ACTION):
            return denied(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return _of_brokers(call, request)
    transactional_id = request.v3_and_below_transactional_id
    if not call.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return denied(call, request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    # A broker goes by partition: a topic without one is neither asked for nor told.
    asked = [topic for topic in request.v3_and_below_topics if topic.partitions]
    names = [topic.name for topic in asked if topic.name not in INTERNAL_TOPICS]
    allowed = call.allowed_names(Operation.WRITE, ResourceType.TOPIC, names)
    if allowed.issuperset(topic.name for topic in asked):
        return Forward()
    results = [_SHAPE.refuse_topic(topic, _error(topic.name in allowed)) for topic in asked]
    return Answer(types.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))


def _of_brokers(call: Call, request: Any) -> Verdict:
    ids = [transaction.transactional_id for transaction in request.transactions]
    if not call.within_cluster_right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, ids).issuperset(ids):
        return denied(call, request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    names = [topic.name for transaction in request.transactions for topic in transaction.topics]
    if not call.within_cluster_right(Operation.WRITE, ResourceType.TOPIC, names).issuperset(names):
        return denied(call, request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return Forward()


def _error(allowed: bool) -> ErrorCode:
    return ErrorCode.OPERATION_NOT_ATTEMPTED if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED


API = Api(ApiKey.ADD_PARTITIONS_TO_TXN, decide)
