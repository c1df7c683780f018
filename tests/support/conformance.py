"""Turns the tests' spec markers into build/conformance.md: for every requirement, the tests that prove it.

Reads docs/spec.md for the requirements and the test files' syntax trees for the markers, so nothing is
imported or run. `python -m tests.support.conformance` writes the list, and its summary at the end of
docs/spec.md, which a test holds up to date.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "docs" / "spec.md"
LIST = ROOT / "build" / "conformance.md"
TESTS = ROOT / "tests"

INTRODUCTION = """\
# What is proven, and by which tests

Written by `make conformance` from the tests' `@pytest.mark.spec(...)` markers and
[spec.md](../docs/spec.md); do not edit. A test listed under an id proves a part of that requirement, not
always all of it; *not yet* means that no test names the id. Tests marked *Kafka* run against a real
Apache Kafka, those marked *Spark* in a real Spark session; those marked *long* are run by
`make test-all` only. A requirement that only such tests prove says so.
"""

SUMMARY_INTRODUCTION = """
## What is proven

Written by `make conformance`; do not edit. It counts the requirements of this page that tests
name, and names those that no test or only tests of `make test-all` name. `build/conformance.md`, written by
the same command, lists the tests of each.

| part | requirements | named by tests | by long tests only | not yet |
|---|---|---|---|---|
"""

_SECTION = re.compile(r"## (?P<title>[A-Z]: .*)")
_ROW = re.compile(r"\| (?P<id>[A-Z]\d+) \| (?P<text>.*?) \|")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One row of docs/spec.md. `section` is its heading, such as "Q: quotas (KIP-55)"."""

    id: str
    section: str
    text: str


@dataclass(frozen=True, slots=True, order=True)
class MarkedTest:
    """One test function. `path` is relative to the checkout, `marks` the names of its pytest marks."""

    path: str
    line: int
    name: str
    spec_ids: tuple[str, ...]
    marks: frozenset[str]


def requirements(spec_text: str) -> list[Requirement]:
    """The rows of the tables of docs/spec.md, in their order."""
    found: list[Requirement] = []
    section = ""
    for line in spec_text.splitlines():
        if heading := _SECTION.match(line):
            section = heading["title"]
        elif row := _ROW.match(line):
            found.append(Requirement(row["id"], section, row["text"]))
    return found


def marked_tests(tests_root: Path) -> list[MarkedTest]:
    """Every test function below `tests_root`, also those without any marker."""
    paths = sorted(tests_root.rglob("test_*.py"))
    return [test for path in paths for test in _tests_of(path, path.relative_to(tests_root.parent))]


def _tests_of(path: Path, shown_path: Path) -> Iterator[MarkedTest]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    module_marks = list(_module_marks(tree))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            marks = module_marks + [mark for decorator in node.decorator_list for mark in _marks(decorator)]
            spec_ids = tuple(spec_id for name, ids in marks if name == "spec" for spec_id in ids)
            names = frozenset(name for name, _ in marks)
            yield MarkedTest(shown_path.as_posix(), node.lineno, node.name, spec_ids, names)


def _module_marks(tree: ast.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
        ):
            elements = node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]
            for element in elements:
                yield from _marks(element)


def _marks(expression: ast.expr) -> Iterator[tuple[str, tuple[str, ...]]]:
    """`pytest.mark.NAME` or `pytest.mark.NAME("a", "b")` as (NAME, (a, b)); nothing for other expressions."""
    call = expression if isinstance(expression, ast.Call) else None
    function = call.func if call else expression
    arguments = call.args if call else []
    if isinstance(function, ast.Attribute) and ast.unparse(function.value) == "pytest.mark":
        constants = (argument.value for argument in arguments if isinstance(argument, ast.Constant))
        yield function.attr, tuple(str(constant) for constant in constants)


def page(rows: list[Requirement], tests: list[MarkedTest]) -> str:
    """The whole text of build/conformance.md."""
    proven = {row.id for row in rows if any(row.id in test.spec_ids for test in tests)}
    parts = [INTRODUCTION, f"{len(proven)} of {len(rows)} requirements are named by at least one test.\n"]
    for section, members in groupby(rows, key=lambda row: row.section):
        parts.append(f"## {section}\n")
        parts.extend(_entry(row, [test for test in tests if row.id in test.spec_ids]) for row in members)
    return "\n".join(parts)


def _entry(row: Requirement, tests: list[MarkedTest]) -> str:
    lines = [f"### {row.id}", "", row.text, ""]
    if not tests:
        lines.append("*not yet*")
    elif all("long" in test.marks for test in tests):
        lines += ["*Proven by `make test-all` only.*", ""]
    for path, members in groupby(tests, key=lambda test: test.path):
        lines.append(f"- [{path}](../{path})")
        lines.extend(f"  - `{test.name}`{_surroundings(test)}" for test in members)
    return "\n".join(lines) + "\n"


def _surroundings(test: MarkedTest) -> str:
    kinds = [
        kind
        for mark, kind in (("kafka", "Kafka"), ("spark", "Spark"), ("long", "long"))
        if mark in test.marks
    ]
    return f" (*{', '.join(kinds)}*)" if kinds else ""


def summary(rows: list[Requirement], tests: list[MarkedTest]) -> str:
    """The last section of docs/spec.md."""
    lines = []
    for section, members in groupby(rows, key=lambda row: row.section):
        of = {row.id: [test for test in tests if row.id in test.spec_ids] for row in members}
        long = [row for row, found in of.items() if found and all("long" in test.marks for test in found)]
        missing = [row for row, found in of.items() if not found]
        counts = f"{len(of)} | {len(of) - len(missing)}"
        lines.append(f"| {section} | {counts} | {', '.join(long)} | {', '.join(missing)} |\n")
    return SUMMARY_INTRODUCTION + "".join(lines)


def with_summary(text: str, rows: list[Requirement], tests: list[MarkedTest]) -> str:
    """docs/spec.md with the summary as its last section."""
    head = SUMMARY_INTRODUCTION.partition("\n\n")[0]
    return text.partition(head)[0] + summary(rows, tests)


def requirements_and_tests() -> tuple[list[Requirement], list[MarkedTest]]:
    return requirements(SPEC.read_text(encoding="utf-8")), marked_tests(TESTS)


if __name__ == "__main__":
    found = requirements_and_tests()
    LIST.parent.mkdir(exist_ok=True)
    LIST.write_text(page(*found), encoding="utf-8")
    SPEC.write_text(with_summary(SPEC.read_text(encoding="utf-8"), *found), encoding="utf-8")
