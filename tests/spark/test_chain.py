"""(g) The hash chain of a boot: which records fit it."""

import json
from datetime import date

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_audit.ingest import decode
from spark_audit.reconcile.chain import chain
from tests.spark.audit_trail import NOON_MS, Clock, Process
from tests.spark.frames import audit_frame, kafka_frame
from tests.spark.sealed import Line, altered, seal, table

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D2", "D5")]

HALF_A_DAY_MS = 43_200_000
KEY, LONG_KEY = bytes(range(40)), bytes(100)
Runs = dict[tuple[str, str], list[tuple[int, int]]]
"""(check, proxy id) -> first and last sequence of each run."""


def a_process(proxy_id: str, marks: int = 6) -> Process:
    process = Process(proxy_id, Clock())
    process.start()
    for _ in range(marks):
        process.high_water()
    process.stop()
    return process


def a_boot(proxy_id: str, secret: bytes | None = None) -> list[Line]:
    return seal(a_process(proxy_id), secret)


def with_altered(lines: list[Line], *places: int) -> list[Line]:
    return [altered(line, count=77) if place in places else line for place, line in enumerate(lines)]


def with_rehashed(lines: list[Line], at: int) -> list[Line]:
    """One record altered by somebody who hashes it too: the one after it shows it."""
    forger = Process(lines[at].record["proxy_id"], Clock())
    forger.records = [line.record for line in lines]
    forger.records[at] = lines[at].record | {"message": "forged"}
    return [*lines[:at], seal(forger)[at], *lines[at + 1 :]]


def with_stripped(lines: list[Line], at: int) -> list[Line]:
    """One record as if it were of version 1."""
    text = json.loads(lines[at].value)
    del text["chain"]
    text["data"]["schema_version"] = 1
    stripped = Line(lines[at].key, lines[at].record, json.dumps(text).encode())
    return [*lines[:at], stripped, *lines[at + 1 :]]


def strange() -> list[Line]:
    process = Process("ü", Clock())
    process.start()
    process.write("authentication", principal="User:日本")
    return seal(process)


def runs(found: DataFrame) -> Runs:
    result: Runs = {}
    for row in found.collect():
        proof = json.loads(row["evidence"])
        run = proof.get("first_sequence", -1), proof.get("last_sequence", -1)
        result.setdefault((row["check"], proof["proxy_id"]), []).append(run)
    return result


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """One process for each fault, and some without."""
    holed = a_boot("holed")
    lines = [
        *a_boot("whole"),
        *strange(),
        *with_altered(a_boot("altered"), 3),
        *with_altered(a_boot("first"), 0),
        *with_altered(a_boot("run"), 2, 3, 4, 6),
        *with_rehashed(a_boot("rehashed"), 3),
        *with_stripped(a_boot("stripped"), 4),
        *holed[:3],
        *holed[4:],
        *a_boot("keyed", KEY),
    ]
    old = audit_frame(spark, a_process("old").records)
    return table(spark, lines).unionByName(old).persist()


FOUND: Runs = {
    ("chain.altered", "altered"): [(3, 3)],
    ("chain.altered", "first"): [(0, 0)],
    ("chain.altered", "run"): [(2, 4), (6, 6)],
    ("chain.altered", "rehashed"): [(4, 4)],
    ("chain.unlinked", "stripped"): [(4, 4)],
    ("chain.unchecked", "keyed"): [(0, 7)],
}


def test_records_that_do_not_fit_are_named_run_by_run(rows: DataFrame) -> None:
    assert runs(chain(rows)) == FOUND


def test_of_one_day_only_its_lines_are_judged_and_all_of_them(spark: SparkSession) -> None:
    process = Process("midnight", Clock(NOON_MS + HALF_A_DAY_MS - 450))
    process.start()
    for _ in range(8):
        process.high_water()
    sealed = with_altered(seal(process), 2, 3, 5)
    sealed[7] = altered(sealed[7], time_ms=NOON_MS + 2 * HALF_A_DAY_MS + HALF_A_DAY_MS)
    rows = table(spark, sealed)

    assert runs(chain(rows)) == {("chain.altered", "midnight"): [(2, 3), (5, 5), (7, 7)]}
    assert runs(chain(rows, days=[date(2026, 11, 23)])) == {("chain.altered", "midnight"): [(2, 3)]}
    assert runs(chain(rows, days=[date(2026, 11, 24)])) == {("chain.altered", "midnight"): [(5, 5)]}
    assert runs(chain(rows, days=[date(2026, 11, 25)])) == {("chain.altered", "midnight"): [(7, 7)]}


def test_a_keyed_chain_fits_its_key_only(spark: SparkSession) -> None:
    lines = [*a_boot("keyed", KEY), *a_boot("other", LONG_KEY), *a_boot("plain")]

    assert runs(chain(table(spark, lines), KEY)) == {
        ("chain.altered", "other"): [(0, 7)],
        ("chain.unkeyed", "plain"): [(-1, -1)],
    }


def test_what_is_added_to_a_boot_without_the_key_after_its_end_is_another_finding(
    spark: SparkSession,
) -> None:
    def found(process: Process) -> str:
        [row] = chain(table(spark, seal(process)), KEY).collect()
        assert row["check"] == "chain.unkeyed"
        return str(row["id"])

    runs_on = a_process("plain")
    del runs_on.records[-1]
    first = found(runs_on)
    runs_on.high_water()
    stopped = a_process("plain")
    ended = found(stopped)
    stopped.high_water()

    assert first == found(runs_on) != ended != found(stopped)


def test_a_key_longer_than_a_block_of_the_hash_fits_too(spark: SparkSession) -> None:
    assert runs(chain(table(spark, a_boot("keyed", LONG_KEY)), LONG_KEY)) == {}


def test_a_line_with_its_chain_elsewhere_is_quarantined(spark: SparkSession) -> None:
    [line, *_] = a_boot("proxy")
    text = json.loads(line.value)
    moved = json.dumps({"chain": text.pop("chain"), **text}, separators=(",", ":")).encode()

    [row] = kafka_frame(spark, [(line.key, moved)]).transform(decode.check_audit).collect()

    assert row["reason"] == "no chain at the end of the line"
