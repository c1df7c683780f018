"""The same measures for every attack: slices of the loop, the normal user's answers, memory, records.

Readings before and after go in, an Outcome comes out whose `faults` are what must not be. What a machine
under other load would spoil is printed and not judged: wall-clock latencies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from tests.lab.hostile.asking import Longest
from tests.lab.hostile.attack import Found
from tests.lab.hostile.normal import ADMIN, KINDS, PRODUCE

SLICE_MS = 20.0
HELD = "the loop was held for"
LATENCY_MS = 250.0
MAX_CYCLIC = 5_000
"""What comes in great numbers must be free without the collector. A codec leaves 100 at its first use."""
MIB = 1024 * 1024

STRANGERS_SHARE = 0.25
"""Of queued.max.request.bytes, which is what is held for clients: their requests and our responses."""
CONNECTION_BYTES = 16 * 1024
"""A connection with its session."""
SLACK_BYTES = {True: 64 * MIB, False: 24 * MIB}
"""By whether clients are logged in: records that go to the disk (audit.queue.max.bytes), what malloc keeps,
and the requests in work of clients that are logged in."""

DENIALS_DROPPED = "penstock_audit_dropped_total"


@dataclass(frozen=True, slots=True)
class Served:
    """How the normal user was served in one of the things it does."""

    count: int
    median_ms: float
    p99_ms: float
    max_ms: float
    errors: tuple[str, ...]


@dataclass(slots=True)
class Outcome:
    """One attack, judged."""

    name: str
    seconds: float
    proxy: Longest
    controller: Longest
    rss_before_bytes: int
    rss_peak_bytes: int
    rss_bound_bytes: int
    served: dict[str, Served]
    facts: dict[str, Any]
    faults: list[str] = field(default_factory=list)
    slow: bool = False
    """The normal user waited longer than LATENCY_MS for a produce; printed only."""


def served(samples: Sequence[Mapping[str, Any]]) -> dict[str, Served]:
    """By kind."""
    found = {}
    for kind in KINDS:
        rows = [each for each in samples if each["kind"] == kind]
        ms = sorted(each["ms"] for each in rows)
        if ms:
            p99 = quantiles(ms, n=100)[98] if len(ms) > 1 else ms[0]
            errors = tuple(each["error"] for each in rows if each["error"] is not None)
            found[kind] = Served(len(ms), median(ms), min(p99, ms[-1]), ms[-1], errors)
    return found


def rss_bound_bytes(before_bytes: int, found: Found) -> int:
    """What a process may take at most, by the documentation."""
    held = found.memory_bytes * (1 if found.logged_in else STRANGERS_SHARE)
    slack = SLACK_BYTES[found.logged_in] + found.more_bytes
    return before_bytes + int(held) + found.connections * CONNECTION_BYTES + slack


def judge(
    outcome: Outcome, found: Found, before: Mapping[str, float] | None, after: Mapping[str, float] | None
) -> None:
    """Fill in the faults; `before` and `after` are the proxy's metrics, None where it did not answer."""
    faults = outcome.faults
    for process, longest in (("proxy", outcome.proxy), ("controller", outcome.controller)):
        if longest.ms > SLICE_MS:
            faults.append(f"{process}: {HELD} {longest.ms:.0f} ms of CPU by {longest.name}")
        if longest.cyclic > MAX_CYCLIC:
            faults.append(f"{process}: {longest.cyclic} objects were in cycles")
    if outcome.rss_peak_bytes > outcome.rss_bound_bytes:
        faults.append(
            f"memory: {outcome.rss_peak_bytes // MIB} MiB resident, not {outcome.rss_bound_bytes // MIB} MiB"
        )
    for kind, one in outcome.served.items():
        if one.errors and kind not in found.may_fail:
            faults.append(f"{kind}: {len(one.errors)} of {one.count} failed, first: {one.errors[0]}")
    faults += [f"{kind}: no answer at all" for kind in (PRODUCE, ADMIN) if kind not in outcome.served]
    if before is None or after is None:
        faults.append("/metrics: no answer")
    elif dropped := denials_dropped(after) - denials_dropped(before):
        faults.append(f"audit: {dropped:.0f} denial records were dropped")
    faults += found.faults
    produce = outcome.served.get(PRODUCE)
    outcome.slow = produce is None or produce.max_ms > LATENCY_MS


def denials_dropped(metrics: Mapping[str, float]) -> float:
    return sum(
        value
        for name, value in metrics.items()
        if name.startswith(DENIALS_DROPPED) and 'class="denial"' in name
    )


def rss_bytes(pid: int, line: str = "VmRSS") -> int:
    """Of a process: VmRSS now, VmHWM the most since `forget_peak`; 0 when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    rows = dict(row.split(":", 1) for row in status.splitlines() if ":" in row)
    return int(rows.get(line, "0 kB").split()[0]) * 1024


def forget_peak(pid: int) -> None:
    """VmHWM begins anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
