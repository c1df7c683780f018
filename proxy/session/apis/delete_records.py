"""DeleteRecords (KIP-107): DELETE on each topic; partitions of the others are TOPIC_AUTHORIZATION_FAILED."""

from typing import Any

from proxy.metadata.acl import Operation
from proxy.session.apis.api import Api
from proxy.session.apis.topic_filter import filter_topics
from proxy.session.apis.topic_shapes import TOPIC_SHAPES
from proxy.session.call import Call, Verdict
from proxy.wire.api_keys import ApiKey

_SHAPE = TOPIC_SHAPES[ApiKey.DELETE_RECORDS]


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    return filter_topics(call, request, _SHAPE, Operation.DELETE)


API = Api(ApiKey.DELETE_RECORDS, decide, admin=True, changes_at_broker=True)
