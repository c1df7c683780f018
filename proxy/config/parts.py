"""What all settings are made of: a part with Kafka's names, addresses, paths, lists; and problems with them.

Stood on by the other files of proxy.config and by forwarding.config; proxy.config.reading makes a file of
them. An unknown key is an error, and a path is relative to the file that names it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, ClassVar, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo
from pydantic.functional_validators import AfterValidator, BeforeValidator

from proxy.config.document import Location


class ConfigError(Exception):
    """The file cannot be used; the message names the file and each key that is wrong."""


class KeyProblem(ValueError):
    """What is wrong with a key, raised where several parts are compared; `location` is below the part."""

    def __init__(self, location: Location, message: str) -> None:
        self.location = location
        super().__init__(message)


class KeyProblems(ValueError):
    """Several of them at once."""

    def __init__(self, problems: list[ValueError]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


def all_of(*checks: Callable[[], object]) -> None:
    """Run every check; KeyProblems with what each raised, so that none hides behind another."""
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


def host_port(text: str) -> str:
    """The same; ValueError when it is not host:port."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"expected host:port, found {text!r}")
    if "," in host:
        raise ValueError(f"expected one host:port, found {text!r}")
    return text


def split_host_port(text: str) -> tuple[str, int]:
    """'[::1]:9092' or 'localhost:9092' as the pair that sockets take."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def comma_list(value: object) -> object:
    """Kafka's lists are separated by commas, those of YAML are lists; both are read."""
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value


def principal_list(value: object) -> object:
    """Kafka's lists of principals are separated by semicolons, as distinguished names contain commas."""
    return principal_names(value) if isinstance(value, str) else value


def principal_names(text: str) -> list[str]:
    """The names in `User:a;User:b`."""
    return [item.strip() for item in text.split(";") if item.strip()]


def _as_text(value: object) -> object:
    """A setting of a plug-in as Kafka hands it over: text, whatever YAML takes it for."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _not_empty(value: object) -> object:
    # Not Field(min_length=1): that counts what is left when wrong items have been taken out.
    if not value:
        raise ValueError("at least one is needed")
    return value


Listed = BeforeValidator(comma_list)
NotEmpty = AfterValidator(_not_empty)
HostPort = Annotated[str, AfterValidator(host_port)]
Milliseconds = Annotated[int, Field(ge=0)]
PluginSettings = dict[str, Annotated[str, BeforeValidator(_as_text)]]
"""What a plug-in's `configure` gets."""


def kafka_name(field: str) -> str:
    """The key of a field of a part."""
    return field.replace("_", ".")


def without(prefix: str) -> ConfigDict:
    """The configuration of a part whose fields have Kafka's full names: keys do not repeat its name."""
    return ConfigDict(alias_generator=lambda field: kafka_name(field.removeprefix(prefix)))


class Part(BaseModel):
    """A part of the file: keys are the field's name with dots, unknown ones are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=kafka_name, defer_build=True)
    repeated: ClassVar[str] = ""
    """What keys of this part began with in files of old: `quota.` in `quota: {quota.mode: observe}`."""


def _relative(path: Path, info: ValidationInfo) -> Path:
    base = (info.context or {}).get("directory", Path())
    return path if path.is_absolute() else Path(base) / path


FilePath = Annotated[Path, AfterValidator(_relative)]


def _existing(path: Path, info: ValidationInfo) -> Path:
    path = _relative(path, info)
    if not path.is_file():
        what = "a directory, not a file" if path.is_dir() else "no such file"
        raise ValueError(f"{what}: {path}")
    return path


class Secret:
    """Marks a file that only we may read."""


ExistingFile = Annotated[Path, AfterValidator(_existing)]
SecretFile = Annotated[Path, AfterValidator(_existing), Secret()]
PartType = TypeVar("PartType", bound=Part)


def parts_in(annotation: object) -> Iterator[type[Part]]:
    """The parts that a field's annotation names, at any depth of unions and containers."""
    if isinstance(annotation, type) and get_origin(annotation) is None and issubclass(annotation, Part):
        yield annotation
    for argument in get_args(annotation):
        yield from parts_in(argument)


def secret_files(part: Part, at: Location = ()) -> Iterator[tuple[Location, Path]]:
    """Every file of a part and of those below it that only we may read, with the key that names it."""
    for name, field in type(part).model_fields.items():
        value, location = getattr(part, name), (*at, field.alias or name)
        if isinstance(value, Path) and (_is_secret(field.annotation) or _marked(field.metadata)):
            yield location, value
        yield from _secrets_below(value, location)


def _secrets_below(value: object, at: Location) -> Iterator[tuple[Location, Path]]:
    if isinstance(value, Part):
        yield from secret_files(value, at)
    elif isinstance(value, tuple):
        for place, item in enumerate(value):
            yield from _secrets_below(item, (*at, place))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _secrets_below(item, (*at, key))


def _is_secret(annotation: object) -> bool:
    """`SecretFile | None`: the mark is on one member of the union."""
    if get_origin(annotation) is Annotated:
        return _marked(list(get_args(annotation)[1:]))
    members = get_args(annotation) if isinstance(annotation, UnionType) or get_origin(annotation) else ()
    return any(_is_secret(member) for member in members)


def _marked(metadata: list[object]) -> bool:
    return any(isinstance(mark, Secret) for mark in metadata)
