"""Makes message classes from schemas: one slotted class for each struct, for all versions of the message.

Codecs build and read these classes; other packages use them through proxy.wire.types.
"""

import base64
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

from proxy.wire import catalog, work
from proxy.wire.schema import Field, MessageSchema, Struct, structs_of


class Message:
    """A struct of the Kafka protocol: an attribute for each field, and the unknown tagged fields.

    Messages are equal if class, fields and unknown tags are equal. They are mutable, so they are not
    hashable.
    """

    __slots__ = ("unknown_tags",)

    api_key: ClassVar[int | None] = None
    """The key of a request, a response or a metadata record. None for other data and for nested structs."""

    unknown_tags: dict[int, bytes] | None
    """Tagged fields of a newer protocol, by tag; they are encoded unchanged."""

    __hash__ = None  # type: ignore[assignment] # a message is mutable

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        names = (*type(self).__slots__, "unknown_tags")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={_shown(getattr(self, name))}" for name in type(self).__slots__)
        return f"{type(self).__qualname__}({fields})"


Response = TypeVar("Response", bound=Message)


class Request(Message, Generic[Response]):
    """A message with a response; only type checkers need to know its class."""

    __slots__ = ()

    api_key: ClassVar[int]


def release(message: Message) -> None:
    """Free the elements of a message in pieces: freeing very many at once takes long."""
    for name in type(message).__slots__:
        elements = getattr(message, name)
        if isinstance(elements, list):
            while len(elements) > _PIECE:
                del elements[-_PIECE:]
                work.spend(_PIECE)


MANY_BYTES = 16 * 1024
"""A smaller message has so few elements that they are freed at once."""
_UUID_BYTES = 16
_PIECE = 64


def _shown(value: object) -> str:
    # Passwords, tokens and salts are of Kafka's type bytes: their length is enough for debugging.
    if isinstance(value, bytes) and len(value) == _UUID_BYTES:
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)


@cache
def classes_of(name: str) -> dict[str, type[Message]]:
    """Return the classes of a message by struct name. WireError for an unknown message."""
    return build_classes(catalog.by_name(name))


def build_classes(schema: MessageSchema) -> dict[str, type[Message]]:
    """Return the classes of a message by struct name, its own first; the others are also its attributes."""
    structs = structs_of(schema.root)
    namespace: dict[str, Any] = {"Message": Message, "Request": Request, "EMPTY": _EMPTY, "spend": work.spend}
    for name, struct in structs.items():
        qualified = name if name == schema.name else f"{schema.name}.{name}"
        base = "Request" if schema.kind == "request" and name == schema.name else "Message"
        source = class_source(struct, qualified, base)
        # The source is made from the project's schema files, never from bytes of a peer.
        exec(compile(source, f"<class {qualified}>", "exec"), namespace)  # noqa: S102
    classes: dict[str, type[Message]] = {name: namespace[name] for name in structs}
    root = classes[schema.name]
    root.api_key = schema.api_key
    for name, nested in classes.items():
        if nested is not root:
            setattr(root, name, nested)
    return classes


_EMPTY = object()
"""Marks an absent argument where every message needs a new list or struct."""


def class_source(struct: Struct, qualified_name: str, base: str) -> str:
    """Return the source of one class, with Kafka's defaults.

    Nested structs may be many, so each is counted.
    """
    parameters = ["unknown_tags=None", *(f"{f.attribute}={_parameter_default(f)}" for f in struct.fields)]
    assignments = [f"        self.{f.attribute} = {_assigned(f)}" for f in struct.fields]
    return "\n".join(
        [
            f"class {struct.name}({base}):",
            f"    __slots__ = ({''.join(f'{f.attribute!r}, ' for f in struct.fields)})",
            f"    __qualname__ = {qualified_name!r}",
            "    __module__ = 'proxy.wire.types'",
            f"    def __init__(self, *, {', '.join(parameters)}):",
            *(["        spend(1)"] if "." in qualified_name else []),
            *assignments,
            "        self.unknown_tags = unknown_tags",
        ]
    )


def _parameter_default(field: Field) -> str:
    return "EMPTY" if _is_fresh(field) else repr(field.default)


def _assigned(field: Field) -> str:
    if not _is_fresh(field):
        return field.attribute
    empty = "[]" if field.is_array else f"{field.type}()"
    return f"{empty} if {field.attribute} is EMPTY else {field.attribute}"


def _is_fresh(field: Field) -> bool:
    return (field.is_array or field.struct is not None) and field.default is not None
