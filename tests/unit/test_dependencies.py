"""What the product imports is declared in pyproject.toml, as a dependency or in the extra of that part."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("proxy", "forwarding", "spark_audit")
EXTRAS = {
    "spark_audit/": "spark",
    "proxy/net/logins/kerberos.py": "gssapi",
    "proxy/net/telemetry/otlp.py": "otel",
}
"""Where what an extra brings may be imported."""
FROM_AN_INDEX = re.compile(r"pip install (-\S+ )*['\"]?penstock(?!-(?:VERSION|[\d.]+)-py3-none-any\.whl)")

PROJECT: Mapping[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NOT_INSTALLED = {"gssapi": ["gssapi"]}
"""Left out of the lock files."""

pytestmark = pytest.mark.spec("O5")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[^A-Za-z0-9._-]", each)[0]) for each in requirements}


def imported() -> Iterator[tuple[str, str]]:
    """Path and top-level module, for what is neither ours nor Python's own."""
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                for name in names_in(node):
                    top = name.partition(".")[0]
                    if top not in PRODUCT and top not in sys.stdlib_module_names:
                        yield path.relative_to(ROOT).as_posix(), top


def names_in(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        return [node.module]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        return [
            each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ]
    return []


def test_every_import_is_declared() -> None:
    distributions = {**packages_distributions(), **NOT_INSTALLED}
    always = declared(PROJECT["project"]["dependencies"])
    extras = PROJECT["project"]["optional-dependencies"]

    undeclared = set()
    for path, module in imported():
        extra = next((name for place, name in EXTRAS.items() if path.startswith(place)), None)
        known = always | (declared(extras[extra]) if extra else set())
        if not known & {normal(name) for name in distributions.get(module, [])}:
            undeclared.add((path, module))

    assert undeclared == set()


def test_every_example_is_in_the_wheel() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["proxy"]
    examples = [path for path in (ROOT / "proxy" / "examples").rglob("*") if path.is_file()]

    names = [path.relative_to(ROOT / "proxy").as_posix() for path in examples]

    assert [name for name in names if not any(fnmatch(name, pattern) for pattern in patterns)] == []
    assert len(names) >= 7


def test_nothing_says_that_an_index_has_the_project() -> None:
    """`pip install penstock` finds nothing, or somebody else's project of that name."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "deploy").rglob("*.md")]
    sources = [
        path for package in ("proxy", "forwarding", "spark_audit") for path in (ROOT / package).rglob("*.*")
    ]

    wrong = [
        path.relative_to(ROOT).as_posix()
        for path in [*pages, *sources]
        if path.suffix not in (".pyc", ".svg") and FROM_AN_INDEX.search(path.read_text(encoding="utf-8"))
    ]

    assert wrong == []


def test_the_readme_names_every_extra_that_a_user_may_want() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    extras = set(PROJECT["project"]["optional-dependencies"]) - {"build", "dev"}

    assert {extra for extra in extras if f"'.[{extra}]'" not in readme} == set()
