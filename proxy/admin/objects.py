"""What an administrative request is about: the `objects` of its audit record (docs/audit.md).

Each API has a function in its row that yields them, from its request and the response. They are built here,
so that all have one form: `type`, `name`, `operation`, then what applies of `key`, `old_value`, `new_value`,
`error`, `error_message` and `details`. No value of a config is in them unless its key is known to have no
secret, and none of passwords, salts and HMACs. Proxy and controller both record them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import Protocol, cast

from proxy.admin.configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from proxy.admin.rejection import HasErrorCode, TopicShape
from proxy.metadata.image import MetadataImage
from proxy.security.delegation_tokens import TokenSecret
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message
from proxy.wire.work import paced, spend

Object = dict[str, object]

MAX_BYTES = 131_072
"""The topic takes no large messages."""
FREE_BYTES = 16_384
"""A small request may be about much that exists, such as the ACLs that its filter matches."""
BYTES_PER_BYTE = 4
"""Beyond it, an object may take so many bytes for each byte of the request and its response."""
MAX_TEXT_CHARACTERS = 1_024
_OBJECT_UNITS = 4
"""The cost of one object, in the units of proxy.wire.work."""
_OVERHEAD_BYTES, _MEMBER_BYTES = 16, 24

TYPES = {
    TOPIC: "TOPIC",
    BROKER: "BROKER",
    BROKER_LOGGER: "BROKER_LOGGER",
    CLIENT_METRICS: "CLIENT_METRICS",
    GROUP: "GROUP",
}
"""Config resources, as in Kafka's log."""

_WITHOUT_SECRETS = {
    TOPIC: """
        owner acls cleanup.policy compression.gzip.level compression.lz4.level compression.type
        compression.zstd.level delete.retention.ms errors.deadletterqueue.group.enable file.delete.delay.ms
        flush.messages flush.ms
        follower.replication.throttled.replicas index.interval.bytes internal.segment.bytes
        leader.replication.throttled.replicas local.retention.bytes local.retention.ms max.compaction.lag.ms
        max.decompressed.message.bytes max.message.bytes message.downconversion.enable message.format.version
        message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.difference.max.ms
        message.timestamp.type min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas
        preallocate remote.copy.lag.bytes remote.copy.lag.ms
        remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable
        retention.bytes retention.ms segment.bytes segment.index.bytes segment.jitter.ms segment.ms
        unclean.leader.election.enable
    """,
    BROKER: """
        background.threads compression.gzip.level compression.lz4.level compression.type
        compression.zstd.level cordoned.log.dirs follower.replication.throttled.rate
        leader.replication.throttled.rate
        log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms
        log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second
        log.cleaner.max.compaction.lag.ms log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms
        log.cleaner.threads log.cleanup.policy log.flush.interval.messages log.flush.interval.ms
        log.index.interval.bytes log.index.size.max.bytes log.local.retention.bytes log.local.retention.ms
        log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms log.message.timestamp.type
        log.preallocate log.retention.bytes log.retention.ms log.roll.jitter.ms log.roll.ms
        log.segment.bytes log.segment.delete.delay.ms max.connection.creation.rate max.connections
        max.connections.per.ip max.connections.per.ip.overrides message.max.bytes min.insync.replicas
        num.io.threads num.network.threads num.recovery.threads.per.data.dir num.replica.fetchers
        producer.id.expiration.ms remote.fetch.max.wait.ms remote.log.manager.copier.thread.pool.size
        remote.log.manager.copy.max.bytes.per.second remote.log.manager.expiration.thread.pool.size
        remote.log.manager.fetch.max.bytes.per.second remote.log.manager.follower.thread.pool.size
        remote.log.reader.threads replica.alter.log.dirs.io.max.bytes.per.second
        transaction.partition.verification.enable unclean.leader.election.enable
    """,
    CLIENT_METRICS: "interval.ms match metrics",
    GROUP: """
        consumer.assignment.interval.ms consumer.assignor.offload.enable consumer.heartbeat.interval.ms
        consumer.session.timeout.ms errors.deadletterqueue.copy.record.enable
        errors.deadletterqueue.topic.name share.assignment.interval.ms share.assignor.offload.enable
        share.auto.offset.reset share.delivery.count.limit share.heartbeat.interval.ms share.isolation.level
        share.partition.max.record.locks share.record.lock.duration.ms share.renew.acknowledge.enable
        share.session.timeout.ms streams.acceptable.recovery.lag streams.assignment.interval.ms
        streams.assignor.name streams.assignor.offload.enable streams.heartbeat.interval.ms
        streams.initial.rebalance.delay.ms streams.num.standby.replicas streams.num.warmup.replicas
        streams.rack.aware.assignment.tags streams.session.timeout.ms streams.task.offset.interval.ms
    """,
}
_SHOWN = {kind: frozenset(keys.split()) for kind, keys in _WITHOUT_SECRETS.items()}
_LEVELS = frozenset(("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"))
HIDDEN = "[hidden]"


@dataclass(frozen=True, slots=True)
class Known:
    """What a process knows of objects besides the request: the image before the change, ids of topics."""

    image: MetadataImage = MetadataImage.EMPTY
    topic_name: Callable[[bytes], str | None] = lambda _topic_id: None
    token_secret: TokenSecret | None = None


class HasValue(Protocol):
    """A config in a request."""

    name: str
    value: str | None


Objects = Callable[..., Iterator[Object]]
"""Request, response (None: unknown), `Known` -> what the request is about, with the outcome of each."""


def named(kind: str, name: str | None, operation: str, part: object = None, **fields: object) -> Object:
    """Return one object. `part`: the part of the response with its error; None: its outcome is unknown.

    `fields` are members of the object if they are called like them; all others are its details.
    """
    members: dict[str, object] = {"type": kind, "name": name, "operation": operation}
    details = {}
    for key, value in fields.items():
        if key in ("key", "old_value", "new_value"):
            members[key] = value
        elif value is not None:
            details[key] = str(value)
    if part is not None:
        code = getattr(part, "error_code")  # noqa: B009 - of any message
        members["error"] = _error_name(code)
        members["error_message"] = getattr(part, "error_message", None) or None
    made: Object = {key: _text(value) for key, value in members.items() if value is not None}
    if details:
        made["details"] = {key: _text(value) for key, value in details.items()}
    return made


def in_partitions(
    shape: TopicShape,
    request: Message,
    response: object,
    known: Known,
    operation: str,
    text: Callable[..., str] = str,
    **details: object,
) -> Iterator[Object]:
    """Yield one object for all partitions of a topic with the same outcome: they may be very many.

    `text`: how a partition of the request is written. A request about a group names that. An error of the
    whole response is that of each partition.
    """
    failed = response if getattr(response, "error_code", ErrorCode.NONE) != ErrorCode.NONE else None
    results: dict[object, object] = {}
    for topic in paced(getattr(response, shape.response_topics, ())):
        parts = [] if shape.partition is None else paced(getattr(topic, shape.response_partitions))
        results[shape.key(topic)] = topic
        results |= {(shape.key(topic), getattr(part, shape.response_index)): part for part in parts}
    group = getattr(request, "group_id", None)
    for topic in paced(shape.topics(request)):
        name, topic_id = getattr(topic, shape.name), getattr(topic, "topic_id", None)
        if not name and topic_id is not None:
            name = known.topic_name(bytes(topic_id))
        key, parts = shape.key(topic), [] if shape.partition is None else shape.indexes(topic)
        outcomes: dict[object, tuple[object, list[str]]] = {}
        if shape.partition is None:
            outcomes[None] = failed or results.get(key), []
        for index, asked in zip(parts, paced(getattr(topic, shape.request_partitions, ()))):  # noqa: B905
            part = failed or results.get((key, index))
            outcome = getattr(part, "error_code", None), getattr(part, "error_message", None)
            outcomes.setdefault(outcome, (part, []))[1].append(text(asked))
        of_group = {} if group is None else {"topic": name}
        kind, place = ("TOPIC", name) if group is None else ("GROUP", group)
        for part, texts in outcomes.values():
            partitions = _joined(texts) or None
            yield named(kind, place, operation, part, **of_group, **details, partitions=partitions)


def of_topics(shape: TopicShape, operation: str, text: Callable[..., str] = str) -> Objects:
    """Return the function of an API whose request is about partitions of topics."""
    return lambda request, response, known: in_partitions(shape, request, response, known, operation, text)


def shown(config_type: int, key: str, value: str | None) -> str | None:
    """Return the value of a config as records show it: only where the key is known to have no secret."""
    is_level = config_type == BROKER_LOGGER and value is not None and value.upper() in _LEVELS
    if value is None or is_level or key in _SHOWN.get(config_type, ()):
        return value
    return HIDDEN


def without_value(
    part: HasErrorCode | None, config_type: int, configs: Iterable[HasValue]
) -> HasErrorCode | None:
    """Return the part of a response; without its message, which may repeat a value that is not shown."""
    if part is None or all(shown(config_type, each.name, each.value) != HIDDEN for each in configs):
        return part
    return types.AddRaftVoterResponse(error_code=part.error_code)


def recorded(
    objects: Objects,
    request: Message,
    response: Message | None,
    known: Known,
    size_bytes: int,
    **details: str,
) -> list[Object]:
    """Return what a request is about, as its record has it; see `bounded`."""
    if getattr(request, "validate_only", False):
        details["validate_only"] = "true"
    return bounded(objects(request, response, known), size_bytes, **details)


def bounded(objects: Iterable[Object], size_bytes: int, **details: str) -> list[Object]:
    """Return the objects that have room in a record, and the number of the others by type and operation.

    `size_bytes`: the size of the request, and of its response if that is known. `details`: of each object.
    """
    room = min(MAX_BYTES, FREE_BYTES + BYTES_PER_BYTE * size_bytes)
    taken: list[Object] = []
    others: dict[tuple[str, str], int] = {}
    for each in objects:
        spend(_OBJECT_UNITS)
        room -= _size_bytes(each)
        if room >= 0:
            if details:
                each["details"] = details_of(each) | details
            taken.append(each)
        else:
            kind = str(each["type"]), str(each["operation"])
            others[kind] = others.get(kind, 0) + 1
    cut: list[Object] = [
        {"type": kind, "operation": done, "count": count} for (kind, done), count in others.items()
    ]
    return taken + cut


def details_of(made: Object) -> dict[str, str]:
    """Return the details of an object."""
    return cast(dict[str, str], made.get("details", {}))


def _size_bytes(made: Object) -> int:
    texts = [*made.values(), *details_of(made).values()]
    sizes = (len(encode_basestring_ascii(text)) for text in texts if isinstance(text, str))
    return _OVERHEAD_BYTES + sum(_MEMBER_BYTES + size for size in sizes)


def _text(value: object) -> str:
    text = str(value)
    if len(text) <= MAX_TEXT_CHARACTERS:
        return text
    return f"{text[:MAX_TEXT_CHARACTERS]}… ({len(text)} characters)"


def _joined(texts: Sequence[str]) -> str:
    """Return the texts with commas, as many as a text may have, and the number of the others."""
    joined, taken = "", 0
    for text in texts:
        if len(joined) + len(text) > MAX_TEXT_CHARACTERS - 32:
            return f"{joined},… ({len(texts) - taken} more)"
        joined, taken = f"{joined},{text}" if taken else text, taken + 1
    return joined


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
