"""Requests of any API and version that name a topic wherever they can, and answers without that name.

Made from the schemas alone, so that an API or a field that Kafka adds is asked too. Two topics are asked
about with names of one length: what is left of the two answers must be the same bytes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.catalog import request as request_schema
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message, classes_of
from proxy.wire.schema import Field, Struct

GROUP = "group-with-offsets"
"""A group that has committed offsets of the topic that exists, and a member that reads it."""

TRANSACTION = "transaction-that-is-open"
"""A transactional id that is writing to the topic that exists."""

FILLS = ("full", "named", "null", "empty")
"""Every field set; no id set; null wherever that may be; no array with an element in it (asks for all)."""

_NOT_ASKED = {
    ApiKey.SASL_HANDSHAKE,  # Would log in anew.
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.LIST_GROUPS,  # Name no topic, and tell what the other asks have left behind.
    ApiKey.LIST_TRANSACTIONS,
}
_NAME_MASK, _ID_MASK = b"\0masked name\0", b"\0masked id\0"

# What a request needs to be about topics at all; every other field keeps its default.
_VALUES: dict[str, Any] = {
    "acks": 1,
    "timeout_ms": 1000,
    "partition_max_bytes": 1 << 20,
    "max_bytes": 1 << 20,
    "response_partition_limit": 100,
    "count": 2,
    "num_partitions": 1,
    "replication_factor": 1,
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "operation": 3,
    "permission_type": 3,
    "session_timeout_ms": 6000,
    "rebalance_timeout_ms": 6000,
    "transaction_timeout_ms": 60_000,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "group_instance_id": None,
    "instance_id": None,
    "protocol_type": "consumer",
    "protocol_name": "range",
    "server_assignor": None,
    "subscribed_topic_regex": None,
    "rack_id": None,
}
_VALUES_OF_ONE_API: dict[int, dict[str, Any]] = {
    ApiKey.PRODUCE: {"transactional_id": None},
    ApiKey.FETCH: {"session_epoch": -1, "replica_id": -1, "rack_id": "", "cluster_id": None},
    ApiKey.LIST_OFFSETS: {"replica_id": -1, "timestamp": -1},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {"replica_id": -1, "current_leader_epoch": -1},
    ApiKey.OFFSET_COMMIT: {"member_id": "", "retention_time_ms": -1},
    ApiKey.OFFSET_FETCH: {"group_id": GROUP, "member_id": None, "member_epoch": -1},
    ApiKey.OFFSET_DELETE: {"group_id": GROUP},
    ApiKey.DESCRIBE_GROUPS: {"groups": [GROUP]},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {"group_ids": [GROUP]},
    ApiKey.DESCRIBE_TRANSACTIONS: {"transactional_ids": [TRANSACTION]},
    ApiKey.TXN_OFFSET_COMMIT: {"member_id": ""},
    ApiKey.JOIN_GROUP: {"member_id": ""},
    ApiKey.LIST_TRANSACTIONS: {"state_filters": [], "producer_id_filters": [], "duration_filter": -1},
    ApiKey.LIST_GROUPS: {"states_filter": [], "types_filter": []},
    ApiKey.CREATE_TOPICS: {"assignments": []},
    ApiKey.CREATE_PARTITIONS: {"assignments": None},
    ApiKey.ALTER_CONFIGS: {"name": "retention.ms", "value": "86400000"},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {"name": "retention.ms", "value": "86400000"},
}

# Told anew in each answer, whatever was asked.
_NEVER_THE_SAME = {
    "throttle_time_ms": 0,
    "producer_id": 0,
    "producer_epoch": 0,
    "member_id": "",
    "client_instance_id": bytes(16),
    "subscription_id": 0,
    "leader": "",
    "token_id": "",
    "hmac": b"",
    "issue_timestamp_ms": 0,
    "expiry_timestamp_ms": 0,
    "max_timestamp_ms": 0,
}

NO_TOPIC_ERRORS = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID)
"""What Kafka says of a topic id, the first where there is such a topic. An id is told to those only who may
see the topic, and cannot be guessed."""


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    topic_id: bytes


@dataclass(frozen=True, slots=True)
class Ask:
    """One API in one version, asked with one way of filling it."""

    api_key: int
    version: int
    fill: str

    def __str__(self) -> str:
        return f"{ApiKey.name_of(self.api_key)} v{self.version} {self.fill}"

    def request(self, topic: Topic) -> Any:
        schema = request_schema(self.api_key)
        return _struct(self, schema.root, classes_of(schema.name), topic)


def asks(api_versions: Mapping[int, tuple[int, int]], fill: str) -> Iterator[Ask]:
    """All that a server offers and that could tell of topics; not Produce v0-2, at which it closes."""
    for api_key, (first, last) in sorted(api_versions.items()):
        if api_key not in _NOT_ASKED:
            known = codecs.request_versions(api_key, unstable=True)
            yield from (Ask(api_key, version, fill) for version in range(first, last + 1) if version in known)


def _struct(ask: Ask, struct: Struct, classes: dict[str, Any], topic: Topic) -> Any:
    message = classes[struct.name]()
    chosen = {**_VALUES, **_VALUES_OF_ONE_API.get(ask.api_key, {})}
    for field in struct.fields:
        if ask.version in field.versions:
            if ask.version in field.nullable and ask.fill == "null":
                setattr(message, field.attribute, None)
            elif field.is_array and ask.fill == "empty":
                setattr(message, field.attribute, [])
            elif _fits(chosen.get(field.attribute, ...), field, ask.version):
                setattr(message, field.attribute, chosen[field.attribute])
            else:
                _set(ask, message, field, classes, topic)
    return message


def _fits(value: Any, field: Field, version: int) -> bool:
    return value is not ... and (value is not None or version in field.nullable)


def _set(ask: Ask, message: Any, field: Field, classes: dict[str, Any], topic: Topic) -> None:
    if field.struct is not None:
        value: Any = _struct(ask, field.struct, classes, topic)
    elif field.attribute == "group_id":
        # A group of each ask's own: one that another has left a member in would have to rebalance first.
        value = f"{topic.name}-{ask.api_key}-{ask.version}-{ask.fill}"
    elif field.type == "string":
        value = topic.name
    elif field.type == "records":
        value = _one_record()
    elif field.type == "uuid":
        value = bytes(16) if ask.fill == "named" else topic.topic_id
    elif field.is_array:
        value = {"bool": False, "bytes": b""}.get(field.type, 0)
    else:
        return
    setattr(message, field.attribute, [value] if field.is_array else value)


def _one_record() -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 10,
    )
    builder.append(0, timestamp=0, key=None, value=b"record", headers=[])
    return bytes(builder.build())


class Asker:
    """A user's connection, opened anew when an ask was answered by closing it."""

    def __init__(self, endpoint: EndpointSettings) -> None:
        self._endpoint = endpoint
        self._channel: Channel | None = None

    async def channel(self) -> Channel:
        if self._channel is None or self._channel.closed:
            self._channel = await Channel.open(self._endpoint)
        return self._channel

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()

    async def hear(self, ask: Ask, topic: Topic) -> bytes:
        """The answer's body as it came; empty when the connection was closed instead."""
        channel = await self.channel()
        body = codecs.request(ask.api_key, ask.version).encode(ask.request(topic))
        try:
            return bytes(await channel.send_body(ask.api_key, ask.version, "asker", body))
        except ChannelError:
            await channel.close()
            return b""


def decoded(ask: Ask, answer: bytes) -> Any:
    return codecs.response(ask.api_key, ask.version).decode_exactly(answer)


def masked(ask: Ask, answer: bytes, topic: Topic) -> bytes:
    """The answer without the topic's name and id, and without what differs between any two answers."""
    if not answer:
        return b""
    message = decoded(ask, answer)
    for part in parts(message):
        _still(part)
        if topic.topic_id in _values(part):
            _say_one_error(part)
    named = codecs.response(ask.api_key, ask.version).encode(message)
    return named.replace(topic.name.encode(), _NAME_MASK).replace(topic.topic_id, _ID_MASK)


def parts(message: Message) -> Iterator[Message]:
    """The message and every struct in it."""
    yield message
    for value in _values(message):
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, Message):
                yield from parts(part)


def error_codes(ask: Ask, answer: bytes) -> set[int]:
    """All errors that an answer gives."""
    found = {getattr(part, "error_code", 0) for part in parts(decoded(ask, answer))}
    return found - {ErrorCode.NONE}


def _values(message: Message) -> list[Any]:
    return [getattr(message, attribute) for attribute in type(message).__slots__]


def _still(message: Message) -> None:
    for attribute in set(type(message).__slots__) & _NEVER_THE_SAME.keys():
        if getattr(message, attribute) is not None:
            setattr(message, attribute, _NEVER_THE_SAME[attribute])


def _say_one_error(topic: Message) -> None:
    for part in parts(topic):
        attributes = type(part).__slots__
        for name in attributes:
            if name.endswith("error_code") and getattr(part, name) in NO_TOPIC_ERRORS:
                setattr(part, name, ErrorCode.UNKNOWN_TOPIC_ID)
                if (message := name.replace("code", "message")) in attributes:
                    setattr(part, message, None)
