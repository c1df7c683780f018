"""(h) Checkpoints: what somebody can do who may write the topic and the tables, and has no private key."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from proxy.audit.checkpoints import Checkpoint, Signer, StateInEffect
from spark_audit import schema as S
from spark_audit.reconcile.chain import algorithms, successions
from spark_audit.reconcile.checkpoints import (
    against_witness,
    checkpoints,
    different_states,
    notes_not_shown,
)
from spark_audit.reconcile.cosignatures import cosignatures
from spark_audit.reconcile.reconciliation import reconcile
from spark_audit.reconcile.unsigned import VerifiedSignatures
from spark_audit.tables.delta import empty_frame
from spark_audit.trail.audit_records import boots, complete_until_ms, sequence_index
from tests.spark.audit_trail import NOON_MS, Clock, Process
from tests.spark.sealed import LATER_MS, LOG, MINUTE_MS, Line, Signing, end_of, seal, table
from tests.support.signing import public_key, signing_key

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D14")]

SECRET = bytes(range(40))
KEYS = [
    *(public_key(name) for name in ("whole", "rewritten", "copied", "extended", "killed", "lost", "cut")),
    *(public_key(name) for name in ("after-stop", "appended", "other-state", "signed-by-another", "swapped")),
    public_key("rotated", "first", not_after_ms=LATER_MS),
    public_key("rotated", "second", not_before_ms=LATER_MS),
    public_key("retired", not_after_ms=LATER_MS),
    public_key("adopted"),
    public_key("withdrawn", not_after_ms=NOON_MS + 10 * MINUTE_MS),
    public_key("came-late", "first", not_after_ms=NOON_MS + 10 * MINUTE_MS),
    public_key("came-late", "second", not_before_ms=NOON_MS + 10 * MINUTE_MS),
    public_key("backdated", not_before_ms=NOON_MS + 30 * MINUTE_MS),
    public_key("early", not_before_ms=LATER_MS),
    public_key("unknown", "the one in the file"),
    public_key("migrated", not_before_ms=NOON_MS + 30 * MINUTE_MS),
    public_key("downgraded", not_before_ms=NOON_MS - 30 * MINUTE_MS),
    # The key of a job, and of a controller's log, sign no trail.
    public_key("of-a-job", role="run"),
    public_key("of-a-log", role="metadata"),
]


def a_boot(proxy_id: str, at_ms: int = NOON_MS, boot_id: str = "boot-1", key: str = "") -> Signing:
    process = Signing(proxy_id, Clock(at_ms), boot_id=f"{proxy_id}-{boot_id}")
    process.key = key
    return process


def sealed_again(lines: list[Line], change: Callable[[list[dict[str, Any]]], None]) -> list[Line]:
    """What somebody writes who changes records, and computes all links again."""
    forged = Process(lines[0].record["proxy_id"], Clock(), boot_id=lines[0].record["boot_id"])
    forged.records = [dict(line.record) for line in lines]
    change(forged.records)
    return seal(forged)


def appended(lines: list[Line], *events: str, message: str | None = None) -> list[Line]:
    last = lines[-1].record

    def change(records: list[dict[str, Any]]) -> None:
        for event in events:
            added = {"event": event, "sequence": len(records), "time_ms": last["time_ms"] + 50}
            records.append({**dict.fromkeys(S.DATA.names), **stamp(last), **added, "message": message})

    return sealed_again(lines, change)


def stamp(record: dict[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in ("schema_version", "role", "proxy_id", "boot_id")}


def a_trail() -> dict[str, list[Line]]:
    """One process for each manipulation. `witness` sees `cut`, and runs until all others have long ended."""
    trail = {name: seal(a_boot(name).run()) for name in ("whole", "copied", "rewritten", "cut", "after-stop")}
    trail["whole.w1"] = seal(a_boot("whole.w1", key="whole").run())
    trail["rotated"] = seal(a_boot("rotated", key="first").run(later_key="second"))
    trail["retired"] = seal(a_boot("retired").run())
    trail["early"] = seal(a_boot("early").run())
    trail["unknown"] = seal(a_boot("unknown").run())
    trail["signed-by-another"] = seal(a_boot("signed-by-another", key="whole").run())
    trail["of-a-job"] = seal(a_boot("of-a-job").run())
    trail["of-a-log"] = seal(a_boot("of-a-log").run())
    # Whole boots by somebody without a key, one as of an older release.
    for name in ("forged", "downgraded-plain"):
        process = Process(name, Clock(), boot_id=f"{name}-boot-1")
        process.start()
        process.high_water()
        process.stop()
        trail[name] = seal(process)
    # All have the old secret. One signs only later; the others have had a key, which the forger has not.
    for name in ("migrated", "downgraded", "backdated"):
        process = Process(name, Clock(), boot_id=f"{name}-boot-1")
        process.start()
        process.high_water()
        process.stop()
        trail[name] = seal(process, SECRET)
    trail["migrated"] += seal(
        a_boot("migrated", NOON_MS + 30 * MINUTE_MS, "boot-2").run(), previous=end_of(trail["migrated"])
    )
    trail["rewritten"] = sealed_again(trail["rewritten"], lambda records: records[2].update(count=77))
    other = a_boot("other-state")
    other.digest = b"e" * 32
    trail["other-state"] = seal(other.run())
    # A checkpoint of the same process, at another place.
    trail["copied"] = sealed_again(
        trail["copied"], lambda records: records[3].update(message=records[1]["message"])
    )
    trail["swapped"] = sealed_again(
        seal(a_boot("swapped").run()),
        lambda records: records[1].update(message=trail["whole"][1].record["message"]),
    )
    running = {
        name: seal(a_boot(name).run(to_its_end=False)) for name in ("extended", "lost", "appended", "adopted")
    }
    # Killed, and never back: who has the key of another proxy names what it has written in its place.
    trail["adopted"] = appended(running["adopted"], "request_refused", "request_refused")
    trail["whole.w1"] += seal(
        a_boot("whole.w1", NOON_MS + 10 * MINUTE_MS, "boot-2", key="whole").run(),
        previous=end_of(trail["adopted"]),
    )
    trail["extended"] = appended(running["extended"], "request_refused", "request_refused", "stopped")
    trail["lost"] = appended(running["lost"], "request_refused")
    forger = Signer("appended", signing_key("nobody's"))
    trail["appended"] = appended(
        running["appended"],
        "checkpoint",
        message=forger.signed(Checkpoint("appended", "appended-boot-1", 8, "ab" * 32, NOON_MS).text()),
    )
    # Killed, with a record after the last checkpoint: the next boot has found it in its spool.
    killed = a_boot("killed").run(to_its_end=False)
    killed.write("request_refused", message="the last one")
    trail["killed"] = seal(killed)
    trail["killed"] += seal(
        a_boot("killed", NOON_MS + 10 * MINUTE_MS, "boot-2").run(), previous=end_of(trail["killed"])
    )
    # The topic has both after the end of the key. The next boot has found the second one in its spool.
    trail["withdrawn"] = seal(a_boot("withdrawn").run())
    trail["came-late"] = seal(a_boot("came-late", key="first").run())
    trail["came-late"] += seal(
        a_boot("came-late", NOON_MS + 10 * MINUTE_MS, "boot-2", key="second").run(),
        previous=end_of(trail["came-late"]),
    )
    trail["after-stop"] = appended(trail["after-stop"], "request_refused")
    ended = Checkpoint.parse(trail["cut"][7].record["message"])
    assert ended is not None
    seen = Signer("cut", signing_key("cut")).signed(ended.text())
    witness = a_boot("witness", key="whole")
    witness.start()
    witness.write("witnessed", message=Signer("witness", signing_key("whole")).cosigned(seen, NOON_MS))
    witness.clock.now_ms = NOON_MS + 60 * MINUTE_MS
    witness.high_water()
    trail["witness"] = seal(witness)
    trail["cut"] = trail["cut"][:4]
    return trail


@pytest.fixture(scope="module")
def lines() -> dict[str, list[Line]]:
    return a_trail()


@pytest.fixture(scope="module")
def rows(spark: SparkSession, lines: dict[str, list[Line]]) -> DataFrame:
    # The broker had these late: two from a spool, which the next boot has signed, the others from a forger.
    late = F.col(S.PROXY_ID).isin("migrated", "backdated", "came-late", "withdrawn")
    then = F.timestamp_millis(F.lit(NOON_MS + 60 * MINUTE_MS))
    rows = table(spark, [line for each in lines.values() for line in each])
    return rows.withColumn(
        S.KAFKA_TIMESTAMP, F.when(late, then).otherwise(F.col(S.KAFKA_TIMESTAMP))
    ).persist()


def judged(spark: SparkSession, audit: DataFrame, **keys: Any) -> list[Row]:
    nothing = empty_frame(spark, S.QUARANTINE), empty_frame(spark, S.METADATA_LOG)
    return list(reconcile(audit, *nothing, **keys).findings)


def checked(audit: DataFrame, keys: Any = KEYS, until_ms: int | None = None, **more: Any) -> list[Row]:
    index = sequence_index(audit)
    until = complete_until_ms(index) if until_ms is None else until_ms
    rest = boots(index), algorithms(audit, None), successions(audit), until
    return checkpoints(audit, audit, *rest, keys, **more).collect()


def told(found: list[Row], family: str = "checkpoints.") -> set[tuple[str, str]]:
    return {
        (row["check"].partition(".")[2], json.loads(row["evidence"]).get("proxy_id", ""))
        for row in found
        if row["check"].startswith(family)
    }


AFTER_THE_LAST = "extended", "lost", "after-stop", "appended", "retired", "adopted"
UNSIGNED = "forged", "downgraded-plain", "downgraded", "backdated", "witness"
NOT_VALID = {
    "retired": "is signed with its key at a time at which that was not valid",
    "early": "is signed with its key at a time at which that was not valid",
    "unknown": "is signed with an unknown key, or was altered",
    "signed-by-another": "is signed with the key of whole",
    "of-a-job": "is signed with an unknown key, or was altered",
    "of-a-log": "is signed with an unknown key, or was altered",
    "swapped": "is of record 1 of whole/whole-boot-1: it was copied",
    "appended": "is signed with an unknown key, or was altered",
}


@pytest.mark.long
def test_each_manipulation_is_found_and_nothing_else(spark: SparkSession, rows: DataFrame) -> None:
    found = judged(spark, rows, chain_key=SECRET, public_keys=KEYS)

    assert told(found) == {
        *(("not_valid", name) for name in NOT_VALID),
        *(("unsigned", name) for name in UNSIGNED),
        *(("rewritten", name) for name in ("rewritten", "copied", "swapped")),
        *(("after_the_last", name) for name in AFTER_THE_LAST),
        ("different_states", ""),
        ("came_late", "withdrawn"),
    }
    why = {
        json.loads(row["evidence"])["proxy_id"]: row["explanation"]
        for row in found
        if row["check"] == "checkpoints.not_valid"
    }
    assert {name: text.partition(" at sequence ")[2].partition(" ")[2] for name, text in why.items()} == {
        name: f"{text} ({count} in all)"
        for name, text in NOT_VALID.items()
        for count in [{"retired": 2, "early": 3, "swapped": 1, "appended": 1}.get(name, 5)]
    }
    # The next boot of the process itself shows that a kill has lost nothing. That of another one does not.
    assert {name for _, name in told(found, "gaps.unfinished")} & {"adopted", "killed"} == {"adopted"}
    # The chain itself is whole everywhere, with the old secret where there was one.
    assert told(found, "chain.") == {("end_missing", "cut")} | {
        (check, name) for check, name in told(found, "chain.") if check == "unknown_process"
    }


def test_without_the_old_secret_its_boots_are_not_taken_for_unsigned(
    spark: SparkSession, rows: DataFrame
) -> None:
    with_keys, without = checked(rows), checked(rows, None)

    assert {name for check, name in told(with_keys) if check == "unsigned"} == {*UNSIGNED}
    # States need no key to be compared.
    assert told(without) == {("different_states", "")}


@pytest.mark.long
def test_a_boot_whose_checkpoints_have_expired_is_not_unsigned(spark: SparkSession) -> None:
    lines = seal(a_boot("whole").run())
    left = table(spark, lines).where(F.col(S.EVENT).isin("started", "stopped"))
    row = ("whole", "whole-boot-1", 0, len(lines) - 1, None, None, None, None, None)
    expired = spark.createDataFrame([row], S.EXPIRED)

    assert checked(left, expired=expired) == []
    assert told(checked(left)) == {("unsigned", "whole")}


@pytest.mark.long
def test_a_boot_that_has_expired_is_no_place_for_records_without_a_signature(spark: SparkSession) -> None:
    """A crash soon after midnight leaves records of another day; who adds some does it later."""
    # What is left of it in the table is no checkpoint.
    whole = seal(a_boot("killed").run(to_its_end=False))[:-1]
    lines = appended(whole, "request_refused", "request_refused")
    last = len(lines) - 3
    few = table(spark, lines).where(
        F.col(S.EVENT).isin("started", "request_refused") | (F.col(S.SEQUENCE) == last)
    )
    row = ("killed", "killed-boot-1", 0, last, None, None, None, None, None)
    expired = spark.createDataFrame([row], S.EXPIRED)

    def found(late_ms: int) -> list[str]:
        late = F.timestamp_millis(F.unix_millis(S.KAFKA_TIMESTAMP) + late_ms)
        then = F.when(F.col(S.SEQUENCE) > last, late).otherwise(F.col(S.KAFKA_TIMESTAMP))
        left = few.withColumn(S.KAFKA_TIMESTAMP, then)
        return [row["explanation"] for row in checked(left, expired=expired)]

    assert found(MINUTE_MS) == []
    assert found(60 * MINUTE_MS) == [
        f"process killed/killed-boot-1 has records up to sequence {last + 2}, long after sequence {last}, up"
        " to which it has expired, and no checkpoint since then: they are"
        " forged, or it signs nothing"
    ]


def test_states_are_compared_with_the_log_too(spark: SparkSession) -> None:
    audit = table(spark, seal(a_boot("whole").run()))

    def found(digest: bytes, offset: int = 7) -> list[Row]:
        logged = spark.range(1).select(
            F.lit(LOG).alias("topic"),
            F.lit(offset).cast("long").alias("offset"),
            F.lit(digest.hex()).alias("digest"),
            F.lit("the log").alias("process"),
            F.lit("2026-11-23").cast("date").alias(S.DATE),
        )
        return different_states(audit, logged).collect()

    assert found(b"d" * 32) == found(b"e" * 32, offset=8) == []
    [finding] = found(b"e" * 32)
    assert finding["explanation"] == (
        f"at offset 7 of {LOG} different states were in effect (the log, whole/whole-boot-1): the log was"
        " altered, or a process was given another one"
    )


@pytest.mark.long
@pytest.mark.spec("S14", "D15")
def test_a_process_that_had_another_signed_log_is_found_although_no_other_one_signed_at_its_offset(
    spark: SparkSession,
) -> None:
    """Two controllers have one key, and each has signed a log. The tables have one of them."""
    audit = table(spark, seal(a_boot("whole").run()))

    def found(*states: tuple[int, int, bytes]) -> list[str]:
        verified = VerifiedSignatures(1, LOG, records=3, last=6, signed=2, states=list(states))
        rows = judged(spark, audit, public_keys=KEYS, verified=verified)
        return [row["explanation"] for row in rows if row["check"] == "checkpoints.different_states"]

    assert found((1, 5, b"e" * 32), (7, 9, b"d" * 32)) == []
    assert found((1, 5, b"d" * 32), (6, 9, b"e" * 32)) == [
        f"at offset 7 of {LOG} different states were in effect (the log, whole/whole-boot-1): the log was"
        " altered, or a process was given another one"
    ]


@pytest.mark.spec("D14", "D15")
def test_a_state_that_its_process_has_not_signed_blames_nobody_and_hides_no_true_one(
    spark: SparkSession,
) -> None:
    """Who has the key of a proxy records a state of another one, which that one never had."""
    honest, other = seal(a_boot("whole").run()), a_boot("other-state")
    other.digest = b"e" * 32
    true_one = seal(other.run())

    def of(name: str, digest: bytes, key: str) -> str:
        said = Checkpoint(name, f"{name}-boot-1", 2, "ab" * 32, NOON_MS, StateInEffect(LOG, 7, digest))
        return Signer(name, signing_key(key)).signed(said.text())

    def found(*lines: Line, with_keys: bool = True) -> dict[str, dict[str, Any]]:
        rows = different_states(table(spark, lines), keys=KEYS if with_keys else None).collect()
        return {row["check"]: {**json.loads(row["evidence"]), "text": row["explanation"]} for row in rows}

    liar = a_boot("cut")
    liar.start()
    for _ in range(2):
        liar.write("witnessed", message=of("whole", b"f" * 32, "nobody's"))
    false = seal(liar)
    claimed = found(*honest, *false)
    assert claimed.keys() == {"chain.false_claim"}
    assert claimed["chain.false_claim"]["text"] == (
        f"process cut/cut-boot-1 recorded 2 state(s) of process whole/whole-boot-1 at offset 7 of {LOG} that"
        " differ from those of others, and each is signed with an unknown key, or was altered: somebody else"
        " has claimed it"
    )
    assert found(*honest, *false, with_keys=False).keys() == {"checkpoints.different_states"}

    # Beside false notes of a state, the true one counts.
    liar.write("witnessed", message=of("other-state", b"e" * 32, "nobody's"))
    told = found(*seal(liar), *true_one, *honest)
    assert told["checkpoints.different_states"]["digests"] == [(each * 32).hex() for each in (b"d", b"e")]
    assert (
        "other-state/other-state-boot-1, whole/whole-boot-1" in told["checkpoints.different_states"]["text"]
    )
    assert told["chain.false_claim"]["digest"] == (b"f" * 32).hex()


@pytest.mark.long
@pytest.mark.spec("D14", "D15")
def test_records_that_are_added_to_an_unsigned_boot_are_another_finding(spark: SparkSession) -> None:
    """One that goes on is the same: else each run would have another finding to acknowledge."""
    process = Process("whole", Clock(), boot_id="whole-boot-1")
    process.start()
    process.high_water()

    def found(lines: list[Line], until_ms: int) -> str:
        [row] = checked(table(spark, lines), until_ms=until_ms)
        assert row["check"] == "checkpoints.unsigned"
        return str(row["id"])

    killed = seal(process)
    running = NOON_MS + MINUTE_MS
    long_after = NOON_MS + 60 * MINUTE_MS
    longer = appended(killed, "request_refused")

    goes_on = found(killed, running)
    assert found(longer, running) == goes_on
    acknowledged = found(killed, long_after)
    assert acknowledged not in {
        found(longer, long_after),
        goes_on,
        found(appended(killed, "stopped"), running),
    }


@pytest.mark.long
def test_a_trail_of_true_processes_has_no_finding(spark: SparkSession) -> None:
    """The newest minute is not signed yet, and the boot is still running."""
    running = a_boot("whole", NOON_MS).run(to_its_end=False)
    running.write("request_refused", message="not signed yet")
    stopped = a_boot("killed", NOON_MS).run()
    audit = table(spark, [*seal(running), *seal(stopped)])

    assert Counter(row["check"] for row in judged(spark, audit, public_keys=KEYS)) == {}


def test_cosignatures_are_verified_and_those_of_unknown_keys_are_counted(spark: SparkSession) -> None:
    """Of each witness and process the first and the newest: here there is one of each kind."""
    note = Signer("cut", signing_key("cut")).signed(
        Checkpoint("cut", "cut-boot-1", 5, "ab" * 32, NOON_MS).text()
    )
    other = note.replace("cut-boot-1", "cut-boot-2")
    signed = Signer("whole", signing_key("whole")).cosigned
    messages = {
        "whole": signed(note, NOON_MS),
        "whole.w1": Signer("whole.w1", signing_key("whole")).cosigned(note, NOON_MS),
        "of-another-note": other + signed(note, NOON_MS).removeprefix(note),
        "retired": Signer("retired", signing_key("retired")).cosigned(note, LATER_MS + 1000),
        "unknown": Signer("unknown", signing_key("unknown")).cosigned(note, NOON_MS),
        "of-a-job": Signer("of-a-job", signing_key("of-a-job")).cosigned(note, NOON_MS),
        "not-cosigned": note,
        "of-an-older-release": "cut/cut-boot-1/5/" + "ab" * 32,
    }
    lines = []
    for name, message in messages.items():
        process = Process(name, Clock(), boot_id=f"{name}-boot-1")
        process.start()
        process.write("witnessed", message=message)
        lines += seal(process)

    counts, wrong = cosignatures(table(spark, lines), KEYS)

    assert counts == {"valid": 2, "invalid": 2, "unknown": 2}
    told_of = {
        json.loads(row["evidence"])["proxy_id"]: row["explanation"].partition(" a checkpoint of ")[2]
        for row in wrong.collect()
    }
    assert told_of == {
        "of-another-note": "penstock.audit/cut/cut-boot-2 with a cosignature of whole that was altered, or is"
        " of another checkpoint",
        "retired": "penstock.audit/cut/cut-boot-1 with a cosignature of retired that is signed with its key"
        " at a time at which that was not valid",
    }


def test_a_witness_outside_shows_what_is_gone(
    spark: SparkSession, rows: DataFrame, lines: dict[str, list[Line]]
) -> None:
    def last(name: str) -> tuple[str, str]:
        return f"{name}.checkpoint", lines[name][-2].record["message"]

    cut = a_trail()["cut"]
    assert len(cut) == 4
    full = seal(a_boot("cut").run())
    notes = [
        last("whole"),
        ("cut.checkpoint", full[-2].record["message"]),
        (
            "lost.checkpoint",
            Signer("lost", signing_key("lost")).signed(
                Checkpoint("lost", "gone-boot", 5, "ab" * 32, NOON_MS).text()
            ),
        ),
        ("rewritten.checkpoint", seal(a_boot("rewritten").run())[-2].record["message"]),
        ("altered.checkpoint", last("whole")[1].replace("stops\n", "")),
        (
            "cosigned.checkpoint",
            last("whole")[1]
            + Signer("cut", signing_key("cut")).cosigned(full[1].record["message"], NOON_MS).splitlines()[-1]
            + "\n",
        ),
        (
            "expired.checkpoint",
            Signer("killed", signing_key("killed")).signed(
                Checkpoint("killed", "old-boot", 5, "ab" * 32, NOON_MS).text()
            ),
        ),
    ]
    row = ("killed", "old-boot", 0, 9, None, None, None, None, None)
    expired = spark.createDataFrame([row], S.EXPIRED)

    found = against_witness(notes, rows, boots(sequence_index(rows)), expired, KEYS).collect()

    assert {(row["check"], json.loads(row["evidence"]).get("proxy_id")) for row in found} == {
        ("chain.end_missing", "cut"),
        ("chain.process_missing", "lost"),
        ("chain.other_link_seen", "rewritten"),
        ("checkpoints.not_valid", None),
    }
    not_valid = [row["explanation"] for row in found if row["check"] == "checkpoints.not_valid"]
    assert sorted(not_valid) == [
        "1 checkpoint(s) of the witness (altered.checkpoint): each is signed with an unknown key, or was"
        " altered",
        "1 checkpoint(s) of the witness (cosigned.checkpoint): each has a cosignature of cut that was"
        " altered, or is of another checkpoint",
    ]
    [of_cut] = [row["explanation"] for row in found if row["check"] == "chain.end_missing"]
    assert of_cut == (
        "process cut/cut-boot-1 was seen by the witness at sequence 7: the last record in the table is 3,"
        " others were removed or not shipped"
    )


def test_a_false_note_in_a_topic_of_checkpoints_hides_none_that_is_true(
    spark: SparkSession, rows: DataFrame
) -> None:
    """Who writes there writes longer ones, older ones, and what is no text; some have expired."""
    true = [line.record["message"] for line in seal(a_boot("cut").run()) if line.record["message"]]
    whole = [line.record["message"] for line in seal(a_boot("whole").run()) if line.record["message"]]
    longer = Checkpoint("cut", "cut-boot-1", 10**17, "ab" * 32, NOON_MS).text()
    gone = Checkpoint("killed", "old-boot", 5, "ab" * 32, NOON_MS).text()
    messages = [
        *(message.encode() for message in (*whole, *true, true[0])),
        Signer("cut", signing_key("nobody's")).signed(longer).encode(),
        (longer + true[-1][true[-1].index("\n\n") + 1 :]).encode(),
        Signer("killed", signing_key("killed")).signed(gone).encode(),
        b"\xff\xfe no text",
    ]
    named = [(f"ends-0-{number}", bytearray(message)) for number, message in enumerate(messages)]
    notes = spark.createDataFrame(named, "name string, value binary")
    notes = notes.select("name", F.col("value").cast("string").alias(S.MESSAGE))
    row = ("killed", "old-boot", 0, 9, None, None, None, None, None)
    expired = spark.createDataFrame([row], S.EXPIRED)

    left = list(notes_not_shown(notes, rows, expired))
    found = against_witness(left, rows, boots(sequence_index(rows)), expired, KEYS).collect()

    # Those that are like the table need no proof: of `cut`, two are left of four records.
    assert len(left) == len(true) - 2 + 3
    assert sorted(row["explanation"] for row in found) == [
        "1 checkpoint(s) of the witness (ends-0-14): each is no signed checkpoint",
        "2 checkpoint(s) of the witness (ends-0-11, ends-0-12): each is signed with an unknown key, or was"
        " altered",
        "process cut/cut-boot-1 was seen by the witness at sequence 7: the last record in the table is 3,"
        " others were removed or not shipped",
    ]


def test_what_was_acknowledged_covers_no_further_checkpoint(spark: SparkSession) -> None:
    lines = seal(a_boot("unknown").run())

    def found(last: int) -> set[str]:
        rows = checked(table(spark, lines[:last]))
        return {row["id"] for row in rows if row["check"] == "checkpoints.not_valid"}

    [first], [second] = found(4), found(6)
    assert first != second
