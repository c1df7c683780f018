"""Reads Produce and Fetch requests, and the topics of Metadata responses, without decoding them.

proxy.session calls this for every one of them. Of a Produce request the topics are read, and the records are
skipped; with one partition, as most of the traffic has, only its head need be here. Of a Fetch request
session and topics are read: a consumer repeats the same request, and its partitions need not be read. Other
requests return None and are decoded, such as a Fetch with tagged fields, forgotten topics, replica ids, or
more topics or partitions than seven bits count. So do Metadata responses that are not as plain as most are.
"""

import re
from collections.abc import Callable
from functools import cache
from struct import Struct
from struct import error as struct_error

from proxy.wire import catalog
from proxy.wire.api_keys import ApiKey
from proxy.wire.decoder import Match, Repeated
from proxy.wire.primitives import Buffer
from proxy.wire.schema import Layout

_INT32 = Struct(">i").unpack_from
_OLD_HEAD = Struct(">hhii").unpack_from  # transactional id length, acks, timeout, topics
_COMPACT_HEAD = Struct(">BhiB").unpack_from

_FIRST_FLEXIBLE = 9
_FIRST_WITH_TOPIC_ID = 13
_NULL = 0
_ONE = 2  # A compact array of one element.

ProduceHead = tuple[int, list[bytes], int, int]

MAX_PARTITIONS = 64
"""Partitions of a request that `produce` reads: so many take 30 us, and do not need slices."""
_PRODUCED_BYTES = 33
"""One partition of a Produce response without an error."""

_FIRST_WITH_LOG_START = 5
_FIRST_WITH_SESSION = 7
_FIRST_WITH_LEADER_EPOCH = 9
_FIRST_WITH_RACK = 11
_FIRST_FLEXIBLE_FETCH = 12
_FIRST_WITHOUT_REPLICA_ID = 15

# Replica id, max wait, min bytes, max bytes, isolation level, (session id, epoch,) count of topics.
_OLD_FETCH_HEAD = Struct(">i12xbi")
_PLAIN_FETCH_HEAD = Struct(">i12xbiii")
_COMPACT_FETCH_HEAD = Struct(">i12xbiiB")
_LATE_FETCH_HEAD = Struct(">12xbiiB")
_INT16 = Struct(">h").unpack_from

_MOST = 127
_COMPACT_PARTITION_BYTES = 33
"""The last byte is the count of its tagged fields."""
_CONSUMER = -1
_NO_SESSION = 0, -1

_FIRST_METADATA_WITH_TOPIC_ID = 10
_FIRST_METADATA_WITHOUT_OPERATIONS = 11
_FIRST_METADATA_WITH_ERROR = 13
_NO_OPERATIONS = b"\x80\x00\x00\x00\x00"
"""Authorized operations that were not requested (KIP-430), and no tagged fields."""

FetchHead = tuple[int, int, list[bytes], int]


def produce(buffer: Buffer, offset: int, version: int) -> ProduceHead | None:
    """Return acks, the topics (names in UTF-8, or from v13 ids), the number of partitions, and where the body
    ends.

    None if the request has a transactional id, tagged fields, more than 64 partitions or null records, or if
    `buffer` ends too early. With one partition it may end before the records do: then the caller has to look
    at the `tag_bytes` behind them. The caller also has to compare that end with the end of the frame.
    """
    try:
        if version < _FIRST_FLEXIBLE:
            return _old(buffer, offset)
        return _flexible(buffer, offset, version)
    except (struct_error, IndexError):
        return None


def _old(buffer: Buffer, offset: int) -> ProduceHead | None:
    transactional_length, acks, _, count = _OLD_HEAD(buffer, offset)
    if transactional_length != -1 or not 0 < count <= MAX_PARTITIONS:
        return None
    position, topics, left = offset + 12, [], MAX_PARTITIONS
    for _ in range(count):
        name_at = position + 2
        position = name_at + _INT16(buffer, position)[0]
        partitions = _INT32(buffer, position)[0]
        left -= partitions
        if position <= name_at or partitions < 1 or left < 0:
            return None
        topics.append(bytes(buffer[name_at:position]))
        position += 4
        for _ in range(partitions):
            length = _INT32(buffer, position + 4)[0]
            if length < 0:
                return None
            position += 8 + length
    return acks, topics, MAX_PARTITIONS - left, position


def _flexible(buffer: Buffer, offset: int, version: int) -> ProduceHead | None:
    transactional_length, acks, _, count = _COMPACT_HEAD(buffer, offset)
    if transactional_length != _NULL or not 1 < count <= MAX_PARTITIONS + 1:
        return None
    position, topics, left = offset + 8, [], MAX_PARTITIONS
    for _ in range(count - 1):
        topic_at = position
        if version >= _FIRST_WITH_TOPIC_ID:
            position += 16
        else:
            if not 1 < buffer[position] <= _MOST:
                return None
            topic_at += 1
            position += buffer[position]
        topics.append(bytes(buffer[topic_at:position]))
        if count == _ONE and buffer[position] == _ONE:
            end = end_of_compact_records(buffer, position + 5)
            return (acks, topics, 1, end) if end >= 0 else None
        partitions = buffer[position] - 1
        left -= partitions
        if partitions < 1 or left < 0:
            return None
        position += 1
        for _ in range(partitions):
            # The end is that of the whole request if nothing follows but its tags and those of the topic.
            position = end_of_compact_records(buffer, position + 4) - 2
            if position < 0 or buffer[position - 1]:
                return None
        if buffer[position]:
            return None
        position += 1
    return None if buffer[position] else (acks, topics, MAX_PARTITIONS - left, position + 1)


def produced_without_error(buffer: Buffer, offset: int, version: int) -> bool:
    """Whether this body of a Produce response (v10 and later) has no error, address or other tagged field."""
    try:
        count, position = buffer[offset], offset + 1
        for _ in range(count - 1):
            if version >= _FIRST_WITH_TOPIC_ID:
                position += 16
            else:
                if not 1 < buffer[position] <= _MOST:
                    return False
                position += buffer[position]
            partitions = buffer[position] - 1
            first_at, position = position + 1, position + 1 + partitions * _PRODUCED_BYTES
            if not 0 < partitions < _MOST or buffer[position]:
                return False
            # Index, error code, base offset, append time, log start, record errors, error message, tags.
            part = bytes(buffer[first_at:position])
            if any(part[4::_PRODUCED_BYTES]) or any(part[5::_PRODUCED_BYTES]):
                return False
            if part[30::_PRODUCED_BYTES] != b"\x01" * partitions:
                return False
            if any(part[31::_PRODUCED_BYTES]) or any(part[32::_PRODUCED_BYTES]):
                return False
            position += 1
        # The throttle time, and the end.
        return 1 < count <= _MOST and position + 5 == len(buffer) and not buffer[position + 4]
    except IndexError:
        return False


def end_of_records(version: int) -> Callable[[memoryview, int], int]:
    """Return `end_of_compact_records`, or the same function for versions without compact encoding."""
    return end_of_compact_records if version >= _FIRST_FLEXIBLE else _end_of_plain_records


def _end_of_plain_records(buffer: Buffer, position: int) -> int:
    length: int = _INT32(buffer, position)[0]
    return position + 4 + length if length >= 0 else -1


def end_of_compact_records(buffer: Buffer, position: int) -> int:
    """Return where the body has to end: after the records and three empty tag sections.

    `position` is that of the records' length. -1 if they are null or the length is invalid, which the decoder
    has to handle. IndexError if `buffer` ends before the length does.
    """
    length = buffer[position]
    if length < 128:
        return position + length + 3 if length else -1
    length &= 0x7F
    for shift in (7, 14, 21, 28):
        position += 1
        byte = buffer[position]
        length |= (byte & 0x7F) << shift
        if byte < 128:
            # A varint of their size plus one.
            return position + length + 3 if length else -1
    return -1


def tag_bytes(version: int) -> int:
    """Return the length of the three empty tag sections that end a request with one partition.

    Unless each of these bytes is zero the request is malformed: no tagged field fits in so few.
    """
    return 3 if version >= _FIRST_FLEXIBLE else 0


def topic_offset(version: int) -> int:
    """Return the position of the topic's name or id in the body of a request without transactional id."""
    if version < _FIRST_FLEXIBLE:
        return 14
    return 8 if version >= _FIRST_WITH_TOPIC_ID else 9


def fetch(buffer: memoryview, offset: int, version: int) -> FetchHead | None:
    """Return session id and epoch (0 and -1 without), topics (names, from v13 ids), and where the body ends.

    The caller has to compare that end with the end of the frame: nothing before it is checked against it.
    """
    try:
        if version < _FIRST_FLEXIBLE_FETCH:
            return _plain(buffer, offset, version)
        return _compact(buffer, offset, version)
    except (struct_error, IndexError):
        return None


def _plain(buffer: memoryview, offset: int, version: int) -> FetchHead | None:
    if version >= _FIRST_WITH_SESSION:
        replica_id, _, session_id, epoch, count = _PLAIN_FETCH_HEAD.unpack_from(buffer, offset)
        position = offset + _PLAIN_FETCH_HEAD.size
    else:
        replica_id, _, count = _OLD_FETCH_HEAD.unpack_from(buffer, offset)
        position, (session_id, epoch) = offset + _OLD_FETCH_HEAD.size, _NO_SESSION
    if replica_id != _CONSUMER or not 0 <= count <= _MOST:
        return None
    partition_bytes = _plain_partition_bytes(version)
    topics = []
    for _ in range(count):
        name_at = position + 2
        position = name_at + _INT16(buffer, position)[0]
        partitions = _INT32(buffer, position)[0]
        if position <= name_at or not 0 <= partitions <= _MOST:
            return None
        topics.append(bytes(buffer[name_at:position]))
        position += 4 + partitions * partition_bytes
    if version >= _FIRST_WITH_SESSION:
        if _INT32(buffer, position)[0]:
            return None
        position += 4
    if version >= _FIRST_WITH_RACK:
        rack_at = position + 2
        position = rack_at + _INT16(buffer, position)[0]
        if position < rack_at or not bytes(buffer[rack_at:position]).isascii():
            return None
    return session_id, epoch, topics, position


def _plain_partition_bytes(version: int) -> int:
    """Index, offset and size; the log's start; the leader's epoch."""
    return (
        16
        + (8 if version >= _FIRST_WITH_LOG_START else 0)
        + (4 if version >= _FIRST_WITH_LEADER_EPOCH else 0)
    )


def _compact(buffer: memoryview, offset: int, version: int) -> FetchHead | None:
    if version >= _FIRST_WITHOUT_REPLICA_ID:
        _, session_id, epoch, count = _LATE_FETCH_HEAD.unpack_from(buffer, offset)
        position = offset + _LATE_FETCH_HEAD.size
    else:
        replica_id, _, session_id, epoch, count = _COMPACT_FETCH_HEAD.unpack_from(buffer, offset)
        position = offset + _COMPACT_FETCH_HEAD.size
        if replica_id != _CONSUMER:
            return None
    if not 1 <= count <= _MOST:
        return None
    topics = []
    for _ in range(count - 1):
        topic_at = position
        if version >= _FIRST_WITH_TOPIC_ID:
            position += 16
        else:
            if not 1 < buffer[position] <= _MOST:
                return None
            topic_at += 1
            position += buffer[position]
        topics.append(bytes(buffer[topic_at:position]))
        partitions = buffer[position] - 1
        first_at, position = position + 1, position + 1 + partitions * _COMPACT_PARTITION_BYTES
        if not 0 <= partitions < _MOST or any(buffer[first_at + 32 : position : 33]) or buffer[position]:
            return None
        position += 1
    # No forgotten topics; a rack; no tagged fields.
    rack_bytes = buffer[position + 1] - 1
    end = position + 2 + rack_bytes
    if buffer[position] != 1 or not 0 <= rack_bytes < _MOST or buffer[end]:
        return None
    if rack_bytes and not bytes(buffer[position + 2 : end]).isascii():
        return None
    return session_id, epoch, topics, end + 1


def metadata_topics(body: bytes, version: int) -> tuple[int, int, dict[bytes, bytes]] | None:
    """Return where the topics of a Metadata response begin and end, and the bytes of each by its name in
    UTF-8.

    Of a flexible version. None if a topic has an error or authorized operations, if there are tagged fields
    or more of anything than seven bits count, or partitions with many replicas.
    """
    brokers, head, partitions = _metadata_patterns(version)
    count = body[4] - 1 if len(body) > 4 else -1  # Behind the throttle time.
    found = brokers[count](body, 5) if 0 <= count < _MOST else None
    if found is None:
        return None
    begin = found.end() - 1
    position, by_name = begin + 1, dict[bytes, bytes]()
    for _ in range(body[begin] - 1):
        topic = head(body, position)
        rest = None if topic is None else partitions[body[topic.end() - 1] - 1](body, topic.end())
        if topic is None or rest is None:
            return None
        by_name[topic[1][1:]] = body[position : rest.end()]
        position = rest.end()
    if len(by_name) != body[begin] - 1 or body[position:] != _end_of_metadata(version):
        return None
    return begin, position, by_name


def _end_of_metadata(version: int) -> bytes:
    """Operations on the cluster, or an error; and no tagged fields."""
    if version < _FIRST_METADATA_WITHOUT_OPERATIONS:
        return _NO_OPERATIONS
    return b"\x00\x00\x00" if version >= _FIRST_METADATA_WITH_ERROR else b"\x00"


@cache
def _metadata_patterns(version: int) -> tuple[Repeated, Match, Repeated]:
    """Match the brokers, up to the count of topics; the beginning of a topic, up to the count of partitions,
    with its name behind its length; and its partitions, up to its end."""
    schema = catalog.response(ApiKey.METADATA)
    topics = next(field for field in schema.root.fields if field.name == "Topics")
    assert topics.struct is not None
    partitions = next(field for field in topics.struct.fields if field.is_array)
    string = b"|".join(re.escape(bytes([n + 1])) + b".{%d}" % n for n in range(_MOST))
    # Node id, host, port, rack; then cluster id, controller id.
    broker = rb".{4}(?>%b).{4}(?>\x00|%b)\x00" % (string, string)
    brokers = Repeated(broker, rb"(?>\x00|%b).{4}[\x01-\x7f]" % string)
    # Error code, name, id, whether it is internal.
    topic_id = b".{16}" if version >= _FIRST_METADATA_WITH_TOPIC_ID else b""
    head = re.compile(rb"\x00\x00((?>%b))%b.[\x01-\x41]" % (string, topic_id), re.DOTALL).match
    partition = Layout(schema, version).skipping_pattern(partitions)
    assert partition is not None
    return brokers, head, Repeated(partition, re.escape(_NO_OPERATIONS))
