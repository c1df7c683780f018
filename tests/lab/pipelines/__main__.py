"""`python -m tests.lab.pipelines`: clients that pipeline, at a Kafka broker and through Penstock before it.

Prints a table, and what is further from the broker than 5 % and one request; exit code 1 if anything is.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.lab.cluster import kafka
from tests.lab.pipelines.cases import CASES
from tests.lab.pipelines.judging import faults, table
from tests.lab.pipelines.place import BROKER, SIDES, Place
from tests.lab.pipelines.running import run

SAMPLES = 11
AT_ONCE = 3


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.pipelines", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--only", action="append", metavar="WORDS", help="cases whose names have these words")
    parser.add_argument("--side", action="append", choices=SIDES[1:], help="only this side and the broker")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="quota.window.num, 11 by default")
    parser.add_argument("--keep", type=Path, help="a new directory for configurations and logs")
    asked = parser.parse_args(argv)
    cases = [case for case in CASES if not asked.only or any(each in case.name for each in asked.only)]
    with tempfile.TemporaryDirectory() as directory:
        place = Place(asked.keep or Path(directory), kafka.libs(), asked.samples)
        with place.running([BROKER, *(asked.side or SIDES[1:])]):
            ran = run(place, cases, asked.seconds, AT_ONCE)
    found = faults(ran)
    sys.stdout.write("\n".join([table(ran), "", *found, f"{len(found)} faults", ""]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
