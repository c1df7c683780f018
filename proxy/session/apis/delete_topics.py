"""DeleteTopics (KIP-4, KIP-516: by id from v6): DELETE on the cluster or on each topic.

The allowed topics go to the controller. Denied ones are TOPIC_AUTHORIZATION_FAILED; of one asked for by id
the name is told to those who may DESCRIBE it. One that does not exist is said to be missing to those who may
DESCRIBE it, and denied to others: where it has to, the broker is asked first.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.api import Api
from proxy.session.apis.cluster_operations import to_the_controller
from proxy.session.apis.create_topics import with_cluster_right
from proxy.session.apis.existing_topics import ask_which_exist, with_names
from proxy.session.apis.order import in_request_order
from proxy.session.apis.refusal import MESSAGES
from proxy.session.call import CLUSTER_NAME, Answer, Call, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.work import paced

NO_TOPIC_ID = bytes(16)
_FIRST_WITH_TOPIC_IDS = 6

Key = tuple[str | None, bytes]
"""A topic as the request names it: by name (with the zero id) or by id (with no name)."""

Error = tuple[str | None, ErrorCode, str]
"""The name to tell, the error, its message."""

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED, MESSAGES[ErrorCode.TOPIC_AUTHORIZATION_FAILED]
_MISSING = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    asked = _asked(call, request)
    return with_names(
        call,
        [topic_id for name, topic_id in paced(asked) if name is None],
        lambda: _decide(call, request, asked),
    )


def _decide(call: Call, request: Any, asked: list[Key]) -> Verdict:
    times = Counter(asked)
    names = {key: call.gate.topic_names.name(key[1]) if key[0] is None else key[0] for key in paced(asked)}
    errors = {
        key: error
        for key in paced(list(times), 2)
        if (error := _malformed(key, times[key], names[key])) is not None
    }
    valid = {key: name for key, name in paced(list(names.items())) if key not in errors and name is not None}
    deletable = _deletable(call, valid)
    undeletable = {key: name for key, name in paced(list(valid.items())) if key not in deletable}
    describable = call.shows(Operation.DESCRIBE, ResourceType.TOPIC, undeletable.values())
    for key, name in paced(list(undeletable.items())):
        errors[key] = name if key[0] is not None or name in describable else None, *_DENIED
    perhaps_missing = {key: name for key, name in paced(list(undeletable.items())) if key[0] in describable}
    if not perhaps_missing:
        return _forwarded(call, request, list(times), errors)

    def known(existing: set[str]) -> Verdict:
        for key, name in perhaps_missing.items():
            if name not in existing:
                errors[key] = name, *_MISSING
        return _forwarded(call, request, list(times), errors)

    return ask_which_exist(call, perhaps_missing.values(), known)


def _deletable(call: Call, topics: Mapping[Key, str]) -> set[Key]:
    allowed = with_cluster_right(call, Operation.DELETE, list(topics.values()))
    deletable = {key for key, name in paced(list(topics.items())) if name in allowed}
    if call.shows(Operation.DELETE, ResourceType.CLUSTER, (CLUSTER_NAME,)):
        return deletable
    # DELETE implies DESCRIBE, but not against a DENY of it: then a broker denies a topic asked for by name.
    named = [name for key, name in topics.items() if key in deletable and key[0] is not None]
    describable = call.shows(Operation.DESCRIBE, ResourceType.TOPIC, named)
    hidden = [name for name in named if name not in describable]
    describable |= call.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, hidden)
    return {key for key in deletable if key[0] is None or topics[key] in describable}


def _asked(call: Call, request: Any) -> list[Key]:
    if call.version < _FIRST_WITH_TOPIC_IDS:
        return [(name, NO_TOPIC_ID) for name in request.topic_names]
    return [(topic.name, bytes(topic.topic_id)) for topic in paced(request.topics)]


def _malformed(key: Key, count: int, known_as: str | None) -> Error | None:
    name, topic_id = key
    if name is None and not any(topic_id):
        return None, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."
    if name is not None and any(topic_id):
        return name, ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
    if count > 1:
        return name, ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}."
    if known_as is None:
        return None, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
    return None


def _forwarded(call: Call, request: Any, asked: list[Key], errors: dict[Key, Error]) -> Verdict:
    if not errors:
        return to_the_controller(request)
    result = types.DeleteTopicsResponse.DeletableTopicResult
    refused = [
        (key, result(name=name, topic_id=key[1], error_code=code, error_message=message))
        for key, (name, code, message) in errors.items()
    ]
    allowed = [key for key in paced(asked) if key not in errors]

    def on_reply(response: Any) -> None:
        by_id = {topic_id for name, topic_id in allowed if name is None}
        answered = [(_key(topic, by_id), topic) for topic in response.responses]
        ordered = in_request_order(asked, [*answered, *refused], lambda keyed: keyed[0])
        response.responses = [topic for _, topic in ordered]

    if not allowed:
        response = types.DeleteTopicsResponse()
        on_reply(response)
        return Answer(response)
    _narrow(call, request, allowed)
    return to_the_controller(request, on_reply)


def _narrow(call: Call, request: Any, allowed: list[Key]) -> None:
    if call.version < _FIRST_WITH_TOPIC_IDS:
        request.topic_names = [name for name, _ in allowed]
        return
    state = types.DeleteTopicsRequest.DeleteTopicState
    request.topics = [state(name=name, topic_id=topic_id) for name, topic_id in allowed]


def _key(topic: Any, by_id: set[bytes]) -> Key:
    topic_id = bytes(topic.topic_id)
    return (None, topic_id) if topic_id in by_id else (topic.name, NO_TOPIC_ID)


API = Api(ApiKey.DELETE_TOPICS, decide, admin=True, forwarded=True)
