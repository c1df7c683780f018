"""Each kind of tampering by each hand: exactly what is found of it and of whom, and nothing of anybody else.

One trail holds all of them, each in a proxy of its own, so that one run judges all.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from spark_audit import schema as S
from spark_audit.reconcile.reconciliation import reconcile
from spark_audit.tables.delta import empty_frame
from tests.spark.audit_trail import Process, Trail
from tests.spark.frames import key as key_of
from tests.spark.frames import line, log_frame
from tests.spark.sealed import Line, table
from tests.spark.tampered import EDITED, a_true_trail, administer, forged, sealed_boots

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D5", "D6")]

SECRET, GUESS = bytes(range(40)), bytes(40)
Found = dict[str, set[str]]
"""Proxy id -> its findings, each as `check boot:places`; what names no process stands under LOG."""
LOG = "the metadata log"

LIES = {
    "flipped": {"decisions.wrongly_granted 1:3"},
    "overrun": {"quotas.exceeded"},
    "expired": {"sessions.overrun 1:7"},
    "limit": {"quotas.other_limit 1:8"},
}
"""What the records themselves give away, whoever wrote them and however they are chained."""

BY_EDITOR = {
    "host": {"chain.altered 1:2"},
    "flipped": {"chain.altered 1:3", *LIES["flipped"]},
    "overrun": {"chain.altered 1:5-6", *LIES["overrun"]},
    "expired": {"chain.altered 1:7", *LIES["expired"]},
    "limit": {"chain.altered 1:8", *LIES["limit"]},
    "removed": {"gaps.hole 1:3"},
    "repeated": {"gaps.different_copies 1:3"},
    "sent-again": set[str](),
    "reordered": {"gaps.reordered 1:3"},
    # Out of one boot into the place of another's record: it does not fit there, nor what follows it.
    "moved": {"gaps.hole 1:4", "chain.altered 2:4-5"},
    "boot-removed": {"chain.boot_missing 2"},
    # The crash would be proven harmless by the next boot, if its last record were there.
    "tail-cut": {"chain.tail_missing 2", "gaps.unfinished 1"},
    "untouched": set[str](),
}
SHORTER = {"chain.tail_missing 2", "gaps.unfinished 1"}
ANOTHER_END = {"chain.other_end 2", "gaps.unfinished 1"}
BY_FORGER_OF_ONE_BOOT = {
    **{kind: ANOTHER_END | LIES.get(kind, set()) for kind in ("host", *LIES, "reordered")},
    **dict.fromkeys(("removed", "moved", "tail-cut"), SHORTER),
    "inserted": {"chain.after_the_end 2", *ANOTHER_END},
    "boot-removed": {"chain.boot_missing 2"},
}
KINDS = tuple(BY_FORGER_OF_ONE_BOOT)
BY_FORGER_OF_ALL = {kind: LIES.get(kind, set()) for kind in KINDS}
"""Who writes all boots anew is found by what they tell alone, as long as anybody can make a chain."""
LAST = {"removed": (7, 9), "inserted": (9, 9), "moved": (7, 10), "tail-cut": (6, 9)}
"""Where the forged boots end, if not at 8 and 9."""


def told_by_proxy(rows: list[Row]) -> Found:
    found: dict[str, set[str]] = {}
    for row in rows:
        proof = json.loads(row["evidence"])
        whom = proof.get("proxy_id", proof.get("proxy", LOG))
        found.setdefault(whom, set()).add(" ".join([row["check"], *_place(proof)]))
    return found


def _place(proof: dict[str, Any]) -> Iterator[str]:
    boot = str(proof.get("boot_id", ""))[-1:]
    names = ("first_missing", "last_missing"), ("first_sequence", "last_sequence"), ("sequence",)
    for wanted in names:
        if all(name in proof for name in wanted):
            yield f"{boot}:" + "-".join(dict.fromkeys(str(proof[name]) for name in wanted))
            return
    if "sequences" in proof:
        yield f"{boot}:{','.join(map(str, proof['sequences']))}"
    elif "offset" in proof or "missing_offsets" in proof:
        yield str(proof.get("offset", proof.get("missing_offsets")))
    elif boot:
        yield boot


def of_each(trail: Trail) -> Iterator[tuple[str, list[Process]]]:
    for name, boots in groupby(trail.processes, lambda process: process.proxy_id):
        yield name, list(boots)


def found_after(
    spark: SparkSession, hands: Mapping[str, bytes | None], key: bytes | None
) -> tuple[Found, Found]:
    """What is found in a trail with that key, and what has to be found of the metadata log."""
    kinds = [(hand, kind) for hand in hands for kind in KINDS] + [("editor", kind) for kind in BY_EDITOR]
    trail = a_true_trail([f"{hand}:{kind}" for hand, kind in kinds] + (["older:"] if key else []))
    made = [administer(trail, f"{hand}:unaudited") for hand in ("editor", *hands)]
    made.append(administer(trail, "silent:"))
    del trail.processes[-2:]
    lost = administer(trail, "lost:")["first_offset"]
    trail.log = [record for record in trail.log if record["offset"] != lost]
    lines = [line for name, boots in of_each(trail) for line in left_by(hands, name, boots, key)]
    nothing = empty_frame(spark, S.QUARANTINE)
    # Lines are parsed once here; a real table is read again and again.
    audit = table(spark, lines).persist()
    result = reconcile(audit, nothing, log_frame(spark, trail.log), chain_key=key)
    in_the_log = {f"changes.unexplained {change['first_offset']}" for change in made}
    return told_by_proxy(list(result.findings)), {LOG: in_the_log | {f"forwarded.not_in_the_log [{lost}]"}}


def left_by(
    hands: Mapping[str, bytes | None], name: str, boots: list[Process], key: bytes | None
) -> list[Line]:
    """The lines of one proxy, after the hand that its name tells: `<hand>:<kind>`."""
    hand, _, kind = name.removesuffix("-controller").removesuffix("-proxy").partition(":")
    if hand == "editor":
        left = EDITED[kind](sealed_boots(boots, key))
    elif hand == "older":
        left = [[Line(key_of(r), r, line(r)) for r in boot.records] for boot in boots]
    elif hand in hands:
        left = forged(boots, kind, hands[hand], both=hand != "one")
    else:
        left = sealed_boots(boots, key)
    return [line for boot in left for line in boot]


def named(**of_hands: Mapping[str, set[str]]) -> Found:
    """Proxy id -> what is to be found of it; where nothing is, it does not stand there."""
    return {
        f"{hand}:{kind}": told for hand, kinds in of_hands.items() for kind, told in kinds.items() if told
    }


ADMINISTRATION = ("unaudited-controller", "unaudited-proxy")
UNAUDITED_BY_EDITOR = {kind: {"gaps.hole 1:1"} for kind in ADMINISTRATION}


@pytest.mark.long
def test_without_a_key_each_kind_is_named_and_nothing_else_is(spark: SparkSession) -> None:
    found, of_log = found_after(spark, {"one": None, "all": None}, None)

    assert found == of_log | named(
        editor=BY_EDITOR | UNAUDITED_BY_EDITOR, one=BY_FORGER_OF_ONE_BOOT, all=BY_FORGER_OF_ALL
    )


@pytest.mark.long
def test_with_a_key_nobody_writes_a_boot_anew_unseen(spark: SparkSession) -> None:
    found, of_log = found_after(spark, {"guess": GUESS, "plain": None}, SECRET)

    assert found == of_log | named(
        editor=BY_EDITOR | UNAUDITED_BY_EDITOR,
        guess=_every_record(),
        plain=_every_boot(),
        # As if they were records of an older version, which had no chain, and told no boot before. That they
        # have none is found by their offsets (test_offsets.py).
        older={"": {"gaps.unfinished 1"}},
    )


def _every_record() -> dict[str, set[str]]:
    """Another key was used: no record fits."""
    told = {}
    for kind, lies in BY_FORGER_OF_ALL.items():
        one, two = LAST.get(kind, (8, 9))
        told[kind] = {f"chain.altered 1:0-{one}", f"chain.altered 2:0-{two}"} | lies
    told["boot-removed"].remove("chain.altered 1:0-8")
    return told | {kind: {"chain.altered 1:0-2"} for kind in ADMINISTRATION}


def _every_boot() -> dict[str, set[str]]:
    """No key was used, and the boot says so."""
    told = {kind: {"chain.unkeyed 1", "chain.unkeyed 2"} | lies for kind, lies in BY_FORGER_OF_ALL.items()}
    told["boot-removed"] = {"chain.unkeyed 2"}
    return told | {kind: {"chain.unkeyed 1"} for kind in ADMINISTRATION}
