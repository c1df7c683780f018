"""docs/: the pages that repeat what the code says, say the same."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from forwarding.config import ControllerConfig
from proxy.audit.events import EVENTS
from proxy.audit.record import DATA_FIELDS
from proxy.config import ProxyConfig, UsersFile
from proxy.config.effects import Effect
from tests.support import reload_column

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"`([^`]+)`")


def parts(annotation: object) -> Iterator[type[BaseModel]]:
    """The models that a field's annotation names, at any depth of unions and containers."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from parts(argument)


def keys(model: type[BaseModel]) -> set[str]:
    own = {field.alias or name for name, field in model.model_fields.items()}
    return own.union(
        *(keys(part) for field in model.model_fields.values() for part in parts(field.annotation))
    )


def explained_keys(page: Path) -> set[str]:
    """What the first columns of a page's tables name, and what each is without its parents."""
    cells = re.findall(r"^\| (`[^|]*) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    paths = [name.split(".") for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    return {".".join(steps[i:j]) for steps in paths for j in range(len(steps) + 1) for i in range(j)}


@pytest.mark.spec("O5")
def test_every_key_of_the_configuration_is_explained() -> None:
    explained = explained_keys(ROOT / "docs" / "configuration.md")

    # `users` is the one key of the users' file itself, shown there by an example.
    assert (keys(ProxyConfig) | keys(ControllerConfig) | keys(UsersFile)) - explained - {
        "users",
        "password.hash",
    } == set()


def defaults(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Key -> default as it is written in YAML, for what has one."""
    for name, field in model.model_fields.items():
        if isinstance(field.default, bool | int | float | str):
            text = str(field.default)
            yield field.alias or name, text.lower() if isinstance(field.default, bool) else text
        for part in parts(field.annotation):
            yield from defaults(part)


@pytest.mark.spec("O5")
def test_every_default_of_the_configuration_is_told_as_it_is() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", page, re.MULTILINE)
    real = {*defaults(ProxyConfig), *defaults(ControllerConfig)}
    names = {key: {".".join(key.split(".")[i:]) for i in range(key.count(".") + 1)} for key, _ in told}

    # A default that is the value of another key (`bind`) is told by that key's name.
    wrong = [
        (key, value)
        for key, value in told
        if value != "bind" and not any((name, value) in real for name in names[key])
    ]

    assert wrong == []
    assert len(told) > 20, "the pattern no longer finds the rows"


@pytest.mark.spec("D2")
def test_every_field_of_an_audit_record_is_explained() -> None:
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    section = page.partition("## Fields of data")[2].partition("\n## ")[0]
    explained = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))

    assert explained == set(DATA_FIELDS)


@pytest.mark.spec("D1")
def test_every_event_is_explained() -> None:
    section = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8").partition("\n## Events")[2]
    explained = {
        name for row in re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE) for name in CODE.findall(row)
    }
    sources = [
        path.read_text(encoding="utf-8")
        for part in ("proxy", "forwarding")
        for path in (ROOT / part).rglob("*.py")
    ]
    named = {name for source in sources for name in re.findall(r'AuditEvent\(\s*event="(\w+)"', source)}

    assert {*EVENTS, *named} - explained == set()


@pytest.mark.spec("O9")
def test_the_page_says_of_every_key_when_a_change_takes_effect() -> None:
    page = reload_column.PAGE.read_text(encoding="utf-8")

    assert reload_column.with_column(page) == page, "python -m tests.support.reload_column"
    effects = re.findall(r"^\| `[^|]* \| [^|]* \| (\w[^|]*) \| ", page, re.MULTILINE)
    assert set(effects) == {str(effect) for effect in Effect}
    assert len(effects) > 120, "the pattern no longer finds the rows"
