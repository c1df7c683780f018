"""`python -m tests.lab.mutants --sample 400 --seed 1`: the mutants that no test catches, and the score.

Exit code 1 if fewer are caught than WANTED_PERCENT, 2 if a test fails without any mutant.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from tests.lab.cluster.saying import say
from tests.lab.mutants import covering, making
from tests.lab.mutants.running import CAUGHT, NOT_COVERED, SURVIVED, TIMED_OUT, Result, run

WANTED_PERCENT = 85
_CHECKS = (
    "boots",
    "chain",
    "decisions",
    "explanations",
    "forwarded",
    "gaps",
    "kraft_changes",
    "quotas",
    "sessions",
)
TESTS = (
    *("tests/session", "tests/unit", "tests/property", "tests/net", "tests/contract"),
    *(f"tests/spark/test_{name}.py" for name in _CHECKS),
    "tests/spark/test_quotas_of_time_and_mutations.py",
)
"""Those of them that need no broker. docs/dev/lab.md says what that leaves out."""


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=400, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--packages", nargs="+", choices=making.PACKAGES, default=list(making.PACKAGES))
    parser.add_argument("--tests", nargs="+", default=TESTS, help="files and folders of tests")
    parser.add_argument("--only", nargs="+", help="these mutants alone, as FILE:NUMBER")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--directory", type=Path, default=Path("build"), help="where mutants.json is written")
    arguments = parser.parse_args(argv)
    arguments.directory.mkdir(exist_ok=True)
    files = making.files(arguments.packages)
    if arguments.only:
        named = (name.rpartition(":") for name in arguments.only)
        count, mutants = len(arguments.only), [making.mutant(path, int(number)) for path, _, number in named]
    else:
        count, mutants = making.sample(files, arguments.sample, arguments.seed)
    say(f"{len(mutants)} of {count} mutants of {len(files)} files; first the tests without any")
    try:
        covered = covering.collect(files, arguments.tests, arguments.processes, arguments.directory)
    except covering.TestsFailed as error:
        say(str(error))
        return 2
    (control,) = run([making.unchanged(mutants[0])], covered, 1)
    if control.outcome not in (SURVIVED, NOT_COVERED):
        say(f"the tests of {mutants[0].path}:{mutants[0].line} without any mutant: {control.outcome}")
        return 2
    results, started = list[Result](), perf_counter()
    for result in run(mutants, covered, arguments.processes):
        results.append(result)
        _tell(result, len(results), len(mutants))
    return _report(results, arguments.seed, perf_counter() - started, arguments.directory / "mutants.json")


def _tell(result: Result, number: int, count: int) -> None:
    mutant = result.mutant
    say(f"[{number}/{count}] {result.outcome:11} {mutant.path}:{mutant.line} ({result.tests} tests)")
    if not _caught(result):
        for line in (mutant.name, *mutant.change):
            say(f"      {line}")


def _caught(result: Result) -> bool:
    return result.outcome in (CAUGHT, TIMED_OUT)


def _report(results: Sequence[Result], seed: int, seconds: float, where: Path) -> int:
    outcomes = Counter(result.outcome for result in results)
    caught = sum(map(_caught, results))
    percent = 100 * caught / max(len(results), 1)
    by_package = {
        name: (sum(map(_caught, some)), len(some))
        for name, folder in making.PACKAGES.items()
        if (some := [result for result in results if result.mutant.path.startswith(folder)])
    }
    survivors = [
        {
            "name": result.mutant.name,
            "line": result.mutant.line,
            "change": result.mutant.change,
            "outcome": result.outcome,
            "tests": result.tests,
        }
        for result in sorted(results, key=lambda each: (each.mutant.path, each.mutant.line))
        if not _caught(result)
    ]
    document = {
        "seed": seed,
        "sample": len(results),
        "caught": caught,
        "percent": round(percent, 1),
        "outcomes": outcomes,
        "packages": by_package,
        "survivors": survivors,
    }
    where.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    say(f"{caught} of {len(results)} caught ({percent:.1f} %) in {seconds:.0f} s: {where}")
    for name, (caught_there, count) in by_package.items():
        say(f"  {name:10} {caught_there} of {count}")
    return int(percent < WANTED_PERCENT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
