"""The document as an HTML page, with the template parts, styles and plots of the report. Needs no Spark."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spark_audit.report import formatting, plots
from spark_audit.report.aggregates import AMOUNT, BUCKET_MS, PLOT, ROWS, SERIES
from spark_audit.report.page import environment, unit
from spark_audit.what_if.access import CANNOT_BE_SAID, NEWLY_ALLOWED, NEWLY_DENIED
from spark_audit.what_if.result import Document

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
Row = Mapping[str, Any]


def render(found: Document, proposal: str) -> str:
    """Returns the page as text. `proposal` is the text of the file that was tried."""
    throttled = by_hour(found["throttling"])
    unit_name, unit_ms = unit(throttled)
    return (
        environment()
        .get_template("what-if.html.j2")
        .render(
            found=found,
            proposal=proposal,
            verdict=verdict(found),
            rankings={heading: ranking(found["access"], subject) for heading, subject in _SUBJECTS.items()},
            plots={outcome: _plot(found, outcome) for outcome in (NEWLY_DENIED, NEWLY_ALLOWED)},
            throttled=plots.stacked(
                {
                    at_ms: {name: amount / unit_ms for name, amount in series.items()}
                    for at_ms, series in throttled.items()
                },
                *(HOUR_MS, 0, DAY_MS - 1),
                shown=lambda amount: formatting.span(round(amount * unit_ms)),
                of_day=True,
            ),
            unit_of_throttling=unit_name,
            listed=LISTED,
        )
    )


def verdict(found: Document) -> str:
    """Returns the class of the head of the page: the worst that the proposal would do."""
    effects = found["effects"]
    if effects["newly-denied"]:
        return "critical"
    if effects["newly-throttled"]:
        return "high"
    if effects["newly-allowed"] or effects["cannot-be-said"]:
        return "medium"
    return "clean" if sum(found["requests"].values()) or found["throttling"] else "empty"


def ranking(rows: Iterable[Row], subject: str) -> list[dict[str, Any]]:
    """Returns the values of one column with the most requests that would change or cannot be said."""
    by_value: dict[str, dict[str, Any]] = {}
    for row in rows:
        nothing = {**dict.fromkeys(_COUNTED, 0), "bytes": 0, "first_ms": None, "last_ms": None}
        of_value = by_value.setdefault(_value(row, subject), nothing)
        of_value[row["outcome"]] += row["requests"]
        of_value["bytes"] += row["bytes"]
        for name, better in (("first_ms", min), ("last_ms", max)):
            moments = [each for each in (of_value[name], row[name]) if each is not None]
            of_value[name] = better(moments, default=None)
    named = [{"value": value, **measured} for value, measured in by_value.items()]
    order = sorted(named, key=lambda row: (*(-row[outcome] for outcome in _COUNTED), row["value"]))
    return order[:ROWS]


def _value(row: Row, subject: str) -> str:
    if subject == "resource":
        return f"{row['resource_type'] or ''} {row['resource_name'] or '(any)'}".strip()
    return str(row[subject] or "(unknown)")


def by_hour(rows: Sequence[Row]) -> dict[int, dict[str, float]]:
    """Returns the ms since midnight -> quota-id -> time throttled in this hour of the day."""
    found: dict[int, dict[str, float]] = {}
    for row in rows:
        for each in row["hours"] or ():
            of_hour = found.setdefault(each["hour"] * HOUR_MS, {})
            of_hour[row["quota_id"]] = of_hour.get(row["quota_id"], 0) + each["throttled_ms"]
    return found


def _plot(found: Document, outcome: str) -> plots.Plot:
    counts: dict[int, dict[str, float]] = {}
    for row in found["over_time"]:
        if row[PLOT] == outcome:
            counts.setdefault(int(str(row[BUCKET_MS])), {})[str(row[SERIES])] = float(str(row[AMOUNT]))
    first_ms, last_ms = found["span_ms"]
    return plots.stacked(counts, found["bucket_ms"], min([first_ms, *counts]), last_ms)
