"""The audit jobs' view of a signed log, row by row: what does not count at a proxy does not count there."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pyspark.sql import Row

from forwarding.controller.signing import LogSigner, state_records
from forwarding.net.log import log_entries
from proxy.metadata.acl import Operation, PatternType
from proxy.metadata.loader import Loader
from proxy.metadata.quota_entity import QuotaEntity
from proxy.metadata.signatures import HEADER, LogVerifier, Unsigned
from proxy.metadata.signing_keys import PublicKeys, SigningKey
from proxy.wire import types
from spark_audit import schema as S
from spark_audit.kraft.metadata_records import decode_row
from spark_audit.kraft.secrets import hidden
from spark_audit.reconcile.log_signatures import NO_EVIDENCE, OTHER_COLUMNS, verify_rows
from spark_audit.reconcile.unsigned import VerifiedSignatures
from tests.support.metadata_log import acl, acl_record, quota_record, removed_acl_record
from tests.support.signed_topic import KEY, TOPIC, Record, Topic, apply

pytestmark = pytest.mark.spec("S14", "D5")

ALICE = acl("orders", principal="User:alice")
EVE = acl("pay-2", Operation.WRITE, principal="User:eve2", pattern_type=PatternType.LITERAL)
EVES = "ALLOW User:eve2 from * WRITE TOPIC LITERAL pay-2"
BOB = types.UserScramCredentialRecord(
    name="bob", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
)


def row(record: Record) -> Row:
    """As ingest writes it."""
    api_key, name, version, body, reason = decode_row(record.value)
    assert reason is None
    kept = hidden(record.value)
    columns = {
        S.LOG_OFFSET: record.offset,
        S.API_KEY: api_key,
        S.RECORD: name,
        S.RECORD_VERSION: version,
        S.BODY: body,
        S.ENTITY: record.key.decode(),
        S.SIGNATURE: None if record.signature is None else bytearray(record.signature),
        S.RECEIVED: bytearray(record.value) if kept is None else None,
        S.HIDDEN: None if kept is None else bytearray(kept),
    }
    return Row(**columns)


def without_evidence(record: Record) -> Row:
    """As an earlier release wrote it."""
    return Row(**(row(record).asDict() | {S.SIGNATURE: None, S.RECEIVED: None, S.HIDDEN: None}))


def verified(
    topic: Topic, rows: Sequence[Row] | None = None, log_end: int | None = None
) -> VerifiedSignatures:
    return verify_rows(
        [row(each) for each in topic.records] if rows is None else rows,
        TOPIC,
        PublicKeys([topic.key.public]),
        log_end,
    )


def found(result: VerifiedSignatures) -> list[tuple[int, str]]:
    return [(each.offset, each.reason) for each in result.not_in_effect]


def test_the_tables_have_the_header_that_proxies_read() -> None:
    assert S.SIGNATURE_HEADER == HEADER


def test_a_whole_log_is_verified_to_its_end_without_the_secrets_of_its_users() -> None:
    topic = Topic.begun(ALICE)
    topic.commits(BOB, quota_record(QuotaEntity(user="alice"), "producer_byte_rate", 7.0))
    topic.commits(removed_acl_record(ALICE))

    result = verified(topic)

    assert (found(result), result.missing_since, result.signed) == ([], None, 4)
    assert str(result) == "verified with 1 public keys up to transaction 4"
    (of_bob,) = [each for each in map(row, topic.records) if each[S.RECORD] == "UserScramCredentialRecord"]
    assert of_bob[S.RECEIVED] is None
    assert all(secret not in of_bob[S.HIDDEN] for secret in (b"s\x02k", b"k\x02v"))


def test_each_kind_of_record_without_a_controllers_signature_is_named_as_people_write_it() -> None:
    topic = Topic.begun(ALICE)
    topic.is_forged(acl_record(EVE))
    topic.is_forged(removed_acl_record(ALICE))
    topic.is_forged(quota_record(QuotaEntity(user="alice"), "producer_byte_rate", 7.0))
    topic.is_forged(BOB)
    topic.is_forged(
        types.ConfigRecord(resource_type=2, resource_name="orders", name="owner", value="User:eve")
    )
    topic.commits(types.NoOpRecord())

    result = verified(topic)

    assert [each.text for each in result.not_in_effect] == [
        EVES,
        "removal of ALLOW User:alice from * READ TOPIC LITERAL orders",
        "7 as producer_byte_rate of user alice",
        "SCRAM-SHA-256 credential of user bob",
        "owner=User:eve of TOPIC orders",
    ]
    assert {each.reason for each in result.not_in_effect} == {Unsigned.NO_SIGNATURE}
    assert result.missing_since is None


def test_records_that_are_signed_by_others_or_are_copies_are_found_where_they_are() -> None:
    topic = Topic.begun(ALICE)
    made = topic.records[-1]
    stolen = Topic(SigningKey(Ed25519PrivateKey.generate())).commits(acl_record(EVE))[0].signature
    again = topic.has((made.key, made.value, made.signature))
    other_key = topic.is_forged(acl_record(EVE), signature=stolen)
    of_another = topic.is_forged(acl_record(EVE), signature=made.signature)
    topic.commits(removed_acl_record(ALICE))
    once_more = topic.has((made.key, made.value, made.signature))

    assert found(verified(topic)) == [
        (again[0].offset, Unsigned.REPLAYED),
        (other_key[0].offset, Unsigned.UNKNOWN_KEY),
        (of_another[0].offset, Unsigned.BAD_SIGNATURE),
        (once_more[0].offset, Unsigned.REPLAYED),
    ]


def test_an_unsigned_record_that_cancels_another_is_found_too() -> None:
    topic = Topic.begun(ALICE)
    forged = topic.is_forged(acl_record(EVE)) + topic.is_forged(removed_acl_record(EVE))
    topic.commits(types.NoOpRecord())

    assert [offset for offset, _ in found(verified(topic))] == [each.offset for each in forged]


def test_a_record_written_while_a_transaction_is_open_neither_splits_it_nor_counts() -> None:
    topic = Topic.begun(ALICE)
    first, second = topic.commits(acl_record(acl("a")), acl_record(acl("b")))
    signature = Topic(SigningKey(Ed25519PrivateKey.generate())).commits(acl_record(EVE))[0].signature
    forged = replace(topic.is_forged(acl_record(EVE), signature=signature)[0], offset=second.offset)
    rows = [
        row(each) for each in (*topic.records[:-3], first, forged, replace(second, offset=second.offset + 1))
    ]

    result = verified(topic, rows)

    assert (found(result), result.missing_since) == ([(forged.offset, Unsigned.UNKNOWN_KEY)], None)


@pytest.mark.parametrize("at", [0, 1])
def test_a_signed_record_that_is_missing_is_noticed_at_the_end(at: int) -> None:
    topic = Topic.begun(ALICE)
    pair = topic.commits(acl_record(acl("a")), acl_record(acl("b")))
    topic.records.remove(pair[at])
    later = topic.commits(types.NoOpRecord())

    result = verified(topic)

    assert result.missing_since == pair[1 - at].offset
    assert (found(result), result.signed) == ([], 4)
    # Ingest may have read a part of the last transaction: until its marker is read, nothing is missing.
    rows = [row(each) for each in topic.records if each is not later[0]]
    assert verified(topic, rows, log_end=pair[1 - at].offset + 1).missing_since is None
    assert verified(topic, rows, log_end=pair[1].offset + 2).missing_since == pair[1 - at].offset


def test_the_log_says_which_state_was_in_effect_where_that_is_certain() -> None:
    topic = Topic.begun(ALICE)
    had = {topic.image.offset: topic.image.digest}
    for each in "abcdefg":
        topic.commits(acl_record(acl(each)), acl_record(acl(each + each)))
        had[topic.image.offset] = topic.image.digest
    first, second, third, *_, last = had
    result = verified(topic, log_end=topic.end)

    assert {at: result.digest_at(at) for at in had} == had
    # Within a transaction, before the first one and beyond what was read nothing is known.
    assert [result.digest_at(at) for at in (-1, 0, first - 1, second - 1, topic.end)] == [None] * 5
    assert verified(topic).digest_at(last) is None
    # Nor where a transaction is missing, or a record is not signed.
    of_third = [each for each in topic.records if not second < each.offset < third]
    result = verified(topic, [row(each) for each in of_third], topic.end)
    assert [at for at in had if result.digest_at(at) != had[at]] == [second, third]
    assert result.digest_at(second) is None
    topic.is_forged(acl_record(EVE))
    assert verified(topic, log_end=topic.end).digest_at(last) is None
    topic.commits(types.NoOpRecord())
    result = verified(topic, log_end=topic.end)
    assert (result.digest_at(last), result.digest_at(topic.end - 1)) == (None, topic.image.digest)


def test_a_missing_transaction_is_noticed() -> None:
    topic = Topic.begun(ALICE)
    topic.commits(acl_record(EVE))
    topic.records.pop()
    topic.commits(types.NoOpRecord())

    assert verified(topic).missing_since == topic.records[-1].offset


def test_a_compacted_log_is_whole_and_what_is_forged_in_it_is_found() -> None:
    topic = Topic.begun(ALICE)
    for limit in (1.0, 2.0):
        topic.commits(acl_record(EVE), quota_record(QuotaEntity(user="alice"), "producer_byte_rate", limit))
    topic.commits(removed_acl_record(EVE))
    topic.is_compacted()
    assert (found(verified(topic)), verified(topic).missing_since) == ([], None)

    forged = topic.is_forged(acl_record(acl("secret")))
    assert found(verified(topic)) == [(forged[0].offset, Unsigned.NO_SIGNATURE)]


def reporting(old: Topic) -> Topic:
    """A controller with `metadata.unsigned: report` has begun this log, in two transactions."""
    verifier = LogVerifier(TOPIC, PublicKeys([KEY.public]), rejects=False, begins=True)
    loader = Loader(lambda _image, _changed: None, verifier=verifier)
    loader.load_until(old.end)
    topic = Topic(records=list(old.records), end=old.end)
    apply(loader, old.records, old.end - 1)
    records = list(state_records(loader.image))
    for some in (records[:2], records[2:]):
        pairs = [(entry.key, entry.value) for entry in log_entries(some)]
        signatures = LogSigner(KEY, TOPIC, verifier).sign(some, pairs, loader.image)
        new = [
            Record(topic.end + at, *pair, each)
            for at, (pair, each) in enumerate(zip(pairs, signatures, strict=True))
        ]
        topic.records += new
        topic.end += len(new) + 1
        apply(loader, new, topic.end - 1)
    return topic


def unsigned_before() -> Topic:
    old = Topic()
    old.is_forged(acl_record(ALICE), acl_record(EVE))
    old.is_forged(quota_record(QuotaEntity(client_id="c"), "request_percentage", 5.0))
    return old


def test_what_a_reporting_controller_has_signed_as_it_found_it_is_in_effect() -> None:
    topic = reporting(unsigned_before())
    assert (found(verified(topic)), verified(topic).signed) == ([], 2)

    topic.records.append(Record(topic.end, b"forged", log_entries([acl_record(acl("x"))])[0].value, None))
    assert found(verified(topic)) == [(topic.end, Unsigned.NO_SIGNATURE)]


def test_what_compaction_has_left_of_the_time_before_signatures_is_not_reported() -> None:
    old = unsigned_before()
    old.is_forged(removed_acl_record(EVE))
    topic = reporting(old)
    topic.is_compacted()
    assert [each for each in topic.records if each.signature is None]

    assert (found(verified(topic)), verified(topic).missing_since) == ([], None)


def test_a_log_that_others_have_put_before_the_first_signed_record_does_not_count() -> None:
    topic = Topic.begun(ALICE)
    moved = [replace(each, offset=each.offset + 2) for each in topic.records]
    forged = Record(0, b"forged", log_entries([acl_record(EVE)])[0].value, None)

    assert found(verified(topic, [row(each) for each in (forged, *moved)])) == [(0, Unsigned.NO_SIGNATURE)]


def test_rows_of_an_earlier_release_are_unverified_and_those_after_them_are_not() -> None:
    topic = reporting(unsigned_before())
    rows = [without_evidence(each) for each in topic.records[:3]] + [row(each) for each in topic.records[3:]]
    result = verified(topic, rows)
    assert (found(result), result.unverified, result.missing_since) == ([], 3, None)
    assert str(result).endswith("; not verified: the first 3 records, which an earlier release has read")
    # Ingest was upgraded before the log was signed.
    assert found(verified(topic, [*rows[:2], row(topic.records[2]), *rows[3:]])) == []

    forged = Record(topic.end, b"forged", log_entries([acl_record(acl("x"))])[0].value, None)
    assert found(verified(topic, [*rows, row(forged)])) == [(topic.end, Unsigned.NO_SIGNATURE)]
    # Nobody hides a record by taking its evidence away.
    assert found(verified(topic, [*rows, without_evidence(forged)])) == [(topic.end, NO_EVIDENCE)]


def test_columns_that_say_something_else_than_the_record_are_found() -> None:
    topic = Topic.begun(ALICE)
    rows = [row(each) for each in topic.records]
    other = json.dumps(json.loads(rows[-1][S.BODY]) | {"principal": "User:eve"}, sort_keys=True)
    rows[-1] = Row(**(rows[-1].asDict() | {S.BODY: other}))

    assert found(verified(topic, rows)) == [(topic.records[-1].offset, OTHER_COLUMNS)]


BODIES = ("no JSON", "null", "[]", "{}", '{"entity":null}', '{"a":' + "[" * 5_000, None)


@pytest.mark.parametrize("body", BODIES)
def test_a_body_of_another_kind_is_found(body: str | None) -> None:
    topic = Topic.begun(ALICE)
    topic.commits(quota_record(QuotaEntity(user="alice"), "producer_byte_rate", 7.0))
    rows = [row(each) for each in topic.records]
    rows[-1] = Row(**(rows[-1].asDict() | {S.BODY: body}))
    assert found(verified(topic, rows)) == [(topic.records[-1].offset, OTHER_COLUMNS)]

    topic.commits(BOB)
    rows = [row(each) for each in topic.records]
    rows[-1] = Row(**(rows[-1].asDict() | {S.BODY: body}))
    assert verified(topic, rows).missing_since == topic.records[-1].offset


def test_a_changed_number_of_iterations_of_a_hidden_credential_is_found() -> None:
    topic = Topic.begun(ALICE)
    topic.commits(BOB)
    rows = [row(each) for each in topic.records]
    other = rows[-1][S.BODY].replace("4096", "1")
    assert verified(topic, rows).missing_since is None

    rows[-1] = Row(**(rows[-1].asDict() | {S.BODY: other}))
    assert verified(topic, rows).missing_since == topic.records[-1].offset


def test_a_log_without_any_signature_is_said_to_be_so() -> None:
    result = verified(unsigned_before())

    assert (found(result), result.never_signed) == ([], True)
    assert str(result) == "not verified: no record is signed by one of the public keys"
