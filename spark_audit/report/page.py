"""Renders the report: collects its small tables and fills the template.

Takes the three tables and the content of findings.json. The page needs no network and does not say when it
was rendered: the same tables give the same page.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from jinja2 import Environment, PackageLoader
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.report import aggregates, coverage, formatting, plots
from spark_audit.tables.findings import Finding, FindingsDocument, FindingsSummary
from spark_audit.tables.plans import held, held_if_small
from spark_audit.trail.audit_records import deduplicate

NEW_AFTER_DAYS = 14
"""Who is new on a day is not in the days before it."""
COMPARED_DAYS = (1, 7)
"""A day is compared with the day before and with the same day of the week before."""
FINDINGS = 500
"""The page shows at most this many findings. findings.json has all of them."""
MOST_CHARACTERS = 1_500_000
"""Of the records that can be searched, as JSON. A record of a day has about 250."""
_DAY_MS = 86_400_000
_UNITS = (("Milliseconds", 1), ("Seconds", 1_000), ("Minutes", 60_000), ("Hours", 3_600_000))
"""Of the plot of throttling, in ms: the largest one of which the highest column has two."""
Entry = dict[str, Any]
"""A row of a table of the page, or other values by name. The template knows the columns."""
Rows = list[Entry]


def render(
    audit: DataFrame,
    quarantine: DataFrame,
    metadata_log: DataFrame,
    document: FindingsDocument,
    days: Sequence[str] = (),
    versions: Mapping[str, int] | None = None,
    changed: Sequence[str] = (),
    home: str = "",
) -> str:
    """Return the page as text. `document` is findings.json; NotReconciled if it does not cover a day.

    With days (YYYY-MM-DD) the page is about these only, and other days of table `audit` are not read.
    `versions` are the current versions of the tables. `changed` says what was changed since they were
    reconciled, so that the page cannot be relied on. `home` is the address of the overview, if there is one.
    """
    days = days or document["summary"].get("days") or ()
    limited = coverage.of_days(document, days)
    shown = limited["findings"][:FINDINGS]
    content = collected(audit, quarantine, metadata_log, days, shown)
    return fill(limited, content, days, versions or {}, changed, home)


def collected(
    audit: DataFrame,
    quarantine: DataFrame,
    metadata_log: DataFrame,
    days: Sequence[str] = (),
    findings: Sequence[Finding] = (),
) -> Entry:
    """Return what the page shows of the tables, as plain rows and plots."""
    read = aggregates.read(audit)
    wanted = read.transform(aggregates.of_days, days)
    records, log = held(wanted.transform(held_if_small).transform(deduplicate)), held(metadata_log)
    dates = sorted(map(date.fromisoformat, days))
    compared: Sequence[date] = ()
    newcomers, judged, until_ms = None, records, None
    try:
        if dates:
            before = read.where(F.col(S.DATE) >= dates[0] - timedelta(days=NEW_AFTER_DAYS))
            before = before.where(F.col(S.DATE) < dates[0])
            if not before.isEmpty():
                newcomers = _rows(aggregates.newcomers(records, before))
                if len(dates) == 1:
                    compared = [dates[0] - timedelta(days=number) for number in COMPARED_DAYS]
                    until_ms = _until_ms(audit, records, dates[0])
                    judged = records.unionByName(_of_earlier_days(before, compared, until_ms))
        by_connection = held(aggregates.connections(judged))
        of_dates = by_connection.where(F.col(S.DATE).isin(*dates)) if dates else by_connection
        totals = _rows(aggregates.totals(of_dates))[0]
        waited_ms = {row[S.DATE]: row["ms"] for row in aggregates.waited(judged).collect()}
        totals["waited_ms"] = sum(ms for day, ms in waited_ms.items() if not dates or day in dates)
        bucket_ms = plots.bucket_for(totals["first_ms"] or 0, totals["last_ms"] or 0)
        ends = aggregates.grants(records, log, totals["first_ms"] or 0, totals["last_ms"] or 0)
        tables = {
            "principals": aggregates.principals(by_connection, dates, compared),
            "denials": aggregates.denials(records),
            "logins": aggregates.logins(records),
            "changes": aggregates.changes(records),
            "processes": aggregates.processes(records),
            "unreadable": aggregates.unreadable(quarantine.transform(aggregates.of_days, days)),
            "kinds": aggregates.numbers_of_kinds(records),
        }
        return {
            "totals": totals,
            "compared": _compared(aggregates.totals(by_connection, S.DATE), waited_ms, compared),
            "until_ms": until_ms,
            "newcomers": newcomers,
            "grants": [] if ends is None else _rows(ends),
            "quotas": _quotas(aggregates.quotas(records, log), aggregates.throttling(records)),
            "records": _searched(aggregates.sampled(records, bucket_ms, totals["records"])),
            "proofs": _proofs(records, findings),
            **_plots(records, totals, bucket_ms),
            **{name: _rows(table) for name, table in tables.items()},
        }
    finally:
        audit.sparkSession.catalog.clearCache()


def _until_ms(audit: DataFrame, records: DataFrame, day: date) -> int | None:
    """Return the time of day up to which a day is compared. None if there are records of a later one."""
    if not audit.where(F.col(S.DATE) > day).isEmpty():
        return None
    last = records.agg(F.max(S.TIME_MS)).first()
    return None if last is None or last[0] is None else int(last[0] % _DAY_MS)


def _of_earlier_days(before: DataFrame, days: Sequence[date], until_ms: int | None) -> DataFrame:
    rows = before.where(F.col(S.DATE).isin(*days))
    if until_ms is not None:
        rows = rows.where(F.col(S.TIME_MS) % _DAY_MS <= until_ms)
    return rows.transform(held_if_small).transform(deduplicate)


def _compared(totals: DataFrame, waited_ms: Mapping[date, int], days: Sequence[date]) -> Rows:
    """Return the numbers of each of these days that has records, and its `place` among them."""
    of = {row[S.DATE]: row for row in _rows(totals)}
    there = [(place, day) for place, day in enumerate(days) if day in of]
    return [of[day] | {"place": place, "waited_ms": waited_ms.get(day, 0)} for place, day in there]


def _quotas(used: DataFrame, throttled: DataFrame) -> Rows:
    """Return the quotas that were used or that throttled somebody, those with the longest waits first."""
    quotas: dict[tuple[str, str], Entry] = {}
    for row in [*_rows(used), *_rows(throttled)]:
        key = row[S.QUOTA_ID], row[S.QUOTA_KEY]
        quotas[key] = {"used": None, "part": None, "times": 0, "total_ms": 0} | quotas.get(key, {}) | row
    return sorted(quotas.values(), key=lambda row: (-row["total_ms"], -(row["part"] or 0)))


def _searched(sampled: DataFrame) -> list[list[object]]:
    """Return the records as the script of the page wants them, the latest first, cut to MOST_CHARACTERS."""
    found, left = [], MOST_CHARACTERS
    for row in sampled.collect():
        record = formatting.record(row)
        left -= len(json.dumps(record)) + 2
        if left < 0:
            break
        found.append((-row[S.TIME_MS], row[S.PROXY_ID], row[S.SEQUENCE], record))
    return [record for *_, record in sorted(found, key=lambda each: each[:3])]


def fill(
    document: FindingsDocument,
    shown: Mapping[str, Any],
    days: Sequence[str],
    versions: Mapping[str, int],
    changed: Sequence[str] = (),
    home: str = "",
) -> str:
    """Return the filled template."""
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            **shown,
            summary=document["summary"],
            findings=document["findings"][:FINDINGS],
            left_out=max(0, len(document["findings"]) - FINDINGS),
            verdict=coverage.verdict(document, S.SEVERITIES, shown["totals"]["records"]),
            checked=coverage.checked(document["findings"], S.SEVERITIES, document["summary"]),
            days=sorted(days),
            newer=coverage.newer(document, versions),
            changed=changed,
            home=home,
            new_after_days=NEW_AFTER_DAYS,
        )
    )


def overview(days: Mapping[str, FindingsSummary]) -> str:
    """Return the page that leads to the pages of days. `days`: day -> what was checked."""
    newest_first = sorted(days.items(), reverse=True)
    return environment().get_template("overview.html.j2").render(days=newest_first, severities=S.SEVERITIES)


def _proofs(records: DataFrame, findings: Sequence[Finding]) -> dict[str, list[str]]:
    """Return id of a finding -> the records that its evidence names, as JSON."""
    proofs: dict[str, list[str]] = {}
    for row in aggregates.proving(records, findings).collect():
        proofs.setdefault(row["id"], []).append(row["record"])
    return proofs


def _plots(records: DataFrame, totals: Entry, bucket_ms: int) -> Entry:
    first_ms, last_ms = totals["first_ms"] or 0, totals["last_ms"] or 0
    counts: dict[str, dict[int, dict[str, float]]] = {}
    for row in aggregates.timeline(records, bucket_ms, last_ms).collect():
        of_plot = counts.setdefault(row[aggregates.PLOT], {})
        of_plot.setdefault(row[aggregates.BUCKET_MS], {})[row[aggregates.SERIES]] = row[aggregates.AMOUNT]
    # The interval of a summary may begin before the first record was written.
    first_ms = min([first_ms, *(moment_ms for of_plot in counts.values() for moment_ms in of_plot)])
    span = bucket_ms, first_ms, last_ms
    throttled, unit_name = waits(counts.get("throttled", {}), *span)
    drawn = {
        "allowed": plots.stacked(counts.get("allowed", {}), *span),
        "denied": plots.stacked(counts.get("denied", {}), *span),
        "throttled": throttled,
        "logins": plots.stacked(
            counts.get("logins", {}), *span, order=tuple(dict.fromkeys(aggregates.LOGINS.values()))
        ),
    }
    return {"plots": drawn, "unit_of_throttling": unit_name}


def waits(
    counts_ms: plots.Counts, bucket_ms: int, first_ms: int, last_ms: int, *, of_day: bool = False
) -> tuple[plots.Plot, str]:
    """Return the plot of times that clients were throttled, and the name of its unit."""
    name, unit_ms = unit(counts_ms)
    counts = {
        moment_ms: {series: amount_ms / unit_ms for series, amount_ms in amounts.items()}
        for moment_ms, amounts in counts_ms.items()
    }
    drawn = plots.stacked(
        *(counts, bucket_ms, first_ms, last_ms),
        shown=lambda amount: formatting.span(round(amount * unit_ms)),
        of_day=of_day,
    )
    return drawn, name


def unit(counts_ms: plots.Counts) -> tuple[str, int]:
    """Return the name and the ms of the unit in which these times are plotted."""
    highest_ms = max((sum(series.values()) for series in counts_ms.values()), default=0)
    return next((name, ms) for name, ms in reversed(_UNITS) if highest_ms >= 2 * ms or ms == 1)


def _rows(table: DataFrame) -> Rows:
    return [row.asDict(recursive=True) for row in table.collect()]


_FILTERS = (
    *("number", "short", "span", "stretch", "moment", "share", "pretty", "lines", "told"),
    *("visible", "compared", "short_day", "used", "part"),
)


def environment() -> Environment:
    """Return the template's environment. It escapes all text, and shows invisible characters as escapes."""
    made = Environment(
        loader=PackageLoader("spark_audit.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=formatting.visible,
    )
    made.filters |= {name: getattr(formatting, name) for name in _FILTERS} | {"bytes": formatting.size}
    geometry = {"width": plots.WIDTH, "height": plots.HEIGHT}
    limits = {"rows": aggregates.ROWS, "latest": aggregates.LATEST, "newest": aggregates.NEW}
    made.globals |= geometry | limits
    return made
