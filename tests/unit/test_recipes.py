"""The recipes of CONTRIBUTING.md, tried on what is there: how many files an API is spread over."""

import ast
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from proxy.session.apis.table import FORWARDED, TABLE, collected
from proxy.wire.api_keys import ApiKey

pytestmark = pytest.mark.tooling

ROOT = Path(__file__).resolve().parents[2]
OWN_REQUESTS = {
    "proxy/commands/connection_check.py",
    "proxy/net/audit/delivery.py",
    "proxy/net/kafka/own_topic_watch.py",
    "proxy/net/kafka/topic_leaders.py",
    "proxy/net/kafka/user_tokens.py",
    "proxy/session/apis/topic_existence.py",
    "forwarding/net/broker.py",
    # Audit events of what the controller removes by itself.
    "forwarding/controller/audit_events.py",
}
"""Files that name an API because Penstock itself makes such requests."""
FOR_ALL_APIS = {"proxy.admin.authorization", "proxy.admin.rejection"}


def files_by_api() -> dict[ApiKey, list[Path]]:
    """The product files that have to know of each API, as `ApiKey.NAME` in their code."""
    files: dict[ApiKey, list[Path]] = {key: [] for key in ApiKey}
    for package in ("proxy", "forwarding"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.relative_to(ROOT).as_posix() in OWN_REQUESTS:
                continue
            named = {
                node.attr
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                if isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "ApiKey"
                and node.attr in ApiKey.__members__
            }
            for name in named:
                files[ApiKey[name]].append(path)
    return files


def rules_of(path: Path) -> set[str]:
    """The modules of proxy.admin about one subject that a file stands on."""
    imports = [
        node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)
    ]
    modules = {node.module or "" for node in imports}
    return {module for module in modules if module.startswith("proxy.admin.")} - FOR_ALL_APIS


def test_a_forwarded_api_is_in_three_product_files_at_most() -> None:
    files = files_by_api()

    spread = {}
    for key in FORWARDED:
        rules = Counter(rule for path in files[key] for rule in rules_of(path))
        shared = sorted(rule for rule, count in rules.items() if count > 1)
        spread[key.name] = [*(path.relative_to(ROOT).as_posix() for path in files[key]), *shared]

    assert {name: places for name, places in spread.items() if not 1 <= len(places) <= 3} == {}


def test_any_other_administrative_api_is_in_one_product_file() -> None:
    files = files_by_api()
    others = [api.key for api in TABLE.values() if api.admin not in ("", "controller")]

    assert {key.name: files[key] for key in others if len(files[key]) != 1} == {}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with the row of one API, and with a file that has none."""
    package = tmp_path / f"apis_of_{tmp_path.name}"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "order.py").touch()
    (package / "groups.py").write_text(ROW)
    monkeypatch.syspath_prepend(tmp_path)
    return package


ROW = """
from proxy.session.apis.table import TABLE
APIS = (TABLE[15],)
"""


def test_a_new_file_with_a_row_is_all_that_the_table_needs(folder: Path) -> None:
    assert collected(import_module(folder.name), "APIS") == {15: TABLE[ApiKey.DESCRIBE_GROUPS]}


def test_two_rows_for_one_api_stop_the_process_at_its_start(folder: Path) -> None:
    (folder / "same.py").write_text(ROW.replace("TABLE[15]", "__import__('dataclasses').replace(TABLE[15])"))

    with pytest.raises(ValueError, match="DESCRIBE_GROUPS has two rows"):
        collected(import_module(folder.name), "APIS")
