"""`python -m tests.lab.chaos --minutes 10 --seed 1`: kills at random under load, then counts everything."""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.lab.chaos.running import run_chaos
from tests.lab.cluster import kafka
from tests.lab.cluster.saying import say


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--brokers", type=int, choices=(1, 3), default=3, help="each with a proxy; default: 3"
    )
    parser.add_argument("--keep", type=Path, help="a directory for logs, spools and tables, to look into")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        place = arguments.keep or Path(directory)
        outcome = run_chaos(
            place,
            kafka.libs(),
            lambda killing, _ingesting: killing.for_a_time(arguments.minutes * 60),
            arguments.seed,
            arguments.brokers,
        )
    ledger = outcome.ledger
    say(f"faults made: {dict(Counter(outcome.done))}")
    say(f"ingests: {outcome.ingests}")
    say(
        f"told: {len(ledger.changed)} changes, {len(ledger.denied)} denials,"
        f" {ledger.produced} records produced, {ledger.consumed} consumed;"
        f" {outcome.records} audit records in the table"
    )
    say(f"compared: {outcome.readings} readings of counters, {len(ledger.counted.asked)} counted requests")
    for loss in outcome.losses:
        say(f"killed: {loss}")
    for fault in outcome.faults:
        say(f"FAULT {fault}")
    say(f"{len(outcome.faults)} faults")
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
