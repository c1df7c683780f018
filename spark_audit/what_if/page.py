"""The document as an HTML page, with the template parts, styles and plots of the report. Needs no Spark."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spark_audit.report import plots
from spark_audit.report.aggregates import AMOUNT, BUCKET_MS, PLOT, ROWS, SERIES
from spark_audit.report.page import environment, waits
from spark_audit.what_if.access import CANNOT_BE_SAID, NEWLY_ALLOWED, NEWLY_DENIED
from spark_audit.what_if.result import WhatIfDocument

LISTED = 500
"""The page lists at most this many rows of a kind. what-if.json has all of them."""
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
_SUBJECTS = {
    "Principals": "principal",
    "Client ids": "client_id",
    "Hosts": "host",
    "Resources": "resource",
}
"""Heading of a ranking -> what its rows have in common."""
_COUNTED = (NEWLY_DENIED, NEWLY_ALLOWED, CANNOT_BE_SAID)
Row = Mapping[str, object]


def render(found: WhatIfDocument, proposal: str) -> str:
    """Return the page as text. `proposal` is the text of the file that was tried."""
    throttled, unit_name = waits(by_hour(found["throttling"]), HOUR_MS, 0, DAY_MS - 1, of_day=True)
    return (
        environment()
        .get_template("what-if.html.j2")
        .render(
            found=found,
            proposal=proposal,
            verdict=verdict(found),
            rankings={heading: ranking(found["access"], subject) for heading, subject in _SUBJECTS.items()},
            plots={outcome: _plot(found, outcome) for outcome in (NEWLY_DENIED, NEWLY_ALLOWED)},
            throttled=throttled,
            unit_of_throttling=unit_name,
            listed=LISTED,
        )
    )


def verdict(found: WhatIfDocument) -> str:
    """Return the class of the head of the page: the worst that the proposal would do."""
    effects = found["effects"]
    if effects["newly-denied"]:
        return "critical"
    if effects["newly-throttled"]:
        return "high"
    if effects["newly-allowed"] or effects["cannot-be-said"]:
        return "medium"
    return "clean" if sum(found["requests"].values()) or found["throttling"] else "empty"


@dataclass(slots=True)
class Ranked:
    """The requests of one principal, client id, host or resource, by outcome."""

    value: str
    newly_denied: int = 0
    newly_allowed: int = 0
    cannot_be_said: int = 0
    bytes: int = 0
    first_ms: int | None = None
    last_ms: int | None = None

    def add(self, row: Row) -> None:
        outcome = str(row["outcome"])
        setattr(self, outcome, getattr(self, outcome) + _number(row["requests"]))
        self.bytes += _number(row["bytes"])
        first_ms, last_ms = row["first_ms"], row["last_ms"]
        if isinstance(first_ms, int):
            self.first_ms = min(first_ms, first_ms if self.first_ms is None else self.first_ms)
        if isinstance(last_ms, int):
            self.last_ms = max(last_ms, self.last_ms or 0)


def ranking(rows: Iterable[Row], subject: str) -> list[Ranked]:
    """Return the values of one column with the most requests that would change or cannot be said."""
    by_value: dict[str, Ranked] = {}
    for row in rows:
        value = _value(row, subject)
        by_value.setdefault(value, Ranked(value)).add(row)
    order = sorted(
        by_value.values(), key=lambda each: (*(-getattr(each, name) for name in _COUNTED), each.value)
    )
    return order[:ROWS]


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _value(row: Row, subject: str) -> str:
    if subject == "resource":
        return f"{row['resource_type'] or ''} {row['resource_name'] or '(any)'}".strip()
    return str(row[subject] or "(unknown)")


def by_hour(rows: Sequence[Row]) -> dict[int, dict[str, float]]:
    """Return the ms since midnight -> quota-id -> time throttled in this hour of the day."""
    found: dict[int, dict[str, float]] = {}
    for row in rows:
        hours, quota_id = row["hours"], str(row["quota_id"])
        for each in hours if isinstance(hours, list) else ():
            of_hour = found.setdefault(each["hour"] * HOUR_MS, {})
            of_hour[quota_id] = of_hour.get(quota_id, 0) + each["throttled_ms"]
    return found


def _plot(found: WhatIfDocument, outcome: str) -> plots.Plot:
    counts: dict[int, dict[str, float]] = {}
    for row in found["over_time"]:
        if row[PLOT] == outcome:
            counts.setdefault(int(str(row[BUCKET_MS])), {})[str(row[SERIES])] = float(str(row[AMOUNT]))
    first_ms, last_ms = found["span_ms"]
    return plots.stacked(counts, found["bucket_ms"], min([first_ms, *counts]), last_ms)
