"""Aggregates and findings into the page: collects the small tables, fills the template.

Fed with the three tables and the document that reconcile wrote. The page needs no network, and says
nothing of when it was made: same tables, same page.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader
from pyspark.sql import DataFrame

from spark_audit import schema as S
from spark_audit.report import aggregates, plots
from spark_audit.trail import each_record_once

Rows = list[dict[str, Any]]
Counts = dict[int, dict[str, int]]


def render(
    audit: DataFrame, quarantine: DataFrame, metadata_log: DataFrame, document: Mapping[str, Any]
) -> str:
    """The whole page as text. `document` is findings.json."""
    records = audit.drop(S.LINE).transform(each_record_once).persist()
    log = metadata_log.persist()
    try:
        totals = _rows(aggregates.totals(records))[0]
        context = {
            "totals": totals,
            "summary": document["summary"],
            "findings": document["findings"],
            "plots": _plots(records, totals),
            **{name: _rows(table) for name, table in _tables(records, quarantine, log).items()},
        }
    finally:
        log.unpersist()
        records.unpersist()
    return environment().get_template("report.html.j2").render(context)


def _tables(records: DataFrame, quarantine: DataFrame, log: DataFrame) -> dict[str, DataFrame]:
    return {
        "principals": aggregates.principals(records),
        "denials": aggregates.denials(records),
        "throttling": aggregates.throttling(records),
        "authentications": aggregates.authentications(records),
        "kills": aggregates.expiry_kills(records),
        "changes": aggregates.admin_changes(records, log),
        "log_tail": aggregates.log_tail(log),
        "processes": aggregates.processes(records),
        "unreadable": aggregates.unreadable(quarantine),
    }


def _plots(records: DataFrame, totals: Mapping[str, Any]) -> dict[str, plots.Plot]:
    first_ms, last_ms = totals["first_ms"] or 0, totals["last_ms"] or 0
    bucket_ms = plots.bucket_for(first_ms, last_ms)
    allowed: Counts = {}
    denied: Counts = {}
    for row in aggregates.timeline(records, bucket_ms).collect():
        counts = denied if row[aggregates.DENIED] else allowed
        counts.setdefault(row[aggregates.BUCKET_MS], {})[row[aggregates.SERIES]] = row[aggregates.REQUESTS]
    # A summary's interval may begin before the first record was written.
    first_ms = min([first_ms, *allowed, *denied])
    return {
        "allowed": plots.stacked(allowed, bucket_ms, first_ms, last_ms),
        "denied": plots.stacked(denied, bucket_ms, first_ms, last_ms),
    }


def _rows(table: DataFrame) -> Rows:
    return [row.asDict(recursive=True) for row in table.collect()]


def environment() -> Environment:
    """Everything in a record is a client's text: all of it is escaped."""
    made = Environment(
        loader=PackageLoader("spark_audit"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {
        "number": number,
        "bytes": size,
        "span": span,
        "moment": moment,
        "pretty": lambda value: json.dumps(value, indent=1, ensure_ascii=False),
        "change": change,
        "verb": lambda record: "−" if record.startswith("Remove") else "+",
    }
    geometry = {
        "width": plots.WIDTH,
        "height": plots.HEIGHT,
        "left": plots.LEFT,
        "right": plots.RIGHT,
        "written_rows": aggregates.WRITTEN,
    }
    made.globals |= geometry
    return made


def number(value: float | None) -> str:
    """A count or a quota for a reader: 1048576.0 -> 1,048,576."""
    return "" if value is None else f"{int(value):,}" if value == int(value) else f"{value:,.6g}"


def size(count: int | None) -> str:
    """Bytes for a reader: 1536 -> 1.5 KiB."""
    if count is None:
        return ""
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"


def span(milliseconds: int | None) -> str:
    """A span for a reader: 90000 -> 1.5 min."""
    if milliseconds is None:
        return ""
    for limit, divisor, unit in ((1_000, 1, "ms"), (60_000, 1_000, "s"), (3_600_000, 60_000, "min")):
        if milliseconds < limit:
            return f"{milliseconds / divisor:,.3g} {unit}"
    return f"{milliseconds / 3_600_000:,.1f} h"


def moment(time_ms: int | None) -> str:
    """A moment in UTC for a reader."""
    return (
        "" if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    )


def change(body: str) -> str:
    """One record of the log in a line: `ALLOW User:alice from * READ TOPIC LITERAL orders`."""
    fields = json.loads(body)
    if "permission_type" in fields:
        who = "{permission_type} {principal} from {host}".format(**fields)
        return "{} {operation} {resource_type} {pattern_type} {resource_name}".format(who, **fields)
    if "key" in fields:
        entity = ", ".join(f"{kind} {name or '<default>'}" for kind, name in fields["entity"].items())
        return f"{entity}: {fields['key']} {'removed' if fields['remove'] else number(fields['value'])}"
    if "mechanism" in fields:
        return "user {name}: {mechanism}".format(**fields)
    return ", ".join(f"{name} {value}" for name, value in fields.items())
