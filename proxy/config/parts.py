"""The base class and the types of all settings: paths, lists, principals, and the errors about them.

The other modules of proxy.config and forwarding.config use them. An unknown key is an error, and a path is
relative to the file that contains it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Annotated, ClassVar, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic.functional_validators import AfterValidator, BeforeValidator

from proxy.admin.topics import is_valid_name
from proxy.config.document import Location
from proxy.security.principal import written_principal

Value = TypeVar("Value")


class ConfigError(Exception):
    """The file is invalid; the message names the file and each invalid key."""


class KeyProblem(ValueError):
    """An error of one key, found by comparing several parts; `location` is relative to the part."""

    def __init__(self, location: Location, message: str) -> None:
        self.location = location
        super().__init__(message)


class KeyProblems(ValueError):
    """Several errors at once."""

    def __init__(self, problems: list[ValueError]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


def all_of(*checks: Callable[[], object]) -> None:
    """Run every check, and raise the errors of all of them in one KeyProblems."""
    problems: list[ValueError] = []
    for check in checks:
        try:
            check()
        except KeyProblems as several:
            problems += several.problems
        except ValueError as error:
            problems.append(error)
    if problems:
        raise KeyProblems(problems)


def comma_list(value: object) -> object:
    """Accept Kafka's comma-separated lists and YAML lists."""
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value


def principal_list(value: object) -> object:
    """Accept Kafka's semicolon-separated principals (their names may contain commas) and YAML lists."""
    return principal_names(value) if isinstance(value, str) else value


def principal_names(text: str) -> list[str]:
    """The names in `User:a;User:b`."""
    return [item.strip() for item in text.split(";") if item.strip()]


def _as_text(value: object) -> object:
    """A plug-in gets its settings as text, as in Kafka, whatever type YAML has read."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _not_empty(value: object) -> object:
    # Not Field(min_length=1), which counts only the valid items.
    if not value:
        raise ValueError("the list is empty; write at least one item")
    return value


def checked_by(check: Callable[[Value], object]) -> AfterValidator:
    """Return a validator that calls `check`, which raises ValueError for an invalid value."""

    def validated(value: Value) -> Value:
        check(value)
        return value

    return AfterValidator(validated)


Listed = BeforeValidator(comma_list)
NotEmpty = AfterValidator(_not_empty)
Milliseconds = Annotated[int, Field(ge=0)]
Duration = Annotated[int, Field(ge=1)]
"""Milliseconds of something that cannot work in no time."""
PluginSettings = dict[str, Annotated[str, BeforeValidator(_as_text)]]
"""The settings that a plug-in's `configure` gets."""


class Effect(StrEnum):
    """When the new value of a key takes effect after a reload. Each key's annotation has one."""

    LIVE = "live"
    """At once, for all clients. Settings of logins: at the next login or re-authentication."""
    NEW_CONNECTIONS = "new connections"
    """For new connections; open ones retain the old value."""
    RESTART = "restart"
    """At the next restart of the process."""


LIVE, NEW_CONNECTIONS, RESTART = Effect


@dataclass(frozen=True, slots=True)
class Unset:
    """In a key's annotation: what the page says in place of the default."""

    text: str


@dataclass(frozen=True, slots=True)
class Below:
    """In a section's annotation: the effects of keys that have another effect there; `*` is all others."""

    effects: Mapping[str, Effect]


def kafka_name(field: str) -> str:
    """The key of a field of a part."""
    return field.replace("_", ".")


def without(prefix: str) -> ConfigDict:
    """The model configuration of a part whose fields have Kafka's full names: its keys omit the prefix."""
    return ConfigDict(alias_generator=lambda field: kafka_name(field.removeprefix(prefix)))


LONGS = ("_ms", "_bytes", "_size")
"""Endings of the fields that are int64, as in Kafka; other whole numbers are int32."""
MAX_INT32, MAX_INT64 = (1 << 31) - 1, (1 << 63) - 1


def _scalars_in(annotation: object) -> Iterator[object]:
    """The types of the values in a field, except those in a part, which checks its own."""
    arguments = get_args(annotation)
    if get_origin(annotation) is Annotated:
        arguments = arguments[:1]
    if not arguments:
        yield annotation
    for argument in arguments:
        yield from _scalars_in(argument)


def _below(value: object, at: Location) -> Iterator[tuple[Location, object]]:
    """The keys and values in a value, each with its place."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*at, str(key)), key
            yield from _below(item, (*at, str(key)))
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield from _below(item, (*at, place))
    else:
        yield at, value


def _require_number(location: Location, value: object, most: int) -> None:
    if isinstance(value, bool):
        raise KeyProblem(
            location,
            f"expected a number, found {str(value).lower()}; YAML reads yes, no, on and off as true or false",
        )
    if isinstance(value, int) and value > most:
        raise KeyProblem(location, f"must be at most {most}, found {value:.6g}")


class Part(BaseModel):
    """A section of the file. Its keys are the fields' names with dots; an unknown key is an error."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=kafka_name, defer_build=True, allow_inf_nan=False
    )
    kind: ClassVar[str] = ""
    """Of a whole file: which of proxy.config.kinds it is."""
    repeated: ClassVar[str] = ""
    """The prefix of keys in older files: `quota.` in `quota: {quota.mode: observe}`."""

    @field_validator("*", mode="before")
    @classmethod
    def _numbers_are_numbers(cls, value: object, info: ValidationInfo) -> object:
        """Reject what pydantic would convert to a number that was not meant."""
        name = info.field_name or ""
        kinds = set(_scalars_in(cls.model_fields[name].annotation))
        if kinds & {int, float} and bool not in kinds:
            most = MAX_INT64 if name.endswith(LONGS) else MAX_INT32
            for location, number in _below(value, ()):
                _require_number(location, number, most)
        return value


def _topic_name(name: str) -> str:
    if not is_valid_name(name):
        raise ValueError(
            f"no topic can have the name {name!r}; write letters, digits, dots, underscores and hyphens, at"
            " most 249"
        )
    return name


TopicName = Annotated[str, AfterValidator(_topic_name)]


def relative(path: Path, info: ValidationInfo) -> Path:
    """Return a path of the file, which is relative to the file's directory."""
    first = path.parts[0] if path.parts else ""
    if first.startswith(("~", "$")):  # Only a shell replaces it: a directory of this name would be made.
        raise ValueError(f"{first} is not replaced; write the whole path, or a variable such as ${{HOME}}")
    base = (info.context or {}).get("directory", Path())
    return path if path.is_absolute() else Path(base) / path


FilePath = Annotated[Path, AfterValidator(relative)]


def _existing(path: Path, info: ValidationInfo) -> Path:
    path = relative(path, info)
    try:
        path.open("rb").close()
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"no such file: {path}; correct the path") from None
    except IsADirectoryError:
        raise ValueError(f"a directory, not a file: {path}; correct the path") from None
    except OSError as error:
        raise ValueError(
            f"this user cannot read {path}: {error.strerror}; run chown or chmod, or check as the user of"
            " the process"
        ) from error
    return path


class Secret:
    """Marks a file that only the user of the process should be able to read."""


ExistingFile = Annotated[Path, AfterValidator(_existing)]
SecretFile = Annotated[Path, AfterValidator(_existing), Secret()]
PartType = TypeVar("PartType", bound=Part)


def parts_in(annotation: object) -> Iterator[type[Part]]:
    """The parts in a field's annotation, at any depth of unions and containers."""
    if isinstance(annotation, type) and get_origin(annotation) is None and issubclass(annotation, Part):
        yield annotation
    for argument in get_args(annotation):
        yield from parts_in(argument)


def section_of(field: FieldInfo) -> type[Part] | None:
    """The part below a key, or in its list; None if the key has a value. A mapping of parts is a value."""
    return None if get_origin(field.annotation) is dict else next(parts_in(field.annotation), None)


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a part. `given`: whether the file contains it."""

    location: Location
    name: str
    field: FieldInfo
    value: object
    given: bool


def parts_below(value: object, at: Location = ()) -> Iterator[tuple[Location, Part]]:
    """The part itself and the parts below it, also in lists and mappings, each with its place."""
    if isinstance(value, Part):
        yield at, value
        for name, field in type(value).model_fields.items():
            yield from parts_below(getattr(value, name), (*at, field.alias or name))
    elif isinstance(value, tuple):
        for place, item in enumerate(value):
            yield from parts_below(item, (*at, place))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from parts_below(item, (*at, key))


def keys_of(part: Part) -> Iterator[Key]:
    """Every key of a part and of the parts below it."""
    for at, below in parts_below(part):
        for name, field in type(below).model_fields.items():
            given = name in below.model_fields_set
            yield Key((*at, field.alias or name), name, field, getattr(below, name), given)


def secret_files(part: Part) -> Iterator[tuple[Location, Path]]:
    """Every secret file of a part and of the parts below it, with its key."""
    for key in keys_of(part):
        if isinstance(key.value, Path) and (_is_secret(key.field.annotation) or _marked(key.field.metadata)):
            yield key.location, key.value


def _is_secret(annotation: object) -> bool:
    """`SecretFile | None`: the mark is on one member of the union."""
    if get_origin(annotation) is Annotated:
        return _marked(list(get_args(annotation)[1:]))
    members = get_args(annotation) if isinstance(annotation, UnionType) or get_origin(annotation) else ()
    return any(_is_secret(member) for member in members)


def _marked(metadata: list[object]) -> bool:
    return any(isinstance(mark, Secret) for mark in metadata)


def principal(text: str) -> str:
    """The principal. ValueError for one that no client can have."""
    found = written_principal(text)
    if found.name == "*":
        raise ValueError(f"{text!r}: this list has no wildcards; write the principals one by one")
    return str(found)


def principals(text: str) -> tuple[str, ...]:
    """The principals in `User:a;User:b`. ValueError for an invalid one."""
    return tuple(principal(name) for name in principal_names(text))


def _joined(value: object) -> object:
    """Convert a YAML list to Kafka's notation."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return ";".join(value)
    return value


def _are_principals(text: str) -> str:
    for name in principals(text):
        after_comma = name.partition(",")[2].lstrip()
        if after_comma.startswith("User:"):
            raise ValueError(
                f"{name!r} contains a comma, which is part of a user's name;"
                " separate principals by semicolons: User:a;User:b"
            )
    return text


PrincipalsText = Annotated[str, BeforeValidator(_joined), AfterValidator(_are_principals)]
"""`User:a;User:b`, or a list."""
