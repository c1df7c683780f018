"""Kafka's own log against the states that proxies have signed: an edited record of a node's log is found."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from proxy.audit.checkpoints import Checkpoint, StateInEffect
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from spark_audit import schema as S
from spark_audit.kraft.log_import import import_kraft_log
from spark_audit.reconcile.checkpoints import different_states
from spark_audit.reconcile.kraft_states import digests, logged_states
from spark_audit.reconcile.reconciliation import reconcile
from spark_audit.tables import delta
from spark_audit.tables.delta import Tables, empty_frame
from tests.spark.audit_trail import Clock, Process, an_acl
from tests.spark.frames import audit_frame
from tests.spark.kraft_bytes import (
    access_control_entry,
    client_quota,
    no_op,
    remove_access_control_entry,
    remove_user_scram_credential,
    user_scram_credential,
)
from tests.spark.kraft_files import NOON_MS, Node
from tests.spark.kraft_state import rows_of_state

pytestmark = [pytest.mark.spec("S14", "D14", "D5")]

ALICE, BOB, EVE = (
    an_acl(number, f"ALLOW User:{name} * READ TOPIC LITERAL orders")
    for number, name in enumerate(("alice", "bob", "eve"), 1)
)
CREDENTIAL = "alice", b"salt", b"stored", b"server", 4096
BATCHES = (
    (access_control_entry(ALICE), no_op()),
    (client_quota({"user": "alice"}, "producer_byte_rate", 1000.0),),
    (user_scram_credential(*CREDENTIAL),),
    (no_op(),),
    (access_control_entry(BOB), remove_access_control_entry(ALICE["id"])),
    (client_quota({"user": "alice"}, "producer_byte_rate", 0.0, remove=True),),
    (remove_user_scram_credential("alice"), access_control_entry(ALICE)),
)
"""The first one begins at offset 1, after the election."""


NO_EVIDENCE = {S.RECEIVED: None, S.HIDDEN: None}


def node(path: Path, batches: Sequence[Sequence[bytes]] = BATCHES) -> Node:
    made = Node(path)
    for values in batches:
        made.append(*values)
    return made


def shown(batches: Sequence[Sequence[bytes]] = BATCHES) -> dict[int, bytes]:
    """Offset -> the digest of each image that a proxy shows."""
    images: dict[int, bytes] = {}
    loader = Loader(
        lambda image, _changed: images.update({image.offset: image.digest}),
        compacted=False,
        every_offset=False,
    )
    loader.load_until(0)
    last = 0
    for values in batches:
        last += len(values)
        loader.batch(last, values)
    assert images.pop(-1) == MetadataImage.EMPTY.digest
    return images


def test_the_log_has_the_states_that_proxies_show(tmp_path: Path) -> None:
    images = shown()
    assert len(set(images.values())) == len(BATCHES) - 1, "one changes nothing"

    assert dict(digests(rows_of_state(node(tmp_path).path), sorted(images), [])) == images
    # Those between are of the last batch before.
    assert dict(digests(rows_of_state(tmp_path), [0, 5], [])) == {0: MetadataImage.EMPTY.digest, 5: images[4]}


def test_no_body_of_another_kind_ends_the_comparison(tmp_path: Path) -> None:
    rows = list(rows_of_state(node(tmp_path).path))
    edited = [Row(**(row.asDict() | {S.BODY: "no JSON", S.FROM_SNAPSHOT: True})) for row in rows]

    assert list(digests(edited, [20], [])) != []


def edits(batch: int, record: int, value: bytes) -> list[list[bytes]]:
    edited = [list(values) for values in BATCHES]
    edited[batch][record] = value
    return edited


@pytest.mark.parametrize(
    ("batches", "since"),
    [
        (edits(0, 0, access_control_entry(ALICE | {"principal": "User:eve"})), 2),
        (edits(1, 0, client_quota({"user": "alice"}, "producer_byte_rate", 1e9)), 3),
        # What nobody sees in the table: it has no secrets.
        (edits(2, 0, user_scram_credential("alice", b"salt", b"STORED", b"server", 4096)), 4),
        (edits(3, 0, access_control_entry(EVE)), 7),
        (edits(4, 1, no_op()), 7),
    ],
    ids=["an ACL", "a quota", "a secret", "a record in place of another", "a removal"],
)
def test_an_edited_record_with_a_right_checksum_is_another_state(
    tmp_path: Path, batches: list[list[bytes]], since: int
) -> None:
    images = shown()

    found = dict(digests(rows_of_state(node(tmp_path, batches).path), sorted(images), []))

    assert {offset for offset in images if found[offset] != images[offset]} >= {since}
    assert all(found[offset] == images[offset] for offset in images if offset < since)


def test_where_the_log_is_not_whole_nothing_is_said_until_a_snapshot(tmp_path: Path) -> None:
    images = shown()
    made = node(tmp_path, BATCHES[:5])
    made.snapshot(
        access_control_entry(BOB),
        client_quota({"user": "alice"}, "producer_byte_rate", 1000.0),
        user_scram_credential(*CREDENTIAL),
    )
    made.roll()
    made.append(*BATCHES[5])
    made.append(*BATCHES[6])
    later = {offset: digest for offset, digest in images.items() if offset >= 7}
    of_node = rows_of_state(tmp_path)

    first = min(row[S.LOG_OFFSET] for row in of_node)
    assert dict(digests(of_node, sorted(images), [first])) == later
    # The import adds removals of what a snapshot does not have.
    gone = Row(**{**of_node[0].asDict(), S.LOG_OFFSET: 7, S.FROM_SNAPSHOT: True, **NO_EVIDENCE})
    gone = Row(**{**gone.asDict(), S.API_KEY: S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD, S.BODY: '{"id":"x"}'})
    until, after = ([row for row in of_node if (row[S.LOG_OFFSET] > 7) == late] for late in (False, True))
    assert dict(digests([*until, gone, *after], sorted(images), [first])) == later


def test_rows_of_an_earlier_release_say_nothing(tmp_path: Path) -> None:
    """Neither records nor the content of a snapshot."""
    images, made = shown(), node(tmp_path)
    made.snapshot(access_control_entry(BOB), access_control_entry(ALICE))
    of_node = rows_of_state(tmp_path)
    plain = [Row(**{**row.asDict(), **NO_EVIDENCE}) for row in of_node]

    assert {row[S.FROM_SNAPSHOT] for row in of_node} == {False, True}
    assert dict(digests(plain, sorted(images), [])) == {}
    snapshots = [row for row in of_node if row[S.FROM_SNAPSHOT]]
    assert dict(digests([*plain[: -len(snapshots)], *snapshots], sorted(images), [])) == {10: images[10]}


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_the_finding_names_the_log_and_the_process(spark: SparkSession, tmp_path: Path) -> None:
    process = Process("proxy-1", Clock(NOON_MS), boot_id="boot-1")
    # The log does not reach the last one.
    for offset, digest in [*shown().items(), (99, b"d" * 32)]:
        state = StateInEffect("__cluster_metadata", offset, digest)
        text = Checkpoint("proxy-1", "boot-1", 5, "ab" * 32, NOON_MS, state).text()
        process.write("checkpoint", message=text)
    audit = audit_frame(spark, process.records)

    def log_of(name: str, *batches: Sequence[bytes]) -> DataFrame:
        tables = Tables(str(tmp_path / f"{name}-tables"))
        import_kraft_log(spark, [str(node(tmp_path / name, batches).path)], tables, lambda _said: None)
        return delta.read_table(spark, tables.metadata_log, S.METADATA_LOG)

    true = log_of("true", *BATCHES)
    assert different_states(audit, logged_states(audit, true)).collect() == []
    other = user_scram_credential("alice", b"salt", b"STORED", b"server", 4096)
    edited = log_of("edited", *edits(2, 0, other))
    result = reconcile(audit, empty_frame(spark, S.QUARANTINE), edited, public_keys=[])
    found = [row for row in result.findings if row[S.CHECK] == "checkpoints.different_states"]
    # From the edited credential on, until it is removed.
    explained = [row[S.EXPLANATION] for row in found]
    assert sorted(text.split()[2] for text in explained) == ["4", "7", "8"]
    assert all("(proxy-1/boot-1, the log)" in text or "(the log, proxy-1" in text for text in explained)
