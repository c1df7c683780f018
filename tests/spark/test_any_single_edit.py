"""Whatever is done to one line of a trail, by somebody who can make no link, some check finds; properties.

Each example is a trail of many proxies and one edit for each, so that a few runs of Spark judge many edits.
"""

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark_audit import schema as S
from spark_audit.ingest import decode
from spark_audit.reconcile.chain import boots, chain, successions
from spark_audit.reconcile.gaps import gaps
from spark_audit.trail.audit_records import deduplicate
from tests.spark.frames import kafka_frame
from tests.spark.sealed import Line
from tests.spark.tampered import a_true_trail, relabelled, sealed_boots

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D5", "D6")]

LIVES = 9, 10
"""Records of a proxy's first boot, which crashes, and of its second, which stops."""
LINES = sum(LIVES)
Lines = list[Line]

places = st.integers(0, LINES - 1)
numbers = st.integers(0, 10**6)
values = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.text(max_size=8), st.just(["x"]), st.just({})
)
edits = st.one_of(
    st.tuples(st.just("field"), places, numbers, values),
    st.tuples(st.just("byte"), places, numbers, st.integers(1, 255)),
    st.tuples(st.just("key"), places, numbers, st.none()),
    st.tuples(st.just("cut"), places, numbers, st.none()),
    # The newest record of all may as well not have come yet.
    st.tuples(st.just("removed"), st.integers(0, LINES - 2), st.none(), st.none()),
    st.tuples(st.just("repeated"), places, numbers, values),
    st.tuples(st.just("swapped"), places, st.integers(1, min(LIVES) - 1), st.none()),
    st.tuples(st.just("moved"), places, st.integers(1, LINES - 1), st.none()),
    st.tuples(st.just("added"), places, st.none(), st.none()),
    st.tuples(st.just("sent again"), places, st.none(), st.none()),
)
HARMLESS = "sent again"
"""What a process that was killed does: the same lines once more, behind the others."""


def with_field(line: Line, number: int, value: Any) -> Line:
    """One member of the envelope or of its data with another value, of whatever type."""
    text = json.loads(line.value)
    members = [(text, name) for name in text if name != "data"] + [
        (text["data"], name) for name in text["data"]
    ]
    holder, name = members[number % len(members)]
    holder[name] = value if value != holder[name] or type(value) is not type(holder[name]) else "another"
    return Line(line.key, line.record, json.dumps(text, separators=(",", ":")).encode())


def with_byte(line: Line, number: int, change: int) -> Line:
    at = number % len(line.value)
    return Line(
        line.key, line.record, line.value[:at] + bytes([line.value[at] ^ change]) + line.value[at + 1 :]
    )


def done_to(lines: Lines, edit: tuple[str, int, Any, Any]) -> Lines:
    """The lines of one proxy as the topic has them after the edit."""
    kind, at, number, value = edit
    line, others = lines[at], [*lines[:at], *lines[at + 1 :]]
    if kind == "removed":
        return others
    if kind == "swapped":
        boot = lines[: LIVES[0]] if at < LIVES[0] else lines[LIVES[0] :]
        other = lines.index(boot[(boot.index(line) + number) % len(boot)])
        swapped = list(lines)
        swapped[at], swapped[other] = swapped[other], swapped[at]
        return swapped
    if kind == "moved":
        other = (at + number) % LINES
        return [relabelled(line, each) if n == other else each for n, each in enumerate(lines) if n != at]
    more = {
        "repeated": lambda: with_field(line, number, value),
        "added": lambda: _beyond_the_end(line, lines),
        "sent again": lambda: line,
    }
    if kind in more:
        return [*lines, more[kind]()]
    instead = {
        "field": lambda: with_field(line, number, value),
        "byte": lambda: with_byte(line, number, value),
        "key": lambda: Line(line.key[: number % len(line.key)], line.record, line.value),
        "cut": lambda: Line(line.key, line.record, line.value[: number % len(line.value)]),
    }
    return [*lines[:at], instead[kind](), *lines[at + 1 :]]


def _beyond_the_end(line: Line, lines: Lines) -> Line:
    """A record that no process wrote, in the place after the last."""
    text = json.loads(lines[-1].value)
    text["data"]["sequence"] = LIVES[1]
    text["id"] = f"{text['data']['proxy_id']}/{text['data']['boot_id']}/{LIVES[1]}"
    return relabelled(line, Line(lines[-1].key, lines[-1].record, json.dumps(text).encode()))


def accused(spark: SparkSession, trails: Sequence[tuple[str, Lines]]) -> set[str]:
    """The proxies of which something is found, or of which a line cannot be read."""
    owners = [name for name, lines in trails for _ in lines]
    kafka = kafka_frame(spark, [(line.key, line.value) for _, lines in trails for line in lines])
    read = kafka.transform(decode.check_audit).persist()
    audit = read.transform(decode.audit_rows).persist()
    once = deduplicate(audit)
    checks = gaps(audit), chain(once), boots(successions(once))
    found = {json.loads(row[S.EVIDENCE])["proxy_id"] for check in checks for row in check.collect()}
    bad = read.transform(decode.quarantine_rows).select(S.KAFKA_OFFSET).collect()
    return found | {owners[row[S.KAFKA_OFFSET]] for row in bad}


@pytest.mark.long
@settings(max_examples=2, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.lists(edits, min_size=30, max_size=60))
def test_any_single_edit_of_a_line_is_found(
    spark: SparkSession, todo: list[tuple[str, int, Any, Any]]
) -> None:
    names = [f"proxy-{number}" for number in range(len(todo))]
    processes = a_true_trail(names).processes[2:]
    trails = []
    for edit, (name, lives) in zip(todo, groupby(processes, lambda process: process.proxy_id), strict=True):
        whole = [line for boot in sealed_boots(list(lives), None) for line in boot]
        assert len(whole) == LINES
        trails.append((name, done_to(whole, edit)))

    found = accused(spark, trails)
    judged = list(zip(names, todo, strict=True))
    assert [edit for name, edit in judged if name not in found and edit[0] != HARMLESS] == []
    assert [edit for name, edit in judged if name in found and edit[0] == HARMLESS] == []
