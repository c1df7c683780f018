"""The run-time functions of generated codecs: varints, packed arrays, tag sections, and their errors.

Generated source calls them; outside it only proxy.wire.header and proxy.wire.metadata_records use the
varints.
"""

import struct
from collections.abc import Callable, Collection, Mapping, Sequence

from proxy.wire import work
from proxy.wire.errors import Malformed
from proxy.wire.schema import FIXED_FORMATS

Buffer = bytes | bytearray | memoryview

MAX_INT32 = 0x7FFFFFFF
MAX_STRING_BYTES = 0x7FFF
"""A string is not longer than this, even if its length is a varint."""

_MAX_VARINT_BYTES = 5
_UUID_BYTES = 16
_CACHED_PACKERS = 128


def view_of(buffer: Buffer) -> memoryview:
    """Return a view of single unsigned bytes of any buffer."""
    view = memoryview(buffer)
    return view if view.format == "B" and view.contiguous else view.cast("B")


# Reading


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return an unsigned varint of at most an int32, and the position after it. Malformed or IndexError."""
    value = shift = 0
    for _ in range(_MAX_VARINT_BYTES):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    else:
        raise Malformed(f"a varint of more than {_MAX_VARINT_BYTES} bytes")
    if value > MAX_INT32:
        raise Malformed(f"a varint of {value}, more than an int32 holds")
    return value, position


def bad_length(length: int, left: int) -> Malformed:
    """Return the error for an impossible length of a string or bytes."""
    if length < 0:
        return Malformed("null where null is not allowed" if length == -1 else f"a length of {length}")
    return Malformed(f"{length} bytes claimed, {left} left")


def bad_count(count: int, element_bytes: int, left: int) -> Malformed:
    """Return the error for an impossible array count: its elements do not fit into the remaining bytes."""
    if count < 0:
        return Malformed("null where null is not allowed" if count == -1 else f"a count of {count}")
    return Malformed(f"{count} elements of at least {element_bytes} bytes claimed, {left} bytes left")


def bad_presence(mark: int) -> Malformed:
    """Return the error for a struct's null mark that is neither null (-1) nor present (1)."""
    return Malformed("null where null is not allowed" if mark == -1 else f"a null mark of {mark}")


def past_end(position: int, end: int) -> Malformed:
    return Malformed(f"ends at byte {position} of {end}")


def bad_tag_size(tag: int, stop: int, position: int) -> Malformed:
    return Malformed(f"tagged field {tag} ends at byte {position}, but its size says {stop}")


def repeated_tag(tag: int) -> Malformed:
    return Malformed(f"tagged field {tag} is there twice")


def read_string_length(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the length of a compact string plus one, and the position after it."""
    length, position = read_uvarint(buffer, position)
    if length > MAX_STRING_BYTES + 1:
        raise long_string(length - 1)
    return length, position


def read_unknown_tags(buffer: Buffer, position: int) -> tuple[dict[int, bytes], int]:
    """Return the tag section of a struct without known tags, and the position after it."""
    count, position = read_uvarint(buffer, position)
    tags: dict[int, bytes] = {}
    for _ in work.counted(count):
        tag, position = read_uvarint(buffer, position)
        if tag in tags:
            raise repeated_tag(tag)
        tags[tag], position = read_tag_value(buffer, position)
    return tags, position


def read_tag_value(buffer: Buffer, position: int) -> tuple[bytes, int]:
    size, position = read_uvarint(buffer, position)
    stop = position + size
    if stop > len(buffer):
        raise bad_length(size, len(buffer) - position)
    return bytes(buffer[position:stop]), stop


class ArrayReaders(dict[int, Callable[[Buffer, int], tuple[object, ...]]]):
    """`readers[n](buffer, position)` reads n elements of one fixed-size type at once."""

    def __init__(self, type_name: str) -> None:
        self._format = FIXED_FORMATS[type_name]

    def __missing__(self, count: int) -> Callable[[Buffer, int], tuple[object, ...]]:
        reader = array_struct(self._format, count).unpack_from
        if count < _CACHED_PACKERS:
            self[count] = reader
        return reader


def array_struct(element_format: str, count: int, before: str = "") -> struct.Struct:
    """Return the struct of `count` big-endian elements, after the format `before`."""
    repeated = element_format * count if element_format == "16s" else f"{count}{element_format}"
    return struct.Struct(f">{before}{repeated}")


ARRAY_READERS = {name: ArrayReaders(name) for name in FIXED_FORMATS}


# Writing


def write_uvarint(value: int) -> bytes:
    """Encode an unsigned varint; Malformed if the value is negative or more than an int32 holds."""
    if not 0 <= value <= MAX_INT32:
        raise Malformed(f"a varint of {value}, not within 0 and {MAX_INT32}")
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class Uvarints(dict[int, bytes]):
    """`uvarints[n]` are the bytes of n. Small ones are cached."""

    def __init__(self) -> None:
        super().__init__((value, write_uvarint(value)) for value in range(1 << 10))

    def __missing__(self, value: int) -> bytes:
        return write_uvarint(value)


class StringLengths(Uvarints):
    """`string_lengths[n]`: the length n - 1 of a compact string; Malformed above Kafka's limit."""

    def __missing__(self, value: int) -> bytes:
        if value > MAX_STRING_BYTES + 1:
            raise long_string(value - 1)
        return write_uvarint(value)


UVARINTS = Uvarints()
STRING_LENGTHS = StringLengths()


def array_writers(type_name: str, flexible: bool) -> Callable[[Sequence[object]], bytes]:
    """Return a function that encodes an array of a fixed-size type after its count, compact or an int32."""
    element_format = FIXED_FORMATS[type_name]
    packers: dict[int, Callable[..., bytes]] = {}

    def packer(count: int) -> Callable[..., bytes]:
        pack = array_struct(element_format, count, "B" if flexible else "i").pack
        if count < _CACHED_PACKERS:
            packers[count] = pack
        return pack

    def write(values: Sequence[object]) -> bytes:
        count = len(values)
        if flexible and count + 1 > 0x7F:
            return write_uvarint(count + 1) + array_struct(element_format, count).pack(*values)
        return (packers.get(count) or packer(count))(count + flexible, *values)

    return write


def check_uuids(values: Sequence[bytes]) -> Sequence[bytes]:
    """Return the values if each has 16 bytes: struct would silently truncate or fill others."""
    for value in values:
        if len(value) != _UUID_BYTES:
            raise bad_uuid(value)
    return values


def bad_uuid(value: bytes) -> Malformed:
    return Malformed(f"a uuid of {len(value)} bytes, not {_UUID_BYTES}")


def long_string(byte_count: int) -> Malformed:
    return Malformed(f"a string of {byte_count} bytes, limit {MAX_STRING_BYTES}")


def absent_field(version: int) -> Malformed:
    return Malformed(f"is set, but version {version} has no place for it")


def absent_tags(version: int) -> Malformed:
    return Malformed(f"there are unknown tagged fields, but version {version} is not flexible")


def write_tags(tags: Mapping[int, bytes]) -> bytes:
    """Encode a tag section: the count, then tag, size and bytes of each, in the order of tags."""
    parts = [UVARINTS[len(tags)]]
    for tag in sorted(tags):
        parts += (UVARINTS[tag], UVARINTS[len(tags[tag])], tags[tag])
    return b"".join(parts)


def copy_unknown_tags(unknown: Mapping[int, bytes], known: Collection[int]) -> dict[int, bytes]:
    """Return a copy of the unknown tags. Malformed if one has the number of a known tag."""
    if posing := sorted(unknown.keys() & known):
        raise Malformed(f"unknown tagged fields hold the known tag {posing[0]}")
    return dict(unknown)
