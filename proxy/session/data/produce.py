"""Produce (KIP-98, KIP-516): WRITE on each topic; for transactional records WRITE on the transactional id.

Most requests go to one partition, and stream, or to several whose topics are known to be allowed
(proxy.session.data.fast_lane). All others come here decoded: topics that are denied are removed, and their
partitions are put back into the response with TOPIC_AUTHORIZATION_FAILED, in the order of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import Any, TypeAlias

from proxy.admin.rejection import merged_topics
from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis import addresses
from proxy.session.call import Call, Forward, NameTopics, Respond, Verdict
from proxy.session.client_state import FIRST_PRODUCE_WITH_TOPIC_ID
from proxy.session.gate import ListenerPolicy
from proxy.session.in_flight import FIRST_WITH_ENDPOINTS
from proxy.session.throttling import raise_to
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

Requested: TypeAlias = "types.ProduceRequest.TopicProduceData"
Denied: TypeAlias = "types.ProduceResponse.TopicProduceResponse"

FIRST_FLEXIBLE = 9
FIRST_WITH_THROTTLE = 1

_LENGTH, _MAGIC, _ATTRIBUTES = 8, 16, 22
"""Where a record batch has its length, its format, and the low byte of its attributes."""
_TRANSACTIONAL = 0x10
_FIRST_WITH_TRANSACTIONS = 2

_INT32 = Struct(">i")
_ERROR_CODE = Struct(">h").unpack_from


def decide(call: Call, message: Any) -> Verdict:
    """The verdict on a decoded request; `NameTopics` if it has a topic id that has no name here."""
    if (
        message.transactional_id is not None
        and _is_transactional(message)
        and not call.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, message.transactional_id)
    ):
        return _rejected(message, lambda _: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    keys = list(dict.fromkeys(_key(call.version, topic) for topic in message.topic_data))
    names = {key: call.gate.topic_names.name(key) if isinstance(key, bytes) else key for key in keys}
    if None in names.values():
        unknown = [key for key, name in names.items() if name is None and isinstance(key, bytes)]
        return NameTopics(unknown, lambda: _decide(call, message, names))
    return _decide(call, message, names)


def _is_transactional(message: types.ProduceRequest) -> bool:
    # As at a broker, the first batch of any partition says so.
    return any(
        has_transactional_batch(partition.records or b"")
        for topic in message.topic_data
        for partition in topic.partition_data
    )


def has_transactional_batch(records: bytes | bytearray | memoryview) -> bool:
    """Whether records begin with a whole batch of format 2 or later that belongs to a transaction."""
    if len(records) <= _ATTRIBUTES or _INT32.unpack_from(records, _LENGTH)[0] + _LENGTH + 4 > len(records):
        return False
    return records[_MAGIC] >= _FIRST_WITH_TRANSACTIONS and bool(records[_ATTRIBUTES] & _TRANSACTIONAL)


def _decide(call: Call, message: Any, names: Mapping[str | bytes, str | None]) -> Verdict:
    known = {key: name for key, name in names.items() if name is not None}
    allowed = call.allowed_names(Operation.WRITE, ResourceType.TOPIC, known.values())
    errors = {
        key: ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for key, name in names.items()
        if name not in allowed
    }
    if not errors:
        for key, name in known.items():
            topic = key if isinstance(key, bytes) else key.encode()
            call.client.allow_write(topic, call.version, name, call.now_ms)
        return Forward()
    if message.transactional_id is None and _is_transactional(message):
        # A broker rejects all of it, and would not see what is taken out here.
        return _rejected(message, lambda _: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    requested, version = message.topic_data, call.version
    message.topic_data = [topic for topic in requested if _key(version, topic) not in errors]
    # A topic without a partition is in no response, and no error: with acks=0 it closes no connection.
    denied = [topic for topic in requested if topic.partition_data and _key(version, topic) in errors]
    if not message.topic_data:
        message.topic_data = requested
        rejected = _rejected(message, lambda topic: errors[_key(version, topic)])
        rejected.is_charged = True
        rejected.close = rejected.close if denied else None
        return rejected
    # Until the broker responds these are held, and nothing that has a view of the records.
    order = dict.fromkeys(_key(version, topic) for topic in requested)
    rejections = _denied_topics(denied, lambda topic: errors[_key(version, topic)])

    def put_back(response: Any) -> None:
        by_key = {_key(version, topic): topic for topic in _merged([*response.responses, *rejections])}
        response.responses = [by_key[key] for key in order if key in by_key]
        response.node_endpoints = addresses.rewrite_endpoints(call.listener, response.node_endpoints)

    return Forward(message, put_back if denied else None)


def _key(version: int, topic: Any) -> str | bytes:
    return bytes(topic.topic_id) if version >= FIRST_PRODUCE_WITH_TOPIC_ID else str(topic.name)


def reject_all(message: Any, error_code: ErrorCode, error_message: str | None) -> Respond:
    """The response in which every partition has that error."""
    rejected = _rejected(message, lambda _: error_code)
    for topic in rejected.message.responses if rejected.message is not None else ():
        for partition in topic.partition_responses:
            partition.error_message = error_message
    return rejected


def _rejected(message: types.ProduceRequest, error_of: Callable[[Requested], ErrorCode]) -> Respond:
    if message.acks == 0:
        # A client that wants no response notices only that its connection is closed.
        return Respond(None, close="produce_denied")
    return Respond(types.ProduceResponse(responses=_denied_topics(message.topic_data, error_of)))


def _denied_topics(topics: Iterable[Requested], error_of: Callable[[Requested], ErrorCode]) -> list[Denied]:
    # A broker responds by partition: a topic without one is not in its response.
    return _merged([_denied(topic, error_of(topic)) for topic in topics if topic.partition_data])


def _merged(topics: list[Denied]) -> list[Denied]:
    """Each topic, and each of its partitions, once, as a broker reports them."""
    return merged_topics(
        topics, lambda topic: (topic.name, bytes(topic.topic_id)), "partition_responses", "index"
    )


def _denied(topic: Requested, error_code: ErrorCode) -> Denied:
    response = types.ProduceResponse
    return response.TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            response.PartitionProduceResponse(index=partition.index, error_code=error_code, base_offset=-1)
            for partition in topic.partition_data
        ],
    )


def finished_response(
    frame: memoryview, version: int, throttle_time_ms: int, listener: ListenerPolicy
) -> bytes | memoryview:
    """The broker's whole response, its length prefix included, with our throttle time and the proxies'
    addresses."""
    if version >= FIRST_WITH_ENDPOINTS and not is_plain(frame, version):
        return _rewritten(frame, version, throttle_time_ms, listener)
    if throttle_time_ms and version >= FIRST_WITH_THROTTLE:
        offset = len(frame) - (5 if version >= FIRST_FLEXIBLE else 4)
        raise_to(frame, offset, throttle_time_ms)
    return frame


def is_plain(frame: memoryview, version: int) -> bool:
    """Whether it has one partition without an error: then the broker adds no addresses."""
    if frame[9] != 2:
        return False
    partitions = 26 if version >= FIRST_PRODUCE_WITH_TOPIC_ID else 10 + frame[10]
    if (version < FIRST_PRODUCE_WITH_TOPIC_ID and frame[10] >= 128) or frame[partitions] != 2:
        return False
    return not _ERROR_CODE(frame, partitions + 5)[0]


def _rewritten(
    frame: memoryview, version: int, throttle_time_ms: int, listener: ListenerPolicy
) -> bytes | memoryview:
    codec = codecs.response(ApiKey.PRODUCE, version)
    response, _ = codec.decode(frame, 9)
    listener.counts.errors_of(ApiKey.PRODUCE, response)
    if not response.node_endpoints and not throttle_time_ms:
        return frame
    response.throttle_time_ms = max(response.throttle_time_ms, throttle_time_ms)
    response.node_endpoints = addresses.rewrite_endpoints(listener, response.node_endpoints)
    body = codec.encode(response)
    return b"".join((_INT32.pack(5 + len(body)), frame[4:9], body))
