"""Events with their lines and hash chains, as table `audit`; and the metadata log by which they are true.

A chain has to be computed in order: a Python function does it, one call for each record, boot by boot within
a Spark partition. That is this generator's affair only; the jobs have none.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from proxy.audit.checkpoints import Checkpoint, Signer
from spark_audit import schema as S
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from tests.lab.bench.audit.events import (
    LIMIT,
    LIMITED,
    MIDNIGHT_MS,
    NOTE,
    PREVIOUS,
    TOPICS,
    USERS,
    Shape,
    events,
)
from tests.lab.bench.audit.faults import forced, spoil, spoil_log
from tests.spark.audit_trail import Clock, Trail, an_acl
from tests.spark.frames import log_frame
from tests.spark.sealed import seal, table
from tests.support.signing import signing_key

_CHAIN_DIGITS = 64
KEY_DAYS = 20
_MAKER = "bench"
_BATCH = 100
_CREATE_ACL = 18, "AccessControlEntryRecord"
_SET_QUOTA = 14, "ClientQuotaRecord"

Body = Mapping[str, object]


def make(spark: SparkSession, tables: Tables, shape: Shape) -> None:
    """A trail of about so many records in Delta tables, with the faults of faults.py in it."""
    delta.create_tables(spark, tables)
    trail, base_offset = administration(shape)
    true = events(spark, shape, base_offset, forced(shape)).transform(lined, shape).transform(as_table)
    delta.append_once(spoil(true, shape), tables.audit, _MAKER, 0)
    trail.controller.stop()
    trail.proxy.stop()
    spoil_log(trail)
    small = [line for process in (trail.controller, trail.proxy) for line in seal(process)]
    delta.append_once(table(spark, small), tables.audit, _MAKER, 1)
    delta.append_once(log_frame(spark, trail.log), tables.metadata_log, _MAKER, 0)


def made(spark: SparkSession, tables: Tables) -> bool:
    """Whether `make` has been here, and came to its end."""
    there = DeltaTable.isDeltaTable(spark, tables.metadata_log)
    return there and delta.version(spark, tables.metadata_log) > 0


def lined(events: DataFrame, shape: Shape) -> DataFrame:
    """Add `line`, `chain` and `body_sha256`; take and give one partition per process, in order."""
    old, new = (
        F.to_json(F.struct(*names), {"ignoreNullFields": "false"})
        for names in ([name for name in S.DATA.names if name not in S.ADDED_LATER], S.DATA.names)
    )
    written = events.withColumn(S.LINE, F.concat(_envelope(), F.when(F.col("is_old"), old).otherwise(new)))
    link = F.udf(linker(shape.boot_size), "string", useArrow=False).asNondeterministic()
    linked = written.withColumn("linked", link(S.PROXY_ID, S.BOOT_ID, S.SEQUENCE, S.LINE, S.TIME_MS))
    # Of a `started` record what it follows, of a checkpoint the note, else nothing.
    inserted = F.substring("linked", _CHAIN_DIGITS + 1, 2_000)
    settings = F.transform_values(S.SETTINGS, lambda _, value: F.replace(value, F.lit(PREVIOUS), inserted))
    escaped = F.replace(inserted, F.lit("\n"), F.lit("\\n"))
    line = F.replace(F.replace(S.LINE, F.lit(PREVIOUS), inserted), F.lit(NOTE), escaped)
    named = linked.withColumns(
        {S.LINE: line, S.SETTINGS: settings, S.MESSAGE: F.replace(S.MESSAGE, F.lit(NOTE), inserted)}
    )
    return named.withColumn(S.CHAIN, F.unhex(F.substring("linked", 1, _CHAIN_DIGITS))).drop("linked")


def as_table(lines: DataFrame) -> DataFrame:
    """Table `audit`, as ingest would write it."""
    is_chained = F.col(S.RECORD_SCHEMA_VERSION) >= S.CHAINED_SINCE
    link = F.concat(F.lit(',"chain":"'), F.lower(F.hex(S.CHAIN)), F.lit('"'))
    whole = F.concat(S.LINE, F.when(is_chained, link).otherwise(""), F.lit("}"))
    return lines.select(
        F.to_date(F.timestamp_millis(S.TIME_MS)).alias(S.DATE),
        *S.DATA.names,
        F.lit("audit").alias(S.KAFKA_TOPIC),
        F.lit(0).alias(S.KAFKA_PARTITION),
        F.col("n").alias(S.KAFKA_OFFSET),
        F.timestamp_millis(S.TIME_MS).alias(S.KAFKA_TIMESTAMP),
        F.unhex(F.sha2(whole, 256)).alias(S.BODY_SHA256),
        F.when(is_chained, F.col(S.CHAIN)).alias(S.CHAIN),
        F.when(is_chained, F.col(S.LINE)).alias(S.LINE),
    )


def linker(boot_size: int) -> Callable[[str, str, int, str, int], str]:
    """A function of a record's key, line and time: its link, and what is inserted into the line."""
    state = {"boot": "", "link": "", "end": ""}

    def link(proxy_id: str, boot_id: str, sequence: int, line: str, time_ms: int) -> str:
        inserted = ""
        if state["boot"] != boot_id:
            inserted = state["end"]
            state["link"] = sha256(f"{proxy_id}/{boot_id}".encode()).hexdigest()
            state["boot"] = boot_id
            line = line.replace(PREVIOUS, inserted)
        elif NOTE in line:
            stops = sequence == boot_size - 2
            said = Checkpoint(proxy_id, boot_id, sequence, state["link"], time_ms, None, stops)
            inserted = Signer(proxy_id, signing_key(key_name(proxy_id, time_ms))).signed(said.text())
            line = line.replace(NOTE, inserted.replace("\n", "\\n"))
        state["link"] = sha256((state["link"] + line).encode()).hexdigest()
        state["end"] = f"{boot_id}/{sequence}/{state['link']}"
        return state["link"] + inserted

    return link


def key_name(proxy_id: str, time_ms: int) -> str:
    """The key with which a process signs at that time; it has another one each KEY_DAYS."""
    return f"{proxy_id}-{(time_ms - MIDNIGHT_MS) // (KEY_DAYS * 86_400_000)}"


def _envelope() -> Column:
    # Joined, not formatted: Java's formatter would be a good part of the work.
    time = F.date_format(F.timestamp_millis(S.TIME_MS), "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
    version = F.col(S.RECORD_SCHEMA_VERSION).cast("string")
    told: tuple[tuple[str, str | Column], ...] = (
        ('{"specversion":"1.0","id":"', S.PROXY_ID),
        ("/", S.BOOT_ID),
        ("/", F.col(S.SEQUENCE).cast("string")),
        ('","source":"penstock://proxy/', S.PROXY_ID),
        ('","type":"io.penstock.', S.EVENT),
        ('","time":"', time),
        ('","subject":"', F.coalesce(S.PRINCIPAL, F.lit(""))),
    )
    parts = (*told, ('","datacontenttype":"application/json","dataschema":"penstock:audit:', version))
    return F.concat(*(part for text, value in parts for part in (F.lit(text), value)), F.lit('","data":'))


def administration(shape: Shape, kind: type[Trail] = Trail) -> tuple[Trail, int]:
    """The base ACLs and quotas and a change for each epoch, and the offset of the first image."""
    trail = kind(Clock(MIDNIGHT_MS, step_ms=10))
    _forward(trail, "CreateAcls", _CREATE_ACL, _base_acls())
    limited = [{"user": f"user-{user}"} for user in range(0, USERS, LIMITED)]
    quotas = [
        {"entity": user, "key": "producer_byte_rate", "value": LIMIT, "remove": False} for user in limited
    ]
    _forward(trail, "AlterClientQuotas", _SET_QUOTA, quotas)
    base = trail.offset
    for epoch in range(1, shape.records // shape.epoch + 1):
        text = f"ALLOW User:new-{epoch} * READ TOPIC LITERAL topic-{epoch % TOPICS}"
        _forward(trail, "CreateAcls", _CREATE_ACL, [an_acl(epoch, text)])
    return trail, base


def _forward(trail: Trail, method: str, record: tuple[int, str], bodies: Sequence[Body]) -> None:
    for start in range(0, len(bodies), _BATCH):
        trail.forward(method, [(*record, dict(body)) for body in bodies[start : start + _BATCH]])


def _base_acls() -> list[Body]:
    acls: list[Body] = []
    for user in range(USERS):
        pattern = "PREFIXED" if user % 7 == 0 else "LITERAL"
        for letter, operation in (("r", "READ"), ("w", "WRITE")):
            text = f"ALLOW User:user-{user} * {operation} TOPIC {pattern} topic-{user % TOPICS}"
            acls.append(an_acl(user, text) | {"id": f"{letter}-{user}"})
        if user % 97 == 0:
            acls.append(
                an_acl(user, f"DENY User:user-{user} * WRITE TOPIC LITERAL closed") | {"id": f"d-{user}"}
            )
    return acls
