"""When a change of each key takes effect (SPEC O9), and which keys of two versions of a configuration differ.

The annotation of each key says it. Here a key is the path of its fields: `listeners.max_connections`.
proxy.config.reloading calls `changes` and `in_effect`. No values of settings that may be secret leave this
module.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard, TypeVar

from pydantic import ValidationError

from proxy.config.listener import ListenerConfig
from proxy.config.parts import RESTART, Below, ConfigError, Effect, Part, section_of

Effects = Mapping[str, Effect]

HELD_PORTS = {"listeners.name": RESTART, "listeners.bind": RESTART}
"""What differs at a proxy with several workers, whose supervisor holds the ports."""


def of(part: type[Part]) -> dict[str, Effect]:
    """The effect of each key of a file."""
    found: dict[str, Effect] = {}
    for name, field in part.model_fields.items():
        section = section_of(field)
        if section is None:
            (found[name],) = (mark for mark in field.metadata if isinstance(mark, Effect))
            continue
        there = next((mark.effects for mark in field.metadata if isinstance(mark, Below)), {})
        for key, effect in of(section).items():
            found[f"{name}.{key}"] = there.get(key, there.get("*", effect))
    return found


PartType = TypeVar("PartType", bound=Part)
Steps = tuple[str, ...]
Listeners = tuple[ListenerConfig, ...]
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Change:
    """A key whose value in the file differs from the one in effect."""

    key: str
    """The path in the file: `listeners > SASL > max.connections`."""
    effect: Effect
    still: str | None = None
    """The value in effect, as text; None if it is not a plain value."""

    def in_words(self) -> str:
        """The line that `penstock reload` prints for a key that needs a restart."""
        return f"{self.key} needs a restart" + (
            "" if self.still is None else f"; {self.still} stays in effect"
        )


def changes(old: Part, new: Part, effects: Effects) -> list[Change]:
    """The keys whose values differ in `old` and `new`, in the order of the model's fields."""
    return [
        Change(" > ".join(steps), effects[".".join(fields)], _plain(before))
        for fields, steps, before in _differences(old, new, (), ())
    ]


def in_effect(old: PartType, new: PartType, effects: Effects) -> PartType:
    """`new`, with the values of `old` for the keys that need a restart.

    ConfigError if these do not fit together: then the file can take effect only after a restart.
    """
    try:
        return _merged(old, new, effects, ())
    except ValidationError as error:
        reasons = "; ".join(str(item["msg"]).removeprefix("Value error, ") for item in error.errors())
        waiting = [
            change.in_words() for change in changes(old, new, effects) if change.effect is Effect.RESTART
        ]
        raise ConfigError(
            f"the file needs a restart as a whole: {', '.join(waiting)};"
            f" the other changes do not fit with that: {reasons}"
        ) from error


def _differences(
    old: Part | None, new: Part | None, fields: Steps, steps: Steps
) -> Iterator[tuple[Steps, Steps, object]]:
    """Yield fields, keys and old value of each leaf that differs. None: the part is not in the file."""
    kind = type(new if new is not None else old)
    assert issubclass(kind, Part)
    for name, field in kind.model_fields.items():
        before = _ABSENT if old is None else getattr(old, name)
        after = _ABSENT if new is None else getattr(new, name)
        if before == after:
            continue
        at, key = (*fields, name), (*steps, field.alias or name)
        if isinstance(before, Part) or isinstance(after, Part):
            yield from _differences(_part(before), _part(after), at, key)
        elif _are_listeners(before):
            assert _are_listeners(after)
            yield from _of_listeners(before, after, at, key)
        elif _ABSENT not in (before, after) or name in (new or old).model_fields_set:  # type: ignore[union-attr]
            yield at, key, before


def _part(value: object) -> Part | None:
    return value if isinstance(value, Part) else None


def _are_listeners(value: object) -> TypeGuard[Listeners]:
    # There is always at least one.
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], ListenerConfig)


def _of_listeners(
    old: Listeners, new: Listeners, fields: Steps, steps: Steps
) -> Iterator[tuple[Steps, Steps, object]]:
    before, after = _by_name(old), _by_name(new)
    for name in before | after:
        if name in before and name in after:
            yield from _differences(before[name], after[name], fields, (*steps, name))
        else:
            yield (*fields, "name"), (*steps, name), "open" if name in before else "not open"


def _by_name(listeners: Sequence[ListenerConfig]) -> dict[str, ListenerConfig]:
    return {listener.name: listener for listener in listeners}


def _merged(old: PartType, new: PartType, effects: Effects, fields: Steps) -> PartType:
    values: dict[str, object] = {}
    for name, field in type(new).model_fields.items():
        at, before, after = (*fields, name), getattr(old, name), getattr(new, name)
        taken: Part = new
        if isinstance(before, Part) and isinstance(after, Part):
            after = before if before == after else _merged(before, after, effects, at)
        elif _are_listeners(before):
            after = _merged_listeners(before, after, effects, at)
        elif before != after and _keeps(effects, at):
            taken, after = old, before
        if name in taken.model_fields_set:
            values[field.alias or name] = after
    return type(new).model_validate(values)


def _merged_listeners(
    old: Sequence[ListenerConfig], new: Sequence[ListenerConfig], effects: Effects, fields: Steps
) -> tuple[ListenerConfig, ...]:
    before, after = _by_name(old), _by_name(new)
    names = list(before if _keeps(effects, (*fields, "name")) else after)
    merged = []
    for name in names:
        if name in before and name in after:
            merged.append(_merged(before[name], after[name], effects, fields))
        else:
            merged.append(after.get(name) or before[name])
    return tuple(merged)


def _keeps(effects: Effects, fields: Steps) -> bool:
    """Whether the old value stays. In a part that is added or removed, all keys have the same effect."""
    path = ".".join(fields)
    found = effects.get(path) or next(effect for key, effect in effects.items() if key.startswith(f"{path}."))
    return found is Effect.RESTART


def _plain(value: object) -> str | None:
    if value is None or value is _ABSENT:
        return "not set"
    if isinstance(value, tuple) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    # Mappings are settings of plug-ins, which may contain secrets.
    return str(value) if isinstance(value, str | int | float) or hasattr(value, "__fspath__") else None
