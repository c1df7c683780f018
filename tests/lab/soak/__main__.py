"""`python -m tests.lab.soak --minutes 60 --seed 1`: calm traffic of every kind, and no finding at the end.

Two proxies, a controller and a broker on loopback; clients of every kind at a few requests a second,
processes started anew by SIGTERM, ingests in between. Exit code 1 when anything is found.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.lab.cluster import kafka
from tests.lab.cluster.saying import say_when
from tests.lab.soak.running import soak


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a directory for logs, spools and tables, to look into")
    arguments = parser.parse_args(argv)
    if shutil.which("kcat") is None:
        parser.error("kcat is one of the clients and is not installed: apt-get install kcat")
    os.nice(5)
    with tempfile.TemporaryDirectory() as directory:
        place = arguments.keep or Path(directory)
        outcome = soak(place, kafka.libs(), arguments.minutes, arguments.seed, say_when)
    say_when(f"{outcome.restarts} restarts, {outcome.ingests} ingests on the way")
    say_when(f"{sum(outcome.events.values())} records in the table: {outcome.events}")
    say_when(f"compared: {outcome.readings} readings of counters, {outcome.counted} counted requests")
    for fault in outcome.faults:
        say_when(f"FAULT {fault}")
    say_when(f"{len(outcome.faults)} faults")
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
