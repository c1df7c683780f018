"""`python -m tests.lab.hostile`: every attack in its long form beside a normal user, and its effects.

Exit code 1 when an attack has held a loop for too long, took memory beyond its bound, or cost the normal
user or the administrator an answer. Latencies are printed only: they say something on a quiet machine.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.lab.cluster import kafka
from tests.lab.cluster.saying import say
from tests.lab.hostile import report
from tests.lab.hostile.attack import Attack, Size, attacks
from tests.lab.hostile.judging import HELD, Outcome
from tests.lab.hostile.place import a_place
from tests.lab.hostile.running import Stands, played

RESULTS = Path("build") / "hostile.json"


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.hostile", description=__doc__)
    parser.add_argument("--list", action="store_true", help="names and descriptions of the attacks")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this attack; may be repeated")
    parser.add_argument("--short", action="store_true", help="as small as in `make test`")
    parser.add_argument(
        "--keep", type=Path, help="a directory for configurations, logs and spools, to look into"
    )
    arguments = parser.parse_args(argv)
    wanted = [each for each in attacks() if not arguments.only or each.name in arguments.only]
    if arguments.list:
        for each in wanted:
            say(f"{each.name} ({each.scene.name})\n    " + each.description.replace("\n", "\n    "))
        return 0
    # Whoever ends us by SIGTERM ends all that we have started too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory() as directory:
        outcomes = _all(arguments.keep or Path(directory), wanted, Size(long=not arguments.short))
    report.write(outcomes, RESULTS)
    say("")
    say(report.table(outcomes))
    return 1 if any(each.faults for each in outcomes) else 0


def _played(stands: Stands, attack: Attack, size: Size) -> Outcome:
    """Once more where nothing but the time of a callback is at fault: in a virtual machine the CPU time of a
    thread includes what the host takes away in between, and only what happens again is ours."""
    outcome = played(stands, attack, size)
    if not outcome.faults or not all(HELD in fault for fault in outcome.faults):
        return outcome
    say(report.details(outcome))
    say(f"{attack.name} once more")
    return played(stands, attack, size)


def _all(directory: Path, wanted: Sequence[Attack], size: Size) -> list[Outcome]:
    outcomes = []
    with a_place(directory, kafka.libs()) as place:
        stands = Stands(place)
        for each in wanted:
            outcomes.append(_played(stands, each, size))
            say(report.details(outcomes[-1]))
        for fault in stands.close():
            say(f"FAULT {fault}")
            outcomes[-1].faults.append(fault)
    return outcomes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
