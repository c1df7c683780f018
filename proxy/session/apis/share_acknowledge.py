"""ShareAcknowledge (KIP-932): READ on the group and on each topic, which the request names by id.

Partitions of denied topics are TOPIC_AUTHORIZATION_FAILED, an id that the broker does not know is
UNKNOWN_TOPIC_ID. The broker gets what is left even if that is nothing: it counts the requests of a share
session.
"""

from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.addresses import rewrite_endpoints
from proxy.session.apis.api import Api
from proxy.session.apis.existing_topics import with_names
from proxy.session.apis.order import in_request_order
from proxy.session.apis.refusal import denied, refused
from proxy.session.apis.share_member import is_member_id
from proxy.session.apis.topic_ids import errors_by_id
from proxy.session.call import Call, Forward, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    if not call.allows(Operation.READ, ResourceType.GROUP, request.group_id or ""):
        return denied(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not is_member_id(request.member_id):
        return refused(call, request, ErrorCode.INVALID_REQUEST)
    asked = [bytes(topic.topic_id) for topic in request.topics]
    return with_names(call, asked, lambda: _forwarded(call, request, asked))


def _forwarded(call: Call, request: Any, asked: list[bytes]) -> Verdict:
    errors = errors_by_id(call, Operation.READ, request.topics)
    refusals = [
        _refused(topic, errors[topic_id])
        for topic, topic_id in zip(request.topics, asked, strict=True)
        if topic_id in errors
    ]

    def on_reply(response: Any) -> None:
        response.node_endpoints = rewrite_endpoints(call.listener, response.node_endpoints)
        if response.error_code == ErrorCode.NONE:
            parts = [*response.responses, *refusals]
            response.responses = in_request_order(asked, parts, lambda topic: bytes(topic.topic_id))

    if not refusals:
        return Forward(None, on_reply)
    request.topics = [topic for topic in request.topics if bytes(topic.topic_id) not in errors]
    return Forward(request, on_reply)


def _refused(topic: Any, error_code: ErrorCode) -> Any:
    response = types.ShareAcknowledgeResponse
    return response.ShareAcknowledgeTopicResponse(
        topic_id=topic.topic_id,
        partitions=[
            response.PartitionData(partition_index=partition.partition_index, error_code=error_code)
            for partition in topic.partitions
        ],
    )


API = Api(ApiKey.SHARE_ACKNOWLEDGE, decide)
