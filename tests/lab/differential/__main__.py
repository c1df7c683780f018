"""`python -m tests.lab.differential --seed 1 --cases 2000`: the long run; `--only 42` repeats one case."""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from proxy.wire.api_keys import ApiKey
from tests.lab.cluster import kafka
from tests.lab.cluster.saying import say
from tests.lab.differential.cases import Case
from tests.lab.differential.envelopes import at_the_controller
from tests.lab.differential.planning import plan
from tests.lab.differential.running import Result, Run
from tests.lab.differential.scenarios import SCENARIOS
from tests.lab.side_by_side.sides import both_sides


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.differential", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of the cases to run")
    parser.add_argument("--about", nargs="*", help="run only the cases about these APIs or scenarios")
    parser.add_argument("--envelopes", action="store_true", help="at the controllers, in Envelopes")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory, both_sides(kafka.libs(), Path(directory)) as sides:
        run = Run(*sides)
        if arguments.envelopes:
            run = Run(*map(at_the_controller, sides), staged=True)
        scenarios = () if arguments.envelopes else tuple(SCENARIOS)
        cases = plan(arguments.seed, arguments.cases, run.served, scenarios)
        results = _run(run, _chosen(cases, arguments.only, arguments.about))
    return _report(results)


def _chosen(cases: Iterator[Case], only: list[int] | None, about: list[str] | None) -> Iterator[Case]:
    for case in cases:
        if (only is None or case.number in only) and (about is None or case.subject in about):
            yield case


def _run(run: Run, cases: Iterator[Case]) -> list[Result]:
    """The results of all cases, or of those before Ctrl-C."""
    results: list[Result] = []
    try:
        for case in cases:
            results.append(run.case(case))
            if results[-1].unexplained:
                say(str(results[-1]))
            if len(results) % 100 == 0:
                sys.stderr.write(f"{len(results)} cases\n")
    except KeyboardInterrupt:
        say("interrupted")
    return results


def _report(results: list[Result]) -> int:
    """Tell what ran; 1 when something differs without explanation."""
    cases = Counter(result.case.subject for result in results)
    requests = Counter(ApiKey.name_of(step.api_key) for result in results for step in result.asked)
    rows = Counter(row for result in results for row in result.explained)
    failed = [result for result in results if result.unexplained]
    _table("cases by subject", cases)
    _table("requests by API", requests)
    _table("the broker's answers", Counter(kind for result in results for kind in result.answers))
    _table("differences that docs/differences.md explains", rows)
    _table("cases with unexplained differences", Counter(result.case.subject for result in failed))
    say(
        f"\n{len(results)} cases, {requests.total()} requests: {len(failed)} cases differ without explanation"
    )
    return 1 if failed else 0


def _table(title: str, counts: Counter[str]) -> None:
    say(f"\n{title}")
    for name, count in sorted(counts.items()):
        say(f"  {count:6} {name}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
