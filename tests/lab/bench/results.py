"""Figures of all rounds in, build/bench.json and a table out."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

CPU_PER_REQUEST, CPU_PER_GIB = "cpu_us_per_request", "cpu_s_per_gib"
KIB_PER_CONNECTION, CPU_PER_CONNECTION = "kib_per_connection", "cpu_us_per_connection"
CPU_PER_MEMBER = "cpu_us_per_member_second"
P50, P99, P999, LAST = "p50_ms", "p99_ms", "p999_ms", "last_ms"
MB_PER_S = "mb_per_s"
UNITS = {
    CPU_PER_REQUEST: "µs",
    CPU_PER_GIB: "s/GiB",
    KIB_PER_CONNECTION: "KiB",
    CPU_PER_CONNECTION: "µs",
    CPU_PER_MEMBER: "µs",
    MB_PER_S: "MB/s",
    P50: "ms",
    P99: "ms",
    P999: "ms",
    LAST: "ms",
}
BUDGETS = {
    ("small_requests", CPU_PER_REQUEST): 20.0,
    ("consume", CPU_PER_GIB): 0.80,
    ("consume_tls", CPU_PER_GIB): 1.2,
    ("idle", KIB_PER_CONNECTION): 8.0,
    ("connect", CPU_PER_CONNECTION): 150.0,
}
"""What the proxy may cost, by workload and figure. Reported, not enforced: machines differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One workload on one target, over all rounds; None where the target has no such cost."""

    workload: str
    target: str
    figure: str
    values: Sequence[float]
    relative_speed: float | None = None
    """Wall-clock rate against that of `direct` in the same run."""

    def row(self) -> dict[str, object]:
        """One element of build/bench.json."""
        values = self.values
        return {
            "workload": self.workload,
            "target": self.target,
            "figure": self.figure,
            "unit": UNITS[self.figure],
            "min": round(min(values), 3) if values else None,
            "median": round(median(values), 3) if values else None,
            "max": round(max(values), 3) if values else None,
            "rounds": len(values),
        }


def write(path: Path, measured: Sequence[Measured]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [each.row() for each in measured]
    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def table(measured: Sequence[Measured]) -> str:
    """The same for people, with the budget and the rate beside it."""
    lines = [_LINE.format("workload", "target", "figure", "min", "median", "max", "budget", "rate")]
    lines += [_line(each) for each in measured]
    return "\n".join(lines) + "\n"


_LINE = "{:<19} {:<17} {:<24} {:>8} {:>8} {:>8} {:>8} {:>6}"


def _line(measured: Measured) -> str:
    row = measured.row()
    budget = BUDGETS.get((measured.workload, measured.figure)) if measured.target == "proxy" else None
    numbers = [row["min"], row["median"], row["max"], budget, measured.relative_speed]
    cells = ["-" if number is None else f"{number:.2f}" for number in numbers]
    return _LINE.format(measured.workload, measured.target, measured.figure, *cells)
