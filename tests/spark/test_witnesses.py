"""(g) What processes have witnessed of each other and the table does not show; and who was seen by nobody."""

import json
from copy import deepcopy

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from proxy.audit.checkpoints import Checkpoint, Signer
from spark_audit import schema as S
from spark_audit.reconcile.reconciliation import reconcile
from spark_audit.tables.delta import empty_frame
from tests.spark.audit_trail import NOON_MS, Clock, Process, Trail
from tests.spark.frames import log_frame
from tests.spark.sealed import Line, Signing, seal, table
from tests.support.signing import public_key, signing_key

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D8")]

MINUTE_MS = 60_000
SEEN = ("untouched", "vanished", "cut", "rewritten")
LINK = "ab" * 32


def a_trail() -> tuple[Trail, dict[str, Process], dict[str, list[Line]]]:
    """Proxies that run for four minutes, all but `forged` and `untouched.w7` seen by a controller.

    They see a controller of which the table has nothing. `proxy-1`, of an earlier release, is not seen.
    `rewritten` has changed its first records before it is seen for the last time.
    """
    trail = Trail()
    proxies = {name: trail.process(name) for name in SEEN}
    claims = []
    for minute in range(4):
        trail.clock.now_ms += MINUTE_MS
        for name in SEEN:
            mark = proxies[name].high_water()
            claim = trail.controller.write("witnessed", principal=f"User:{name}", message="")
            claims.append((claim, name, mark["sequence"]))
        proxies["untouched"].write("witnessed", message=f"controller-9/boot-1/{minute}/{LINK}")
        if minute == 0:
            proxies["forged"] = trail.process("forged")
            trail.process("short-lived").stop()
            # Who has the key of a proxy lets that one see the boot of a worker that never was.
            proxies["untouched.w7"] = trail.process("untouched.w7")
        proxies["forged"].high_water()
        mark = proxies["untouched.w7"].high_water()
        own = proxies["untouched"].write("witnessed", message="")
        claims.append((own, "untouched.w7", mark["sequence"]))
    # While processes run, the last seconds are checked by the next run.
    trail.clock.now_ms += MINUTE_MS
    for process in (*proxies.values(), trail.proxy):
        process.stop()
    sealed = {each.proxy_id: seal(each) for each in trail.processes if each is not trail.controller}
    rewritten = written_again(proxies["rewritten"])
    last = max(number for number, (_, name, _) in enumerate(claims) if name == "rewritten")
    for number, (claim, name, sequence) in enumerate(claims):
        lines = rewritten if number == last else sealed[name]
        link = json.loads(lines[sequence].value)["chain"]
        claim["message"] = f"{name}/boot-1/{sequence}/{link}"
    trail.controller.stop()
    return trail, proxies, sealed | {"controller-1": seal(trail.controller)}


@pytest.mark.long
def test_who_vanished_was_cut_rewritten_or_forged_is_named(spark: SparkSession) -> None:
    trail, proxies, lines = a_trail()
    lines["vanished"] = []
    # Sequences 0 to 2 are left of 0 to 5; the last claim is about 4.
    lines["cut"] = lines["cut"][:3]
    lines["rewritten"] = written_again(proxies["rewritten"])
    # Who has the key of a proxy writes a boot of before the first one was seen, and the topic gets it now.
    backdated = Process("backdated", Clock(NOON_MS - 60 * MINUTE_MS), boot_id="boot-1")
    backdated.start()
    backdated.clock.now_ms += 3 * MINUTE_MS
    backdated.stop()
    audit = table(spark, [line for of_one in (*lines.values(), seal(backdated)) for line in of_one])
    now = F.timestamp_millis(F.lit(trail.clock.now_ms))
    is_late = F.col(S.PROXY_ID) == "backdated"
    audit = audit.withColumn(S.KAFKA_TIMESTAMP, F.when(is_late, now).otherwise(F.col(S.KAFKA_TIMESTAMP)))
    audit = audit.persist()

    found = reconcile(audit, empty_frame(spark, S.QUARANTINE), log_frame(spark, trail.log)).findings

    told = {(row["check"], json.loads(row["evidence"])["proxy_id"]): row["explanation"] for row in found}
    assert told == {
        ("chain.process_missing", "vanished"): f"{claim('vanished')}: none of its records is in the table",
        ("chain.process_missing", "controller-9"): (
            "process controller-9/boot-1 was seen by untouched/boot-1 at sequence 3:"
            " none of its records is in the table"
        ),
        ("chain.end_missing", "cut"): (
            f"{claim('cut')}: the last record in the table is 2, others were removed or not shipped"
        ),
        ("chain.other_link_seen", "rewritten"): (
            f"{claim('rewritten', 1)}: that record has another link in the table, so it was rewritten"
        ),
        ("chain.unknown_process", "backdated"): (
            "no other process has seen process backdated/boot-1, although proxies were seen before it got"
            " into the topic: it had no connection to them, or it is forged"
        ),
        **{
            ("chain.unknown_process", name): (
                f"no other process has seen process {name}/boot-1, although proxies were seen while it ran:"
                " it had no connection to them, or it is forged"
            )
            for name in ("forged", "untouched.w7")
        },
    }


@pytest.mark.long
def test_with_kafkas_own_controller_proxies_witness_each_other(spark: SparkSession) -> None:
    trail = Trail()
    names = ("proxy-2", "proxy-3", "proxy-4")
    proxies = {name: trail.process(name) for name in names}
    claims = []
    for minute in range(4):
        trail.clock.now_ms += MINUTE_MS
        for name, other in zip(names, (*names[1:], names[0]), strict=True):
            mark = proxies[other].high_water()
            claims.append((proxies[name].write("witnessed", message=""), other, mark["sequence"]))
        if minute == 0:
            proxies["forged"] = trail.process("forged")
        proxies["forged"].high_water()
    trail.clock.now_ms += MINUTE_MS
    for process in (*proxies.values(), trail.proxy, trail.controller):
        process.stop()
    for claimed, other, sequence in claims:
        claimed["message"] = f"{other}/boot-1/{sequence}/{LINK}"
    lines = [line for each in trail.processes if each.proxy_id != "proxy-3" for line in seal(each)]

    found = reconcile(
        table(spark, lines).persist(), empty_frame(spark, S.QUARANTINE), log_frame(spark, trail.log)
    ).findings

    told = {(row["check"], json.loads(row["evidence"])["proxy_id"]) for row in found}
    assert {each for each in told if each[0] != "chain.other_link_seen"} == {
        ("chain.process_missing", "proxy-3"),
        ("chain.unknown_process", "forged"),
    }


def written_again(process: Process) -> list[Line]:
    other = deepcopy(process)
    other.records[1]["client_id"] = "another"
    return seal(other)


def claim(name: str, sequence: int = 4) -> str:
    seen = f"process {name}/boot-1 was seen by controller-1/boot-1 at sequence {sequence}"
    return f"{seen}, as User:{name} reported"


@pytest.mark.long
@pytest.mark.spec("D14", "D15")
def test_a_claim_that_its_process_has_not_signed_is_named_and_hides_no_true_one(spark: SparkSession) -> None:
    """Proxies witness each other over a topic, or at a controller, and verify nothing of what they hear."""
    keys = [public_key(name) for name in ("cut", "whole", "witness", "keyless")]
    cut, whole = (seal(Signing(name, Clock()).run()) for name in ("cut", "whole"))
    keyless = Process("keyless", Clock())
    keyless.start()
    keyless.stop()
    end = cut[-2].record["message"]

    def forged(process: str, size: int) -> str:
        said = Checkpoint(process, "boot-1", size, LINK, NOON_MS).text()
        return Signer(process, signing_key("nobody's")).signed(said)

    claims = [
        end,
        # As the true one, but nobody has signed it.
        end.replace("\u2014 cut ", "\u2014 somebody "),
        forged("cut", 10**17),
        forged("cut", 10**17 + 1),
        forged("whole", 10**17),
        f"whole/boot-1/999999/{LINK}",
        # No key of it is known, so nobody can say that it is false.
        forged("unknown", 9),
        # It signs nothing: this is an end as it would say it.
        f"keyless/boot-1/7/{LINK}",
    ]
    witness = Signing("witness", Clock())
    witness.start()
    for claim in claims:
        witness.write("witnessed", message=claim)
    witness.sign()
    witness.sign(stops=True)
    witness.stop()
    lines = [*cut[:4], *whole, *seal(keyless), *seal(witness)]
    nothing = empty_frame(spark, S.QUARANTINE), empty_frame(spark, S.METADATA_LOG)

    found = reconcile(table(spark, lines).persist(), *nothing, public_keys=keys).findings

    seen = "was seen by witness/boot-1 at sequence"
    told = sorted(row[S.EXPLANATION] for row in found if row[S.CHECK].startswith("chain."))
    by_nobody = "is signed with an unknown key, or was altered: somebody else has claimed it"
    recorded = (
        "process witness/boot-1 recorded {} end(s) of process {}/boot-1, which the table does not show,"
    )
    assert told == sorted(
        [
            f"process cut/boot-1 {seen} 7: the last record in the table is 3, others were removed or not"
            " shipped",
            f"process unknown/boot-1 {seen} 8: none of its records is in the table",
            f"process keyless/boot-1 {seen} 7: the last record in the table is 1, others were removed or not"
            " shipped",
            f"{recorded.format(3, 'cut')} and each {by_nobody}",
            f"{recorded.format(1, 'whole')} and each {by_nobody}",
            f"{recorded.format(1, 'whole')} and each is no signed checkpoint: somebody else has claimed it",
        ]
    )
