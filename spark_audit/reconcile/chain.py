"""(g) The hash chain: each record follows from the record before it, and each boot from the boot before it.

Takes the audit records, each once, `chain` with their lines. A link is SHA-256 of the link before it, as 64
hex digits, and of the line without its own link. The first link follows the hash of `<proxy_id>/<boot_id>`.
With a key it is HMAC-SHA256 (RFC 2104), and without the key no valid chain can be written. Spark has no HMAC:
it is two rounds of SHA-256 with the padded key. A record whose predecessor is missing cannot be checked;
gaps.py reports that hole.

`audit.previous` in the settings of `started` is `<boot_id>/<last sequence>/<last link>`, as the new boot
found it in its spool. The boot id is enough, since the process may have been renamed. gaps.py uses it too: a
boot without `stopped` whose successor names its last record has crashed and lost nothing.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import date
from hashlib import sha256

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_audit import schema as S
from spark_audit.reconcile.finding import (
    fault,
    findings,
    register,
    sample,
    sentence,
    with_every_fault,
    with_first_fault,
)
from spark_audit.tables.delta import empty_frame, frame_of
from spark_audit.tables.expired import IS_EXPIRED, expired_sequences, with_expired
from spark_audit.tables.keys import KEYED, PLAIN, PublicKeys, why_not_its_own
from spark_audit.tables.plans import held, is_held
from spark_audit.trail.audit_records import (
    ALWAYS,
    DAYS,
    FIRST_LINKED,
    LAST_DATE,
    OF_STRETCH,
    RECORDS,
    SILENCE_MS,
    each_day,
    near_places,
    sequence_index,
)
from spark_audit.trail.audit_records import LAST as LAST_OF_SPAN
from spark_audit.trail.processes import key_name, starts

register(
    """
chain: The hash of each line follows from the line before it, and each boot from the one before it.
chain.altered (critical): Records do not match the hash chain.
    Compare with the topic by `verify --bootstrap`, and find out who can write to the topic or the
    tables.
chain.unlinked (critical): Records have lost their link of the hash chain.
    Compare with the topic by `verify --bootstrap`, and find out who can write to the tables.
chain.unchecked (medium): Chains with a key were not checked.
    Pass the key of the processes with `--chain-key`.
chain.unkeyed (medium): A process chains its records without the key.
    Set `audit.chain.key.file` in its configuration; if it is not one of yours, find out who can write
    to the audit topic.
chain.other_columns (critical): Columns of a table are not as the signed line of the record says.
    Find out who can write to the tables, and ingest them again from the topic.
chain.among_expired (high): Records came after those around them had expired, so no link proves them.
    Check whether a process has shipped an old spool again; if not, they are forged. Then run
    `verify --accept`.
chain.boot_missing (critical): All records of a boot are missing.
    Compare with the topic by `verify --bootstrap`; if they are missing there too, find out who can
    delete from it.
chain.tail_missing (critical): The newest records of a boot are missing.
    Compare with the topic by `verify --bootstrap`; if they are missing there too, find out who can
    delete from it.
chain.after_the_end (medium): There are more records of a boot than its disk had.
    Check whether the machine lost power then, or its spool was restored from a backup; if not, they are
    forged.
chain.other_end (critical): A boot has other records than its successor has seen.
    Treat the boot as rewritten, and find out who can write to the topic.
chain.forked (critical): Several boots follow one boot.
    Check whether a spool was copied to another machine or restored from a backup, or the machine lost
    power soon after a start; if not, one boot is forged.
chain.unnamed (medium): A process lost its spool.
    Put the spool on a persistent disk; records that were not shipped are lost.
chain.process_missing (critical): A process was seen by others, but has no record.
    Check that it ships to the same audit topic; if it does, its records were removed.
chain.end_missing (critical): Records of a process that others have seen are missing.
    Check whether the process still ships its spool; if it does not, they were removed.
chain.other_link_seen (critical): A record is not as others have seen it.
    Treat the boot as rewritten, and find out who can write to the topic.
chain.false_claim (high): A process has recorded as the end of another one what that one has not signed.
    Find out who can write to the topic of witnesses, or log in at the controller as a proxy. Nothing
    is missing because of it.
chain.unknown_process (high): No other process has seen this one.
    Check whether it is one of yours and reaches the controller; if not, it is forged.
"""
)

_BLOCK_BYTES = 64


def digest(text: Column, key: bytes | None) -> Column:
    """Return the 32 bytes of the hash, null for null."""
    message = text.cast("binary")
    if key is None:
        return F.unhex(F.sha2(message, 256))
    inner = F.unhex(F.sha2(F.concat(_pad(key, 0x36), message), 256))
    return F.unhex(F.sha2(F.concat(_pad(key, 0x5C), inner), 256))


def seed(key: bytes | None) -> Column:
    """Return the link before the first record of a boot, in hex."""
    return hexadecimal(digest(F.concat_ws("/", S.PROXY_ID, S.BOOT_ID), key))


def hexadecimal(link: Column) -> Column:
    """Return the link as the line has it."""
    return F.lower(F.hex(link))


def _pad(key: bytes, byte: int) -> Column:
    short = sha256(key).digest() if len(key) > _BLOCK_BYTES else key
    return F.lit(bytes(octet ^ byte for octet in short.ljust(_BLOCK_BYTES, b"\0")))


TASK_RECORDS = 500_000
"""Lines per task. A task holds their previous links in memory, but not the lines."""
STATE, FITS, ALTERED, UNLINKED, NO_KEY = "state", "fits", "altered", "unlinked", "no_key"

ALGORITHM, _CHAINED = "algorithm", "chained"
_COUNTED, _BEFORE, _NEWEST_MS, _STOPPED = "counted", "link_before", "newest_ms", "has_stopped"
_RUN = (*S.BOOT_KEY, STATE, S.DATE, "run")
_SAID = {
    ALTERED: ("chain.altered", "do not match the hash chain: they were altered, or written with another key"),
    UNLINKED: ("chain.unlinked", "have no link of the hash chain, although their process writes links"),
    NO_KEY: ("chain.unchecked", "are chained with a key: pass it with --chain-key"),
}


def chain(
    records: DataFrame,
    key: bytes | None = None,
    days: Sequence[date] = (),
    few: DataFrame | None = None,
    index: DataFrame | None = None,
    *,
    signed: bool = False,
) -> DataFrame:
    """Return the findings of both checks below. With `days`, only the lines of these days are hashed.

    `few` has all records but traffic, `index` is the sequence index, if they are known. `signed`: there are
    public keys: what is chained without the key has to be signed (checkpoints.py).
    """
    index = sequence_index(records) if index is None else index
    processes = held(_processes(algorithms(records if few is None else few, key), index, key))
    found = broken(states(records, processes, index, key, days))
    return found if signed else found.unionByName(unkeyed(processes, key))


def broken(judged: DataFrame) -> DataFrame:
    """Return one finding per day's run of records that do not match, or need the key."""
    wrong = judged.where(F.col(STATE) != FITS)
    place = F.row_number().over(Window.partitionBy(*S.BOOT_KEY, STATE, S.DATE).orderBy(S.SEQUENCE))
    runs = wrong.withColumn("run", F.col(S.SEQUENCE) - place).groupBy(*_RUN)
    bounds = runs.agg(
        F.min(S.SEQUENCE).alias("first_sequence"),
        F.max(S.SEQUENCE).alias("last_sequence"),
        F.min_by(S.KAFKA_OFFSET, S.SEQUENCE).alias("first_kafka_offset"),
    )
    who = sentence("records {first_sequence} to {last_sequence} of process {proxy_id}/{boot_id} ")
    faults = [fault(F.col(STATE) == state, name, who, F.lit(text)) for state, (name, text) in _SAID.items()]
    return findings(
        with_first_fault(bounds, faults),
        evidence=[*S.BOOT_KEY, "first_sequence", "last_sequence", "first_kafka_offset"],
    )


def unkeyed(processes: DataFrame, key: bytes | None) -> DataFrame:
    """Return one finding per process that chains without the key: anybody could rewrite its trail.

    No findings without a key. offsets.unchained finds processes without any chain.
    """
    newest_ms = F.max(_NEWEST_MS).over(Window.partitionBy())
    has_ended = F.col(_STOPPED) | (F.col(_NEWEST_MS) < newest_ms - SILENCE_MS)
    ended = processes.withColumn("ended_with", F.when(has_ended, F.col(_COUNTED)))
    faulty = ended.where(F.lit(key is not None) & F.col(_CHAINED) & (F.col(ALGORITHM) != KEYED))
    return findings(
        faulty,
        check="chain.unkeyed",
        explanation=sentence(
            "process {proxy_id}/{boot_id} chains its records with {algorithm}, without the key"
        ),
        evidence=[*S.BOOT_KEY, ALGORITHM],
        # A boot that goes on is no other finding; one to which somebody adds records after its end is.
        identity=[*S.BOOT_KEY, ALGORITHM, "ended_with"],
    )


def states(
    records: DataFrame,
    processes: DataFrame,
    index: DataFrame,
    key: bytes | None = None,
    days: Sequence[date] = (),
) -> DataFrame:
    """Return each checked record of a chained boot with its `state`: fits, altered, unlinked, no_key.

    `processes` is `_processes`, `index` is the sequence index. Lines and links are joined once, by their
    sequence. A line is hashed as it is read, and neither sorted nor stored.
    """
    chained = F.broadcast(processes.where(_CHAINED).select(*S.BOOT_KEY, ALGORITHM))
    near = records.where(F.col(S.DATE).isin(*days)) if days else records
    lines = near.select(*S.RECORD_KEY, S.DATE, S.KAFKA_OFFSET, S.CHAIN, S.LINE).join(
        chained, list(S.BOOT_KEY)
    )
    links = _links(near).unionByName(_of_other_days(records, near, index)) if days else _links(records)
    if not is_held(records):
        tasks = _tasks(processes)
        lines = lines.repartition(tasks, *S.RECORD_KEY)
        links = links.repartition(tasks, *S.RECORD_KEY)
    joined = lines.join(links.hint("shuffle_hash"), list(S.RECORD_KEY), "left")
    return joined.withColumn(STATE, _state(key)).where(F.col(STATE).isNotNull())


def _links(records: DataFrame) -> DataFrame:
    """Return each link with the sequence of the next record."""
    # The largest possible sequence has no next one.
    after = F.try_add(S.SEQUENCE, F.lit(1)).alias(S.SEQUENCE)
    return records.where(F.col(S.CHAIN).isNotNull()).select(*S.BOOT_KEY, after, F.col(S.CHAIN).alias(_BEFORE))


def _of_other_days(records: DataFrame, near: DataFrame, index: DataFrame) -> DataFrame:
    """Return the links before records in `near` whose predecessor is of another day."""
    keys = near.select(*S.RECORD_KEY)
    alone = held(keys.where(F.col(S.SEQUENCE) != 0).join(_links(near), list(S.RECORD_KEY), "left_anti"))
    before = alone.select(S.BOOT_ID, F.try_subtract(S.SEQUENCE, F.lit(1)).alias(S.SEQUENCE))
    return _links(near_places(records, index, before)).join(alone, list(S.RECORD_KEY), "left_semi")


def _tasks(processes: DataFrame) -> int:
    counted = processes.where(_CHAINED).agg(F.sum(_COUNTED)).first()
    records = int((counted and counted[0]) or 0)
    return max(processes.sparkSession.sparkContext.defaultParallelism, records // TASK_RECORDS + 1)


def algorithms(records: DataFrame, key: bytes | None) -> DataFrame:
    """Return one row per process: `algorithm`, whether it is `chained` at all, its first day.

    A process without a `started` record is assumed to chain with the auditor's key, if there is one and it
    signs no checkpoints.
    """
    recorded = F.when(F.col(S.EVENT) == "started", F.col(S.SETTINGS).getItem("audit.chain"))
    signs = F.max(F.when(F.col(S.EVENT) == "checkpoint", F.lit(PLAIN)))
    return records.groupBy(*S.BOOT_KEY).agg(
        F.coalesce(F.max(recorded), signs, F.lit(PLAIN if key is None else KEYED)).alias(ALGORITHM),
        (F.max(F.col(S.CHAIN).isNotNull()) | (F.max(S.RECORD_SCHEMA_VERSION) >= S.CHAINED_SINCE)).alias(
            _CHAINED
        ),
        F.min(S.DATE).alias(S.DATE),
        F.count(F.lit(1)).alias(_COUNTED),
        F.max(F.col(S.EVENT) == "stopped").alias(_STOPPED),
    )


def _processes(kinds: DataFrame, index: DataFrame, key: bytes | None) -> DataFrame:
    """Return `algorithms` of all records. `kinds` are those of some, such as all but traffic."""
    is_chained = F.max(F.col(FIRST_LINKED).isNotNull())
    of_boots = index.groupBy(*S.BOOT_KEY).agg(
        (is_chained | (F.max(S.RECORD_SCHEMA_VERSION) >= S.CHAINED_SINCE)).alias(_CHAINED),
        each_day(*OF_STRETCH),
        F.sum(RECORDS).alias(_COUNTED),
        F.max("last_time_ms").alias(_NEWEST_MS),
    )
    joined = of_boots.join(kinds.select(*S.BOOT_KEY, ALGORITHM, _STOPPED), list(S.BOOT_KEY), "left")
    return joined.withColumns(
        {
            ALGORITHM: F.coalesce(ALGORITHM, F.lit(PLAIN if key is None else KEYED)),
            _STOPPED: F.coalesce(_STOPPED, F.lit(False)),
        }
    )


def _state(key: bytes | None) -> Column:
    """Return null if the previous record is missing or has no link."""
    keyed = F.col(ALGORITHM) == KEYED
    fits = F.when(keyed, _fits(key)).otherwise(_fits(None))
    return (
        F.when(F.col(S.CHAIN).isNull(), UNLINKED)
        .when(keyed & F.lit(key is None), NO_KEY)
        .when(fits, FITS)
        .when(~fits, ALTERED)
    )


def _fits(key: bytes | None) -> Column:
    first = F.col(S.SEQUENCE) == 0
    previous = F.when(first, seed(key)).otherwise(hexadecimal(F.col(_BEFORE)))
    return digest(F.concat(previous, F.col(S.LINE)), key) == F.col(S.CHAIN)


def not_to_sign(audit: DataFrame, expired: DataFrame | None, known: Collection[str] = ()) -> DataFrame:
    """Return the findings for which a file of these records is not signed. `expired` is table `expired`.

    `known` are the columns of the table when it was signed last.
    """
    found = columns(audit, known)
    return found if expired is None else found.unionByName(among_expired(audit, expired))


def among_expired(audit: DataFrame, expired: DataFrame) -> DataFrame:
    """Return one finding per boot and day with records of sequences that have expired.

    For records that came before those expired: the link before such a record is gone, so the chain cannot be
    checked. Who may write the topic or the tables could write any record there.
    """
    known = with_expired(audit, expired_sequences(expired), S.BOOT_KEY, S.SEQUENCE, S.SEQUENCE)
    text = "came after those around them had expired: no link proves them"
    return _by_boot(known.where(IS_EXPIRED), "chain.among_expired", text)


def _by_boot(records: DataFrame, check: str, text: str) -> DataFrame:
    """Return one finding per boot and day with such records, with the SHA-256 of all that they have.

    No run signs them. If they are altered once more, that is another finding, not yet acknowledged.
    """
    each = F.sort_array(F.collect_list(F.sha2(F.to_json(F.struct(*S.AUDIT.names)), 256)))
    by_boot = records.groupBy(*S.BOOT_KEY, S.DATE).agg(
        F.count(F.lit(1)).alias("records"),
        sample(S.SEQUENCE).alias("sequences"),
        F.sha2(F.array_join(each, ""), 256).alias("sha256"),
    )
    sequences = F.array_join("sequences", ", ")
    who = "{records} record(s) of process {proxy_id}/{boot_id}"
    return findings(
        by_boot,
        check=check,
        explanation=sentence(f"{who} {text} (sequences {{sequences}})", sequences=sequences),
        evidence=[*S.BOOT_KEY, S.DATE, "records", "sequences", "sha256"],
    )


def columns(audit: DataFrame, known: Collection[str] = ()) -> DataFrame:
    """Return one finding per boot and day with records whose columns are not those of their lines.

    The chain protects the line, and the other checks and the page read the columns. Records of version 1 have
    no line in the table. An ingest of an older release leaves a column empty that was added later, unless the
    table had it already: `known` are its columns when it was signed last.
    """
    data = F.from_json(F.concat(S.LINE, F.lit("}")), S.ENVELOPE)["data"]
    sealed = F.concat(S.LINE, F.lit(',"chain":"'), hexadecimal(F.col(S.CHAIN)), F.lit('"}'))
    day = F.to_date(F.timestamp_millis(F.when(data[S.TIME_MS].between(0, S.LAST_TIME_MS), data[S.TIME_MS])))
    fields = [field for field in S.DATA if field.name not in S.ADDED_LATER]
    same = F.struct(*(_comparable(field, F.col(field.name)) for field in fields)).eqNullSafe(
        F.struct(*(_comparable(field, data[field.name]) for field in fields))
    )
    same = same & (F.unhex(F.sha2(sealed, 256)) == F.col(S.BODY_SHA256)) & F.col(S.DATE).eqNullSafe(day)
    for name in S.ADDED_LATER:
        column, value = (_comparable(S.DATA[name], each) for each in (F.col(name), data[name]))
        may_lack = F.col(name).isNull() & F.lit(name not in known)
        same = same & (may_lack | column.eqNullSafe(value))
    chained = F.col(S.LINE).isNotNull() | F.col(S.CHAIN).isNotNull()
    other = audit.where(chained & ~F.coalesce(same, F.lit(False)))
    text = "are not in the table as their lines say: their columns were edited"
    return _by_boot(other, "chain.other_columns", text)


def _comparable(field: T.StructField, value: Column) -> Column:
    """Return text for maps, which cannot be compared, and for a number for which 0.0 equals -0.0."""
    if isinstance(field.dataType, T.MapType) or field.name == S.OBJECTS:
        return F.to_json(value).alias(field.name)
    return (value.cast("string") if field.dataType == T.DoubleType() else value).alias(field.name)


NAMED_BOOT, NAMED_SEQUENCE, NAMED_LINK = "named_boot", "named_sequence", "named_link"
NAMED_BY = "named_by"
_OF = "of"
LAST, LINK_THERE = "last_sequence", "link_there"

_FORM = "^(.+)/([0-9]{1,18})/([0-9a-f]{64}|)$"
"""The link is empty if the last record was of version 1."""


def boots(followed: DataFrame) -> DataFrame:
    """Return one finding per boot of `successions` and fault of the predecessor that it names."""
    # Records may have come to the one before after the next one had begun.
    days = F.array_distinct(F.array(S.DATE, F.coalesce(LAST_DATE, S.DATE)))
    faulty = with_every_fault(followed.withColumn(S.DATE, days), _faults())
    named = (NAMED_BOOT, NAMED_SEQUENCE, NAMED_LINK)
    return findings(faulty, evidence=[*S.BOOT_KEY, *named, LAST, LINK_THERE, "followers", "before"])


def successions(
    records: DataFrame,
    few: DataFrame | None = None,
    index: DataFrame | None = None,
    days: Sequence[date] = (),
) -> DataFrame:
    """Return one row per boot: the predecessor that it names, and the records of that predecessor.

    `few` has all records but traffic, `index` is the sequence index, if they are known. With `days`, the
    links of boots that ended before are not looked up, unless a boot that started on these names them.
    `last_sequence` is the predecessor's last record, null if it has none; `link_there` is the link of the
    named record, in hex. A boot of the same process is meant, if one has this id: another process could use
    it, too. `followers` are all boots that name the same predecessor, `before` is the boot of
    the same process that started before this one.
    """
    starts = _starts(records if few is None else few)
    starts = starts.withColumn(NAMED_BY, key_name(S.PROXY_ID))
    key = [NAMED_BOOT, NAMED_SEQUENCE, NAMED_BY]
    index = sequence_index(records) if index is None else index
    of_boots = index.groupBy(F.col(S.BOOT_ID).alias(NAMED_BOOT), key_name(S.PROXY_ID).alias(_OF)).agg(
        F.max(LAST_OF_SPAN).alias(LAST), F.max(LAST_DATE).alias(LAST_DATE)
    )
    is_own = F.col(_OF) == F.col(NAMED_BY)
    any_own = F.max(is_own).over(Window.partitionBy(NAMED_BOOT, NAMED_BY))
    found = starts.where(F.col(NAMED_BOOT).isNotNull()).join(of_boots, NAMED_BOOT)
    by_name = found.withColumn("any_own", any_own).where(is_own | ~F.col("any_own")).groupBy(*key)
    last_date = F.max(F.greatest(S.DATE, LAST_DATE)).alias(LAST_DATE)
    ends = by_name.agg(F.max(LAST).alias(LAST), last_date, F.collect_set(_OF).alias(_OF))
    recent = ends.where(F.col(LAST_DATE) >= min(days)) if days else ends
    place = F.col(NAMED_BOOT).alias(S.BOOT_ID), F.col(NAMED_SEQUENCE).alias(S.SEQUENCE)
    wanted = recent.select(*place, *key, _OF)
    named = near_places(records, index, wanted).join(F.broadcast(wanted), [S.BOOT_ID, S.SEQUENCE])
    named = named.where(F.array_contains(_OF, key_name(S.PROXY_ID)))
    links = named.groupBy(*key).agg(F.max(hexadecimal(F.col(S.CHAIN))).alias(LINK_THERE))
    known = ends.drop(_OF).join(F.broadcast(links), key, "left")
    return starts.join(F.broadcast(known), key, "left")


def proven_ends(followed: DataFrame) -> DataFrame:
    """Return `boot_id` of the boots of `successions` whose last record is present and is named.

    And `named_by`, the key's name of the process that names it.
    """
    same_link = F.col(LINK_THERE).eqNullSafe(F.col(NAMED_LINK))
    complete = followed.where((F.col(LAST) >= F.col(NAMED_SEQUENCE)) & same_link)
    names = F.col(NAMED_BOOT).alias(S.BOOT_ID), key_name(S.PROXY_ID).alias(NAMED_BY)
    return complete.select(*names).distinct()


def _starts(records: DataFrame) -> DataFrame:
    """Return one row per boot: when it started, and the predecessor that it names, null if none."""
    previous = F.col(S.SETTINGS).getItem("audit.previous").alias("previous")
    read = starts(records).select(*S.BOOT_KEY, S.DATE, S.TIME_MS, S.CHAIN, previous)
    in_time = Window.partitionBy(S.PROXY_ID).orderBy(S.TIME_MS, S.BOOT_ID)
    of_one_end = Window.partitionBy(NAMED_BOOT)
    parsed = read.select(
        "*",
        F.lag(S.BOOT_ID).over(in_time).alias("before"),
        _part(1).alias(NAMED_BOOT),
        _part(2).cast("long").alias(NAMED_SEQUENCE),
        F.nullif(_part(3), F.lit("")).alias(NAMED_LINK),
    )
    followers = F.when(F.col(NAMED_BOOT).isNotNull(), F.sort_array(F.collect_set(S.BOOT_ID).over(of_one_end)))
    return parsed.withColumn("followers", followers)


def _part(number: int) -> Column:
    return F.when(F.col("previous").rlike(_FORM), F.regexp_extract("previous", _FORM, number))


def _faults() -> list[Column]:
    named, last, end = F.col(NAMED_BOOT).isNotNull(), F.col(LAST), F.col(NAMED_SEQUENCE)
    present = (last == end) | ((last > end) & F.col(LINK_THERE).isNotNull())
    follows = sentence("process {proxy_id}/{boot_id} follows boot {named_boot}, which")
    return [
        fault(
            named & last.isNull(),
            "chain.boot_missing",
            follows,
            sentence(" ended at sequence {named_sequence}: none of its records is in the table"),
        ),
        fault(
            last < end,
            "chain.tail_missing",
            follows,
            sentence(" ended at sequence {named_sequence}: the last record in the table is {last_sequence}"),
        ),
        fault(
            last > end,
            "chain.after_the_end",
            follows,
            sentence(
                " ended at sequence {named_sequence} on its disk, but there are records up to {last_sequence}"
            ),
            F.lit(": the machine crashed before it had synced records that it had sent, or they are forged"),
        ),
        fault(
            present & ~F.col(LINK_THERE).eqNullSafe(F.col(NAMED_LINK)),
            "chain.other_end",
            follows,
            sentence(
                " has another link at sequence {named_sequence} in the table: its records were rewritten"
            ),
        ),
        fault(
            F.size("followers") > 1,
            "chain.forked",
            follows,
            sentence(
                " can have only one successor, but several name it: {followers}",
                followers=F.array_join("followers", ", "),
            ),
        ),
        fault(
            ~named & F.col(S.CHAIN).isNotNull() & F.col("before").isNotNull(),
            "chain.unnamed",
            sentence("process {proxy_id}/{boot_id} names no previous boot, but there was {before}"),
            F.lit(": its spool was lost, with all records that were not shipped"),
        ),
    ]


UNSEEN_MS = 120_000
"""A proxy that has run for this long was witnessed, if any other one was: proxies do it each minute."""
_CLAIM = "^(.+)/([^/]+)/([0-9]{1,18})/([0-9a-f]{64})$"
SIGNED_CLAIM = "^penstock[.]audit/([^/\\s]+)/([^/\\s]+)\n([1-9][0-9]{0,17})\n([A-Za-z0-9+/]{43}=)\n"
"""The first lines of a checkpoint (proxy.audit.checkpoints) with a record."""
SEEN, SEEN_LINK, BY = "seen_sequence", "seen_link", "seen_by"
_FIRST_MS, _LAST_MS = "first_time_ms", "last_time_ms"
_WHY, _SIGNS = "why", "signs"
CLAIMS = S.struct(
    *((name, S.AUDIT[name].dataType) for name in S.BOOT_KEY),
    *((SEEN, S.AUDIT[S.SEQUENCE].dataType), (SEEN_LINK, S.AUDIT[S.MESSAGE].dataType)),
    (BY, S.AUDIT[S.MESSAGE].dataType),
    *((name, S.AUDIT[name].dataType) for name in (S.PRINCIPAL, S.TIME_MS, S.DATE)),
)
"""What others have seen of boots."""
_FALSE = S.struct(
    *((name, S.AUDIT[name].dataType) for name in S.BOOT_KEY),
    *((name, S.AUDIT[S.MESSAGE].dataType) for name in (BY, S.PRINCIPAL, _WHY)),
    *((S.DATE, S.AUDIT[S.DATE].dataType), ("claims", S.AUDIT[S.COUNT].dataType)),
)


def witnesses(
    few: DataFrame,
    records: DataFrame,
    ends: DataFrame,
    until_ms: int = ALWAYS,
    days: Sequence[date] = (),
    keys: PublicKeys | None = None,
    index: DataFrame | None = None,
) -> DataFrame:
    """Return what processes have witnessed of each other but the table does not show, and who was not seen.

    A controller records the end of the trail of each proxy that is connected, and the proxy that of the
    controller (docs/decisions/0075). With Kafka's own controller, proxies record the ends of other proxies
    (docs/decisions/0097). `few` has all records but traffic, `ends` is `boots` of the sequence
    index, `until_ms` its `complete_until_ms`. With `days`, only links that were seen on these are compared,
    and what was seen before is not looked up.
    With `keys`, a claim that the table does not show counts if the process itself has signed it: a witness
    does not verify what it hears (docs/decisions/0181).
    """
    witnessed = few.where(F.col(S.EVENT) == "witnessed")
    by = F.concat_ws("/", *S.BOOT_KEY).alias(BY)
    claims = held(
        claimed(witnessed, by, S.PRINCIPAL, S.TIME_MS, S.DATE, S.MESSAGE).where(F.col(S.TIME_MS) <= until_ms)
    )
    if claims.isEmpty():
        return empty_frame(records.sparkSession, S.FINDING)
    proxies = few.where(F.col(S.ROLE) == "proxy").select(*S.BOOT_KEY).distinct()
    found = _unseen(ends.join(proxies, list(S.BOOT_KEY)), claims)
    recent = claims.where(F.col(S.DATE) >= min(days)) if days else claims
    index = sequence_index(records) if index is None else index
    records = near_places(records, index, recent.select(S.BOOT_ID, F.col(SEEN).alias(S.SEQUENCE)))
    not_shown = held(unshown(recent, records))
    if not_shown.isEmpty():
        return found
    if keys is not None:
        signs = few.where(F.col(S.EVENT) == "checkpoint").select(*S.BOOT_KEY, F.lit(True).alias(_SIGNS))
        not_shown, false = _signed_claims(not_shown.join(signs.distinct(), list(S.BOOT_KEY), "left"), keys)
        found = found.unionByName(false)
    return found.unionByName(missing_ends(records, ends, not_shown, days))


def unshown(claims: DataFrame, records: DataFrame) -> DataFrame:
    """Return the claims of records that are not in the table, or have another link there."""
    places = claims.select(*S.BOOT_KEY, F.col(SEEN).alias(S.SEQUENCE)).distinct()
    there = records.join(F.broadcast(places), list(S.RECORD_KEY), "left_semi").select(
        *S.BOOT_KEY, F.col(S.SEQUENCE).alias(SEEN), hexadecimal(F.col(S.CHAIN)).alias(SEEN_LINK)
    )
    return claims.join(F.broadcast(there), [*S.BOOT_KEY, SEEN, SEEN_LINK], "left_anti")


def _signed_claims(claims: DataFrame, keys: PublicKeys) -> tuple[DataFrame, DataFrame]:
    """Return the claims that may be true, as CLAIMS, and the others as findings.

    Who has no key, or signs nothing, cannot prove what another one says of it.
    """
    true, false = list[tuple[object, ...]](), Counter[tuple[object, ...]]()
    for row in claims.toLocalIterator():
        is_proof = row[_SIGNS] or "\n" in row[S.MESSAGE]
        why = why_not_its_own(row[S.MESSAGE], row[S.PROXY_ID], keys) if is_proof else ""
        if why:
            false[(*(row[name] for name in (*S.BOOT_KEY, BY, S.PRINCIPAL)), why, row[S.DATE])] += 1
        else:
            true.append(tuple(row[name] for name in CLAIMS.names))
    spark = claims.sparkSession
    found = findings(
        frame_of(spark, [(*each, number) for each, number in false.items()], _FALSE),
        check="chain.false_claim",
        explanation=sentence(
            "process {seen_by} recorded {claims} end(s) of process {proxy_id}/{boot_id}{reported}, which"
            " the table does not show, and each {why}: somebody else has claimed it",
            reported=F.coalesce(F.concat(F.lit(", as "), S.PRINCIPAL, F.lit(" reported")), F.lit("")),
        ),
        evidence=_FALSE.names,
    )
    return frame_of(spark, true, CLAIMS), found


def is_claim() -> Column:
    """Return whether `message` has the form of the end of a trail."""
    return F.col(S.MESSAGE).rlike(SIGNED_CLAIM) | F.col(S.MESSAGE).rlike(_CLAIM)


def claimed(rows: DataFrame, *others: Column | str) -> DataFrame:
    """Return the boots of which `message` says that they were seen: SEEN, SEEN_LINK, and the `others`."""
    is_signed = F.col(S.MESSAGE).rlike(SIGNED_CLAIM)
    found = rows.where(is_claim())

    def part(number: int) -> Column:
        plain = F.regexp_extract(S.MESSAGE, _CLAIM, number)
        return F.when(is_signed, F.regexp_extract(S.MESSAGE, SIGNED_CLAIM, number)).otherwise(plain)

    # A checkpoint has the number of records, and the link in Base64.
    return found.select(
        part(1).alias(S.PROXY_ID),
        part(2).alias(S.BOOT_ID),
        (part(3).cast("long") - is_signed.cast("long")).alias(SEEN),
        F.when(is_signed, hexadecimal(F.unbase64(part(4)))).otherwise(part(4)).alias(SEEN_LINK),
        *others,
    )


def missing_ends(
    records: DataFrame, ends: DataFrame, claims: DataFrame, days: Sequence[date] = ()
) -> DataFrame:
    """Return boots that others have seen at a sequence that the table does not have, or has otherwise.

    The newest claim shows what is missing. The link of each claim is compared, the first other one of a day
    is reported: who rewrites its own boot lets others see the new one later.
    """
    claim = F.struct(SEEN, S.TIME_MS, SEEN_LINK, BY, S.PRINCIPAL, S.DATE)
    newest = claims.groupBy(*S.BOOT_KEY).agg(F.max(claim).alias("claim"))
    made = claims.where(F.col(S.DATE).isin(*days)) if days else claims
    by_link = made.groupBy(*S.BOOT_KEY, S.DATE, F.col(SEEN).alias(S.SEQUENCE), SEEN_LINK)
    places = F.broadcast(by_link.agg(F.min(claim).alias("claim")))
    link_there = hexadecimal(F.col(S.CHAIN)).alias(LINK_THERE)
    there = records.select(*S.RECORD_KEY, link_there).join(places, list(S.RECORD_KEY))
    other = there.where(F.col(LINK_THERE) != F.col(SEEN_LINK)).groupBy(*S.BOOT_KEY, S.DATE)
    first = other.agg(F.min(F.struct("claim", LINK_THERE)).alias("first")).select(*S.BOOT_KEY, "first.*")
    seen = newest.unionByName(first, allowMissingColumns=True).select(*S.BOOT_KEY, "claim.*", LINK_THERE)
    last = ends.select(*S.BOOT_KEY, F.col("last_sequence").alias(LAST))
    faulty = with_first_fault(seen.join(last, list(S.BOOT_KEY), "left"), _claim_faults())
    of_claim = *S.BOOT_KEY, SEEN, SEEN_LINK, BY
    missing_after = F.when(F.col(LAST) < F.col(SEEN), F.col(LAST)).alias(LAST)
    return findings(
        faulty,
        evidence=[*of_claim, LAST, LINK_THERE],
        # A boot that goes on is no other finding.
        identity=[*of_claim, missing_after, LINK_THERE],
    )


def _claim_faults() -> list[Column]:
    who = sentence("process {proxy_id}/{boot_id} was seen by {seen_by} at sequence {seen_sequence}")
    own = F.coalesce(F.concat(F.lit(", as "), S.PRINCIPAL, F.lit(" reported")), F.lit(""))
    return [
        fault(
            F.col(LAST).isNull(),
            "chain.process_missing",
            who,
            own,
            F.lit(": none of its records is in the table"),
        ),
        fault(
            F.col(LAST) < F.col(SEEN),
            "chain.end_missing",
            who,
            own,
            sentence(": the last record in the table is {last_sequence}, others were removed or not shipped"),
        ),
        fault(
            F.col(LINK_THERE) != F.col(SEEN_LINK),
            "chain.other_link_seen",
            who,
            own,
            F.lit(": that record has another link in the table, so it was rewritten"),
        ),
    ]


def _unseen(proxies: DataFrame, claims: DataFrame) -> DataFrame:
    """Return proxies that no other process has seen, while others were seen.

    Who has the key of a process can let the process see a boot that it forges in its name.
    """
    by_others = claims.where(key_name(F.regexp_replace(BY, "/[^/]*$", "")) != key_name(S.PROXY_ID))
    of_proxies = by_others.join(proxies.select(*S.BOOT_KEY), list(S.BOOT_KEY), "left_semi")
    # Releases before this check did not do it.
    since = of_proxies.agg(F.min(S.TIME_MS).alias("since_ms"))
    seen = of_proxies.select(*S.BOOT_KEY).distinct()
    unseen = proxies.join(F.broadcast(seen), list(S.BOOT_KEY), "left_anti")
    # Who forges a boot chooses its times, but not when it gets into the topic.
    late = F.greatest(_FIRST_MS, "first_append_ms") > F.col("since_ms")
    unseen = unseen.crossJoin(F.broadcast(since)).where(late)
    while_it_ran = of_proxies.select(F.col(S.TIME_MS).alias("seen_ms")).distinct()
    meanwhile = F.col("seen_ms").between(F.col(_FIRST_MS) + UNSEEN_MS, F.col(_LAST_MS))
    before = (F.col(_LAST_MS) < F.col("since_ms")) & (F.col(_LAST_MS) - F.col(_FIRST_MS) > UNSEEN_MS)
    return findings(
        unseen.join(F.broadcast(while_it_ran), meanwhile | before, "left_semi"),
        check="chain.unknown_process",
        date=DAYS,
        explanation=sentence(
            "no other process has seen process {proxy_id}/{boot_id}, although proxies were seen {when}: it"
            " had no connection to them, or it is forged",
            when=F.when(before, "before it got into the topic").otherwise("while it ran"),
        ),
        evidence=[*S.BOOT_KEY, _FIRST_MS],
    )
