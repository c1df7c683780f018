"""Reads session and topics of a Fetch request without decoding it.

proxy.session calls this for every Fetch request: a consumer repeats the same request, and its partitions need
not be read. Other requests return None and are decoded: those with tagged fields, forgotten topics, replica
ids, or more topics or partitions than seven bits count.
"""

from struct import Struct
from struct import error as struct_error

_FIRST_WITH_LOG_START = 5
_FIRST_WITH_SESSION = 7
_FIRST_WITH_LEADER_EPOCH = 9
_FIRST_WITH_RACK = 11
_FIRST_FLEXIBLE = 12
_FIRST_WITH_TOPIC_ID = 13
_FIRST_WITHOUT_REPLICA_ID = 15

# Replica id, max wait, min bytes, max bytes, isolation level, (session id, epoch,) count of topics.
_OLD_HEAD = Struct(">i12xbi")
_PLAIN_HEAD = Struct(">i12xbiii")
_COMPACT_HEAD = Struct(">i12xbiiB")
_LATE_HEAD = Struct(">12xbiiB")
_INT16 = Struct(">h").unpack_from
_INT32 = Struct(">i").unpack_from

_MOST = 127
_COMPACT_PARTITION_BYTES = 33
"""The last byte is the count of its tagged fields."""
_CONSUMER = -1
_NO_SESSION = 0, -1

FetchHead = tuple[int, int, list[bytes], int]


def fetch(buffer: memoryview, offset: int, version: int) -> FetchHead | None:
    """Return session id and epoch (0 and -1 without), topics (names, from v13 ids), and where the body ends.

    The caller has to compare that end with the end of the frame: nothing before it is checked against it.
    """
    try:
        if version < _FIRST_FLEXIBLE:
            return _plain(buffer, offset, version)
        return _compact(buffer, offset, version)
    except (struct_error, IndexError):
        return None


def _plain(buffer: memoryview, offset: int, version: int) -> FetchHead | None:
    if version >= _FIRST_WITH_SESSION:
        replica_id, _, session_id, epoch, count = _PLAIN_HEAD.unpack_from(buffer, offset)
        position = offset + _PLAIN_HEAD.size
    else:
        replica_id, _, count = _OLD_HEAD.unpack_from(buffer, offset)
        position, (session_id, epoch) = offset + _OLD_HEAD.size, _NO_SESSION
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
        _, session_id, epoch, count = _LATE_HEAD.unpack_from(buffer, offset)
        position = offset + _LATE_HEAD.size
    else:
        replica_id, _, session_id, epoch, count = _COMPACT_HEAD.unpack_from(buffer, offset)
        position = offset + _COMPACT_HEAD.size
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
