"""Messages filled at random, for tests of the codecs: any message, any version, from a source of randomness.

`random.Random(seed)` gives the same messages each time; Hypothesis's `randoms()` gives ones that shrink.
"""

from random import Random
from typing import Any

from proxy.wire.catalog import by_name
from proxy.wire.message import classes_of
from proxy.wire.schema import Field, Struct

_INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


class MessageFiller:
    """Fills what a version can hold. `tame` keeps to values that stricter codecs than ours accept as well."""

    def __init__(self, random: Random, tame: bool = False) -> None:
        self._random = random
        self._tame = tame

    def message(self, name: str, version: int) -> Any:
        schema = by_name(name)
        return self._struct(schema.root, version, classes_of(name), version in schema.flexible)

    def _struct(self, struct: Struct, version: int, classes: dict[str, Any], flexible: bool) -> Any:
        message = classes[struct.name]()
        for field in struct.fields:
            is_sent = version in field.versions and (version not in field.tagged or self._chance(2))
            if is_sent:
                setattr(message, field.attribute, self._value(field, version, classes, flexible))
        if flexible and not self._tame and self._chance(5):
            message.unknown_tags = self._unknown_tags()
        return message

    def _value(self, field: Field, version: int, classes: dict[str, Any], flexible: bool) -> Any:
        if version in field.nullable and self._chance(4):
            return None
        if field.is_array:
            count = (
                self._random.choice((0, 1, 2, 3, 127)) if field.struct is None else self._random.randint(0, 2)
            )
            return [self._element(field, version, classes, flexible) for _ in range(count)]
        return self._element(field, version, classes, flexible)

    def _element(self, field: Field, version: int, classes: dict[str, Any], flexible: bool) -> Any:
        if field.struct is not None:
            return self._struct(field.struct, version, classes, flexible)
        return self._scalar(field.type)

    def _scalar(self, type_name: str) -> Any:
        if type_name in _INTEGER_BITS:
            return self._signed(_INTEGER_BITS[type_name])
        match type_name:
            case "uint16":
                return self._random.randint(0, 0xFFFF)
            case "bool":
                return self._chance(2)
            case "float64":
                return self._random.uniform(-1e9, 1e9)
            case "uuid":
                return self._bytes(16)
            case "string":
                return self._text()
            case _:
                return self._bytes(self._random.choice((0, 1, 5, 130)))

    def _signed(self, bits: int) -> int:
        if self._tame:
            return self._random.randint(0, 100)
        limit = 1 << (bits - 1)
        return self._random.choice((0, -1, limit - 1, -limit, self._random.randint(-limit, limit - 1)))

    def _text(self) -> str:
        letter = self._random.choice("a1.é→🜄")
        return letter * self._random.choice((0, 1, 3, 126, 127, 128))

    def _bytes(self, size: int) -> bytes:
        return bytes(self._random.randint(0, 255) for _ in range(size))

    def _unknown_tags(self) -> dict[int, bytes]:
        # Beyond all tags that Kafka has given out, and on both sides of the tag that Envelope carries for us.
        tags = self._random.sample((100, 127, 128, 9999, 10_000, 0x7FFFFFFF), 2)
        return {tag: self._bytes(self._random.choice((0, 1, 200))) for tag in tags}

    def _chance(self, one_in: int) -> bool:
        return self._random.randint(1, one_in) == 1
