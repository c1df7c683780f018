"""The rings of tests: those that run while one works, those that guard a landing, and all of them.

`python -m tests.support.landing RING`. The tests run beside others; the few that fail run once more, alone.

Five parts of the suite share the cores, and each starts brokers and JVMs. A test that fails there and passes
alone is reported as flaky, and does not keep a change from landing. More than MAX_FLAKY failures are no
coincidence: nothing is run again (docs/decisions/0047-flaky-tests.md).
"""

import compileall
import json
import subprocess
import sys
from pathlib import Path

CACHE = Path(".pytest_cache/v/cache/lastfailed")
WITHOUT_JVM = ("tests/unit", "tests/session", "tests/property", "tests/contract")
CHECKED = ("tests/unit/test_house_rules.py", "tests/unit/test_conformance.py")
"""`make check` runs these, and a landing runs both."""
RINGS = {
    "fast": ("-n", "2", "-m", "not (kafka or spark or slow or long)", *WITHOUT_JVM),
    "landing": ("-n", "5", "-m", "not long", "--assert", "plain", *(f"--ignore={file}" for file in CHECKED)),
    "all": ("-n", "4"),
}
"""By name, the options of pytest. Where brokers and JVMs are started much of the time is waiting. Rewriting
the asserts of all modules takes each part of a landing 20 seconds of CPU time: only failed tests that run
again have their asserts rewritten."""
SOURCES = ("proxy", "forwarding", "spark_audit", "tests")
"""Compiled before, once: the parts start at the same time, and each would compile every module."""
BESIDE_OTHERS = (
    "--no-loadscope-reorder",
    "--durations=25",
    "--durations-min=1",
)
MAX_FLAKY = 3
TESTS_FAILED = 1
"""pytest's exit code."""


def main(arguments: list[str]) -> int:
    """The exit code of pytest: of the second run, where there is one."""
    CACHE.unlink(missing_ok=True)
    ring, *more = arguments
    for directory in SOURCES:
        compileall.compile_dir(directory, quiet=1)
    outcome = _pytest(*RINGS[ring], *BESIDE_OTHERS, *more)
    failed = sorted(json.loads(CACHE.read_text())) if outcome == TESTS_FAILED else []
    if not 0 < len(failed) <= MAX_FLAKY:
        return outcome
    print(f"\nFailed beside other tests, and now run alone ({len(failed)}):", *failed, sep="\n  ", flush=True)
    outcome = _pytest("-n", "0", *failed)
    if outcome == 0:
        print("FLAKY: these failed beside other tests and passed alone:", *failed, sep="\n  ")
    return outcome


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
