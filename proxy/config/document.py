"""YAML text in, plain values and the lines they stand on out; keys that stand twice are found.

Read by proxy.config.reading. PyYAML's own constructor lets the last of two equal keys win and says nothing,
and it forgets the lines; its node tree has both.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import yaml

Location = tuple[str | int, ...]
"""Keys and places in lists, from the top of the file down."""

_MERGE = "tag:yaml.org,2002:merge"
_IN_WORDS = {
    "mapping values are not allowed here": (
        "a second `: ` in one line, or a line that is indented too far;"
        " put a value that contains `: ` in quotes"
    ),
    "found character '\\t' that cannot start any token": "a tab; indent with spaces",
    "could not find expected ':'": "a key without `: `, or the text above it is not closed",
}


class NotYaml(Exception):
    """The text cannot be read; `line` counts from 1, None where it is not known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Twice:
    """A key that stands more than once in one mapping."""

    location: Location
    first_line: int
    line: int


@dataclass(frozen=True, slots=True)
class Document:
    """`values`: as yaml.safe_load returns them."""

    values: object
    twice: tuple[Twice, ...] = ()
    root: yaml.Node | None = None

    def line(self, location: Location) -> int | None:
        """Where a key stands, counted from 1; of one that is not there, where its part begins."""
        node, line = self.root, None
        for step in location:
            found = None if node is None else _below(node, step)
            if found is None:
                break
            line, node = found
        return line


def read_document(content: bytes) -> Document:
    """NotYaml says why it cannot be read, in one line."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise NotYaml("the file is not UTF-8 text", line) from error
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            return Document(None)
        # Before values are made of it: that takes merged keys apart.
        twice = tuple(_twice(root))
        return Document(loader.construct_document(root), twice, root)
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: of a date or a number that is none, such as 2026-99-99.
        raise NotYaml(" ".join(str(error).split())) from error


def _not_yaml(error: yaml.MarkedYAMLError) -> NotYaml:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or error.context or "cannot be read"
    return NotYaml(_IN_WORDS.get(problem, " ".join(problem.split())), None if mark is None else mark.line + 1)


def _twice(root: yaml.Node) -> Iterator[Twice]:
    seen: set[int] = set()  # An alias leads to the same node again, and may lead in a circle.
    waiting: list[tuple[yaml.Node, Location]] = [(root, ())]
    while waiting:
        node, location = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += [(item, (*location, place)) for place, item in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            yield from _equal_keys(node, location)
            waiting += [(value, (*location, _text(key))) for key, value in node.value]


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
        # The last one counts, as it does for the values; merged keys stand first.
        for key, value in reversed(node.value):
            if _text(key) == str(step):
                return key.start_mark.line + 1, value
    return None


def _text(key: yaml.Node) -> str:
    return key.value if isinstance(key, yaml.ScalarNode) else repr(key.value)
