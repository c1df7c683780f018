"""Produce (KIP-98, KIP-516): WRITE on each topic; WRITE on the transactional id where there is one.

Most requests go to one partition: `proxy.wire.skim` finds their topic, and the records stream through
unseen. All others come here decoded: topics that are denied are taken out and their partitions put back
into the answer with TOPIC_AUTHORIZATION_FAILED, in the order of the request.
"""

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis import addresses
from proxy.session.call import Answer, Call, Forward, LookUp, Verdict
from proxy.session.gate import ListenerPolicy
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.work import paced

FIRST_WITH_TOPIC_ID = 13
FIRST_WITH_ENDPOINTS = 10
"""From here on an answer may tell the address of the leader (KIP-951), which has to be a proxy's."""
FIRST_FLEXIBLE = 9
FIRST_WITH_THROTTLE = 1

_INT32 = Struct(">i")
_ERROR_CODE = Struct(">h").unpack_from


def decide(call: Call, message: Any) -> Verdict:
    """The verdict on a decoded request; `LookUp` if it names an id that has no name here."""
    if message.transactional_id is not None and not call.allows(
        Operation.WRITE, ResourceType.TRANSACTIONAL_ID, message.transactional_id
    ):
        return _answer(message, lambda _: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    names = _names(call, message)
    if None in names.values():
        unknown = [key for key, name in paced(list(names.items())) if name is None and isinstance(key, bytes)]
        return LookUp(unknown, lambda: _decide(call, message, names))
    return _decide(call, message, names)


def _decide(call: Call, message: Any, names: Mapping[str | bytes, str | None]) -> Verdict:
    errors = _errors_by_topic(call, names)
    if not errors:
        return Forward()
    asked = message.topic_data
    message.topic_data = [topic for topic in paced(asked) if _key(call.version, topic) not in errors]
    denied = [topic for topic in paced(asked) if _key(call.version, topic) in errors]
    if not message.topic_data:
        message.topic_data = asked
        refused = _answer(message, lambda topic: errors[_key(call.version, topic)])
        refused.is_paid_for = True
        return refused

    def put_back(reply: Any) -> None:
        answered = {_key(call.version, topic): topic for topic in reply.responses}
        for topic in filter(_has_partitions, denied):
            key = _key(call.version, topic)
            answered[key] = _refused(topic, errors[key])
        keys = dict.fromkeys(_key(call.version, topic) for topic in asked)
        reply.responses = [answered[key] for key in keys if key in answered]

    return Forward(message, put_back)


def _key(version: int, topic: Any) -> str | bytes:
    return bytes(topic.topic_id) if version >= FIRST_WITH_TOPIC_ID else str(topic.name)


def _names(call: Call, message: Any) -> dict[str | bytes, str | None]:
    """Of the topics as the request names them; None for an id that has no name here."""
    keys = list(dict.fromkeys(_key(call.version, topic) for topic in paced(message.topic_data)))
    return {key: call.gate.topic_names.name(key) if isinstance(key, bytes) else key for key in paced(keys)}


def _errors_by_topic(call: Call, names: Mapping[str | bytes, str | None]) -> dict[str | bytes, ErrorCode]:
    known = [name for name in names.values() if name is not None]
    allowed = call.allowed_names(Operation.WRITE, ResourceType.TOPIC, known)
    errors: dict[str | bytes, ErrorCode] = {}
    for key, name in paced(list(names.items())):
        if name is None:
            errors[key] = ErrorCode.UNKNOWN_TOPIC_ID
        elif name not in allowed:
            errors[key] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return errors


def refuse_all(message: Any, error_code: ErrorCode, error_message: str) -> Answer:
    """The answer in which every partition has that error."""
    refused = _answer(message, lambda _: error_code)
    for topic in refused.message.responses if refused.message is not None else ():
        for partition in topic.partition_responses:
            partition.error_message = error_message
    return refused


def _answer(message: Any, error_of: Callable[[Any], ErrorCode]) -> Answer:
    if message.acks == 0:
        # There is nothing to answer: a client that does not listen notices only that it is cut off.
        return Answer(None, close="produce_denied")
    asked = filter(_has_partitions, message.topic_data)
    responses = [_refused(topic, error_of(topic)) for topic in asked]
    return Answer(types.ProduceResponse(responses=responses))


def _has_partitions(topic: Any) -> bool:
    # A broker answers by partition: a topic without one is not in its answer.
    return bool(topic.partition_data)


def _refused(topic: Any, error_code: ErrorCode) -> Any:
    response = types.ProduceResponse
    return response.TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            response.PartitionProduceResponse(index=partition.index, error_code=error_code, base_offset=-1)
            for partition in topic.partition_data
        ],
    )


def finished_reply(
    frame: memoryview, version: int, throttle_time_ms: int, listener: ListenerPolicy
) -> bytes | memoryview:
    """The broker's whole answer (length prefix included) with our throttle time and our addresses in it."""
    if version >= FIRST_WITH_ENDPOINTS and not is_plain(frame, version):
        return _rewritten(frame, version, throttle_time_ms, listener)
    if throttle_time_ms and version >= FIRST_WITH_THROTTLE:
        offset = len(frame) - (5 if version >= FIRST_FLEXIBLE else 4)
        told_ms = _INT32.unpack_from(frame, offset)[0]
        _INT32.pack_into(frame, offset, max(told_ms, throttle_time_ms))
    return frame


def is_plain(frame: memoryview, version: int) -> bool:
    """One partition without an error: then the broker tells no addresses."""
    if frame[9] != 2:
        return False
    partitions = 26 if version >= FIRST_WITH_TOPIC_ID else 10 + frame[10]
    if (version < FIRST_WITH_TOPIC_ID and frame[10] >= 128) or frame[partitions] != 2:
        return False
    return not _ERROR_CODE(frame, partitions + 5)[0]


def _rewritten(
    frame: memoryview, version: int, throttle_time_ms: int, listener: ListenerPolicy
) -> bytes | memoryview:
    codec = codecs.response(ApiKey.PRODUCE, version)
    reply, _ = codec.decode(frame, 9)
    listener.counts.errors_of(ApiKey.PRODUCE, reply)
    if not reply.node_endpoints and not throttle_time_ms:
        return frame
    reply.throttle_time_ms = max(reply.throttle_time_ms, throttle_time_ms)
    reply.node_endpoints = addresses.rewrite_endpoints(listener, reply.node_endpoints)
    body = codec.encode(reply)
    return b"".join((_INT32.pack(5 + len(body)), frame[4:9], body))
