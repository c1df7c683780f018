"""TxnOffsetCommit (KIP-98, KIP-447): WRITE on the transactional id, READ on the group and on each topic.

Without the first two every partition carries their error, else those of denied topics are
TOPIC_AUTHORIZATION_FAILED.
"""

from typing import Any

from proxy.metadata.acl import Operation
from proxy.session.apis.api import Api
from proxy.session.apis.topic_filter import filter_topics
from proxy.session.apis.topic_shapes import TOPIC_SHAPES
from proxy.session.apis.transactions import refused_to_commit
from proxy.session.call import Call, Verdict
from proxy.wire.api_keys import ApiKey

_SHAPE = TOPIC_SHAPES[ApiKey.TXN_OFFSET_COMMIT]


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    return refused_to_commit(call, request) or filter_topics(call, request, _SHAPE, Operation.READ)


API = Api(ApiKey.TXN_OFFSET_COMMIT, decide)
