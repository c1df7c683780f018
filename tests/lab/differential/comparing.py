"""Two outcomes of one request to their differences, field by field.

`plain` makes of an answer a tree of dictionaries that two sides can share: ids as the names they stand for,
what ignoring names left out, parts of lists under what they are about (the order of topics is that of hash
tables inside a broker). `differences` compares two trees.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from proxy.wire.api_keys import ApiKey
from proxy.wire.catalog import response as response_schema
from proxy.wire.schema import Field, Struct
from tests.lab.differential.ignoring import How, how_to_treat
from tests.lab.differential.naming import INTERNAL_TOPICS, READ_TOPICS, SINK_TOPICS, Names
from tests.lab.differential.naming import topic_id as stands_for
from tests.lab.side_by_side.dialogue import Heard, Outcome, Refused

_ABOUT = (
    ("resource_type", "resource_name", "pattern_type"),
    ("config_resource_type", "resource_name"),
    ("resource_type", "resource_name"),
    ("name", "topic_id"),
    ("name",),
    ("topic",),
    ("topic_name",),
    ("topic_id",),
    ("group_id",),
    ("partition_index",),
    ("partition",),
    ("partition_id",),
    ("index",),
    ("user",),
    ("transactional_id",),
    ("key",),
    ("api_key",),
    ("broker_id",),
    ("node_id",),
    ("feature",),
    ("entity",),
)
"""What tells one part of a list from the others, the first that it has."""

_NAMES = (
    "name",
    "topic",
    "topic_name",
    "resource_name",
    "group_id",
    "user",
    "transactional_id",
    "entity_name",
)

_POSITIONAL = {("CreateAcls", "results"), ("DeleteAcls", "filter_results")}
"""Lists whose parts are known by their place alone."""


_SAYS_NOTHING: dict[How | None, tuple[Any, ...]] = {
    How.SET: (None, "", -1, [], bytes(16)),
    How.GIVEN: (None, "", -1, 0, [], bytes(16)),
}

_SETS = {"mechanisms"}
"""Lists of plain values whose order means nothing."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What the two sides say at one place of their answers."""

    path: str
    broker: Any
    proxy: Any

    def __str__(self) -> str:
        return f"{self.path or 'the whole'}: broker {shown(self.broker)}, proxy {shown(self.proxy)}"


ABSENT = "(not there)"
_SHOWN_CHARACTERS = 1_000


def shown(value: object) -> str:
    """As much of it as a reader can take."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def plain(outcome: Outcome | None, api_key: int, version: int, names: Names, ids: dict[bytes, bytes]) -> Any:
    """The outcome as far as it can be compared. `ids`: what stands for a topic's id, to the side's id."""
    if isinstance(outcome, Refused):
        return f"refused with {outcome.error_code}"
    if not isinstance(outcome, Heard):
        return type(outcome).__name__.lower()
    api = ApiKey.name_of(api_key)
    known = {ids[stands_for(name)]: name for name in _topics(names) if stands_for(name) in ids}
    known |= {stands_for(name): name for name in _topics(names)}
    return _Plain(api, version, names, known).struct(outcome.message, response_schema(api_key).root)


def _topics(names: Names) -> tuple[str, ...]:
    ghosts = ("t-ghost", "x-ghost")
    return (*READ_TOPICS, *SINK_TOPICS, *ghosts, *INTERNAL_TOPICS, *names.own_topics, *names.new_topics)


class _Plain:
    """Of one answer of one side."""

    def __init__(self, api: str, version: int, names: Names, ids: dict[bytes, str]) -> None:
        self._api = api
        self._version = version
        self._names = names
        self._ids = ids

    def struct(self, message: Any, struct: Struct) -> Any:
        if message is None:
            return None
        told = {}
        for field in struct.fields:
            how = how_to_treat(self._api, field.attribute)
            if self._version in field.versions and how is not How.DROPPED:
                told[field.attribute] = self._field(getattr(message, field.attribute), field, how)
        return told

    def _field(self, value: Any, field: Field, how: How | None) -> Any:
        if how is How.LENGTH:
            return None if value is None else f"{len(value)} bytes"
        if how in _SAYS_NOTHING and field.struct is None:
            return "not set" if value in _SAYS_NOTHING[how] else "set"
        if field.is_array and value is not None:
            return self._list(value, field)
        return self._element(value, field)

    def _list(self, values: list[Any], field: Field) -> Any:
        parts = [self._element(value, field) for value in values]
        if field.attribute in _SETS:
            return sorted(parts)
        if field.struct is None or (self._api, field.attribute) in _POSITIONAL:
            return parts
        kept = [part for part in parts if self._concerns(part)]
        about = next((keys for keys in _ABOUT if kept and all(key in kept[0] for key in keys)), None)
        if about is None and kept:
            return sorted(kept, key=_as_text)
        return _grouped(kept, about or ())

    def _element(self, value: Any, field: Field) -> Any:
        if field.struct is not None:
            return self.struct(value, field.struct)
        if field.type == "uuid":
            return self._id(bytes(value))
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        return value

    def _id(self, value: bytes) -> str:
        return self._ids.get(value, "id" if any(value) else "no id")

    def _concerns(self, part: dict[str, Any]) -> bool:
        """Whether it is about something that the case, or every case, has."""
        names = (part.get(key) for key in _NAMES)
        return all(self._names.knows(name) for name in names if isinstance(name, str))


def _as_text(part: Any) -> str:
    """The same for the same parts, whatever the order of what is in them."""
    return json.dumps(part, sort_keys=True, default=str)


def _grouped(parts: list[dict[str, Any]], about: tuple[str, ...]) -> dict[Any, Any]:
    """Under what they are about; those about the same stay a list."""
    groups: dict[str, list[Any]] = {}
    for part in parts:
        groups.setdefault("/".join(str(part[key]) for key in about), []).append(part)
    return {name: _merged(group) for name, group in groups.items()}


def _merged(group: list[dict[str, Any]]) -> Any:
    """One topic told in several parts is told once, with the partitions of all."""
    first, *others = group
    inner = [key for key, value in first.items() if isinstance(value, dict)]
    if not others or len(inner) != 1 or any(not isinstance(part[inner[0]], dict) for part in others):
        return first if not others else sorted(group, key=_as_text)
    return {**first, inner[0]: {key: value for part in group for key, value in part[inner[0]].items()}}


def differences(broker: Any, proxy: Any, path: str = "") -> Iterator[Difference]:
    """Every place at which two trees differ; a part that one of them lacks is one difference."""
    if isinstance(broker, dict) and isinstance(proxy, dict):
        for key in dict.fromkeys((*broker, *proxy)):
            below = f"{path}.{key}" if path else str(key)
            yield from differences(broker.get(key, ABSENT), proxy.get(key, ABSENT), below)
    elif isinstance(broker, list) and isinstance(proxy, list) and len(broker) == len(proxy):
        for at, (one, other) in enumerate(zip(broker, proxy, strict=True)):
            yield from differences(one, other, f"{path}[{at}]")
    elif broker != proxy:
        yield Difference(path, broker, proxy)


def codes(tree: Any) -> Iterator[int]:
    """Every error code in a tree."""
    if isinstance(tree, dict):
        yield from (value for key, value in tree.items() if str(key).endswith("error_code"))
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    for part in inner:
        yield from codes(part)
