"""The house rules that ruff, mypy and import-linter do not know, over every module of the checkout.

Each test gathers all offences, so that one run names everything that is to be put right.
"""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from proxy.net.runtime.garbage_collector import importing
from tests.support.conformance import SPEC, marked_tests, requirements

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("proxy", "forwarding", "spark_audit", "tests")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")])
LINK = re.compile(r"\[[^]]*\]\((?!\w+:)(?P<path>[^)#]*)(#(?P<anchor>[^)]*))?\)")
LOCK_FILES = ["requirements.lock", "deploy/requirements.lock", "deploy/spark/requirements.lock"]
MAX_ANY = 186
MAX_EVENTS_MADE_DIRECTLY = 1
MAX_PARAMETERS = 7
"""Of a constructor. Records whose fields are named (dataclasses) have as many as they need."""
CONSTRUCTORS_WITH_MORE = 1
"""Only falls: spark_audit.service.service.Service."""
KNOWN_TO_WORK_IN_SLICES = 32
"""Only falls (decisions 0148, 0185): modules that pause work, or count what is done in it."""
THE_SLICES = {"proxy.wire.work", "proxy.net.runtime.chunked"}
PLACEHOLDER_DOCSTRING = "To be mapped."
MAP_LINE = re.compile(r"^(?P<name>\w+)/? {2,}\S", re.MULTILINE)

BANNED_MODULE_NAMES = {"utils", "util", "common", "helpers", "helper", "misc", "base", "manager", "impl"}
BANNED_CLASS_NAMES = re.compile(r"^Abstract\w*$|^\w*(Manager|Helper|Utils|Impl)$|^Handler$")

# Below these, modules may wait, read clocks and log; everything else of proxy/ and forwarding/ is the core.
OUTSIDE_THE_CORE = {"__main__", "app", "commands", "config", "frame", "net", "workers"}

WITH_A_TEXT = {
    "ValueError",
    "Base64Error",
    "ImportError",
    "ModuleNotFoundError",
    "OverflowError",
    "ServerNotTrusted",  # proxy.security.sasl's AuthenticationError.
    "TypeError",
    "UnicodeDecodeError",
    "UnicodeEncodeError",
    "error",  # Of re and struct.
}
"""Exceptions of Python that say what is wrong; Penstock's own do."""

# Said of a test, on purpose: it proves no requirement of docs/spec.md.
TOOLING = "tooling"

pytestmark = pytest.mark.tooling


@cache
def modules() -> dict[str, str]:
    """Path below the checkout -> source, for every Python module of ours."""
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(paths)}


@cache
def trees() -> dict[str, ast.Module]:
    with importing():  # The collector would look at all trees again and again: four times the work.
        return {path: ast.parse(source) for path, source in modules().items()}


def import_contract(name: str) -> dict[str, Any]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    return next(contract for contract in contracts if contract["name"] == name)


def parts_of(package: str) -> Iterator[str]:
    """The modules and packages directly under `package`, by their import names."""
    for path in sorted((ROOT / package).iterdir()):
        if path.suffix == ".py" and path.stem != "__init__":
            yield f"{package}.{path.stem}"
        elif (path / "__init__.py").exists():
            yield f"{package}.{path.name}"


def wrong_lines(package: str, docstring: str) -> set[str]:
    """The names that a package's map lacks, has twice, or has without a module."""
    named = Counter(line["name"] for line in MAP_LINE.finditer(docstring))
    there = Counter(part.rpartition(".")[2] for part in parts_of(package))
    return set((named - there) + (there - named))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_docstrings_of_functions_have_one_mood() -> None:
    """The imperative, as PEP 257 has it: "Return the offset", not "Returns the offset"."""
    verbs = r"(Returns|Yields|Raises|Reads|Writes|Adds|Runs|Sends|Makes|Waits|Warns|Creates|Replaces|Takes) "
    found = [
        f"{path}:{node.lineno}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and re.match(verbs, ast.get_docstring(node) or "")
    ]

    assert found == []


def test_every_module_opens_with_a_docstring_of_its_own() -> None:
    docstrings = {path: ast.get_docstring(tree) for path, tree in trees().items()}
    empty_is_fine = {path for path in modules() if path.startswith("tests/") and not modules()[path]}

    lacking = [
        path
        for path, docstring in docstrings.items()
        if path not in empty_is_fine and docstring in (None, PLACEHOLDER_DOCSTRING)
    ]

    assert lacking == []


def test_the_map_of_a_package_has_one_line_for_each_of_its_modules() -> None:
    """`name  what it is for`, a line each, in the docstring of `__init__`; a package may end in a slash."""
    packages = {
        path.removesuffix("/__init__.py"): ast.get_docstring(tree) or ""
        for path, tree in trees().items()
        if path.endswith("/__init__.py") and not path.startswith("tests/")
    }
    wrong = {package: found for package, map_ in packages.items() if (found := wrong_lines(package, map_))}

    assert wrong == {}


def test_only_one_function_of_the_product_writes_the_flags_of_a_session() -> None:
    writes = [
        f"{path}:{function.name}"
        for path, tree in trees().items()
        if path.startswith(("proxy/", "forwarding/"))
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and node.attr == "flags" and isinstance(node.ctx, ast.Store)
    ]

    assert writes == ["proxy/session/machine.py:move"]


def test_no_module_hides_behind_a_name_without_a_meaning() -> None:
    names = {path: Path(path).stem for path in modules()}

    assert [
        path
        for path, name in names.items()
        if name in BANNED_MODULE_NAMES or (name.startswith("_") and not name.startswith("__"))
    ] == []


def test_a_public_class_has_its_name_alone() -> None:
    """So a stack trace or a search says which class is meant."""
    places: dict[str, list[str]] = {}
    for path, tree in trees().items():
        if not path.startswith("tests/"):
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(path)

    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_no_class_hides_behind_a_name_without_a_meaning() -> None:
    classes = [
        (path, node.name)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]

    assert [found for found in classes if BANNED_CLASS_NAMES.match(found[1])] == []


@pytest.mark.parametrize("package", ["proxy", "forwarding"])
def test_every_part_of_a_package_has_its_layer(package: str) -> None:
    layers = import_contract("Bytes at the bottom, sockets at the top")["layers"]
    named = {name.strip() for layer in layers for name in layer.split("|")}

    # import-linter says nothing of modules that no layer names: they could import anything.
    assert set(parts_of(package)) - named == set()


@pytest.mark.parametrize("package", ["proxy", "forwarding"])
def test_the_core_is_forbidden_to_do_io_in_all_its_parts(package: str) -> None:
    core = {part for part in parts_of(package) if part.rpartition(".")[2] not in OUTSIDE_THE_CORE}

    assert core - set(import_contract("The core does no IO")["source_modules"]) == set()


def test_every_test_names_the_requirements_it_proves() -> None:
    known = {row.id for row in requirements(SPEC.read_text(encoding="utf-8"))}
    tests = marked_tests(ROOT / "tests")

    unmarked = [
        f"{test.path}::{test.name}" for test in tests if not test.spec_ids and TOOLING not in test.marks
    ]
    unknown = {test.name: ids for test in tests if (ids := set(test.spec_ids) - known)}

    assert (unmarked, unknown) == ([], {})


def test_every_test_is_a_function_of_a_module() -> None:
    # The page of conformance is read from functions at module level: a method would be left out of it.
    methods = [
        f"{path}::{node.name}"
        for path, tree in trees().items()
        if Path(path).name.startswith("test_")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and node not in tree.body
    ]

    assert methods == []


def test_audit_events_are_made_by_their_constructors() -> None:
    """Those of the session are still to be converted: their number must only fall."""
    direct = [
        path
        for path, tree in trees().items()
        if not path.startswith(("tests/", "proxy/audit/"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "AuditEvent"
    ]

    assert [path for path in direct if not path.startswith("proxy/session/")] == []
    assert len(direct) <= MAX_EVENTS_MADE_DIRECTLY


def test_the_number_of_any_in_annotations_only_falls() -> None:
    """Lower the limit when you have replaced some: a type, a Protocol, a TypeVar or `object` says more."""
    product = {path: tree for path, tree in trees().items() if not path.startswith("tests/")}
    counts = {
        path: sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(tree))
        for path, tree in product.items()
    }

    assert sum(counts.values()) <= MAX_ANY, {path: count for path, count in counts.items() if count}


def test_the_number_of_constructors_with_many_parameters_only_falls() -> None:
    with_more = [
        f"{path}: {node.name}"
        for path, tree in trees().items()
        if not path.startswith("tests/")
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for made in node.body
        if isinstance(made, ast.FunctionDef)
        and made.name == "__init__"
        and len([*made.args.posonlyargs, *made.args.args, *made.args.kwonlyargs]) - 1 > MAX_PARAMETERS
    ]

    assert len(with_more) <= CONSTRUCTORS_WITH_MORE, with_more


def test_the_number_of_modules_that_know_of_slices_only_falls() -> None:
    known = {
        path
        for path, tree in trees().items()
        if not path.startswith("tests/")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and not THE_SLICES.isdisjoint((node.module, *(f"{node.module}.{each.name}" for each in node.names)))
    }

    assert [path for path in known if path.startswith("forwarding/controller/")] == []
    assert len(known) <= KNOWN_TO_WORK_IN_SLICES, sorted(known)


def test_what_a_foreign_exception_says_is_read_by_one_function() -> None:
    """`text_of` says something for each: many exceptions of connections have no text of their own."""
    product = {path: tree for path, tree in trees().items() if path.startswith(("proxy/", "forwarding/"))}
    own = {
        node.name for tree in product.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    }
    bare = [
        f"{path}:{node.lineno}"
        for path, tree in product.items()
        for handler in ast.walk(tree)
        if isinstance(handler, ast.ExceptHandler) and handler.name and caught(handler) - own - WITH_A_TEXT
        for node in bare_texts(handler, handler.name)
    ]

    assert bare == []


def caught(handler: ast.ExceptHandler) -> set[str]:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {ast.unparse(kind).rpartition(".")[2] for kind in kinds if kind is not None}


def bare_texts(handler: ast.ExceptHandler, name: str) -> Iterator[ast.expr]:
    """The places where the exception itself becomes text, except within `... or "something else"`."""
    nodes = [node for statement in handler.body for node in ast.walk(statement)]
    replaced = {
        id(inner) for node in nodes if isinstance(node, ast.BoolOp | ast.IfExp) for inner in ast.walk(node)
    }
    for node in nodes:
        is_text = isinstance(node, ast.Call) and ast.unparse(node) == f"str({name})"
        is_text |= (
            isinstance(node, ast.FormattedValue)
            and node.conversion == -1
            and (ast.unparse(node.value) == name)
        )
        if is_text and id(node) not in replaced:
            assert isinstance(node, ast.expr)
            yield node


def test_no_test_sleeps_in_a_thread() -> None:
    sleepers = [
        path
        for path, tree in trees().items()
        if path.startswith("tests/")
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and ast.unparse(node) == "time.sleep")
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "time"
            and "sleep" in {n.name for n in node.names}
        )
    ]

    assert sleepers == []


@pytest.mark.parametrize("lock_file", LOCK_FILES)
def test_lock_files_pin_every_package_by_hash_and_name_no_index(lock_file: str) -> None:
    text = (ROOT / lock_file).read_text(encoding="utf-8")
    entries = [line for line in text.splitlines() if line and line[0].isalnum()]

    assert "://" not in text
    assert [entry for entry in entries if not re.fullmatch(r"\S+==\S+( ; .*)? \\", entry)] == []
    assert text.count("--hash=sha256:") >= len(entries)


@pytest.mark.parametrize("lock_file", LOCK_FILES[1:])
def test_images_get_the_versions_that_were_tested(lock_file: str) -> None:
    tested = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    shipped = (ROOT / lock_file).read_text(encoding="utf-8").splitlines()

    assert {line for line in shipped if "==" in line} - set(tested) == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    dead = []
    for link in LINK.finditer(page.read_text(encoding="utf-8")):
        target = (page.parent / link["path"]).resolve() if link["path"] else page
        if not target.exists() or (link["anchor"] and link["anchor"] not in anchors(target)):
            dead.append(link[0])

    assert dead == []


def test_every_decision_is_in_the_list_of_decisions() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text(encoding="utf-8")

    assert [path.name for path in sorted(folder.glob("0*.md")) if f"({path.name})" not in listed] == []
