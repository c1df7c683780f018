"""`python -m tests.lab.what_if --minutes 60`: traffic is recorded, tried under a proposal, and played again.

The second run has the proposal in effect, and takes as long as the first. Exit code 1 if what happens then is
not what was predicted.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.lab.cluster import kafka
from tests.lab.cluster.saying import say_when
from tests.lab.what_if.comparing import Outcome, compared
from tests.lab.what_if.playing import Say, played, played_with_the_proposal


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.what_if", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--keep", type=Path, help="a directory for logs, tables and the result, to look into")
    arguments = parser.parse_args(argv)
    if shutil.which("kcat") is None:
        parser.error("kcat is one of the clients and is not installed: apt-get install kcat")
    with tempfile.TemporaryDirectory() as directory:
        outcome = tried(arguments.keep or Path(directory), kafka.libs(), arguments.minutes, say_when)
    say_when(f"{outcome.compared} rights compared, {outcome.changed} changes predicted,")
    say_when(f"{outcome.cannot_be_said} cannot be said")
    say_when(f"throttled: predicted {outcome.predicted_ms} ms, then {outcome.throttled_ms} ms")
    for fault in outcome.faults:
        say_when(f"FAULT {fault}")
    return 1 if outcome.faults else 0


def tried(directory: Path, libs: Path, minutes: float, say: Say) -> Outcome:
    """Both runs, one after the other, and the comparison."""
    before, document = played(directory, libs, minutes, say)
    return compared(before, document, played_with_the_proposal(directory, libs, minutes, say))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
