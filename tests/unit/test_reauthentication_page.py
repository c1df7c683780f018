"""Each row about re-authentication in docs/spec.md names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "spec.md"
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def rows() -> list[str]:
    section = PAGE.read_text(encoding="utf-8").partition("\n## Re-authentication, in detail\n")[2]
    lines = section.partition("\n## ")[0].splitlines()
    heads = ("| requirement |", "| feature |", "|---")
    return [line for line in lines if line.startswith("|") and not line.startswith(heads)]


def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}


@pytest.mark.tooling
def test_every_row_names_a_test_and_every_test_is_there() -> None:
    named = {row: NAMED.findall(row) for row in rows()}

    assert len(named) > 25
    assert [row for row, tests in named.items() if not tests] == []
    missing = {
        f"{path}::{name}"
        for tests in named.values()
        for path, name in tests
        if name not in functions_of(path)
    }
    assert missing == set()
