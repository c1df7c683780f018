"""Converts the message definitions in Kafka's jars into the tables in proxy/wire/schemas/, and types.pyi.

`make schemas` runs it for a new release of Kafka:

    python -m tests.support.import_schemas kafka-clients-4.4.0.jar kafka-metadata-4.4.0.jar

It reads `common/message/*.json` (requests, responses, headers, data) and `common/metadata/*.json` (records of
the metadata log), leaves out messages without any version, and writes one file for each kind. An unknown
property stops it: a table that silently lost something would be worse.

types.pyi has a class of typed fields for each message. Only type checkers read it: proxy.wire.message makes
the classes at run time. A test compares it with the tables. Types of fields:

    int8 ... int64, uint16    int          string           str
    float64                   float        uuid             bytes, 16 of them
    bool                      bool         bytes, records   Buffer: a decoded message holds a memoryview

A field that is null in some version may be None. Structs are attributes of their message, as at run time. A
request names the class of its response.
"""

import argparse
import json
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NotRequired, TypedDict

from proxy.wire.notation import parse_default
from proxy.wire.schema import (
    ALL_VERSIONS,
    FIELD_TYPES,
    NO_VERSIONS,
    Default,
    Field,
    MessageSchema,
    Struct,
    empty_default,
    structs_of,
    versions,
)

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
_INDENT_OF_TABLES = "  "
PACKAGE = Path(__file__).parents[2] / "proxy" / "wire"


SCHEMA_FILES = {
    "request": "requests.schema",
    "response": "responses.schema",
    "metadata": "metadata.schema",
    "data": "data.schema",
    "header": "data.schema",
}
"""The file of each kind of message."""

STUB_FILE = "types.pyi"

_FOLDERS = ("common/message/", "common/metadata/")

_MESSAGE_PROPERTIES = {
    "apiKey", "type", "name", "validVersions", "flexibleVersions", "fields", "commonStructs",
    "latestVersionUnstable", "listeners",
}  # fmt: skip
_FIELD_PROPERTIES = {
    "name", "type", "versions", "nullableVersions", "taggedVersions", "tag", "default", "ignorable", "fields",
    "flexibleVersions", "about", "entityType", "mapKey", "zeroCopy",
}  # fmt: skip

_FILE_HEADER = """\
# Kafka's message schemas in Penstock's notation (proxy/wire/notation.py). Written by `make schemas`: do not
# edit.
"""


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


class FieldDefinition(TypedDict):
    name: str
    type: str
    versions: str
    nullableVersions: NotRequired[str]
    taggedVersions: NotRequired[str]
    flexibleVersions: NotRequired[str]
    tag: NotRequired[int]
    default: NotRequired[str | int | bool]
    ignorable: NotRequired[bool]
    fields: NotRequired[list["FieldDefinition"]]


"""A field of a message in Kafka's JSON; only the properties that are read here."""


class StructDefinition(TypedDict):
    """A struct that several fields use."""

    name: str
    fields: list[FieldDefinition]


class MessageDefinition(StructDefinition):
    """A whole message."""

    type: str
    apiKey: NotRequired[int]
    validVersions: str
    listeners: list[str]
    flexibleVersions: str
    latestVersionUnstable: NotRequired[bool]
    commonStructs: NotRequired[list[StructDefinition]]


Shared = Mapping[str, StructDefinition]


def read_jar(jar: Path) -> list[MessageSchema]:
    """Return the live messages that a jar defines, in no particular order."""
    with zipfile.ZipFile(jar) as archive:
        names = [n for n in archive.namelist() if n.startswith(_FOLDERS) and n.endswith(".json")]
        definitions = [definition(archive.read(name).decode()) for name in names]
    return [message(d) for d in definitions if d["validVersions"] != "none"]


def definition(text: str) -> MessageDefinition:
    """Parse a file of Kafka's: JSON with comments, and in old releases with more after its end."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("//"))
    parsed: MessageDefinition
    parsed, _ = json.JSONDecoder().raw_decode("\n".join(lines).lstrip())
    return parsed


def message(definition: MessageDefinition) -> MessageSchema:
    """Parse one JSON definition of Kafka's. ValueError for an unknown property."""
    _reject_unknown(definition, _MESSAGE_PROPERTIES, definition["name"])
    shared = {s["name"]: s for s in definition.get("commonStructs", ())}
    return MessageSchema(
        kind=definition["type"],
        name=definition["name"],
        api_key=definition.get("apiKey"),
        versions=versions(definition["validVersions"]),
        flexible=versions(definition["flexibleVersions"]),
        latest_version_unstable=bool(definition.get("latestVersionUnstable", False)),
        root=Struct(definition["name"], _fields(definition["fields"], shared)),
        shared=tuple(shared),
    )


def _fields(definitions: Iterable[FieldDefinition], shared: Shared) -> tuple[Field, ...]:
    return tuple(_field(d, shared) for d in definitions)


def _field(definition: FieldDefinition, shared: Shared) -> Field:
    _reject_unknown(definition, _FIELD_PROPERTIES, definition["name"])
    type_name = definition["type"].removeprefix("[]")
    is_array = definition["type"].startswith("[]")
    _reject_unsupported(definition, type_name, is_array)
    return Field(
        name=definition["name"],
        type=type_name,
        is_array=is_array,
        versions=versions(definition["versions"]),
        nullable=versions(definition.get("nullableVersions", "none")),
        tagged=versions(definition.get("taggedVersions", "none")),
        tag=definition.get("tag"),
        default=_default(definition, type_name, is_array),
        ignorable=bool(definition.get("ignorable", False)),
        inflexible=definition.get("flexibleVersions") == "none",
        struct=_struct(type_name, definition, shared),
    )


def _default(definition: FieldDefinition, type_name: str, is_array: bool) -> Default:
    text = str(definition.get("default", "")).lower()
    return parse_default(text, type_name, is_array) if text else empty_default(type_name, is_array)


def _struct(type_name: str, definition: FieldDefinition, shared: Shared) -> Struct | None:
    if not type_name[0].isupper():
        return None
    fields = definition["fields"] if "fields" in definition else shared[type_name]["fields"]
    return Struct(type_name, _fields(fields, shared))


def _reject_unknown(definition: Mapping[str, object], known: set[str], name: str) -> None:
    if unknown := definition.keys() - known:
        raise ValueError(f"{name} has properties this tool does not know: {', '.join(sorted(unknown))}")


def _reject_unsupported(definition: FieldDefinition, type_name: str, is_array: bool) -> None:
    is_struct = type_name[0].isupper()
    if not is_struct and type_name not in FIELD_TYPES:
        raise ValueError(f"{definition['name']} has the unknown type {type_name}")
    # Kafka has no such field yet, so its null is undefined.
    if is_struct and not is_array and {"tag", "nullableVersions"} <= definition.keys():
        raise ValueError(f"{definition['name']} is a tagged struct that may be null")


# The notation, which proxy.wire.notation parses.


def format_message(schema: MessageSchema) -> str:
    """Return one block, ending in a newline."""
    return "\n".join([_headline(schema), *_body(schema)]) + "\n"


def _headline(schema: MessageSchema) -> str:
    key = [] if schema.api_key is None else [f"key {schema.api_key}"]
    unstable = ["unstable"] if schema.latest_version_unstable else []
    ranges = [f"versions {schema.versions}", f"flexible {schema.flexible}"]
    return "  ".join([f"{schema.kind} {schema.name}", *key, *ranges, *unstable])


def _body(schema: MessageSchema) -> Iterator[str]:
    yield from _format_fields(schema.root.fields, 1, schema.shared)
    structs = structs_of(schema.root)
    for name in schema.shared:
        yield f"{_INDENT_OF_TABLES}struct {name}"
        yield from _format_fields(structs[name].fields, 2, schema.shared)


def _format_fields(fields: Iterable[Field], depth: int, shared: tuple[str, ...]) -> Iterator[str]:
    for field in fields:
        yield _INDENT_OF_TABLES * depth + _format_field(field)
        if field.struct is not None and field.struct.name not in shared:
            yield from _format_fields(field.struct.fields, depth + 1, shared)


def _format_field(field: Field) -> str:
    words = [field.name, "[]" * field.is_array + field.type]
    if field.versions != ALL_VERSIONS:
        words.append(f"versions {field.versions}")
    if field.nullable != NO_VERSIONS:
        words.append(f"nullable {field.nullable}")
    if field.tag is not None:
        words.append(
            f"tag {field.tag}" if field.tagged == field.versions else f"tag {field.tag} {field.tagged}"
        )
    if field.default != empty_default(field.type, field.is_array):
        words.append(f"default {_format_default(field.default)}")
    words += ["ignorable"] * field.ignorable + ["inflexible"] * field.inflexible
    return " ".join(words)


def _format_default(default: Default) -> str:
    if default is None:
        return "null"
    return str(default).lower() if isinstance(default, bool) else str(default)


# The files.


def write_package(schemas: Sequence[MessageSchema], package: Path) -> None:
    """Write the tables and the type stubs."""
    tables = package / "schemas"
    tables.mkdir(exist_ok=True)
    write_tables(schemas, tables)
    (package / STUB_FILE).write_text(stub_text(schemas))


def write_tables(schemas: Iterable[MessageSchema], folder: Path) -> None:
    """Write one file for each kind, messages in the order of their API keys, then names."""
    ordered = sorted(schemas, key=lambda s: (-1 if s.api_key is None else s.api_key, s.name))
    for file_name in sorted(set(SCHEMA_FILES.values())):
        blocks = [format_message(s) for s in ordered if SCHEMA_FILES[s.kind] == file_name]
        (folder / file_name).write_text("\n".join([_FILE_HEADER, *blocks]))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.import_schemas", description=__doc__)
    parser.add_argument("jars", nargs="+", type=Path, metavar="JAR")
    parser.add_argument("--into", type=Path, default=PACKAGE, metavar="PACKAGE")
    options = parser.parse_args(arguments)
    schemas = [schema for jar in options.jars for schema in read_jar(jar)]
    write_package(schemas, options.into)
    sys.stdout.write(f"{len(schemas)} messages into {options.into}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
