"""All that a proposal would do to the traffic of a period, as one document for a file and for people."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import TypedDict

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.proposal import Proposal
from spark_audit.report.aggregates import AMOUNT, PLOT, SERIES, largest
from spark_audit.tables.files import AuditError
from spark_audit.what_if import access as A
from spark_audit.what_if import sessions, throttling, traffic
from spark_audit.what_if.answers import NOTHING_SEEN, Regions, ShadowSeen, seen
from spark_audit.what_if.proposed_log import acl_records, quota_records, resolved
from spark_audit.what_if.recorded import RecordedDays, recorded
from spark_audit.what_if.summaries import Summaries

SHOWN = 20
"""Rows of each kind among the lines for people. The document has all of them."""
NEWLY_DENIED, NEWLY_ALLOWED, NEWLY_THROTTLED = "newly-denied", "newly-allowed", "newly-throttled"
CANNOT_BE_SAID = "cannot-be-said"
EFFECTS = (NEWLY_DENIED, NEWLY_ALLOWED, NEWLY_THROTTLED, CANNOT_BE_SAID)
"""What a pipeline may fail on."""
_OF_ACCESS = {A.NEWLY_DENIED: NEWLY_DENIED, A.NEWLY_ALLOWED: NEWLY_ALLOWED, A.CANNOT_BE_SAID: CANNOT_BE_SAID}
_OF_QUOTAS = {throttling.THROTTLED: NEWLY_THROTTLED, throttling.CANNOT_BE_SAID: CANNOT_BE_SAID}
_OF_SESSIONS = {sessions.CANNOT_BE_SAID: CANNOT_BE_SAID}
Plain = dict[str, object]


class WhatIfDocument(TypedDict):
    """The content of what-if.json. Times are in ms since the epoch, amounts in requests and bytes."""

    offset: int
    """Of the last record of the metadata log that the proposal was compared with."""
    days: list[str | None]
    """The first and the last day, null for no bound."""
    span_ms: list[int]
    """The times of the first and the last record of these days."""
    bucket_ms: int
    """The interval of `over_time`."""
    warnings: list[str]
    requests: dict[str, int]
    """Outcome -> number of requests that were decided again."""
    effects: dict[str, int]
    """EFFECTS -> number of rows."""
    access: list[Plain]
    """Without unchanged rows."""
    throttling: list[Plain]
    sessions: list[Plain]
    logic: Regions | None
    """What the difference of the policies says can change; None: not given."""
    shadow: ShadowSeen
    """What candidates decided otherwise."""
    over_time: list[Plain]
    """Requests (`amount`) by outcome (`plot`), interval (`bucket_ms`) and principal (`series`)."""


def document(
    audit: DataFrame,
    metadata_log: DataFrame,
    proposal: Proposal,
    first: date | None,
    last: date | None,
    summaries: Summaries | None = None,
    logic: Regions | None = None,
) -> WhatIfDocument:
    """Return what the proposal would have done to the traffic of these days, both included.

    `logic`: the difference of the policies. AuditError if the proposal does not fit the ACLs and quotas at
    the end of the log.
    """
    found = effects(recorded(audit, metadata_log, first, last, summaries), proposal)
    return {**found, "logic": logic, "shadow": seen(audit, first, last)}


def effects(of: RecordedDays, proposal: Proposal) -> WhatIfDocument:
    """Return the document. AuditError as for `document`."""
    changes = resolved(proposal, of.state, of.principals)
    if changes.problems:
        raise AuditError("; ".join(changes.problems))
    log, proposed = of.proposed_log(
        acl_records(changes.added, changes.removed, changes.ends) + quota_records(proposal)
    )
    log = log.persist()
    decided = of.decided(log, proposed, proposal).persist()
    changed = decided.where(F.col(A.OUTCOME) != A.UNCHANGED)
    lifetime_ms = proposal.max_reauth_ms
    quotas = throttling.throttling(of.period, of.records, log, of.state.now, proposed, proposal)
    longer = sessions.longer_sessions(of.period, lifetime_ms) if lifetime_ms else None
    counted = decided.groupBy(A.OUTCOME).agg(F.sum(traffic.REQUESTS).cast("long").alias("requests")).collect()
    found: WhatIfDocument = {
        "offset": of.state.now,
        "days": [None if day is None else day.isoformat() for day in (of.first, of.last)],
        "span_ms": list(of.span_ms),
        "bucket_ms": of.bucket_ms,
        "warnings": changes.warnings,
        "requests": dict.fromkeys(A.OUTCOMES, 0) | {row[0]: row[1] for row in counted},
        "effects": dict.fromkeys(EFFECTS, 0),
        "access": _rows(changed.drop(traffic.OVER_TIME), A.OUTCOMES),
        "throttling": _rows(quotas, (throttling.THROTTLED,)),
        "sessions": _rows(longer, ()),
        "logic": None,
        "shadow": NOTHING_SEEN,
        "over_time": _rows(_over_time(changed), ()),
    }
    for rows, kinds in (
        (found["access"], _OF_ACCESS),
        (found["throttling"], _OF_QUOTAS),
        (found["sessions"], _OF_SESSIONS),
    ):
        for row in rows:
            if effect := kinds.get(str(row[A.OUTCOME])):
                found["effects"][effect] += 1
    return found


def _over_time(changed: DataFrame) -> DataFrame:
    """Return the requests of each outcome by interval and principal, of the largest principals only."""
    each = changed.select(A.OUTCOME, S.PRINCIPAL, F.explode(traffic.OVER_TIME).alias("_"))
    drawn = each.where(F.col(f"_.{traffic.REQUESTS}") > 0)
    summed = drawn.groupBy(
        F.col(A.OUTCOME).alias(PLOT), f"_.{traffic.BUCKET_MS}", F.col(S.PRINCIPAL).alias(SERIES)
    ).agg(F.sum(f"_.{traffic.REQUESTS}").alias(AMOUNT))
    return largest(summed)


def _rows(frame: DataFrame | None, order: Sequence[str]) -> list[Plain]:
    """Return the rows, those of the outcomes in `order` first."""
    rows = [] if frame is None else [row.asDict(recursive=True) for row in frame.collect()]
    places = {outcome: place for place, outcome in enumerate(order)}
    return sorted(rows, key=lambda row: (places.get(str(row.get(A.OUTCOME)), len(places)), str(row)))


def lines(found: WhatIfDocument) -> Iterator[str]:
    """Yield what people read: the counts, then the first rows of each kind."""
    yield from (f"warning: {warning}" for warning in found["warnings"])
    counts = ", ".join(
        f"{number} {outcome.replace('_', ' ')}" for outcome, number in found["requests"].items()
    )
    yield f"at offset {found['offset']}: requests {counts}"
    if (logic := found["logic"]) is not None:
        yield f"by the logic: {_changes(logic, 'regions')}"
    if (shadow := found["shadow"])["compared"]:
        compared = sum(shadow["compared"].values())
        candidates = ", ".join(shadow["compared"])
        yield f"candidate {candidates}: {compared} decisions compared: {_changes(shadow, 'decisions')}"
    for rows, line in (
        (found["access"], _access),
        (found["throttling"], _throttling),
        (found["sessions"], _session),
    ):
        yield from (line(row) for row in rows[:SHOWN])
        if len(rows) > SHOWN:
            yield f"... and {len(rows) - SHOWN} more"


def _changes(of: Regions | ShadowSeen, what: str) -> str:
    return f"{of['newly_denied']} {what} newly denied, {of['newly_allowed']} newly allowed"


def _access(row: Mapping[str, object]) -> str:
    what = f"{row[S.OPERATION]} {row[S.RESOURCE_TYPE]} {row[S.RESOURCE_NAME] or '(any)'}"
    who = f"{row[S.PRINCIPAL]} from {row[S.HOST]}, client id {row[S.CLIENT_ID]}, {row[S.METHOD]}"
    why = f": {row[A.REASON]}" if row[A.REASON] else ""
    return (
        f"{_outcome(row)}: {who}: {what}: {row[traffic.REQUESTS]} requests, {row[traffic.BYTES]} bytes{why}"
    )


def _throttling(row: Mapping[str, object]) -> str:
    why = f": {row['reason']}" if row["reason"] else f": {row[throttling.THROTTLED_MS]} ms"
    bucket = f"{row[S.QUOTA_KEY]} {row[S.QUOTA_LIMIT]} of {row[S.QUOTA_ID]} at {row['proxy']}"
    return f"{_outcome(row)}: {bucket}{why}"


def _session(row: Mapping[str, object]) -> str:
    return (
        f"{_outcome(row)}: {row[S.PRINCIPAL]}, client id {row[S.CLIENT_ID]}: {row['connections']} connections"
        f" of up to {row['longest_ms']} ms"
    )


def _outcome(row: Mapping[str, object]) -> str:
    return str(row[A.OUTCOME]).replace("_", " ")


def holds(found: WhatIfDocument, effects: Iterable[str]) -> bool:
    """Return whether one of these effects occurs."""
    return any(found["effects"][effect] for effect in effects)
