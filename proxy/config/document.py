"""Parses YAML into plain values and their lines, and finds duplicate keys.

proxy.config.reading calls it. PyYAML's own constructor silently uses the last of two equal keys,
and drops the lines; its node tree has both. It also reads 010 as 8, and 1:30 as 90: here both are text.
Values may name variables of the environment, as in Compose files.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

from proxy.error_text import text_of

Location = tuple[str | int, ...]
"""Keys and positions in lists, from the top of the file."""

_VARIABLE = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")

_MERGE = "tag:yaml.org,2002:merge"
_IN_WORDS = {
    "mapping values are not allowed here": (
        "there is a second `: ` in the line, or it is indented too far;"
        " put a value that contains `: ` in quotes"
    ),
    "found character '\\t' that cannot start any token": "the line contains a tab; indent with spaces",
    "could not find expected ':'": "a key has no `: `, or the text above it is not closed",
}


class _Loader(yaml.SafeLoader):
    """Reads only those numbers as numbers that people mean to be numbers of base 10 or 16."""


_NOT_OCTAL_NOR_SEXAGESIMAL = r"(?![-+]?0[0-9_])(?!.*:)"
_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, re.compile(_NOT_OCTAL_NOR_SEXAGESIMAL + pattern.pattern, re.VERBOSE))
        if tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
        else (tag, pattern)
        for tag, pattern in resolvers
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class NotYaml(Exception):
    """The text is not valid YAML; `line` counts from 1, None if unknown."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Twice:
    """A key that appears more than once in one mapping."""

    location: Location
    first_line: int
    line: int


@dataclass(frozen=True, slots=True)
class NotSet:
    """A value that names a variable that the environment does not have."""

    location: Location
    variable: str | None
    """None: there is no name between braces."""
    line: int


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    """A parsed file."""

    values: object
    twice: tuple[Twice, ...] = ()
    root: yaml.Node | None = None
    not_set: tuple[NotSet, ...] = ()

    def line(self, location: Location) -> int | None:
        """The line of a key, counted from 1. If the key does not exist, the line of its part."""
        node, line = self.root, None
        for step in location:
            found = None if node is None else _below(node, step)
            if found is None:
                break
            line, node = found
        return line


def read_document(content: bytes, environment: Mapping[str, str] | None = None) -> ConfigDocument:
    """Parse a file. NotYaml contains the reason, in one line.

    `environment`: `${NAME}` in a value stands for this variable, `${NAME:-text}` for `text` if it is not set
    or empty, and `$${` for `${`. A value without quotes may become a number. None: all this is text.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise NotYaml("the file is not UTF-8 text", line) from error
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            return ConfigDocument(None)
        # First, because the construction of values resolves merged keys.
        twice = tuple(_twice(root))
        not_set = () if environment is None else tuple(_filled_in(root, loader, environment))
        return ConfigDocument(loader.construct_document(root), twice, root, not_set)
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: an invalid date or number, such as 2026-99-99.
        raise NotYaml(" ".join(text_of(error).split())) from error


def _filled_in(root: yaml.Node, loader: _Loader, environment: Mapping[str, str]) -> Iterator[NotSet]:
    """Put variables into the values of the document, and yield those that are missing."""
    for location, node in _nodes(root):
        if not isinstance(node, yaml.ScalarNode):
            continue
        for found in _VARIABLE.finditer(node.value):
            name = found["name"]
            if name is not None and name not in environment and found["default"] is None:
                yield NotSet(location, name, node.start_mark.line + 1)
        if "${" in _VARIABLE.sub("", node.value):
            yield NotSet(location, None, node.start_mark.line + 1)
        filled = _VARIABLE.sub(lambda found: _value(found, environment), node.value)
        if filled != node.value and node.style is None:
            node.tag = loader.resolve(yaml.ScalarNode, filled, (True, False))  # type: ignore[no-untyped-call]
        node.value = filled


def _value(found: re.Match[str], environment: Mapping[str, str]) -> str:
    if found["name"] is None:
        return "${"
    return environment.get(found["name"], "") or found["default"] or ""


def _not_yaml(error: yaml.MarkedYAMLError) -> NotYaml:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or error.context or "it cannot be parsed"
    return NotYaml(_IN_WORDS.get(problem, " ".join(problem.split())), None if mark is None else mark.line + 1)


def _twice(root: yaml.Node) -> Iterator[Twice]:
    for location, node in _nodes(root):
        if isinstance(node, yaml.MappingNode):
            yield from _equal_keys(node, location)


def _nodes(root: yaml.Node) -> Iterator[tuple[Location, yaml.Node]]:
    """Yield each node of a document that is no key, once."""
    seen: set[int] = set()  # An alias leads to the same node again, possibly in a cycle.
    waiting: list[tuple[Location, yaml.Node]] = [((), root)]
    while waiting:
        location, node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield location, node
        if isinstance(node, yaml.SequenceNode):
            waiting += [((*location, place), item) for place, item in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            waiting += [((*location, _text(key)), value) for key, value in node.value]


def _equal_keys(node: yaml.MappingNode, location: Location) -> Iterator[Twice]:
    first: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        if key.tag == _MERGE:
            continue
        same, line = (key.tag, _text(key)), key.start_mark.line + 1
        if same in first:
            yield Twice((*location, _text(key)), first[same], line)
        first.setdefault(same, line)


def _below(node: yaml.Node, step: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        item = node.value[step]
        return item.start_mark.line + 1, item
    if isinstance(node, yaml.MappingNode):
        # The last one counts, as for the values; merged keys come first.
        for key, value in reversed(node.value):
            if _text(key) == str(step):
                return key.start_mark.line + 1, value
    return None


def _text(key: yaml.Node) -> str:
    return key.value if isinstance(key, yaml.ScalarNode) else repr(key.value)
