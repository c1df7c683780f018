"""docs/: the pages that repeat what the code says, say the same."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from proxy.audit.record import DATA_FIELDS
from proxy.config import ProxyConfig, UsersFile

ROOT = Path(__file__).resolve().parents[2]


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
    assert (keys(ProxyConfig) | keys(UsersFile)) - explained - {"users", "password.hash"} == set()


@pytest.mark.spec("D2")
def test_every_field_of_an_audit_record_is_explained() -> None:
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    section = page.partition("## Fields of data")[2].partition("\n## ")[0]
    explained = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))

    assert explained == set(DATA_FIELDS)
