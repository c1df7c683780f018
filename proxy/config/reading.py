"""Reads a file into checked settings, or returns an error line for every invalid key.

`load` and `parse` are for processes, which need settings; `read` is for `penstock check`, which also checks
the valid parts of an invalid file. Keys in an older spelling are accepted with a hint: they repeated the name
of their section, `quota: {quota.mode: observe}`. proxy.config.wording writes the error messages.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import structlog
from pydantic import TypeAdapter, ValidationError

from proxy.config.document import ConfigDocument, Location, NotSet, NotYaml, Twice, read_document
from proxy.config.kinds import another_kind, another_text
from proxy.config.parts import ConfigError, Part, PartType, parts_in
from proxy.config.wording import Problem, in_words

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
    """Convert the `values` of a document to the current keys of `part`."""
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
    """Convert a part, or a list of parts."""
    if isinstance(value, list):
        return [_part(item, part, (*at, place), spelling) for place, item in enumerate(value)]
    return _part(value, part, at, spelling)


log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Reading(Generic[PartType]):
    """The result of reading a file. `settings` is None if the file is invalid; `problems` are the errors."""

    path: Path
    settings: PartType | None = None
    problems: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    """Keys in an older spelling."""
    document: ConfigDocument = field(default_factory=lambda: ConfigDocument(None))
    spelling: Spelling = field(default_factory=lambda: Spelling(None))

    def line(self, location: Location, text: str, line: int | None = None) -> str:
        """A line of an error message: the file, the line, the key as it is in the file, and `text`."""
        written = self.spelling.as_written(location)
        line = line or self.document.line(written)
        file = f"{self.path}" if line is None else f"{self.path}:{line}"
        return ": ".join((file, *([_place(written)] if written else []), text))


def load(path: Path, part: type[PartType]) -> PartType:
    """Read the file as `part`; ConfigError lists every invalid key."""
    return parse(path, content_of(path), part)


def parse(path: Path, content: bytes, part: type[PartType]) -> PartType:
    """Read `content` as `part`. Errors name `path`, and paths in the file are relative to it."""
    reading = read(path, content, part)
    if reading.settings is None:
        raise ConfigError("\n".join(reading.problems))
    for hint in reading.hints:
        log.warning("the configuration contains a key in an older spelling", hint=hint)
    return reading.settings


def content_of(path: Path) -> bytes:
    """The bytes of the file; ConfigError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error


def values_in(path: Path) -> object:
    """The values of a file that is not checked yet; None if it cannot be read."""
    try:
        return read_document(content_of(path), os.environ).values
    except (ConfigError, NotYaml):
        return None


def read(path: Path, content: bytes, part: type[PartType]) -> Reading[PartType]:
    """Read `content` as `part`. Never raises because of the content."""
    reading: Reading[PartType] = Reading(path)
    try:
        reading.document = read_document(content, os.environ)
    except NotYaml as error:
        if (another := another_text(path, content)) is not None:
            reading.problems.append(f"{path}: {another}")
            return reading
        where = path if error.line is None else f"{path}:{error.line}"
        reading.problems.append(f"{where}: the file is not valid YAML: {error}")
        return reading
    if not isinstance(reading.document.values, dict):
        another = another_text(path, content)
    else:
        another = another_kind(path, set(map(str, reading.document.values)), part)
    if another is not None:
        reading.problems.append(f"{path}: {another}")
        return reading
    if not isinstance(reading.document.values, dict):
        found = {type(None): "nothing", list: "a list"}.get(type(reading.document.values), "one value")
        reading.problems.append(f"{path}: expected keys with values, found {found}")
        return reading
    _validate(reading, part)
    return reading


def _validate(reading: Reading[PartType], part: type[PartType]) -> None:
    reading.spelling = spelling = current(reading.document.values, part)
    reading.hints = [reading.line(location, text) for location, text in spelling.hints]
    context = _context(reading.path)
    problems = [_duplicate(twice) for twice in reading.document.twice]
    problems += [_not_set(each) for each in reading.document.not_set]
    try:
        settings = part.model_validate(spelling.values, context=context)
    except ValidationError as error:
        problems += in_words(error.errors(), part)
    else:
        reading.settings = None if problems else settings
    reading.problems = _lines(reading, problems)


def _duplicate(twice: Twice) -> Problem:
    lines = f", in line {twice.first_line} and in line {twice.line}"
    where = lines if twice.line != twice.first_line else " in this line"
    return Problem(twice.location, f"appears twice{where}; remove one of them", twice.line)


def _not_set(found: NotSet) -> Problem:
    name = found.variable
    text = f"the environment has no variable {name}; set it, or write ${{{name}:-DEFAULT}}"
    if name is None:
        text = "after ${ comes no NAME}; write $${ for the characters themselves"
    return Problem(found.location, text, found.line)


def _lines(reading: Reading[PartType], problems: list[Problem]) -> list[str]:
    """The lines in the order of the file; those about the whole file come last."""

    def place(problem: Problem) -> tuple[bool, int]:
        line = problem.line or reading.document.line(reading.spelling.as_written(problem.location))
        return line is None, line or 0

    ordered = sorted(problems, key=place)
    found = [reading.line(problem.location, problem.text, problem.line) for problem in ordered]
    return list(dict.fromkeys(found))


def _context(path: Path) -> dict[str, object]:
    return {"directory": path.resolve().parent}


RightParts = Mapping[str, Any]
"""Values of fields by the name of the field; the model of the file says which types they have."""


def right_parts(reading: Reading[PartType], part: type[PartType]) -> RightParts:
    """The valid top-level parts of a file, by the name of their field."""
    right: dict[str, Any] = {}
    values = reading.spelling.values
    if not isinstance(values, dict):
        return right
    for name, (key, adapter) in _adapters(part).items():
        if values.get(key) is not None:
            with suppress(ValidationError):
                right[name] = adapter.validate_python(values[key], context=_context(reading.path))
    return right


@cache
def _adapters(part: type[Part]) -> dict[str, tuple[str, TypeAdapter[Any]]]:
    """Name of each field -> its key, and a validator for it alone."""
    found = {}
    for name, field_info in part.model_fields.items():
        kind: Any = field_info.annotation
        if field_info.metadata:
            kind = Annotated[kind, *field_info.metadata]
        found[name] = field_info.alias or name, TypeAdapter[Any](kind)
    return found


def _place(location: Location) -> str:
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else (f" > {step}" if text else str(step))
    return text
