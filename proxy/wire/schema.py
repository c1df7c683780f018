"""Message schemas: structs of fields, each with the versions in which it exists, and their layout.

proxy.wire.notation makes them, and `make schemas` from Kafka's jars; the generators of codecs and classes
read them. `Layout` says which fields of a version are compact, and the least size of an element.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from struct import calcsize

FIXED_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""The types of a fixed size, with their format in the struct module."""

FIXED_SIZES = {name: calcsize(f">{each}") for name, each in FIXED_FORMATS.items()}

FIELD_TYPES = {*FIXED_FORMATS, "string", "bytes", "records"}
"""All types but structs; an array is many elements of one of them, or of a struct."""

ZERO_UUID = bytes(16)

Default = bool | int | float | str | bytes | None
"""The default of a field that is neither array nor struct."""

_HIGHEST_VERSION = 32767


@dataclass(frozen=True, slots=True)
class Versions:
    """A closed range of versions in Kafka's notation: `3`, `1-4`, `2+` or `none`."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __str__(self) -> str:
        if self.first > self.last:
            return "none"
        if self.first == self.last:
            return str(self.first)
        return f"{self.first}+" if self.last == _HIGHEST_VERSION else f"{self.first}-{self.last}"

    @property
    def range(self) -> range:
        return range(self.first, self.last + 1)


NO_VERSIONS = Versions(0, -1)
ALL_VERSIONS = Versions(0, _HIGHEST_VERSION)


def versions(text: str) -> Versions:
    """Parse a range of versions; ValueError if the text is none."""
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), _HIGHEST_VERSION)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def attribute_name(name: str) -> str:
    """`TopicId` -> `topic_id`; KRaft is one word."""
    return _WORD_STARTS.sub("_", name.replace("KRaft", "Kraft")).lower()


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct. `type` is the element's type if the field is an array."""

    name: str
    type: str
    is_array: bool
    versions: Versions = ALL_VERSIONS
    nullable: Versions = NO_VERSIONS
    tagged: Versions = NO_VERSIONS
    tag: int | None = None
    default: Default = None
    """For an array or a struct None stands for null, and False for an empty one."""
    ignorable: bool = False
    """A set value may be left out silently in versions without the field."""
    inflexible: bool = False
    """Never compact, not even in flexible versions (the client id of the request header)."""
    struct: "Struct | None" = None

    @property
    def attribute(self) -> str:
        return attribute_name(self.name)


@dataclass(frozen=True, slots=True)
class Struct:
    name: str
    fields: tuple[Field, ...]

    def present(self, version: int) -> Iterator[Field]:
        """Return the fields in the body of a version, in order: all that are not tagged."""
        return (f for f in self.fields if version in f.versions and version not in f.tagged)

    def tagged(self, version: int) -> Iterator[Field]:
        return (f for f in self.fields if version in f.versions and version in f.tagged)

    def absent(self, version: int) -> Iterator[Field]:
        return (f for f in self.fields if version not in f.versions)


@dataclass(frozen=True, slots=True)
class MessageSchema:
    """A whole message: request, response, header, data or metadata (a record of the metadata log)."""

    kind: str
    name: str
    api_key: int | None
    versions: Versions
    flexible: Versions
    latest_version_unstable: bool
    root: Struct
    shared: tuple[str, ...] = ()
    """Names of the structs that several fields use."""


def structs_of(root: Struct) -> dict[str, Struct]:
    """Return every struct of a message by name, the root first; names are unique within a message."""
    found = {root.name: root}
    for field in root.fields:
        if field.struct is not None:
            found |= structs_of(field.struct)
    return found


def empty_default(type_name: str, is_array: bool) -> Default:
    """Return Kafka's default for a field whose schema names none."""
    if is_array or type_name not in _EMPTY:
        return False
    return _EMPTY[type_name]


_EMPTY: dict[str, Default] = {
    "bool": False,
    "int8": 0,
    "int16": 0,
    "uint16": 0,
    "int32": 0,
    "int64": 0,
    "float64": 0.0,
    "uuid": ZERO_UUID,
    "string": "",
    "bytes": b"",
    "records": None,
}


_USUAL_ELEMENTS = 8
"""Replicas of a partition: so few are skipped by a regular expression."""


class Layout:
    """The layout of one version."""

    def __init__(self, schema: MessageSchema, version: int) -> None:
        self._version = version
        self.flexible = version in schema.flexible

    def is_compact(self, field: Field) -> bool:
        return self.flexible and not field.inflexible

    def element(self, field: Field) -> Field:
        """Return the element of an array as a field of its own; it is never null."""
        return replace(field, is_array=False, nullable=NO_VERSIONS)

    def element_bytes(self, field: Field) -> int:
        """Return the least size of an element of this array in bytes."""
        size = self._least_bytes(self.element(field))
        if size == 0:
            # The remaining bytes could then not limit a count.
            raise ValueError(f"the elements of {field.name} take no bytes in version {self._version}")
        return size

    def _least_bytes(self, field: Field) -> int:
        if field.is_array:
            return 1 if self.is_compact(field) else 4
        if field.type in FIXED_SIZES:
            return FIXED_SIZES[field.type]
        if field.struct is not None:
            return 1 if self._version in field.nullable else self._least_struct_bytes(field.struct)
        if self.is_compact(field):
            return 1
        return 2 if field.type == "string" else 4

    def _least_struct_bytes(self, struct: Struct) -> int:
        tag_section = 1 if self.flexible else 0
        return tag_section + sum(self._least_bytes(f) for f in struct.present(self._version))

    def skipping_pattern(self, array: Field) -> bytes | None:
        """Return a regular expression for the usual elements of this array: without tagged fields, and with
        few elements in arrays of their own. None if they are no structs of numbers and arrays of numbers."""
        if array.struct is None:
            return None
        parts = [self._usual(field) for field in array.struct.present(self._version)]
        if None in parts:
            return None
        return b"".join([*filter(None, parts), b"\\x00" if self.flexible else b""])

    def _usual(self, field: Field) -> bytes | None:
        size = FIXED_SIZES.get(field.type)
        if size is None or not field.is_array:
            return None if size is None else b".{%d}" % size
        compact = self.is_compact(field)
        counts = [(count + compact).to_bytes(1 if compact else 4) for count in range(_USUAL_ELEMENTS)]
        usual = [re.escape(count) + b".{%d}" % (n * size) for n, count in enumerate(counts)]
        if self._version in field.nullable:
            usual.append(b"\\x00" if compact else rb"\xff\xff\xff\xff")
        return b"(?:" + b"|".join(usual) + b")"

    def has_bytes(self, struct: Struct) -> bool:
        """Whether this version of the struct, or of one inside it, has bytes or records."""
        return any(
            f.type in ("bytes", "records") or (f.struct is not None and self.has_bytes(f.struct))
            for f in struct.fields
            if self._version in f.versions
        )
