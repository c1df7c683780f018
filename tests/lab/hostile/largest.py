"""The requests with the most elements that fit a number of bytes: for each served API, by its schema.

Each array of a request is filled in turn while the others have one element; names are different ones, for a
request that names one thing a million times may be answered by looking once. All of it is denied to a user
without rights.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from proxy.session.apis.table import TABLE
from proxy.wire import catalog, codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import encode_request
from proxy.wire.message import classes_of
from proxy.wire.schema import Field, Struct

NAME = "~~~~~"
"""Stands where each element has a name of its own."""
_NUMBERED = b"%05x"
_FEW = {
    "bool": False,
    "float64": 1.0,
    "uuid": NAME.encode() + bytes(11),
    "string": NAME,
    "bytes": b"",
    "records": None,
}
_BY_NAME = {"timeout_ms": 30_000, "validate_only": True}
"""Nothing is to be made where it should be allowed after all."""
OUTSIDE_THE_TABLE = (ApiKey.PRODUCE, ApiKey.FETCH)


@dataclass(frozen=True, slots=True)
class Largest:
    """One API with one array filled."""

    api_key: int
    version: int
    path: str

    @property
    def name(self) -> str:
        return f"{ApiKey.name_of(self.api_key)} v{self.version} {self.path}"

    def frame(self, size_bytes: int, number: int = 1) -> tuple[bytes, int]:
        """A whole request of about that size, and how many elements its array has."""
        codec = codecs.request(self.api_key, self.version, (self.path,))
        small = codecs.request(self.api_key, self.version).encode(_filled(self.api_key, self.version))
        message, _ = codec.decode(small)
        *outer, last = self.path.split(".")
        owner = message
        for attribute in outer:
            owner = getattr(owner, attribute)[0]
        is_compact = codecs.is_flexible(self.api_key, self.version)
        element = bytes(getattr(owner, last))[1 if is_compact else 4 :]
        count = max(1, (size_bytes - len(small)) // len(element))
        length = _uvarint(count + 1) if is_compact else count.to_bytes(4, "big")
        setattr(owner, last, length + _numbered(element, count))
        body = codec.encode(message).replace(NAME.encode(), b"thing")
        return encode_request(self.api_key, self.version, number, "hostile", body), count


def all_largest(of_each: int) -> Iterator[Largest]:
    """The first arrays of every served API, in the newest version and in the newest without topic ids."""
    for api_key in sorted({*TABLE, *OUTSIDE_THE_TABLE}):
        root = catalog.request(api_key).root
        for version in _versions(api_key, root):
            for path in islice(_arrays(root, version), of_each):
                yield Largest(api_key, version, path)


def _versions(api_key: int, root: Struct) -> Iterator[int]:
    versions = codecs.request_versions(api_key)
    yield versions[-1]
    if _has_ids(root, versions[-1]):
        yield from [each for each in reversed(versions) if not _has_ids(root, each)][:1]


def _has_ids(struct: Struct, version: int) -> bool:
    return any(
        field.type == "uuid" or (field.struct is not None and _has_ids(field.struct, version))
        for field in struct.present(version)
    )


def _filled(api_key: int, version: int) -> Any:
    schema = catalog.request(api_key)
    return _struct(schema.root, version, classes_of(schema.name))


def _struct(struct: Struct, version: int, classes: dict[str, Any]) -> Any:
    message = classes[struct.name]()
    for field in struct.present(version):
        setattr(message, field.attribute, _value(field, version, classes))
    return message


def _value(field: Field, version: int, classes: dict[str, Any]) -> Any:
    one = _scalar(field) if field.struct is None else _struct(field.struct, version, classes)
    return [one] if field.is_array else one


def _scalar(field: Field) -> Any:
    if field.attribute in _BY_NAME and not field.is_array:
        return _BY_NAME[field.attribute]
    return _FEW.get(field.type, 1)


def _arrays(struct: Struct, version: int, before: str = "") -> Iterator[str]:
    for field in struct.present(version):
        path = before + field.attribute
        if field.is_array:
            yield path
        if field.struct is not None and field.is_array:
            yield from _arrays(field.struct, version, f"{path}.")


def _numbered(element: bytes, count: int) -> bytes:
    parts = element.split(NAME.encode())
    if len(parts) == 1:
        return element * count
    first, rest = parts[0], NAME.encode().join(parts[1:])
    return b"".join([b"".join((first, _NUMBERED % (number & 0xFFFFF), rest)) for number in range(count)])


def _uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
