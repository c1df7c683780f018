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
from proxy.session.gate import MAX_REMEMBERED, MAX_SHARE_PARTITIONS, REMEMBERED_BYTES, SHARE_PARTITION_BYTES
from tests.support import configuration_page

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
    of_files = keys(ProxyConfig) | keys(ControllerConfig) | keys(UsersFile)
    assert of_files - explained - {"users"} == set()


@pytest.mark.spec("O5", "O9")
def test_the_tables_of_the_configuration_are_made_from_its_fields() -> None:
    page = configuration_page.PAGE.read_text(encoding="utf-8")

    assert configuration_page.with_tables(page) == page, "python -m tests.support.configuration_page"


@pytest.mark.spec("O5")
@pytest.mark.parametrize("example", configuration_page.EXAMPLES)
def test_the_comments_of_an_example_are_made_from_the_fields(example: str) -> None:
    text = (ROOT / "proxy" / "examples" / example).read_text(encoding="utf-8")
    written = configuration_page.with_comments(text, configuration_page.EXAMPLES[example])

    assert written == text, "python -m tests.support.configuration_page"


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


@pytest.mark.spec("O8")
def test_the_memory_of_sessions_is_documented_as_it_is_limited() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8").replace("\n  ", " ")

    decisions, sessions = MAX_REMEMBERED * REMEMBERED_BYTES, MAX_SHARE_PARTITIONS * SHARE_PARTITION_BYTES
    assert f"decisions, {decisions // 1_000_000} MB at most" in page
    assert f"share sessions, {sessions // 1_000_000} MB at most" in page


@pytest.mark.tooling
def test_each_decision_has_one_row() -> None:
    decisions = ROOT / "docs" / "decisions"
    page = (decisions / "README.md").read_text(encoding="utf-8")

    rows = re.findall(r"^\| \[\d{4}\]\((\S+)\)", page, re.MULTILINE)

    assert sorted(rows) == sorted(each.name for each in decisions.glob("0*.md"))
