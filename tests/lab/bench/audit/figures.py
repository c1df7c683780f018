"""Measured laps of several sizes into the rows of build/audit.json, and into lines for people.

Fed by __main__; knows no Spark. Growth is the cost per record of a size over that of the size before it: 1 is
linear.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LINEAR = 1.2
"""A growth up to this is linear (SPEC D7): within 20 %."""


@dataclass(frozen=True, slots=True)
class Lap:
    """Seconds by the clock, and of CPU in the JVM that did the work."""

    wall_s: float
    cpu_s: float

    def rates(self, unit: str, number: int) -> dict[str, float]:
        return {
            "wall_s": round(self.wall_s, 2),
            "cpu_s": round(self.cpu_s, 2),
            f"{unit}_per_s": round(number / self.wall_s),
            f"{unit}_per_cpu_s": round(number / self.cpu_s),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One size of trail."""

    records: int
    decisions: int
    reconciled: Lap
    decided: Lap
    """Every decision evaluated again, from the table, and nothing else."""
    tried: Lap | None = None
    """A proposal of 10,000 changes tried on all of it."""
    summarised: Lap | None = None
    """The same, when it writes summaries of the days."""
    tried_again: Lap | None = None
    """The same, with all days summarised."""
    checks: Mapping[str, Lap] = field(default_factory=dict)
    made: Lap | None = None
    day: Lap | None = None
    """One of its days reconciled alone; None where it has only a few."""
    day_records: int = 0
    peak_mib: int = 0
    load: float = 0.0
    """The machine's load average over a minute when it was done: on a busy one, the clock says little."""

    def row(self) -> dict[str, Any]:
        return {
            "records": self.records,
            "decisions": self.decisions,
            "reconciled": self.reconciled.rates("records", self.records),
            "decisions_alone": self.decided.rates("decisions", self.decisions),
            "what_if": self.tried and self.tried.rates("records", self.records),
            "what_if_summarising": self.summarised and self.summarised.rates("records", self.records),
            "what_if_summarised": self.tried_again and self.tried_again.rates("records", self.records),
            "one_day": self.day
            and self.day.rates("records", self.day_records) | {"records": self.day_records},
            "checks": {name: lap.rates("records", self.records) for name, lap in self.checks.items()},
            "made": self.made and self.made.rates("records", self.records),
            "jvm_peak_mib": self.peak_mib,
            "load_average": self.load,
        }


def rows(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """One for each size, the smallest first; `growth` is null for that one."""
    in_order = sorted(measured, key=lambda each: each.records)
    pairs = zip([None, *in_order], in_order, strict=False)
    return [now.row() | {"growth": before and growth(before, now)} for before, now in pairs]


def growth(before: Measured, now: Measured) -> dict[str, float]:
    """Cost per record (or decision) over what it was at the smaller size; below 1 it got cheaper."""
    return {
        "over_records": before.records,
        "reconciled_wall": _grown(
            before.reconciled.wall_s, before.records, now.reconciled.wall_s, now.records
        ),
        "reconciled_cpu": _grown(before.reconciled.cpu_s, before.records, now.reconciled.cpu_s, now.records),
        "decisions_wall": _grown(before.decided.wall_s, before.decisions, now.decided.wall_s, now.decisions),
        "decisions_cpu": _grown(before.decided.cpu_s, before.decisions, now.decided.cpu_s, now.decisions),
        "reconciled_cpu_us_per_record_more": _more(before, now),
    }


def _grown(cost_before: float, number_before: int, cost: float, number: int) -> float:
    return round((cost / number) / (cost_before / number_before), 3)


def _more(before: Measured, now: Measured) -> float:
    more = max(1, now.records - before.records)
    return round((now.reconciled.cpu_s - before.reconciled.cpu_s) / more * 1e6, 2)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """For people; a growth beyond LINEAR is marked."""
    lines = [_LINE.format("records", "records/s", "of CPU", "decisions/s", "of CPU", "growth", "growth, CPU")]
    return "\n".join([*lines, *(_line(row) for row in rows)]) + "\n"


_LINE = "{:>12} {:>11} {:>9} {:>12} {:>9} {:>9} {:>12}"


def _line(row: Mapping[str, Any]) -> str:
    whole, alone, grown = row["reconciled"], row["decisions_alone"], row["growth"] or {}
    return _LINE.format(
        f"{row['records']:,}",
        f"{whole['records_per_s']:,}",
        f"{whole['records_per_cpu_s']:,}",
        f"{alone['decisions_per_s']:,}",
        f"{alone['decisions_per_cpu_s']:,}",
        *(_judged(grown.get(name)) for name in ("reconciled_wall", "reconciled_cpu")),
    )


def _judged(ratio: float | None) -> str:
    if ratio is None:
        return "-"
    return f"{ratio:.2f}{'' if ratio <= LINEAR else ' !'}"
