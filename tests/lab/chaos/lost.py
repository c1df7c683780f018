"""What went with each process that was killed: the end of its queue, and what it had counted since a summary.

docs/audit.md says what may be lost ("What is kept"); this says what was. Fed by tests.lab.chaos.running.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.lab.chaos.counted import Asked
from tests.lab.chaos.measured import Reading, Row, summed

LATEST_SUMMARY_MS = 30_000
"""An interval is 2 s here; a process that is frozen or starved writes its summaries later than that."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Of one boot. `records` had been counted when it was read last, and are not in the table."""

    process: str
    boot: int
    records: int
    queued_bytes: int
    unsummed_ms: int = 0
    unsummed: int = 0
    """Requests of the counted client that were answered after the end of the last summary, since when."""

    @property
    def too_much(self) -> bool:
        return self.unsummed > 0 and self.unsummed_ms > LATEST_SUMMARY_MS

    def __str__(self) -> str:
        counted = (
            f"; {self.unsummed} requests counted in its last {self.unsummed_ms} ms" if self.unsummed else ""
        )
        return (
            f"{self.process}, boot {self.boot}: {self.records} records that it had counted,"
            f" {self.queued_bytes} bytes queued{counted}"
        )


def losses(
    boots: Mapping[str, Sequence[Sequence[Row]]],
    readings: Iterable[Reading],
    killed_at_ms: Mapping[str, Mapping[int, int]],
    counted_by: str,
    asked: Sequence[Asked],
) -> Iterator[Loss]:
    """Of each boot that was killed."""
    last = {(reading.process, reading.boot): reading for reading in readings}
    for process, kills in killed_at_ms.items():
        for boot, at_ms in kills.items():
            reading, rows = last[process, boot], boots[process][boot]
            lost = max(0, reading.count - len(rows))
            since = _unsummed(rows, asked, at_ms) if process == counted_by else (0, 0)
            yield Loss(process, boot, lost, reading.queued_bytes, *since)


def _unsummed(rows: Sequence[Row], asked: Sequence[Asked], killed_at_ms: int) -> tuple[int, int]:
    begin_ms = rows[0]["time_ms"]
    end_ms = max(begin_ms, *(summed(rows, method).end_ms for method in ("Produce", "Fetch")))
    after = [one for one in asked if one.answered_ms is not None and end_ms < one.sent_ms <= killed_at_ms]
    return (killed_at_ms - end_ms, len(after)) if after else (0, 0)
