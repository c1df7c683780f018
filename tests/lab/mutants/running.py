"""Runs each mutant in a process of its own: the module as changed, and the tests that run its line."""

import importlib
import os
import select
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from time import perf_counter
from types import CodeType

import pytest

from tests.lab.mutants.covering import DETERMINISTIC, OPTIONS, Covered
from tests.lab.mutants.making import Mutant

CAUGHT, SURVIVED, TIMED_OUT, NOT_COVERED = "caught", "survived", "timed out", "not covered"
BROKEN = "broken"
"""Its tests could not be run to the end: proves nothing. The process's exit code follows in brackets."""
NO_TEST_RUNS_SO_LONG_S = 60.0
"""Beside ten times what the tests took without a mutant."""
LOOK_AGAIN_S = 1.0
"""For mutants that are past their limit, while none ends."""
NOT_RUN = 70
FAILED = (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
"""With -x, a module that cannot be imported interrupts the run."""
PRELOADING = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
PRELOADED = (
    "aiokafka",
    "cryptography.x509",
    "greenlet",
    "hypothesis",
    "joserfc",
    "prometheus_client",
    "pydantic",
    "structlog",
    "uvloop",
    "yaml",
)
"""What every test imports and no mutant changes: imported once, before the processes are forked."""


@dataclass(frozen=True)
class Result:
    """What became of a mutant."""

    mutant: Mutant
    outcome: str
    tests: int
    """How many tests run its line."""


@dataclass
class _Running:
    mutant: Mutant
    pid: int
    ends: int
    """A descriptor that can be read once the process has ended."""
    tests: int
    deadline_s: float
    killed: bool = field(default=False)


def run(mutants: Sequence[Mutant], covered: Covered, processes: int) -> Iterator[Result]:
    """The result of each mutant, in the order in which they end."""
    for name in PRELOADED:
        importlib.import_module(name)
    sources = {mutant.path: Path(mutant.path).read_text(encoding="utf-8") for mutant in mutants}
    left, running = list(reversed(mutants)), list[_Running]()
    while left or running:
        while left and len(running) < processes:
            mutant = left.pop()
            tests = covered.tests(mutant.path, sources[mutant.path], mutant.line)
            if tests:
                running.append(_start(mutant, tests, covered.seconds))
            else:
                yield Result(mutant, NOT_COVERED, 0)
        select.select([each.ends for each in running], [], [], LOOK_AGAIN_S)
        yield from _ended(running)


def _start(mutant: Mutant, tests: Sequence[str], seconds: Mapping[str, float]) -> _Running:
    pid = os.fork()
    if pid == 0:
        _run_tests(mutant, tests)
    limit_s = NO_TEST_RUNS_SO_LONG_S + 10 * sum(seconds[test] for test in tests)
    return _Running(mutant, pid, os.pidfd_open(pid), len(tests), perf_counter() + limit_s)


def _ended(running: list[_Running]) -> Iterator[Result]:
    for each in list(running):
        pid, status = os.waitpid(each.pid, os.WNOHANG)
        if pid:
            running.remove(each)
            os.close(each.ends)
            code = os.waitstatus_to_exitcode(status)
            outcome = SURVIVED if code == 0 else CAUGHT if code in FAILED else f"{BROKEN} ({code})"
            yield Result(each.mutant, TIMED_OUT if each.killed else outcome, each.tests)
        elif perf_counter() > each.deadline_s and not each.killed:
            each.killed = True
            # Its group: with the processes that its tests have started.
            with suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)


def _run_tests(mutant: Mutant, tests: Sequence[str]) -> None:
    """In the forked process. The exit code is pytest's: 0 if no test fails."""
    outcome = NOT_RUN
    try:
        os.setsid()
        silence = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(silence, descriptor)
        sys.meta_path.insert(0, _Changed(mutant))
        outcome = _outcome(tests)
        if outcome == pytest.ExitCode.USAGE_ERROR:
            # A test is not found by its id: its module cannot be imported, or its parameters are others.
            outcome = _outcome(sorted({test.partition("::")[0] for test in tests}))
    finally:
        # Not sys.exit: what a test has left running would keep the process.
        os._exit(outcome)


def _outcome(tests: Sequence[str]) -> int:
    return int(pytest.main([*OPTIONS, *DETERMINISTIC, *PRELOADING, "-x", *tests]))


class _Changed(MetaPathFinder):
    """Finds the module of the mutant, with the mutant's source."""

    def __init__(self, mutant: Mutant) -> None:
        path = Path(mutant.path)
        self._file = path.resolve()
        parts = path.with_suffix("").parts
        self._module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        self._loader = _Loader(self._module, str(self._file), mutant.source)

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        """The spec of that one module; None for all others, which the other finders find."""
        if fullname != self._module:
            return None
        return spec_from_file_location(fullname, self._file, loader=self._loader)


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, source: str) -> None:
        super().__init__(fullname, path)
        self._changed = source

    def get_code(self, fullname: str) -> CodeType:
        """Of the changed source; not from the cache of compiled files, and not into it."""
        return compile(self._changed, self.path, "exec", dont_inherit=True)
