"""(h) Checkpoints: what each process has signed of its trail and of its state (proxy.audit.checkpoints).

A checkpoint signs all records before it, because the link of the last one follows from all others, which
chain.py checks. So of each boot and key only the first and the newest are verified, in the driver, and the
newest valid one is compared with the records: before it, nothing can be altered, removed or inserted without
the private key. Without public keys only the states are compared.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import reduce

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.chain import (
    ALGORITHM,
    CLAIMS,
    LINK_THERE,
    NAMED_BY,
    SEEN,
    claimed,
    hexadecimal,
    is_claim,
    missing_ends,
    proven_ends,
    unshown,
)
from spark_audit.reconcile.finding import SAMPLE, findings, register, sentence
from spark_audit.tables.delta import empty_frame, frame_of
from spark_audit.tables.expired import LAST, expired_sequences, unexpired
from spark_audit.tables.keys import (
    CAME_LATE,
    KEYED,
    UNKNOWN,
    PublicKeys,
    read_checkpoint,
    read_cosignatures,
    valid_from,
    why_not_its_own,
)
from spark_audit.tables.plans import held
from spark_audit.trail.audit_records import DAYS, SILENCE_MS, each_day, near_places, sequence_index
from spark_audit.trail.processes import key_name

register(
    """
checkpoints: Each process has signed its records with a key of its own, and all had one state.
checkpoints.after_the_last (high): A process wrote records after its last signed checkpoint.
    Check whether it was killed then; if not, find out who can write to the audit topic.
checkpoints.came_late (high): Records got into the topic only after their process's key had ended.
    If the process was killed or could not reach the brokers then, start it once more with its spool:
    its next boot names these records, and the finding is gone. If the spool is lost, acknowledge it. If
    there was no such process, somebody has the key: treat the boot as forged.
checkpoints.different_states (critical): Processes signed different states of the metadata log at one offset.
    Stop changes, and find out which process has another log.
checkpoints.not_valid (critical): A checkpoint is not signed by a known key.
    Check the public keys that the job was given; if they are right, the checkpoint is forged.
checkpoints.rewritten (critical): The trail is not as its process has signed it.
    Treat it as rewritten, and find out who can write to the topic.
checkpoints.unsigned (high): A process signs no checkpoints.
    Give it a signing key; if it is not one of yours, find out who can write to the audit topic.
"""
)

UNSIGNED_MS = 120_000
"""A process signs each minute: a record so long after its last checkpoint is not its own."""
_STATE = "\nmetadata (\\S+) ([0-9]{1,18}) ([A-Za-z0-9+/]{43}=)\n"
_KEY_ID = "\n\n\u2014 \\S+ ([A-Za-z0-9+/]{5})"
"""Most bits of the key's id: enough to look at each key."""
_SIZE, _LINK, _SIGNED_MS, _STOPS, _WHY = "size", "signed_link", "signed_ms", "stops", "why"
_APPENDED_MS = "appended_ms"
_TEXT, _LONG, _DATE, _BOOLEAN = (S.AUDIT[name].dataType for name in (S.EVENT, S.SEQUENCE, S.DATE, S.GRANTED))
_BOOT = ((S.PROXY_ID, _TEXT), (S.BOOT_ID, _TEXT))
_JUDGED = S.struct(
    *(*_BOOT, (S.SEQUENCE, _LONG), (S.DATE, _DATE)),
    *((_SIZE, _LONG), (_LINK, _TEXT), (_SIGNED_MS, _LONG), (_STOPS, _BOOLEAN), (_WHY, _TEXT)),
    (_APPENDED_MS, _LONG),
)
_OF_WITNESS = S.struct(
    *((_WHY, _TEXT), ("names", S.AUDIT[S.GROUPS].dataType), ("notes", _LONG), (S.DATE, _DATE))
)


def checkpoints(
    few: DataFrame,
    records: DataFrame,
    ends: DataFrame,
    processes: DataFrame,
    followed: DataFrame,
    until_ms: int,
    keys: PublicKeys | None,
    logged: DataFrame | None = None,
    expired: DataFrame | None = None,
    index: DataFrame | None = None,
    days: Sequence[date] = (),
) -> DataFrame:
    """Return what is not signed as it should be, and different states.

    `few` has all records but traffic, `ends` is `boots` of the sequence `index` and `until_ms` its
    `complete_until_ms`. With `days`, the records that checkpoints of other days have signed are not read.
    `processes` is `chain.algorithms`, `followed` is `chain.successions`.
    `logged` is `kraft_states.logged_states` or `unsigned.signed_log`, `expired` is table `expired`.
    """
    states = different_states(few, logged, keys)
    if keys is None:
        return states
    judged = held(frame_of(records.sparkSession, _judged(few, keys), _JUDGED))
    is_signed = F.col(_WHY).isin("", CAME_LATE)
    said = (_SIZE, _LINK, _SIGNED_MS, _STOPS, S.DATE, S.SEQUENCE, _WHY, _APPENDED_MS)
    newest = F.max(F.struct(*said)).alias("newest")
    by_boot = judged.where(is_signed).groupBy(*S.BOOT_KEY).agg(newest)
    valid = held(by_boot.select(*S.BOOT_KEY, "newest.*"))
    signed_later = held(_signed_by_the_next(followed, valid))
    late = valid.where(F.col(_WHY) == CAME_LATE).withColumn("named", key_name(S.PROXY_ID))
    late = late.join(F.broadcast(signed_later), ["named", S.BOOT_ID], "left_anti")
    without = ends.join(judged, list(S.BOOT_KEY), "left_anti")
    more = []
    if expired is not None:
        # They had to be signed to expire. What comes later has to be, too.
        ranges = expired_sequences(expired).groupBy(*S.BOOT_KEY).agg(F.max(LAST).alias("expired_until"))
        later = without.join(ranges, list(S.BOOT_KEY)).where("last_sequence > expired_until")
        signing = _with_key(later, processes, keys).where(F.col("has_key") & (F.col(ALGORITHM) != KEYED))
        beyond = held(signing.join(F.broadcast(signed_later), ["named", S.BOOT_ID], "left_anti"))
        if not beyond.isEmpty():
            more.append(_after_expired(records, beyond))
        without = without.join(ranges, list(S.BOOT_KEY), "left_anti")
    parts = [
        _not_valid(judged.where(~is_signed)),
        _came_late(late),
        _unsigned(without, processes, signed_later, keys, until_ms),
        _rewritten(records, valid.where(F.col(S.DATE).isin(*days)) if days else valid, index),
        _after_the_last(ends.join(valid, list(S.BOOT_KEY)), signed_later, until_ms),
        *more,
    ]
    return reduce(DataFrame.unionByName, parts, states)


_OF_STATES = "topic", "offset", "digest", "process", S.DATE


def signed_states(few: DataFrame) -> DataFrame:
    """Return what processes have signed: topic, offset, digest (hex), process, date."""
    return _signed_states(few).select(*_OF_STATES)


def _signed_states(few: DataFrame) -> DataFrame:
    """Return the same, with the note and the process that has recorded it (`by`)."""
    parts = [F.regexp_extract(S.MESSAGE, _STATE, number) for number in range(1, 4)]
    signs = F.col(S.EVENT).isin("checkpoint", "witnessed") & F.col(S.MESSAGE).rlike(_STATE)
    return few.where(signs).select(
        *(parts[0].alias("topic"), parts[1].cast("long").alias("offset")),
        hexadecimal(F.unbase64(parts[2])).alias("digest"),
        F.regexp_extract(S.MESSAGE, "^[^/]+/(\\S+)\n", 1).alias("process"),
        S.DATE,
        S.MESSAGE,
        F.concat_ws("/", *S.BOOT_KEY).alias("by"),
    )


def different_states(
    few: DataFrame, logged: DataFrame | None = None, keys: PublicKeys | None = None
) -> DataFrame:
    """Return one finding per offset of a log with several digests, as processes have signed or seen them.

    `logged` has what the log itself says, as `signed_states`. With `keys`, a state counts if its process has
    signed it: no process verifies what it records of others, and a false one would blame another.
    """
    signed = _signed_states(few)
    told = signed.select(*_OF_STATES) if logged is None else signed.select(*_OF_STATES).unionByName(logged)
    if keys is None:
        return _different(told)
    several = told.groupBy("topic", "offset").agg(F.count_distinct("digest").alias("digests"))
    disputed = held(several.where("digests > 1").select("topic", "offset"))
    if disputed.isEmpty():
        return empty_frame(few.sparkSession, S.FINDING)
    at_these = signed.join(F.broadcast(disputed), ["topic", "offset"])
    true, false = _told_states(at_these, keys)
    of_log = true if logged is None else true.unionByName(logged)
    return _different(of_log).unionByName(
        findings(
            false,
            check="chain.false_claim",
            explanation=sentence(
                "process {by} recorded {notes} state(s) of process {process} at offset {offset} of {topic}"
                " that differ from those of others, and each {why}: somebody else has claimed it"
            ),
            evidence=["by", "process", "topic", "offset", "digest", _WHY, "notes"],
        )
    )


def _told_states(signed: DataFrame, keys: PublicKeys) -> tuple[DataFrame, DataFrame]:
    """Return the states that their processes have signed, and those that are not proven.

    One true note proves what a process says at an offset, whatever is beside it.
    """
    true, false = set[tuple[object, ...]](), Counter[tuple[object, ...]]()
    days = defaultdict[tuple[object, ...], set[str]](set)
    for row in signed.toLocalIterator():
        said = tuple(row[name] for name in _OF_STATES[:-1])
        days[said].add(str(row[S.DATE]))
        if said not in true:
            why = why_not_its_own(row[S.MESSAGE], row["process"].rpartition("/")[0], keys)
            if why in ("", CAME_LATE):
                true.add(said)
            elif row["by"] != row["process"]:  # Its own is `checkpoints.not_valid`.
                false[(row["by"], *said, why)] += 1
    spark = signed.sparkSession
    unproven = [
        (*each, number, day)
        for each, number in false.items()
        if each[1:-1] not in true
        for day in days[each[1:-1]]
    ]
    fields = [(name, _LONG if name == "offset" else _TEXT) for name in _OF_STATES[:-1]]
    day = (S.DATE, _DATE)
    return (
        frame_of(spark, [(*each, day) for each in true for day in days[each]], S.struct(*fields, day)),
        frame_of(spark, unproven, S.struct(("by", _TEXT), *fields, (_WHY, _TEXT), ("notes", _LONG), day)),
    )


def _different(states: DataFrame) -> DataFrame:
    by_offset = states.groupBy("topic", "offset").agg(
        F.sort_array(F.collect_set("digest")).alias("digests"),
        F.sort_array(F.collect_set("process")).alias("processes"),
        each_day(S.DATE),
    )
    return findings(
        by_offset.where(F.size("digests") > 1),
        check="checkpoints.different_states",
        explanation=sentence(
            "at offset {offset} of {topic} different states were in effect ({processes}): the log was"
            " altered, or a process was given another one",
            processes=F.array_join(F.slice("processes", 1, SAMPLE), ", "),
        ),
        evidence=["topic", "offset", "digests"],
    )


def _judged(few: DataFrame, keys: PublicKeys) -> list[tuple[object, ...]]:
    """Return rows of _JUDGED: the first and the newest checkpoint of each boot and key.

    If the newest one of a boot is not valid, which somebody may have appended, all of the boot.
    """
    appended_ms = F.coalesce(F.unix_millis(S.KAFKA_TIMESTAMP), F.lit(0)).alias(_APPENDED_MS)
    own = few.where(F.col(S.EVENT) == "checkpoint").select(*S.RECORD_KEY, S.DATE, S.MESSAGE, appended_ms)
    row = F.struct(S.SEQUENCE, S.DATE, S.MESSAGE, _APPENDED_MS)
    of_boot = [F.col(name) for name in S.BOOT_KEY]
    bounds = own.groupBy(*of_boot, F.regexp_extract(S.MESSAGE, _KEY_ID, 1)).agg(
        F.array_distinct(F.array(F.max(row), F.min(row))).alias("rows")
    )
    found = [_judge(each, keys) for each in bounds.select(*of_boot, F.inline("rows")).collect()]
    faulty = {each[:2] for each in found if each[_JUDGED.names.index(_WHY)]}
    if not faulty:
        return found
    boots = frame_of(few.sparkSession, sorted(faulty), S.struct(*_BOOT))
    of_faulty = own.join(F.broadcast(boots), list(S.BOOT_KEY)).toLocalIterator()
    return [each for each in found if each[:2] not in faulty] + [_judge(each, keys) for each in of_faulty]


def _judge(row: Row, keys: PublicKeys) -> tuple[object, ...]:
    place = row[S.PROXY_ID], row[S.BOOT_ID], row[S.SEQUENCE]
    said, why = read_checkpoint(row[S.MESSAGE] or "", keys, row[_APPENDED_MS])
    if said is None:
        return (*place, row[S.DATE], 0, "", 0, False, why, row[_APPENDED_MS])
    if why in ("", CAME_LATE) and (said.proxy_id, said.boot_id, said.size) != place:
        why = f"is of record {said.size} of {said.proxy_id}/{said.boot_id}: it was copied"
    signed = said.size, said.link, said.time_ms, said.stops
    return (*place, row[S.DATE], *signed, why, row[_APPENDED_MS])


def _not_valid(faulty: DataFrame) -> DataFrame:
    by_reason = faulty.groupBy(*S.BOOT_KEY, _WHY).agg(
        F.min(S.SEQUENCE).alias(S.SEQUENCE),
        F.count(F.lit(1)).alias("checkpoints"),
        each_day(S.DATE),
    )
    return findings(
        by_reason,
        check="checkpoints.not_valid",
        explanation=sentence(
            "the checkpoint of process {proxy_id}/{boot_id} at sequence {sequence} {why} ({checkpoints}"
            " in all)"
        ),
        # With the number: what comes after the finding was acknowledged is another one.
        evidence=[*S.RECORD_KEY, _WHY, "checkpoints"],
    )


def _came_late(boots: DataFrame) -> DataFrame:
    """Return boots whose newest checkpoint counts by its own time only: its owner chooses that."""
    signed, appended = (F.timestamp_millis(name) for name in (_SIGNED_MS, _APPENDED_MS))
    return findings(
        boots,
        check="checkpoints.came_late",
        explanation=sentence(
            "process {proxy_id}/{boot_id} says that it signed its newest checkpoint (sequence {sequence}) at"
            " {signed}, when its key was valid. The topic got it at {appended}, after the end of the key, and"
            " no later boot of the process names it: a spool was shipped late, or somebody else has the key",
            signed=_moment(signed),
            appended=_moment(appended),
        ),
        evidence=[*S.RECORD_KEY, _SIGNED_MS, _APPENDED_MS],
    )


def _moment(timestamp: Column) -> Column:
    return F.date_format(timestamp, "yyyy-MM-dd'T'HH:mm:ss'Z'")


def _signed_by_the_next(followed: DataFrame, valid: DataFrame) -> DataFrame:
    """Return `named`, `boot_id` of boots whose last record a later boot of the same process has signed.

    The process has found it in its spool. Another process could name any boot.
    """
    signs = valid.select(*S.BOOT_KEY)
    ends = proven_ends(followed.join(signs, list(S.BOOT_KEY), "left_semi"))
    return ends.withColumnRenamed(NAMED_BY, "named")


def _unsigned(
    ends: DataFrame, processes: DataFrame, signed_later: DataFrame, keys: PublicKeys, until_ms: int
) -> DataFrame:
    """Return boots without any checkpoint. A chain with the old key is judged by that key.

    But not of a process whose key was valid when the boot began: who has the old key could write a boot. Its
    times too, so it has to be in the topic before, or to be signed by the next boot.
    """
    named = _with_key(ends, processes, keys).join(
        F.broadcast(signed_later.withColumn("is_signed", F.lit(True))), ["named", S.BOOT_ID], "left"
    )
    had_key = F.col("first_time_ms") >= F.col("since_ms")
    has_key = F.coalesce(had_key | (F.col("has_key") & F.col("is_signed").isNull()), F.lit(False))
    is_silent = F.col("last_time_ms") < F.lit(until_ms) - SILENCE_MS
    has_ended = F.col("stopped_at").isNotNull() | is_silent
    return findings(
        named.where((F.col(ALGORITHM) != KEYED) | has_key),
        check="checkpoints.unsigned",
        date=DAYS,
        explanation=sentence(
            "process {proxy_id}/{boot_id} has signed nothing: it has no signing key, or it is forged"
        ),
        evidence=[*S.BOOT_KEY],
        # A boot that goes on is no other finding; one to which somebody adds records after its end is.
        identity=[*S.BOOT_KEY, F.when(has_ended, F.col("last_sequence")).alias("last_sequence")],
    )


def _with_key(ends: DataFrame, processes: DataFrame, keys: PublicKeys) -> DataFrame:
    """Add ALGORITHM, `named`, `since_ms` and `has_key`: whether its key was valid when the topic got it."""
    schema = S.struct(("named", _TEXT), ("since_ms", _LONG))
    since = frame_of(ends.sparkSession, sorted(valid_from(keys).items()), schema)
    kinds = processes.select(*S.BOOT_KEY, ALGORITHM)
    named = ends.withColumn("named", key_name(S.PROXY_ID)).join(kinds, list(S.BOOT_KEY))
    joined = named.join(F.broadcast(since), "named", "left")
    return joined.withColumn(
        "has_key", F.coalesce(F.col("first_append_ms") >= F.col("since_ms"), F.lit(False))
    )


def _rewritten(records: DataFrame, valid: DataFrame, index: DataFrame | None) -> DataFrame:
    """Return boots with other records than those that the newest valid checkpoint has signed."""
    places = valid.select(*S.BOOT_KEY, (F.col(_SIZE) - 1).alias(S.SEQUENCE), _SIZE, _LINK, S.DATE)
    near = near_places(records, sequence_index(records) if index is None else index, places)
    there = near.select(*S.RECORD_KEY, hexadecimal(F.col(S.CHAIN)).alias(LINK_THERE))
    joined = there.join(F.broadcast(places), list(S.RECORD_KEY))
    return findings(
        joined.where(~F.col(LINK_THERE).eqNullSafe(F.col(_LINK))),
        check="checkpoints.rewritten",
        explanation=sentence(
            "process {proxy_id}/{boot_id} has signed another link at sequence {sequence} than is in the"
            " table: its records were rewritten"
        ),
        evidence=[*S.RECORD_KEY, _LINK, LINK_THERE],
    )


def _after_the_last(boots: DataFrame, signed_later: DataFrame, until_ms: int) -> DataFrame:
    """Return boots with records after the last checkpoint, beyond what a process may not have signed yet.

    What a process that was killed wrote last is signed by the next boot, which names it.
    """
    stopped = F.col(_STOPS) & (F.coalesce("stopped_at", F.lit(-1)) == F.col(_SIZE) + 1)
    allowed = F.col(_SIZE) + F.when(stopped, 1).otherwise(0)
    old = F.greatest(F.col("last_time_ms") - UNSIGNED_MS, F.lit(until_ms) - SILENCE_MS) > F.col(_SIGNED_MS)
    late = boots.where((F.col("last_sequence") > allowed) & (old | F.col(_STOPS)))
    return findings(
        late.withColumn("named", key_name(S.PROXY_ID)).join(
            F.broadcast(signed_later), ["named", S.BOOT_ID], "left_anti"
        ),
        check="checkpoints.after_the_last",
        date=DAYS,
        explanation=sentence(
            "process {proxy_id}/{boot_id} has records up to sequence {last_sequence}, but its last"
            " checkpoint is {size}: it was killed, or they are forged"
        ),
        evidence=[*S.BOOT_KEY, "last_sequence", _SIZE],
    )


def _after_expired(records: DataFrame, boots: DataFrame) -> DataFrame:
    """Return boots with records long after those that have expired, and without a checkpoint since then.

    By when the topic got them: who adds records to a boot chooses their times.
    """
    late = records.join(F.broadcast(boots.select(*S.BOOT_KEY, "expired_until")), list(S.BOOT_KEY))
    appended = F.unix_millis(S.KAFKA_TIMESTAMP)
    span = late.where(F.col(S.SEQUENCE) >= F.col("expired_until")).groupBy(*S.BOOT_KEY)
    long = span.agg((F.max(appended) - F.min(appended)).alias("span_ms")).where(
        F.col("span_ms") > UNSIGNED_MS
    )
    return findings(
        boots.join(F.broadcast(long), list(S.BOOT_KEY), "left_semi"),
        check="checkpoints.after_the_last",
        date=DAYS,
        explanation=sentence(
            "process {proxy_id}/{boot_id} has records up to sequence {last_sequence}, long after sequence"
            " {expired_until}, up to which it has expired, and no checkpoint since then: they are"
            " forged, or it signs nothing"
        ),
        evidence=[*S.BOOT_KEY, "last_sequence", "expired_until"],
    )


def notes_not_shown(notes: DataFrame, records: DataFrame, expired: DataFrame) -> Iterator[tuple[str, str]]:
    """Yield name and text of those notes of a witness that say what the table does not show.

    `notes` has `name` and `message` of each: a topic has one for each process and minute. A note that is like
    the table needs no proof. `expired` is table `expired`.
    """
    claims = claimed(notes, "name", S.MESSAGE)
    not_expired = held(unexpired(claims, expired_sequences(expired), S.BOOT_KEY, SEEN, SEEN))
    others = notes.where(~F.coalesce(is_claim(), F.lit(False)))
    left = unshown(not_expired, records).select("name", S.MESSAGE).unionByName(others)
    return ((row["name"], row[S.MESSAGE] or "") for row in left.toLocalIterator())


def against_witness(
    notes: Iterable[tuple[str, str]],
    records: DataFrame,
    ends: DataFrame,
    expired: DataFrame,
    keys: PublicKeys,
) -> DataFrame:
    """Return what the checkpoints of a witness outside say and the table does not show.

    `notes`: name and text of each. Those that are not signed as they should be are findings, and hide none of
    the others. `expired` is table `expired`.
    """
    rows: list[tuple[object, ...]] = []
    faults, counts = defaultdict[str, list[str]](list), Counter[str]()
    for name, text in notes:
        said, why = read_checkpoint(text, keys)
        wrong = [each for each in read_cosignatures(text, keys) if each.why not in ("", UNKNOWN)]
        whys = [f"has a cosignature of {each.name} that {each.why}" for each in wrong]
        if said is None or why:
            whys.append(why)
        elif said.size:
            rows.append((said.proxy_id, said.boot_id, said.size - 1, said.link, "the witness", None, 0, None))
        for each in whys:
            counts[each] += 1
            if len(faults[each]) < SAMPLE:
                faults[each].append(name)
    spark = records.sparkSession
    found = [(why, sorted(names), counts[why], None) for why, names in sorted(faults.items())]
    not_valid = findings(
        frame_of(spark, found, _OF_WITNESS),
        check="checkpoints.not_valid",
        severity="high",
        explanation=sentence(
            "{notes} checkpoint(s) of the witness ({named}): each {why}", named=F.array_join("names", ", ")
        ),
        evidence=_OF_WITNESS.names[:-1],
    )
    claims = unexpired(frame_of(spark, rows, CLAIMS), expired_sequences(expired), S.BOOT_KEY, SEEN, SEEN)
    return missing_ends(records, ends, claims).unionByName(not_valid)
