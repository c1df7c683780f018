"""Writes type stubs from schemas: the text of types.pyi, with a class of typed fields for each message.

proxy.wire.import_schemas calls it, so that `make schemas` writes tables and stubs together; a test compares
them. Only type checkers read the stubs: proxy.wire.message makes the classes at run time. Types of fields:

    int8 ... int64, uint16    int          string           str
    float64                   float        uuid             bytes, 16 of them
    bool                      bool         bytes, records   Buffer: a decoded message holds a memoryview

A field that is null in some version may be None. Structs are attributes of their message, as at run time. A
request names the class of its response.
"""

from collections.abc import Iterable, Iterator

from proxy.wire.schema import NO_VERSIONS, Field, MessageSchema, Struct, structs_of

_HEADER = """\
# The types of Kafka's messages, for type checkers. Written by `make schemas`: do not edit.

from typing import ClassVar

from proxy.wire.message import Message, Request
from proxy.wire.primitives import Buffer

"""

_TYPES = {
    "bool": "bool",
    "int8": "int",
    "int16": "int",
    "uint16": "int",
    "int32": "int",
    "int64": "int",
    "float64": "float",
    "uuid": "bytes",
    "string": "str",
    "bytes": "Buffer",
    "records": "Buffer",
}

_INDENT = "    "


def stub_text(schemas: Iterable[MessageSchema]) -> str:
    """Return the whole file: one class per message, by name. A response precedes its request."""
    ordered = sorted(schemas, key=lambda schema: (_api(schema), schema.kind == "request", schema.name))
    return _HEADER + "\n".join("\n".join(_message(schema)) + "\n" for schema in ordered)


def _api(schema: MessageSchema) -> str:
    return schema.name.removesuffix("Request").removesuffix("Response")


def _message(schema: MessageSchema) -> Iterator[str]:
    yield f"class {schema.name}({_base(schema)}):"
    if schema.api_key is not None:
        yield f"{_INDENT}api_key: ClassVar[int]"
    for struct in structs_of(schema.root).values():
        if struct is not schema.root:
            yield f"{_INDENT}class {struct.name}(Message):"
            yield from (_INDENT + line for line in _members(struct, schema))
    yield from _members(schema.root, schema)


def _base(schema: MessageSchema) -> str:
    return f"Request[{_api(schema)}Response]" if schema.kind == "request" else "Message"


def _members(struct: Struct, schema: MessageSchema) -> Iterator[str]:
    fields = [(field.attribute, _annotation(field, schema)) for field in struct.fields]
    for name, annotation in fields:
        # Some structs have a field named like a message's key (ApiVersionsResponse.ApiVersion).
        yield f"{_INDENT}{name}: {annotation}{'  # type: ignore[misc]' * (name == 'api_key')}"
    parameters = ["unknown_tags: dict[int, bytes] | None = ..."]
    parameters += [f"{name}: {annotation} = ..." for name, annotation in fields]
    yield f"{_INDENT}def __init__(self, *, {', '.join(parameters)}) -> None: ..."


def _annotation(field: Field, schema: MessageSchema) -> str:
    # A nested struct is named from the module: the body of a class does not see the enclosing class.
    element = _TYPES[field.type] if field.struct is None else f"{schema.name}.{field.struct.name}"
    annotation = f"list[{element}]" if field.is_array else element
    may_be_none = field.nullable != NO_VERSIONS or field.default is None
    return f"{annotation} | None" if may_be_none else annotation
