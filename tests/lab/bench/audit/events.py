"""The records of an audit trail from their numbers: Spark expressions only, so that 20 million take no loop.

Record n belongs to boot n // boot_size; BOOTS boots follow each other in one process, and processes follow
each other in time, by default a million records to a day. Connections of a hundred records log in and send
traffic that the base ACLs of trail.py allow or deny; every `epoch` records one ACL more is there. All of it
is true; what faults.py wants otherwise it gives as `forced` columns.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S

USERS, TOPICS, LIMITED = 2_000, 200, 10
"""Every LIMITED-th user has a produce quota."""
LIMIT = 1_000_000.0
BOOTS, STEP_MS, CHECKPOINTS = 5, 86, 4
MIDNIGHT_MS = 1_795_392_000_000  # 2026-11-23T00:00:00Z
AUTHORIZER = "proxy.security.standard.StandardAuthorizer"
PREVIOUS, NOTE = "@previous@", "@note@"
"""Stand in a `started` record until the boot before it is chained, and in a checkpoint until it is signed."""

_READ, _WRITTEN, _DESCRIBED, _CLOSED = 45, 80, 92, 94
"""Of a hundred records of traffic, so many are below: fetches, produce, metadata, writes to `closed`."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a trail is, in records; an ACL comes with each `epoch` of them."""

    records: int
    boot_size: int = 20_000
    epoch: int = 50_000
    step_ms: int = STEP_MS
    """Between two records."""
    signs: bool = False
    """Each fourth record is a checkpoint."""
    old_processes: int = 0
    """So many processes at first write version 1 of the record, without a chain and checkpoints; then as many
    write version 2 without the fields that were added later."""

    @property
    def processes(self) -> int:
        return max(1, self.records // (self.boot_size * BOOTS))


def events(
    spark: SparkSession, shape: Shape, base_offset: int, forced: dict[str, dict[int, object]]
) -> DataFrame:
    """Each record's DATA columns and its number, `n`; one Spark partition for each process.

    `base_offset` is that of the first image, each epoch is two offsets further.
    `forced`: column -> record number -> what it is to be: `late_ms`, `user`, `kind`, `bytes`, `granted`.
    """
    whole = shape.processes * shape.boot_size * BOOTS
    numbered = spark.range(0, whole, 1, shape.processes).withColumnRenamed("id", "n")
    drawn = numbered.select(*_draws(shape, base_offset, forced))
    told = drawn.select("*", *_about(shape))
    return told.select(
        "n",
        *(
            _data(forced).get(name, F.lit(None)).cast(S.DATA[name].dataType).alias(name)
            for name in S.DATA.names
        ),
        (F.col("process") < 2 * shape.old_processes).alias("is_old"),
    )


def _unchained(shape: Shape) -> Column:
    return F.col("process") < shape.old_processes


def _forced(forced: dict[str, dict[int, object]], name: str, otherwise: Column) -> Column:
    for number, value in forced.get(name, {}).items():
        otherwise = F.when(F.col("n") == number, F.lit(value)).otherwise(otherwise)
    return otherwise


def _draws(shape: Shape, base_offset: int, forced: dict[str, dict[int, object]]) -> list[Column]:
    n = F.col("n")
    connection = F.floor(n / 100)
    # Squared: a few users are much busier than most.
    share = F.pmod(F.xxhash64(connection), F.lit(10_000)) / 10_000
    return [
        n,
        F.floor(n / (shape.boot_size * BOOTS)).alias("process"),
        F.floor(n / shape.boot_size).alias("boot"),
        (n % shape.boot_size).alias(S.SEQUENCE),
        connection.alias("connection"),
        _forced(forced, "user", F.floor(share * share * USERS)).alias("user"),
        _forced(forced, "kind", F.pmod(F.xxhash64(n), F.lit(100))).alias("kind"),
        (F.lit(MIDNIGHT_MS) + n * shape.step_ms + _forced(forced, "late_ms", F.lit(0))).alias(S.TIME_MS),
        (F.lit(base_offset) + 2 * F.floor(n / shape.epoch)).alias(S.METADATA_OFFSET),
        F.lit(shape.boot_size).alias("boot_size"),
    ]


def _about(shape: Shape) -> list[Column]:
    sequence, kind = F.col(S.SEQUENCE), F.col("kind")
    event = (
        F.when(sequence == 0, "started")
        .when(sequence == shape.boot_size - 1, "stopped")
        .when(F.lit(shape.signs) & ~_unchained(shape) & (sequence % CHECKPOINTS == 2), "checkpoint")
        .when(sequence % 500 == 499, "high_water")
        .when(sequence % 100 == 1, "authentication")
        .when(kind < _DESCRIBED, "authorization_summary")
        .otherwise("authorization")
    )
    method = (
        F.when(kind < _READ, "Fetch").when(kind < _WRITTEN, "Produce").when(kind < _DESCRIBED, "Metadata")
    )
    operation = (
        F.when(kind < _READ, "READ").when(kind < _WRITTEN, "WRITE").when(kind < _DESCRIBED, "DESCRIBE")
    )
    own, closed, secret = _named("topic", F.col("user") % TOPICS), F.lit("closed"), _named("secret", kind)
    return [
        event.alias(S.EVENT),
        F.coalesce(method, F.lit("Produce")).alias(S.METHOD),
        F.coalesce(operation, F.lit("WRITE")).alias(S.OPERATION),
        F.when(kind < _DESCRIBED, own).when(kind < _CLOSED, closed).otherwise(secret).alias(S.RESOURCE_NAME),
        F.when(_unchained(shape), 1).otherwise(2).alias(S.RECORD_SCHEMA_VERSION),
        F.concat(F.lit("process-"), F.col("process")).alias(S.PROXY_ID),
        F.sha1(F.concat(F.lit("boot-"), F.col("boot"))).substr(1, 16).alias(S.BOOT_ID),
    ]


def _data(forced: dict[str, dict[int, object]]) -> dict[str, Column]:
    """Column -> value; columns that are not here are null."""
    traffic, summary = _is("authorization", "authorization_summary"), _is("authorization_summary")
    session = traffic | _is("authentication")
    user, kind = F.col("user"), F.col("kind")
    allowed = kind < _DESCRIBED
    denies = (kind < _CLOSED) & (user % 97 == 0)
    letter = F.when(kind < _READ, "r").when(allowed, "w").when(denies, "d")
    produced, limited = F.col(S.METHOD) == "Produce", user % LIMITED == 0
    charged = summary & produced & limited
    size = _forced(forced, "bytes", F.pmod(F.xxhash64("n", F.lit(1)), F.lit(20_000)))
    kept = {name: F.col(name) for name in (S.PROXY_ID, S.BOOT_ID, S.SEQUENCE, S.TIME_MS, S.EVENT)}
    of_traffic = {
        S.METHOD: F.col(S.METHOD),
        S.API_VERSION: F.lit(11),
        S.CORRELATION_ID: F.col("n") % 1_000_000,
        S.RESOURCE_TYPE: F.lit("TOPIC"),
        S.RESOURCE_NAME: F.col(S.RESOURCE_NAME),
        S.PATTERN_TYPE: F.lit("LITERAL"),
        S.OPERATION: F.col(S.OPERATION),
        S.GRANTED: _forced(forced, "granted", allowed),
        S.RULE: F.when(allowed | denies, "acl").otherwise("default.deny"),
        S.ACL_ID: F.concat(letter, F.lit("-"), user),
        S.METADATA_OFFSET: F.col(S.METADATA_OFFSET),
        S.ERROR_CODE: F.when(allowed, 0).otherwise(29),
    }
    of_session = {
        S.CONNECTION_ID: F.concat(F.lit("c-"), F.col("connection")),
        S.LISTENER: F.lit("SASL_SSL"),
        S.HOST: F.concat(F.lit("10.0."), user % 250, F.lit("."), F.lit(7)),
        S.PRINCIPAL: F.concat(F.lit("User:"), _named("user", user)),
        S.CLIENT_ID: _named("app", user % 50),
    }
    of_summary = {
        S.COUNT: F.pmod(F.xxhash64("n", F.lit(2)), F.lit(400)) + 1,
        S.REQUEST_BYTES: size,
        S.RESPONSE_BYTES: F.when(F.col(S.METHOD) == "Fetch", size).otherwise(80),
        S.INTERVAL_START_MS: F.col(S.TIME_MS) - 1_000,
        S.INTERVAL_END_MS: F.col(S.TIME_MS),
    }
    of_quota = {
        S.QUOTA_ID: F.concat(_named("user", user), F.lit(":")),
        S.QUOTA_KEY: F.lit("producer_byte_rate"),
        S.QUOTA_LIMIT: F.lit(LIMIT),
    }
    of_login = {S.SESSION_LIFETIME_MS: F.lit(3_600_000), S.MECHANISM: F.lit("SCRAM-SHA-512")}
    counted = {
        S.COUNT: F.when(_is("high_water", "stopped"), F.col(S.SEQUENCE) + 1).when(
            summary, of_summary.pop(S.COUNT)
        )
    }
    return (
        kept
        | {
            S.RECORD_SCHEMA_VERSION: F.col(S.RECORD_SCHEMA_VERSION),
            S.ROLE: F.lit("proxy"),
            S.MESSAGE: F.when(_is("checkpoint"), NOTE),
            S.SETTINGS: F.when(_is("started"), _settings()),
        }
        | {name: F.when(traffic, value) for name, value in of_traffic.items()}
        | {name: F.when(session, value) for name, value in of_session.items()}
        | {name: F.when(summary, value) for name, value in of_summary.items()}
        | {name: F.when(charged, value) for name, value in of_quota.items()}
        | {name: F.when(_is("authentication"), value) for name, value in of_login.items()}
        | counted
    )


def _settings() -> Column:
    told = {
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:admin",
        "allow.everyone.if.no.acl.found": "false",
        "quota.mode": "enforce",
    }
    unchained = F.create_map(*(F.lit(text) for pair in told.items() for text in pair))
    first = F.map_concat(unchained, F.create_map(F.lit("audit.chain"), F.lit("sha256")))
    later = F.map_concat(first, F.create_map(F.lit("audit.previous"), F.lit(PREVIOUS)))
    chained = F.when(F.col("boot") % BOOTS == 0, first).otherwise(later)
    return F.when(F.col(S.RECORD_SCHEMA_VERSION) == 1, unchained).otherwise(chained)


def _named(prefix: str, number: Column) -> Column:
    return F.concat(F.lit(f"{prefix}-"), number)


def _is(*names: str) -> Column:
    return F.col(S.EVENT).isin(*names)
