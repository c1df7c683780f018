"""DescribeProducers (KIP-664): READ on each topic; partitions of the others are TOPIC_AUTHORIZATION_FAILED.

A name that no topic can have is INVALID_TOPIC_EXCEPTION before any right is asked for: the broker says so.
"""

from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.api import Api
from proxy.session.apis.refusal import MESSAGES
from proxy.session.apis.topic_filter import take_out
from proxy.session.apis.topic_name import is_valid
from proxy.session.apis.topic_shapes import TOPIC_SHAPES
from proxy.session.call import Answer, Call, Forward, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

_SHAPE = TOPIC_SHAPES[ApiKey.DESCRIBE_PRODUCERS]


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    names = {topic.name for topic in request.topics}
    invalid = {name for name in names if not is_valid(name)}
    allowed = call.allowed_names(Operation.READ, ResourceType.TOPIC, sorted(names - invalid))
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    merge = take_out(request, _SHAPE, allowed | invalid, code, MESSAGES[code])
    if merge is None:
        return Forward()
    if request.topics:
        return Forward(request, merge)
    response = types.DescribeProducersResponse()
    merge(response)
    return Answer(response)


API = Api(ApiKey.DESCRIBE_PRODUCERS, decide)
