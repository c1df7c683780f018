"""Sets of resource names, of literal names and prefixes.

Two patterns are nested or disjoint, so they form a tree. A set of names is the set of the patterns at whose
border membership changes: a name is in it if an odd number of them cover the name. Names may have any
character, so no patterns cover all names of a prefix, and equal sets of names have equal sets of patterns.
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from string import ascii_lowercase, digits
from typing import NamedTuple

from proxy.metadata.acl import WILDCARD, PatternType


class Pattern(NamedTuple):
    """A literal name, or all names that begin with it. In this order a prefix precedes what it covers."""

    name: str
    literal: bool

    def covers(self, name: str) -> bool:
        return name == self.name if self.literal else name.startswith(self.name)

    def __str__(self) -> str:
        if self == EVERY_NAME:
            return WILDCARD
        if not self.literal:
            return f"{self.name}*"
        # Without quotes it would read as a prefix.
        is_plain = self.name and not self.name.endswith(WILDCARD)
        return self.name if is_plain else json.dumps(self.name, ensure_ascii=False)


EVERY_NAME = Pattern("", False)
"""The prefix of every name, and what the literal `*` of an ACL means."""

Names = frozenset[Pattern]
"""A set of names: see the module."""


def pattern_of(resource_name: str, pattern_type: PatternType) -> Pattern:
    """Return the pattern of an ACL."""
    if pattern_type is PatternType.PREFIXED:
        return Pattern(resource_name, False)
    return EVERY_NAME if resource_name == WILDCARD else Pattern(resource_name, True)


def is_in(names: Names, name: str) -> bool:
    return sum(pattern.covers(name) for pattern in names) % 2 == 1


class Area:
    """The names that any of some patterns cover."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self.roots: list[Pattern] = []
        """The patterns that no other one covers, in order."""
        for pattern in sorted(set(patterns)):
            if not self.roots or not self.roots[-1].covers(pattern.name):
                self.roots.append(pattern)

    def contains(self, pattern: Pattern) -> bool:
        """Whether all names of the pattern are in the area."""
        # The roots are disjoint: only the last one before it can cover it.
        at = bisect_left(self.roots, (pattern.name, pattern.literal, ""))
        before = self.roots[at - 1] if at else None
        return before is not None and (
            before == pattern or (before.covers(pattern.name) and not before.literal)
        )

    def meets(self, pattern: Pattern) -> bool:
        """Whether some name of the pattern is in the area."""
        return self.contains(pattern) or next(covered(self.roots, pattern), None) is not None

    def common(self, other: "Area") -> "Area":
        """Return the names that are in both."""
        less, more = (self, other) if len(self.roots) < len(other.roots) else (other, self)
        return Area(
            pattern
            for root in less.roots
            for pattern in ((root,) if more.contains(root) else covered(more.roots, root))
        )


def covered(ordered: Sequence[Pattern], pattern: Pattern) -> Iterator[Pattern]:
    """Yield those of some ordered patterns that a pattern covers."""
    for at in range(bisect_left(ordered, pattern), len(ordered)):
        each = ordered[at]
        if each != pattern and not pattern.covers(each.name):
            return
        if each == pattern or not pattern.literal:
            yield each


class NamePart(NamedTuple):
    """The names that one pattern covers and no pattern below it; `example` is one of them."""

    example: str
    names: Names


def name_parts(area: Area, *ordered: Sequence[Pattern]) -> Iterator[NamePart]:
    """Yield the parts into which ordered patterns cut an area. Each part is covered by the same of them."""
    cutting = {pattern for root in area.roots for each in ordered for pattern in covered(each, root)}
    nodes = sorted(cutting.union(area.roots))
    open_nodes: list[tuple[Pattern, list[Pattern]]] = []
    for node in nodes:
        while open_nodes and not open_nodes[-1][0].covers(node.name):
            yield _part(*open_nodes.pop())
        if open_nodes:
            open_nodes[-1][1].append(node)
        if node.literal:
            yield _part(node, [])
        else:
            open_nodes.append((node, []))
    while open_nodes:
        yield _part(*open_nodes.pop())


def _part(node: Pattern, below: list[Pattern]) -> NamePart:
    example = node.name if node.literal else _example(node.name, below)
    return NamePart(example, frozenset((node, *below)))


_READABLE = "x" + ascii_lowercase + digits


def _example(prefix: str, below: list[Pattern]) -> str:
    taken = {pattern.name[len(prefix) : len(prefix) + 1] for pattern in below}
    free = next((each for each in _READABLE if each not in taken), None)
    return prefix + (free or next(chr(code) for code in range(0x21, 0x110000) if chr(code) not in taken))


def example_of(names: Names) -> str:
    """Return one of the names of a set that is not empty."""
    first, *others = sorted(names)
    return (
        first.name
        if first.literal
        else _example(first.name, [each for each in others if first.covers(each.name)])
    )


class Branch(NamedTuple):
    """For people: a pattern or network, and what is left out of it, of which something may be in it again."""

    of: str
    but: tuple["Branch", ...]

    def __str__(self) -> str:
        if not self.but:
            return self.of
        left_out = ", ".join(f"({each})" if each.but else str(each) for each in self.but)
        return f"{self.of} but {left_out}"


def branches_of_names(names: Names) -> tuple[Branch, ...]:
    """Return a set of names as a tree."""
    found, position, ordered = [], 0, sorted(names)

    def branch() -> Branch:
        nonlocal position
        node, below = ordered[position], []
        position += 1
        while not node.literal and position < len(ordered) and node.covers(ordered[position].name):
            below.append(branch())
        return Branch(str(node), tuple(below))

    while position < len(ordered):
        found.append(branch())
    return tuple(found)
