"""Lines that a long audit job prints: which step is running, and how many are done."""

from threading import Event

import pytest

from spark_audit.progress import Steps, reported

NAMES = ("manifest", "gaps", "chain")


@pytest.mark.spec("D9")
def test_a_line_names_the_step_that_is_running_and_counts_those_that_are_done() -> None:
    now_s = [100.0]
    steps = Steps("reconcile", NAMES, lambda: now_s[0])
    now_s[0] += 35.2
    assert steps.line() == "reconcile: manifest for 35 s; 0 of 3 steps done"

    # A step that the job does not list, such as one of a later release, changes nothing.
    for name in ("manifest", "gaps", "unknown"):
        steps.done(name)
    assert steps.line() == "reconcile: chain for 0 s; 2 of 3 steps done"

    steps.done("chain")
    assert steps.line() == "reconcile: results for 0 s; 3 of 3 steps done"


@pytest.mark.spec("D9")
def test_lines_are_reported_at_intervals_while_the_job_runs() -> None:
    lines, is_reported = list[str](), Event()

    def report(line: str) -> None:
        lines.append(line)
        is_reported.set()

    with reported(Steps("report", NAMES, lambda: 0.0), report, 1) as done:
        done("gaps")
        lines.clear()
        is_reported.clear()
        assert is_reported.wait(60)

    assert lines[-1] == "report: chain for 0 s; 2 of 3 steps done"
