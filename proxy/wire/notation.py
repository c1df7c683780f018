"""Parses message schemas in a notation with one field per line.

`make schemas` writes it into schemas/*.schema, proxy.wire.catalog reads it. A message is a block:

    request MetadataRequest  key 3  versions 0-13  flexible 9+
        Topics []MetadataRequestTopic nullable 1+
            TopicId uuid versions 10+ ignorable
            Name string nullable 10+
        AllowAutoTopicCreation bool versions 4+ default true

Indentation is nesting. Kafka's defaults are left out: all versions, never null, not tagged, empty. `tag 0`
means that the field is tagged in all its versions, `tag 0 12+` only in those. A struct that several fields
use follows the fields, under `struct <Name>`. `unstable` marks a latest version that Kafka has not released.
"""

from collections.abc import Iterator, Mapping

from proxy.wire.schema import (
    ALL_VERSIONS,
    FIXED_FORMATS,
    NO_VERSIONS,
    Default,
    Field,
    MessageSchema,
    Struct,
    empty_default,
    versions,
)

_INDENT = "  "


def split_messages(text: str) -> Iterator[list[str]]:
    """Return the lines of each message, its headline first."""
    block: list[str] = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if not line.startswith(_INDENT) and block:
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def headline_options(line: str) -> tuple[str, str, dict[str, str]]:
    """Return kind, name and options of a headline."""
    kind, name, *words = line.split()
    return kind, name, _options(words)


def parse_message(lines: list[str]) -> MessageSchema:
    """Parse the block of one message. ValueError or KeyError if the text is not in the notation."""
    kind, name, options = headline_options(lines[0])
    structs, root_lines = _split_structs(lines[1:])
    shared: dict[str, Struct] = {}
    for struct_name in _innermost_first(structs):
        shared[struct_name] = _parse_struct(struct_name, structs[struct_name], 2, shared)
    return MessageSchema(
        kind=kind,
        name=name,
        api_key=int(options["key"]) if "key" in options else None,
        versions=versions(options["versions"]),
        flexible=versions(options["flexible"]),
        latest_version_unstable="unstable" in options,
        root=_parse_struct(name, root_lines, 1, shared),
        shared=tuple(structs),
    )


def _split_structs(lines: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    structs: dict[str, list[str]] = {}
    current = root_lines = list[str]()
    for line in lines:
        if line.startswith(f"{_INDENT}struct "):
            current = structs.setdefault(line.split()[1], [])
        else:
            current.append(line)
    return structs, root_lines


def _innermost_first(structs: Mapping[str, list[str]]) -> list[str]:
    """Order shared structs so that each follows those that it uses."""
    ordered: list[str] = []
    for name in structs:
        _append_with_used(ordered, name, structs)
    return ordered


def _append_with_used(ordered: list[str], name: str, structs: Mapping[str, list[str]]) -> None:
    for line in structs[name]:
        used = line.split()[1].removeprefix("[]")
        if used in structs:
            _append_with_used(ordered, used, structs)
    if name not in ordered:
        ordered.append(name)


def _parse_struct(name: str, lines: list[str], depth: int, shared: Mapping[str, Struct]) -> Struct:
    return Struct(name, tuple(_parse_fields(lines, depth, shared)))


def _parse_fields(lines: list[str], depth: int, shared: Mapping[str, Struct]) -> Iterator[Field]:
    nested_indent = _INDENT * (depth + 1)
    at = 0
    while at < len(lines):
        line, at = lines[at], at + 1
        start = at
        while at < len(lines) and lines[at].startswith(nested_indent):
            at += 1
        yield _parse_field(line.split(), lines[start:at], depth, shared)


def _parse_field(words: list[str], nested: list[str], depth: int, shared: Mapping[str, Struct]) -> Field:
    type_name = words[1].removeprefix("[]")
    is_array = words[1].startswith("[]")
    options = _options(words[2:])
    struct = shared.get(type_name)
    if struct is None and type_name[0].isupper():
        struct = _parse_struct(type_name, nested, depth + 1, shared)
    present = versions(options["versions"]) if "versions" in options else ALL_VERSIONS
    tag, _, tagged = options.get("tag", "").partition(" ")
    return Field(
        name=words[0],
        type=type_name,
        is_array=is_array,
        versions=present,
        nullable=versions(options.get("nullable", "none")),
        tagged=versions(tagged) if tagged else present if tag else NO_VERSIONS,
        tag=int(tag) if tag else None,
        default=parse_default(options["default"], type_name, is_array)
        if "default" in options
        else empty_default(type_name, is_array),
        ignorable="ignorable" in options,
        inflexible="inflexible" in options,
        struct=struct,
    )


_WITHOUT_VALUE = {"ignorable", "inflexible", "unstable"}


def _options(words: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    at = 0
    while at < len(words):
        word, at = words[at], at + 1
        if word in _WITHOUT_VALUE:
            options[word] = ""
            continue
        options[word], at = words[at], at + 1
        # Only a tag may be followed by its versions.
        if word == "tag" and at < len(words) and words[at][0].isdigit():
            options[word], at = f"{options[word]} {words[at]}", at + 1
    return options


def parse_default(text: str, type_name: str, is_array: bool) -> Default:
    """Parse a default as in Kafka's tables and in the notation: decimal or hexadecimal, `true`, `null`."""
    if text == "null":
        return None
    if is_array or type_name not in FIXED_FORMATS:
        raise ValueError(f"no default but null is known for {type_name}, not {text!r}")
    if type_name == "bool":
        return text == "true"
    return float(text) if type_name == "float64" else int(text, 0)
