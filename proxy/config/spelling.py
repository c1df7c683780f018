"""Accepts keys in an older spelling, converts them to the current one, and returns hints about them.

Keys used to repeat the name of their section: `quota: {quota.mode: observe}`. The current spelling is
`quota: {mode: observe}`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from proxy.config.document import Location
from proxy.config.parts import Part, parts_in

Key = TypeVar("Key")


@dataclass(slots=True)
class Spelling:
    """A converted file. `written`: the key in the file, by the location of the current key."""

    values: object
    written: dict[Location, str] = field(default_factory=dict)
    hints: list[tuple[Location, str]] = field(default_factory=list)

    def as_written(self, location: Location) -> Location:
        """The same location, with the keys in the file."""
        return tuple(self.written.get(location[: depth + 1], step) for depth, step in enumerate(location))


def current(values: object, part: type[Part]) -> Spelling:
    """Converts the `values` of a document to the current keys of `part`."""
    spelling = Spelling(None)
    spelling.values = _part(values, part, (), spelling)
    return spelling


def _part(values: object, part: type[Part], at: Location, spelling: Spelling) -> object:
    if not isinstance(values, dict):
        return values
    fields = {info.alias or name: info for name, info in part.model_fields.items()}
    found: dict[object, object] = {}
    for key, value in values.items():
        name = _name_now(key, part, values, fields)
        if name != key:
            spelling.written[*at, name] = key
            spelling.hints.append(
                ((*at, name), f"write {name}: keys no longer repeat the name of their section")
            )
        below = next(parts_in(fields[name].annotation), None) if name in fields else None
        found[name] = value if below is None else _value(value, below, (*at, name), spelling)
    return found


def _name_now(
    key: Key, part: type[Part], values: Mapping[object, object], fields: Mapping[str, object]
) -> Key | str:
    if not isinstance(key, str) or key in fields or not part.repeated or not key.startswith(part.repeated):
        return key
    name = key.removeprefix(part.repeated)
    # If the file contains both spellings, it is unclear which one counts: an error.
    return name if name in fields and name not in values else key


def _value(value: object, part: type[Part], at: Location, spelling: Spelling) -> object:
    """Converts a part, or a list of parts."""
    if isinstance(value, list):
        return [_part(item, part, (*at, place), spelling) for place, item in enumerate(value)]
    return _part(value, part, at, spelling)
