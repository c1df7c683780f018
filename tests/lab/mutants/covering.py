"""Which tests run which line: coverage.py with one context for each test."""

import ast
import json
import multiprocessing
import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import coverage
import pytest

OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not (kafka or long)")
SPARK = "tests/spark/"
DETERMINISTIC = ("--hypothesis-seed=0",)


class TestsFailed(Exception):
    """The tests fail without any mutant."""


@dataclass(frozen=True)
class Covered:
    """What the tests run."""

    lines: dict[str, dict[int, list[str]]]
    """Path of the file -> line -> node ids of the tests that run it."""
    seconds: dict[str, float]
    """Node id -> how long the test took."""

    def tests(self, path: str, source: str, line: int) -> list[str]:
        """Node ids of the tests that run the statement on that line, the shortest first."""
        of_file = self.lines.get(path, {})
        found = {test for each in statement_lines(source, line) for test in of_file.get(each, ())}
        # Plans of Spark are made by a fixture of the module, in the first test that uses it.
        modules = {test.partition("::")[0] for test in found if test.startswith(SPARK)}
        found |= {test for test in self.seconds if test.partition("::")[0] in modules}
        return sorted(found, key=lambda test: (self.seconds[test], test))


def statement_lines(source: str, line: int) -> range:
    """The lines of the innermost statement there; of an `if` or a `for` only those before its body."""
    found = range(line, line + 1)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt):
            continue
        body = getattr(node, "body", None)
        stop = body[0].lineno if isinstance(body, list) else (node.end_lineno or node.lineno) + 1
        lines = range(node.lineno, max(stop, node.lineno + 1))
        if line in lines:
            # A function's own `def` runs when the module is imported: its body tells who calls it.
            found = range(node.lineno, (node.end_lineno or line) + 1) if _defines(node) else lines
    return found


def _defines(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


class _Contexts:
    """A plugin of pytest that tells coverage.py which test is running."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        started = perf_counter()
        self._measured.switch_context(item.nodeid)
        result = yield
        self._measured.switch_context("")
        self.seconds[item.nodeid] = perf_counter() - started
        return result


def collect(files: Sequence[str], tests: Sequence[str], processes: int, directory: Path) -> Covered:
    """Run the tests, each process a part of their files; TestsFailed unless all pass."""
    modules = [path for each in tests for path in _modules(Path(each))]
    parts = [modules[number::processes] for number in range(processes)]
    running = []
    for number, part in enumerate(parts):
        where = directory / f"covered-{number}.json"
        where.unlink(missing_ok=True)
        running.append(multiprocessing.Process(target=_collect_part, args=(files, part, where)))
        running[-1].start()
    for process in running:
        process.join()
    if any(process.exitcode for process in running):
        raise TestsFailed("the tests fail without any mutant: see their output above")
    covered = Covered({}, {})
    for number in range(len(parts)):
        document = json.loads((directory / f"covered-{number}.json").read_text())
        covered.seconds.update(document["seconds"])
        for path, lines in document["lines"].items():
            for line, found in lines.items():
                covered.lines.setdefault(path, {}).setdefault(int(line), []).extend(found)
    return covered


def _modules(path: Path) -> list[str]:
    return [str(path)] if path.is_file() else sorted(map(str, path.rglob("test_*.py")))


def _collect_part(files: Sequence[str], modules: Sequence[str], where: Path) -> None:
    measured = coverage.Coverage(
        data_file=None, config_file=False, include=list(files), concurrency=["thread", "greenlet"]
    )
    measured.start()
    contexts = _Contexts(measured)
    failed = pytest.main([*OPTIONS, *DETERMINISTIC, *modules], plugins=[contexts])
    measured.stop()
    data, lines = measured.get_data(), {}
    for name in data.measured_files():
        by_line = data.contexts_by_lineno(name)
        lines[os.path.relpath(name)] = {
            line: [test for test in found if test] for line, found in by_line.items()
        }
    where.write_text(json.dumps({"lines": lines, "seconds": contexts.seconds}))
    # Not sys.exit: what tests have left running, threads above all, would keep the process.
    os._exit(int(failed))
