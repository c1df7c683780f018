"""Topics a request names by id: which of them are refused, and with what.

Serves OffsetCommit and OffsetFetch from v10, ShareFetch and ShareAcknowledge. The names behind the ids are
those that Metadata answers told.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.call import Call
from proxy.wire.error_codes import ErrorCode

TopicErrors = Mapping[bytes, ErrorCode]


def errors_by_id(call: Call, operation: Operation, topics: Iterable[Any]) -> TopicErrors:
    """Id -> error, for every topic whose name is unknown or on which they may not do `operation`."""
    return id_errors(call, operation, (bytes(topic.topic_id) for topic in topics))


def id_errors(call: Call, operation: Operation, topic_ids: Iterable[bytes]) -> TopicErrors:
    """The same for bare ids."""
    names = {topic_id: call.gate.topic_names.name(topic_id) for topic_id in topic_ids}
    known = [name for name in names.values() if name is not None]
    allowed = call.allowed_names(operation, ResourceType.TOPIC, known)
    errors = {
        topic_id: ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for topic_id, name in names.items()
    }
    return {topic_id: error for topic_id, error in errors.items() if names[topic_id] not in allowed}
