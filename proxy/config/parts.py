"""What all settings are made of: a part with Kafka's names, addresses, paths; and how a file becomes one.

Stood on by the other files of proxy.config and by forwarding.config. An unknown key is an error, a path is
relative to the file that names it, and all errors are told at once.
"""

from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo
from pydantic.functional_validators import AfterValidator


class ConfigError(Exception):
    """The file cannot be used; the message names the file and each key that is wrong."""


def _host_port(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"expected host:port, found {text!r}")
    return text


def split_host_port(text: str) -> tuple[str, int]:
    """'[::1]:9092' or 'localhost:9092' as the pair that sockets take."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


HostPort = Annotated[str, AfterValidator(_host_port)]
Milliseconds = Annotated[int, Field(ge=0)]


def _kafka_name(field: str) -> str:
    return field.replace("_", ".")


class Part(BaseModel):
    """A part of the file: keys are the field's name with dots, unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_kafka_name)


def _relative(path: Path, info: ValidationInfo) -> Path:
    base = (info.context or {}).get("directory", Path())
    return path if path.is_absolute() else Path(base) / path


FilePath = Annotated[Path, AfterValidator(_relative)]


def _existing(path: Path, info: ValidationInfo) -> Path:
    path = _relative(path, info)
    if not path.is_file():
        raise ValueError(f"no such file: {path}")
    return path


ExistingFile = Annotated[Path, AfterValidator(_existing)]
PartType = TypeVar("PartType", bound=Part)


def load(path: Path, part: type[PartType]) -> PartType:
    """The file as `part`; ConfigError lists every key that is wrong."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    return parse(path, content, part)


def parse(path: Path, content: bytes, part: type[PartType]) -> PartType:
    """The same of a file that was read already; `path` is what errors name and paths are relative to."""
    try:
        document = yaml.safe_load(content.decode())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: expected a mapping of settings, found {type(document).__name__}")
    try:
        return part.model_validate(document, context={"directory": path.resolve().parent})
    except ValidationError as error:
        lines = [f"{path}: {_place(item['loc'])}: {item['msg']}" for item in error.errors()]
        raise ConfigError("\n".join(lines)) from error


def _place(location: tuple[Any, ...]) -> str:
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else (f" > {step}" if text else str(step))
    return text or "(the whole file)"
