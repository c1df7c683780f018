"""ls, cat, find and tree: return what is at a path of a tree, as lines of text or as one JSON value.

Paths may contain `*`, `?` and `[...]` in their parts, as in Kafka's metadata shell. Nothing is printed here.
"""

import json
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import NoReturn

from proxy.metadata.tree import Path, TreeNode, parts

Place = tuple[Path, TreeNode]


class NothingThere(Exception):
    """The path does not exist, or has no value or no names; the message says which."""


def answer(root: TreeNode, command: str, path: str, pattern: str | None = None) -> list[str]:
    """The lines that a command prints; `pattern` is for find."""
    places = _matching(root, path)
    if command == "find":
        return [_text(at) for at, _ in _found(places, path, pattern)]
    if command == "cat":
        return [json.dumps(value(), ensure_ascii=False) for _, value in _valued(places, path)]
    if command == "ls":
        return _listed(places, path)
    return [line for at, node in places for line in _drawn(at[-1] if at else "/", node, 0)]


def answer_json(root: TreeNode, command: str, path: str, pattern: str | None = None) -> dict[str, object]:
    """The same as a JSON value: `entries`, `values`, `paths` or `tree`, by path."""
    places = _matching(root, path)
    if command == "find":
        return {"paths": [_text(at) for at, _ in _found(places, path, pattern)]}
    if command == "cat":
        return {"values": {_text(at): value() for at, value in _valued(places, path)}}
    if command == "ls":
        listed = {_text(at): node.names() for at, node in places}
        return {"entries": {at: names for at, names in listed.items() if names is not None} or _none(path)}
    return {"tree": {_text(at): _nested(node) for at, node in places}}


def _matching(root: TreeNode, path: str) -> list[Place]:
    places: list[Place] = [((), root)]
    for part in parts(path):
        places = [((*at, name), child) for at, node in places for name, child in _named(node, part)]
    if not places:
        raise NothingThere(f"nothing at {path}")
    return places


def _named(node: TreeNode, part: str) -> list[tuple[str, TreeNode]]:
    exact = node.children.get(part)
    if exact is not None:
        return [(part, exact)]
    return [(name, child) for name, child in sorted(node.children.items()) if fnmatchcase(name, part)]


def _found(places: list[Place], path: str, pattern: str | None) -> list[Place]:
    """The pattern matches the last name or, if it contains a slash, the whole path."""
    whole = pattern is not None and "/" in pattern
    found = [
        (at, node)
        for start, below in places
        for at, node in _all(start, below)
        if pattern is None or fnmatchcase(_text(at) if whole else (at[-1] if at else ""), pattern)
    ]
    if not found:
        raise NothingThere(f"nothing below {path} matches {pattern}")
    return found


def _all(at: Path, node: TreeNode) -> Iterator[Place]:
    yield at, node
    for name, child in sorted(node.children.items()):
        yield from _all((*at, name), child)


def _valued(places: list[Place], path: str) -> list[tuple[Path, Callable[[], dict[str, object]]]]:
    values = [(at, node.value) for at, node in places if node.value is not None]
    return values or _none(path, "is a directory and has no value")


def _listed(places: list[Place], path: str) -> list[str]:
    lists = [(at, names) for at, node in places if (names := node.names()) is not None]
    if not lists:
        _none(path)
    if len(lists) == 1:
        return lists[0][1]
    return [line for at, names in lists for line in (f"{_text(at)}:", *names)]


def _none(path: str, why: str = "is not a directory; print it with cat") -> NoReturn:
    raise NothingThere(f"{path} {why}")


def _drawn(name: str, node: TreeNode, depth: int) -> Iterator[str]:
    yield "  " * depth + name
    for below, child in sorted(node.children.items()):
        yield from _drawn(below, child, depth + 1)


def _nested(node: TreeNode) -> dict[str, object]:
    value: dict[str, object] = {} if node.value is None else {"value": node.value()}
    names = node.names()
    if names is None:
        return value
    return value | {"children": {name: _nested(node.children[name]) for name in names}}


def _text(at: Path) -> str:
    return "/" + "/".join(at)
