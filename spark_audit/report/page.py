"""Renders the report: collects its small tables and fills the template.

Takes the three tables and the content of findings.json. The page needs no network and does not say when it
was rendered: the same tables give the same page.
"""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from jinja2 import Environment, PackageLoader
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.report import aggregates, coverage, formatting, plots
from spark_audit.tables.findings import Document, Finding
from spark_audit.tables.plans import held, held_if_small
from spark_audit.trail.audit_records import deduplicate

COMPARED_DAYS = 14
"""Who is new on a day is not in the days before it."""
FINDINGS = 500
"""The page shows at most this many findings. findings.json has all of them."""
_UNITS = (("Milliseconds", 1), ("Seconds", 1_000), ("Minutes", 60_000), ("Hours", 3_600_000))
"""Of the plot of throttling, in ms: the largest one of which the highest column has two."""
Rows = list[dict[str, Any]]
"""The rows of a table of the page. The template knows the columns."""


def render(
    audit: DataFrame,
    quarantine: DataFrame,
    metadata_log: DataFrame,
    document: Document,
    days: Sequence[str] = (),
    versions: Mapping[str, int] | None = None,
    changed: Sequence[str] = (),
) -> str:
    """Returns the page as text. `document` is findings.json; NotChecked if it does not cover a day.

    With days (YYYY-MM-DD) the page is about these only, and other days of table `audit` are not read.
    `versions` are the current versions of the tables. `changed` says what was changed since they were
    reconciled, so that the page cannot be relied on.
    """
    days = days or document["summary"].get("days") or ()
    limited = coverage.of_days(document, days)
    shown = limited["findings"][:FINDINGS]
    content = collected(audit, quarantine, metadata_log, days, shown)
    return fill(limited, content, days, versions or {}, changed)


def collected(
    audit: DataFrame,
    quarantine: DataFrame,
    metadata_log: DataFrame,
    days: Sequence[str] = (),
    findings: Sequence[Finding] = (),
) -> dict[str, Any]:
    """Returns what the page shows of the tables, as plain rows and plots."""
    wanted = audit.transform(aggregates.of_days, days).select(*aggregates.READ, S.KAFKA_TIMESTAMP)
    records = held(wanted.transform(held_if_small).transform(deduplicate))
    log = held(metadata_log)
    try:
        by_connection = held(aggregates.connections(records))
        totals = _rows(aggregates.totals(by_connection))[0]
        tables = _tables(records, by_connection, quarantine.transform(aggregates.of_days, days), log, days)
        if days:
            first = min(map(date.fromisoformat, days))
            before = audit.where(F.col(S.DATE) >= first - timedelta(days=COMPARED_DAYS))
            before = before.where(F.col(S.DATE) < first)
            if not before.isEmpty():
                tables["newcomers"] = aggregates.newcomers(records, before)
        return {
            "totals": totals,
            "proofs": _proofs(records, findings),
            **_plots(records, totals),
            **{name: _rows(table) for name, table in tables.items()},
        }
    finally:
        audit.sparkSession.catalog.clearCache()


def fill(
    document: Document,
    shown: Mapping[str, Any],
    days: Sequence[str],
    versions: Mapping[str, int],
    changed: Sequence[str] = (),
) -> str:
    """Returns the filled template."""
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
            compared_days=COMPARED_DAYS,
        )
    )


def overview(days: Mapping[str, Mapping[str, int]]) -> str:
    """Returns the page that leads to the pages of days. `days`: day -> severity -> open findings."""
    newest_first = sorted(days.items(), reverse=True)
    return environment().get_template("overview.html.j2").render(days=newest_first, severities=S.SEVERITIES)


def _tables(
    records: DataFrame, by_connection: DataFrame, quarantine: DataFrame, log: DataFrame, days: Sequence[str]
) -> dict[str, DataFrame]:
    return {
        "principals": aggregates.principals(by_connection),
        "denials": aggregates.denials(records),
        "throttling": aggregates.throttling(records),
        "authentications": aggregates.authentications(records),
        "logins": aggregates.logins(records),
        "ended": aggregates.ended_sessions(records),
        "changes": aggregates.admin_changes(records, log),
        "errors": aggregates.errors(records),
        "log_tail": aggregates.log_tail(log, days),
        "processes": aggregates.processes(records),
        "unreadable": aggregates.unreadable(quarantine),
    }


def _proofs(records: DataFrame, findings: Sequence[Finding]) -> dict[str, list[str]]:
    """Returns id of a finding -> the records that its evidence names, as JSON."""
    proofs: dict[str, list[str]] = {}
    for row in aggregates.proving(records, findings).collect():
        proofs.setdefault(row["id"], []).append(row["record"])
    return proofs


def _plots(records: DataFrame, totals: Mapping[str, Any]) -> dict[str, Any]:
    first_ms, last_ms = totals["first_ms"] or 0, totals["last_ms"] or 0
    bucket_ms = plots.bucket_for(first_ms, last_ms)
    counts: dict[str, dict[int, dict[str, float]]] = {}
    for row in aggregates.timeline(records, bucket_ms, last_ms).collect():
        of_plot = counts.setdefault(row[aggregates.PLOT], {})
        of_plot.setdefault(row[aggregates.BUCKET_MS], {})[row[aggregates.SERIES]] = row[aggregates.AMOUNT]
    # The interval of a summary may begin before the first record was written.
    first_ms = min([first_ms, *(moment_ms for of_plot in counts.values() for moment_ms in of_plot)])
    span = bucket_ms, first_ms, last_ms
    throttled = counts.get("throttled", {})
    unit_name, unit_ms = unit(throttled)
    drawn = {
        "allowed": plots.stacked(counts.get("allowed", {}), *span),
        "denied": plots.stacked(counts.get("denied", {}), *span),
        "throttled": plots.stacked(
            {
                moment_ms: {name: amount_ms / unit_ms for name, amount_ms in series.items()}
                for moment_ms, series in throttled.items()
            },
            *span,
            shown=lambda amount: formatting.span(round(amount * unit_ms)),
        ),
        "logins": plots.stacked(
            counts.get("logins", {}), *span, order=tuple(dict.fromkeys(aggregates.LOGINS.values()))
        ),
    }
    return {"plots": drawn, "unit_of_throttling": unit_name}


def unit(counts_ms: plots.Counts) -> tuple[str, int]:
    """Returns the name and the ms of the unit in which these times are plotted."""
    highest_ms = max((sum(series.values()) for series in counts_ms.values()), default=0)
    return next((name, ms) for name, ms in reversed(_UNITS) if highest_ms >= 2 * ms or ms == 1)


def _rows(table: DataFrame) -> Rows:
    return [row.asDict(recursive=True) for row in table.collect()]


_FILTERS = ("number", "short", "span", "stretch", "moment", "share", "change", "pretty", "lines")


def environment() -> Environment:
    """Returns the template's environment. It escapes all text, and shows invisible characters as escapes."""
    made = Environment(
        loader=PackageLoader("spark_audit.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=formatting.visible,
    )
    made.filters |= {name: getattr(formatting, name) for name in _FILTERS} | {
        "bytes": formatting.size,
        "verb": lambda record: "−" if record.startswith("Remove") else "+",
    }
    geometry = {"width": plots.WIDTH, "height": plots.HEIGHT}
    limits = {"written_rows": aggregates.WRITTEN, "rows": aggregates.ROWS, "latest": aggregates.LATEST}
    made.globals |= geometry | limits
    return made
