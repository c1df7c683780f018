"""Who created, changed and deleted a resource, as the records of administrative requests name it.

Takes table `audit`. What is shown is read from the lines, which the hash chain protects. A request is one row
for each of its objects: with the outcome where there is one, else as it was attempted. Used by
`penstock audit history`.
"""

from datetime import UTC, datetime
from typing import cast

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.report.formatting import visible
from spark_audit.tables.plans import held
from spark_audit.trail.audit_records import deduplicate, later_copies, sequence_index

KINDS = {
    "topic": ("TOPIC",),
    "group": ("GROUP",),
    "user": ("USER",),
    "acl": ("ACL",),
    "quota": ("QUOTA",),
    "config": ("TOPIC", "BROKER", "GROUP", "CLIENT_METRICS"),
    "broker": ("BROKER", "BROKER_LOGGER"),
    "token": ("TOKEN",),
    "transactional-id": ("TRANSACTIONAL_ID",),
}
"""What a resource may be called on the command line -> the types of its objects."""
ATTEMPTS = ("ALTER", "ALTER_CONFIGS", "CREATE", "DELETE")
"""Operations whose denial is shown too, where the record names the resource only."""
_MOST_CHARACTERS = 1_024
"""Longer texts of objects are cut (proxy.admin.objects)."""
Entry = dict[str, object]
_NAMING = (
    *("authorization", "admin_request", "broker_responded", "forwarded", "forwarded_received"),
    *S.UNREQUESTED,
)
"""The events that have objects."""
_REQUEST = (*S.BOOT_KEY, S.CONNECTION_ID, S.CORRELATION_ID, S.METHOD)
"""A client chooses correlation ids, and may use one again. So the records of each are numbered, too."""
_NUMBER, _RESPONDED = "number", "responded"
_WHO = (S.TIME_MS, S.METHOD, S.PRINCIPAL, S.HOST, S.CLIENT_ID, S.LISTENER)
_SHOWN = ("type", "name", S.OPERATION, "key", "old_value", "new_value", "error", "error_message", "details")
_OF_RIGHT = ("type", "name", S.OPERATION, "error")


def history(audit: DataFrame, kind: str, name: str) -> list[Entry]:
    """Return what was done to the resource, in the order of time. `kind` is one of KINDS."""
    records = deduplicate(audit, later_copies(audit, sequence_index(audit)))
    # Most lines have none, and to parse a line costs much more than to see that.
    without = F.coalesce(F.contains(S.LINE, F.lit(f'"{S.OBJECTS}":null')), F.lit(False))
    named = _as_sealed(records.where(F.col(S.EVENT).isin(*_NAMING) & ~without))
    named = held(named.where(F.col(S.OBJECTS).isNotNull()))
    each = done(named).withColumn("object", F.explode(S.OBJECTS))
    about = held(each.where(matches(F.col("object"), kind, name)))
    found = about.select(*S.RECORD_KEY, *_WHO, *(F.col(f"object.{column}") for column in _SHOWN))
    outcomes = about.where(F.col(S.EVENT).isin("authorization", "broker_responded"))
    shown = _numbered(outcomes.select(*_REQUEST, S.SEQUENCE).distinct()).drop(S.SEQUENCE)
    denied = _numbered(_by_right(records, kind, name), S.OPERATION)
    by_right = denied.join(shown, [*_REQUEST, _NUMBER], "left_anti")
    found = found.unionByName(by_right.select(*S.RECORD_KEY, *_WHO, *_OF_RIGHT), allowMissingColumns=True)
    order = [S.TIME_MS, *S.RECORD_KEY, "type", "name", S.OPERATION, "key"]
    return [_document(row.asDict(recursive=True)) for row in found.orderBy(*order).collect()]


def _as_sealed(records: DataFrame) -> DataFrame:
    """Return records as their lines say, whatever the columns of the table are. Version 1 has no line."""
    sealed = F.from_json(F.concat(S.LINE, F.lit("}")), S.ENVELOPE)["data"]
    told = {
        name: F.when(F.col(S.LINE).isNull(), F.col(name)).otherwise(sealed[name]) for name in S.DATA.names
    }
    return records.withColumns(told)


def done(records: DataFrame) -> DataFrame:
    """Return one record with `objects` for each administrative request: its outcome, or what was attempted.

    What was about to be done counts where no outcome is recorded, such as after a crash.
    """
    event = F.col(S.EVENT)
    rows = records.where(event.isin(*_NAMING) & F.col(S.OBJECTS).isNotNull())
    forwarded = rows.where(event == "forwarded").select(S.FORWARD_ID)
    before = (event == "admin_request") & F.col(S.ERROR_CODE).isNull()
    at_controller = event == "forwarded_received"
    outcomes = rows.where(~before & ~at_controller)
    responses = _numbered(rows.where(event == "broker_responded"))
    responded = responses.select(*_REQUEST, _NUMBER, F.col(S.SEQUENCE).alias(_RESPONDED))
    attempts = _numbered(rows.where(before)).join(responded, [*_REQUEST, _NUMBER], "left")
    is_left = F.col(_RESPONDED).isNull() | (F.col(_RESPONDED) < F.col(S.SEQUENCE))
    outcomes = outcomes.unionByName(attempts.where(is_left).drop(_NUMBER, _RESPONDED))
    return outcomes.unionByName(rows.where(at_controller).join(forwarded, S.FORWARD_ID, "left_anti"))


def _numbered(records: DataFrame, *columns: str) -> DataFrame:
    """Add the place of each record among those of its request, which brokers respond to in order."""
    of_request = Window.partitionBy(*_REQUEST, *columns).orderBy(S.SEQUENCE)
    return records.withColumn(_NUMBER, F.row_number().over(of_request))


def lines(found: list[Entry]) -> list[str]:
    """Return a line for each row of the history."""
    return [_line(each) for each in found]


def _by_right(records: DataFrame, kind: str, name: str) -> DataFrame:
    """Return denials of administration that name the resource, and the uses of a transactional id."""
    recorded = name if len(name) <= S.MOST_CHARACTERS else f"{name[: S.MOST_CHARACTERS - 1]}…"
    about = (F.col(S.RESOURCE_NAME) == recorded) & F.col(S.RESOURCE_TYPE).isin(*KINDS[kind])
    denied = (F.col(S.EVENT) == "authorization") & ~F.col(S.GRANTED) & (F.col(S.ROLE) == "proxy")
    denied = denied & F.col(S.OPERATION).isin(*ATTEMPTS)
    used = F.col(S.EVENT).isin("authorization", "authorization_summary") & F.lit(kind == "transactional-id")
    outcome = F.when(F.col(S.GRANTED), "NONE").otherwise("DENIED")
    rows = _as_sealed(records.where(about & (denied | used)))
    return rows.select(
        *S.RECORD_KEY,
        *(S.CONNECTION_ID, S.CORRELATION_ID),
        *_WHO,
        F.col(S.RESOURCE_TYPE).alias("type"),
        F.col(S.RESOURCE_NAME).alias("name"),
        S.OPERATION,
        outcome.alias("error"),
    )


def matches(each: Column, kind: str, name: str) -> Column:
    """Return whether an object is the resource. A record may have cut its name."""
    if len(name) > _MOST_CHARACTERS:
        name = f"{name[:_MOST_CHARACTERS]}… ({len(name)} characters)"
    if kind == "config":
        named = (each["key"] == name) & each[S.OPERATION].endswith("_CONFIG")
    elif kind == "acl":
        named = (each["name"] == name) | (each["details"]["principal"] == name)
    elif kind == "quota":
        # Names may have commas: `user=CN=alice,O=x`.
        parts = F.split(each["name"], ",(?=(client-id|ip|user)(=|,|$))")
        of_name = [f"{kind}={name}" for kind in ("client-id", "ip", "user")]
        named = (each["name"] == name) | F.arrays_overlap(parts, F.array(*map(F.lit, of_name)))
    else:
        named = each["name"] == (name.removeprefix("User:") if kind == "user" else name)
    return named & each["type"].isin(*KINDS[kind])


def _document(row: Entry) -> Entry:
    time = datetime.fromtimestamp(cast(int, row.pop(S.TIME_MS)) / 1000, UTC).isoformat(
        timespec="milliseconds"
    )
    return {"time": time} | {name: value for name, value in row.items() if value is not None}


def _line(each: Entry) -> str:
    words: list[object] = [
        f"{each['time']}  {each['operation']} {each['type']} {each.get('name')}",
        each.get("key"),
    ]
    if "new_value" in each or "old_value" in each:
        words.append(f"{each.get('old_value', '(unknown)')} -> {each.get('new_value', '(none)')}")
    words += [f"by {each.get('principal', '(the controller)')} from {each.get('host', '(no address)')}"]
    words += [f"with client {each.get('client_id', '(none)')} ({each['method']})"]
    outcome = each.get("error", "outcome not known")
    details = [f"{key}={value}" for key, value in sorted(cast(Entry, each.get("details", {})).items())]
    told = [outcome, each.get("error_message"), ", ".join(details)]
    request, result = (
        sep.join(str(each) for each in parts if each) for sep, parts in ((" ", words), ("; ", told))
    )
    return str(visible(f"{request}: {result}"))
