"""Reads the head of a Produce request with one partition, without decoding it.

proxy.session calls this for every Produce request: most of the traffic has this form, and the records need
not be read. Other requests return None and are decoded.
"""

from collections.abc import Callable
from struct import Struct
from struct import error as struct_error

from proxy.wire.primitives import Buffer

_INT32 = Struct(">i").unpack_from
_OLD_HEAD = Struct(">hhiih").unpack_from  # transactional id length, acks, timeout, topics, name length
_OLD_TAIL = Struct(">iii").unpack_from  # partitions, index, records length
_COMPACT_HEAD = Struct(">BhiBB").unpack_from  # transactional id length, acks, timeout, topics, name length
_ID_HEAD = Struct(">BhiB16s").unpack_from  # ..., topic id

_FIRST_FLEXIBLE = 9
_FIRST_WITH_TOPIC_ID = 13
_NULL = 0
_ONE = 2  # A compact array of one element.

Head = tuple[int, bytes, int]


def produce_to_one_partition(buffer: Buffer, offset: int, version: int) -> Head | None:
    """Return acks, the topic (its name in UTF-8, or from v13 its id), and where the body has to end.

    None if the request has a transactional id, more than one partition or an unusual encoding, or if `buffer`
    ends before the records begin. The records themselves may be missing.
    """
    try:
        if version < _FIRST_FLEXIBLE:
            return _old(buffer, offset)
        return _flexible(buffer, offset, version)
    except (struct_error, IndexError):
        return None


def _old(buffer: Buffer, offset: int) -> Head | None:
    transactional_length, acks, _, topics, name_length = _OLD_HEAD(buffer, offset)
    if transactional_length != -1 or topics != 1 or name_length < 1:
        return None
    name_end = offset + 14 + name_length
    partitions, _, records_length = _OLD_TAIL(buffer, name_end)
    if partitions != 1 or records_length < 0:
        return None
    return acks, bytes(buffer[offset + 14 : name_end]), name_end + 12 + records_length


def _flexible(buffer: Buffer, offset: int, version: int) -> Head | None:
    if version >= _FIRST_WITH_TOPIC_ID:
        transactional_length, acks, _, topics, topic = _ID_HEAD(buffer, offset)
        position = offset + 24
    else:
        transactional_length, acks, _, topics, name_length = _COMPACT_HEAD(buffer, offset)
        if not 1 < name_length < 128:
            return None
        position = offset + 8 + name_length
        topic = bytes(buffer[offset + 9 : position])
    if transactional_length != _NULL or topics != _ONE or buffer[position] != _ONE:
        return None
    end = end_of_compact_records(buffer, position + 5)
    return (acks, topic, end) if end >= 0 else None


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


def topic_offset(version: int) -> int:
    """Return the position of the topic's name or id in the body of a request without transactional id."""
    if version < _FIRST_FLEXIBLE:
        return 14
    return 8 if version >= _FIRST_WITH_TOPIC_ID else 9
