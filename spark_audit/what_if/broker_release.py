"""Which requests of recorded traffic a broker of another release does not speak.

broker_versions.json has the versions of each API by release, only what differs from the release before; null
is an API that the release does not have. `python -m tests.support.broker_versions` writes it from Kafka's own
schemas (KIP-35, KIP-896).
"""

import json
from collections.abc import Iterator, Mapping
from datetime import date
from importlib.resources import files
from typing import TypedDict

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.tables.files import AuditError
from spark_audit.trail.audit_records import deduplicate
from spark_audit.what_if.traffic import FIRST_MS, LAST_MS, REQUESTS, of_period

UNSUPPORTED_VERSION = "unsupported-version"
CANNOT_BE_SAID = "cannot-be-said"
EFFECTS = UNSUPPORTED_VERSION, CANNOT_BE_SAID
"""What a pipeline may fail on."""
_WHO = (S.PRINCIPAL, S.CLIENT_SOFTWARE, S.CLIENT_ID, S.LISTENER, S.METHOD, S.API_VERSION)
_WITHOUT_VERSION = (
    *("authorization_summary", "request_summary"),  # Of releases before 0.9.0.
    *("authorization_collapsed", "request_collapsed"),
)
"""Events of requests whose records may have no version."""
_SHOWN = 20


class BrokerReleaseDocument(TypedDict):
    """The content of what-if.json. Times are in ms since the epoch."""

    broker: str
    """The release whose schemas were compared with, such as `4.4.0`."""
    days: list[str | None]
    """The first and the last day, null for no bound."""
    effects: dict[str, int]
    """EFFECTS -> number of rows."""
    versions: list[dict[str, object]]
    """_WHO, with `broker_versions`: what the release speaks, [first, last] or null. Without an `api_version`
    it cannot be said."""


def document(audit: DataFrame, release: str, first: date | None, last: date | None) -> BrokerReleaseDocument:
    """Return who has used what a broker of this release does not speak. `audit` may have copies of records.

    AuditError if there are no schemas of the release.
    """
    version, spoken = versions_of(release)
    first_versions = F.create_map(*(F.lit(x) for api, (least, _) in spoken.items() for x in (api, least)))
    least = F.try_element_at(first_versions, F.col(S.METHOD))
    unsaid = F.col(S.API_VERSION).isNull() & F.col(S.EVENT).isin(*_WITHOUT_VERSION)
    # A version above the last one is not among them: clients go down to it (KIP-35).
    unspoken = F.col(S.METHOD).isNotNull() & (least.isNull() | (F.col(S.API_VERSION) < least))
    chosen = (F.col(S.ROLE) == "proxy") & (unsaid | (F.col(S.API_VERSION).isNotNull() & unspoken))
    found = (
        deduplicate(of_period(audit, first, last).where(chosen))
        .groupBy(*_WHO)
        .agg(
            F.sum(F.coalesce(S.COUNT, F.lit(1))).alias(REQUESTS),
            F.min(F.coalesce(S.INTERVAL_START_MS, S.TIME_MS)).alias(FIRST_MS),
            F.max(S.TIME_MS).alias(LAST_MS),
        )
        .orderBy(*_WHO)
    )
    rows = [row.asDict() | {"broker_versions": spoken.get(row[S.METHOD])} for row in found.collect()]
    unknown = sum(row[S.API_VERSION] is None for row in rows)
    return {
        "broker": version,
        "days": [None if day is None else day.isoformat() for day in (first, last)],
        "effects": {UNSUPPORTED_VERSION: len(rows) - unknown, CANNOT_BE_SAID: unknown},
        "versions": rows,
    }


def versions_of(release: str) -> tuple[str, dict[str, tuple[int, int]]]:
    """Return the release with this minor version in the table, and the first and last version of each API.

    AuditError if there is none.
    """
    table: dict[str, dict[str, tuple[int, int] | None]] = json.loads(
        files(__package__).joinpath("broker_versions.json").read_text(encoding="utf-8")
    )
    spoken: dict[str, tuple[int, int] | None] = {}
    for version, changes in table.items():
        spoken |= changes
        if version.split(".")[:2] == release.split(".")[:2]:
            return version, {api: span for api, span in spoken.items() if span is not None}
    known = ", ".join(version.rpartition(".")[0] for version in table)
    raise AuditError(
        f"--broker {release}: this version of Penstock has no schemas of that release. It has those of"
        f" {known}. Kafka publishes schemas with each release, and the next Penstock has them then"
    )


def lines(found: BrokerReleaseDocument) -> Iterator[str]:
    """Yield what people read: the counts, then the first rows."""
    effects = ", ".join(f"{number} {effect}" for effect, number in found["effects"].items())
    yield f"broker {found['broker']}: {effects}"
    yield from map(_line, found["versions"][:_SHOWN])
    if len(found["versions"]) > _SHOWN:
        yield f"... and {len(found['versions']) - _SHOWN} more"


def _line(row: Mapping[str, object]) -> str:
    spoken = row["broker_versions"]
    match spoken:
        case None:
            why = "the broker does not have this API"
        case [first, last]:
            why = f"the broker speaks {first} to {last}"
    what = f"{row[S.METHOD]} {row[S.API_VERSION]}"
    if row[S.API_VERSION] is None:
        what, why = str(row[S.METHOD] or "(any API)"), "the record has no version"
    software = row[S.CLIENT_SOFTWARE] or "unknown software"
    who = f"{row[S.PRINCIPAL]}, client id {row[S.CLIENT_ID]}, {software}, at {row[S.LISTENER]}"
    return f"{who}: {what}: {row[REQUESTS]} requests: {why}"
