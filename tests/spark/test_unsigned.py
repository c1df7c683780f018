"""A signed metadata log in the tables: what an administrator of the brokers writes to the topic is found."""

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from proxy.metadata.acl import Acl, Operation, PatternType, PermissionType, ResourceType
from proxy.metadata.signatures import HEADER
from proxy.wire import types
from proxy.wire.message import Message
from spark_audit import __main__ as command_line
from spark_audit import schema as S
from spark_audit.ingest import decode
from spark_audit.reconcile.log_signatures import read_public_keys
from spark_audit.reconcile.unsigned import status
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError
from tests.spark import oracle
from tests.spark.audit_trail import DAY, Trail, an_acl
from tests.spark.frames import KAFKA, audit_frame, frame, moment
from tests.support.metadata_log import acl_record
from tests.support.signed_topic import KEY, TOPIC, Topic

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("S14", "D5")]

AGES = (timedelta(days=400), timedelta(days=-3), timedelta(minutes=58), timedelta())
"""How far the timestamps of forged records are from the true time (review-2, audit.md, 1 to 4)."""


def as_record(fields: oracle.Acl) -> Message:
    made: Message = acl_record(
        Acl(
            id=fields["id"],
            resource_type=ResourceType[fields["resource_type"]],
            resource_name=fields["resource_name"],
            pattern_type=PatternType[fields["pattern_type"]],
            principal=fields["principal"],
            host=fields["host"],
            operation=Operation[fields["operation"]],
            permission_type=PermissionType[fields["permission_type"]],
        )
    )
    return made


@dataclass
class Forged:
    """A trail whose topic has an unsigned ACL for each of AGES. A proxy went by the last of them."""

    trail: Trail
    log: DataFrame


@pytest.fixture(scope="module")
def forged(spark: SparkSession) -> Forged:
    topic, times = Topic(), {}
    topic.commits(types.NoOpRecord())
    trail = Trail(first_offset=topic.end)
    trail.forward("CreateAcls", [])
    for number, user in enumerate(("alice", "bob")):
        added = trail.add_acl(number, f"ALLOW User:{user} * WRITE TOPIC LITERAL orders")
        topic.commits(as_record(added))
    trail.ask("User:alice 10.0.0.1 WRITE TOPIC orders")
    for number, age in enumerate(AGES):
        eves = an_acl(90 + number, f"ALLOW User:eve{number} * WRITE TOPIC LITERAL pay-{number}")
        (record,) = topic.is_forged(as_record(eves))
        times[record.offset] = age
    trail.acls[eves["id"]] = eves
    last = topic.end - 2
    trail.log.append({S.LOG_OFFSET: last})
    trail.ask("User:eve3 10.0.0.1 WRITE TOPIC pay-3")
    # A forged process claims the first of them (audit.md, 5).
    liar = trail.process("liar", role="controller", boot_id="boot-9")
    liar.write(
        "tokens_expired", method="ExpireDelegationToken", count=1, first_offset=last - 6, last_offset=last - 6
    )
    now = moment(trail.clock())
    rows = [
        (
            each.key,
            each.value,
            TOPIC,
            0,
            each.offset,
            now + times.get(each.offset, timedelta()),
            None if each.signature is None else [(HEADER, each.signature)],
        )
        for each in topic.records
    ]
    log = frame(spark, rows, KAFKA).transform(decode.check_log).transform(decode.log_rows)
    return Forged(trail.stop(), log.localCheckpoint())


@pytest.mark.long
def test_what_an_administrator_of_the_brokers_writes_is_found_and_not_in_effect(
    spark: SparkSession, tmp_path: Path, forged: Forged, capsys: pytest.CaptureFixture[str]
) -> None:
    tables, out, keys = Tables(str(tmp_path / "tables")), str(tmp_path / "out"), tmp_path / "keys.pem"
    keys.write_bytes(KEY.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    delta.create_tables(spark, tables)
    delta.append_once(audit_frame(spark, forged.trail.audit), tables.audit, "test", 0)
    delta.append_once(forged.log, tables.metadata_log, "test", 0)
    where, by = ["--tables", tables.root, "--out", out], ["--public-keys", str(keys)]

    assert command_line.main(["reconcile", *where, *by, "--date", DAY]) == 1

    document = json.loads(Path(out, "findings.json").read_text())
    explained = [each["explanation"] for each in document["findings"] if each["check"] == "log.unsigned"]
    assert len(explained) == len(AGES)
    for number, text in enumerate(sorted(explained)):
        assert f"ALLOW User:eve{number} from * WRITE TOPIC LITERAL pay-{number}, at" in text
        assert "no signature. It is not in effect" in text
    others = [each for each in document["findings"] if each["check"] != "log.unsigned"]
    # The writer of a record chooses its time, so an odd one is a finding of its own.
    times = [each for each in others if each["check"] == "offsets.impossible_time"]
    others = [each for each in others if each not in times]
    assert len(times) == 2
    assert [each["check"] for each in others] == ["decisions.wrongly_granted"]
    assert "granted WRITE on TOPIC pay-3 to User:eve3" in others[0]["explanation"]
    assert {each["severity"] for each in document["findings"] if each not in times} == {"critical"}
    says = "verified with 1 public keys up to transaction 3"
    assert document["summary"]["signatures"] == says

    page = f"{out}/page.html"
    assert command_line.main(["report", "--tables", tables.root, "--findings", out, "--out", page]) == 0
    assert f"of the metadata log: {says}" in Path(page).read_text()
    capsys.readouterr()
    assert command_line.main(["least-privilege", *where, *by]) == 0
    assert f"signatures of the metadata log: {says}" in capsys.readouterr().out
    found = Path(out, "least-privilege.json").read_text()
    assert "ALLOW User:bob" in found
    assert "ALLOW User:eve" not in found


@pytest.mark.long
@pytest.mark.spec("D10")
def test_no_edit_of_the_log_ends_its_reconciliation(
    spark: SparkSession, tmp_path: Path, forged: Forged
) -> None:
    tables, out, keys = Tables(str(tmp_path / "tables")), str(tmp_path / "out"), tmp_path / "keys.pem"
    keys.write_bytes(KEY.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    delta.create_tables(spark, tables)
    delta.append_once(audit_frame(spark, forged.trail.audit), tables.audit, "test", 0)
    is_first = F.col(S.LOG_OFFSET) == 0
    body = F.when(is_first, F.lit("no JSON")).otherwise(F.col(S.BODY))
    nowhere = forged.log.where(is_first).withColumn(S.LOG_OFFSET, F.lit(None).cast("long"))
    edited = forged.log.withColumn(S.BODY, body).unionByName(nowhere)
    delta.append_once(edited, tables.metadata_log, "test", 0)

    by = ["--public-keys", str(keys), "--date", DAY]
    assert command_line.main(["reconcile", "--tables", tables.root, "--out", out, *by]) == 1

    found = json.loads(Path(out, "findings.json").read_text())["findings"]
    assert ("log.unsigned", 0) in {(each["check"], each["evidence"].get("offset")) for each in found}


def test_without_keys_nobody_says_that_a_signed_log_is_verified(forged: Forged) -> None:
    assert (
        status(forged.log, None)
        == "not verified: the log is signed, and --public-keys has no key of a controller"
    )
    assert status(forged.log.drop(S.SIGNATURE).withColumn(S.SIGNATURE, F.lit(None)), None) is None


def test_a_file_without_keys_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "keys.pem").write_text("no key")

    with pytest.raises(AuditError, match=r"--public-keys .*keys\.pem: must have Ed25519 public keys"):
        read_public_keys(str(tmp_path / "keys.pem"))
