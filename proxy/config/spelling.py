"""Files in an older spelling: what was read before still is, as it is spelled now, and a hint says so.

`quota: {quota.mode: observe}` was how a key was nested below the part that its name begins with. Now a key
does not repeat the name of its part: `quota: {mode: observe}`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from proxy.config.document import Location
from proxy.config.parts import Part, parts_in

Key = TypeVar("Key")


@dataclass(slots=True)
class Spelling:
    """`written`: what stands in the file for a key that has another name now, by where it is now."""

    values: object
    written: dict[Location, str] = field(default_factory=dict)
    hints: list[tuple[Location, str]] = field(default_factory=list)

    def as_written(self, location: Location) -> Location:
        """The same place, by the keys that stand in the file."""
        return tuple(self.written.get(location[: depth + 1], step) for depth, step in enumerate(location))


def current(values: object, part: type[Part]) -> Spelling:
    """`values`, of a document, with today's keys of `part`."""
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
            spelling.hints.append(((*at, name), f"write {name}: the key need not repeat its part's name"))
        below = next(parts_in(fields[name].annotation), None) if name in fields else None
        found[name] = value if below is None else _value(value, below, (*at, name), spelling)
    return found


def _name_now(
    key: Key, part: type[Part], values: Mapping[object, object], fields: Mapping[str, object]
) -> Key | str:
    if not isinstance(key, str) or key in fields or not part.repeated or not key.startswith(part.repeated):
        return key
    name = key.removeprefix(part.repeated)
    # Where both stand in the file it is not for us to say which one counts.
    return name if name in fields and name not in values else key


def _value(value: object, part: type[Part], at: Location, spelling: Spelling) -> object:
    """What stands for a part, a list of parts, or parts by name."""
    if isinstance(value, list):
        return [_part(item, part, (*at, place), spelling) for place, item in enumerate(value)]
    return _part(value, part, at, spelling)
