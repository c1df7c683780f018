"""Outcomes as lines for a terminal, and as JSON for a file."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.lab.hostile.judging import MIB, Outcome

_HEAD = f"{'attack':<40} {'s':>6} {'proxy ms':>9} {'contr. ms':>9} {'RSS MiB':>12} {'bound':>6}  verdict"


def table(outcomes: Sequence[Outcome]) -> str:
    """A row for each attack: longest slices in CPU time, memory before and at its peak, and the bound."""
    return "\n".join([_HEAD, *(_row(each) for each in outcomes)])


def details(outcome: Outcome) -> str:
    """How the normal user was served, what held the loop, what is wrong."""
    lines = [f"{outcome.name}: {outcome.seconds:.1f} s{'  SLOW' if outcome.slow else ''}"]
    lines += [
        f"  {kind:<14} {one.count:>6} x  median {one.median_ms:>8.1f}  p99 {one.p99_ms:>9.1f}"
        f"  max {one.max_ms:>9.1f} ms  {len(one.errors)} errors"
        for kind, one in outcome.served.items()
    ]
    for process, longest in (("proxy", outcome.proxy), ("controller", outcome.controller)):
        lines.append(
            f"  {process}: {longest.ms:.1f} ms by {longest.name}, turn {longest.turn_ms:.1f} ms,"
            f" {longest.cyclic} objects in cycles"
        )
    if outcome.facts:
        lines.append("  " + ", ".join(f"{name}: {value}" for name, value in outcome.facts.items()))
    return "\n".join([*lines, *(f"  FAULT {fault}" for fault in outcome.faults)])


def write(outcomes: Sequence[Outcome], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(each) for each in outcomes], indent=1), encoding="utf-8")


def _row(outcome: Outcome) -> str:
    memory = f"{outcome.rss_before_bytes // MIB} -> {outcome.rss_peak_bytes // MIB}"
    verdict = f"{len(outcome.faults)} faults" if outcome.faults else "ok"
    return (
        f"{outcome.name:<40} {outcome.seconds:>6.1f} {outcome.proxy.ms:>9.1f} {outcome.controller.ms:>9.1f}"
        f" {memory:>12} {outcome.rss_bound_bytes // MIB:>6}  {verdict}{', slow' if outcome.slow else ''}"
    )
