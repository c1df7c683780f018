"""Records onto an image: what each kind does, and that none is passed over unknown."""

import math
from contextlib import suppress

import pytest

from proxy.metadata.acl import Operation, PatternType, PermissionType
from proxy.metadata.delta import IGNORED_RECORDS, MetadataDelta, MetadataError
from proxy.metadata.image import MetadataImage
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.metadata.scram import ScramMechanism, credential_from_password
from proxy.wire import catalog, types
from proxy.wire.errors import WireError
from proxy.wire.message import Message
from tests.support.metadata_log import (
    acl,
    acl_record,
    quota_record,
    removed_acl_record,
    removed_token_record,
    scram_record,
    token,
    token_record,
)

USER = QuotaEntity(user="alice")
SHA_256 = ScramMechanism.SCRAM_SHA_256
CREDENTIAL = credential_from_password(SHA_256, "secret", b"salt")


def replayed(*records: Message, onto: MetadataImage = MetadataImage.EMPTY) -> MetadataImage:
    delta = MetadataDelta(onto)
    for record in records:
        delta.replay(record)
    return delta.apply(onto.offset + len(records))


@pytest.mark.spec("S1")
def test_an_acl_record_becomes_the_acl_it_describes() -> None:
    added = acl(
        "orders",
        Operation.ALTER_CONFIGS,
        principal="User:b:c",
        host="10.0.0.1",
        pattern_type=PatternType.PREFIXED,
        permission_type=PermissionType.DENY,
    )

    assert dict(replayed(acl_record(added)).acls.by_id) == {added.id: added}


@pytest.mark.spec("S1")
def test_an_acl_added_and_removed_in_one_batch_was_never_there() -> None:
    added = acl("orders")

    assert replayed(acl_record(added), removed_acl_record(added)).acls == MetadataImage.EMPTY.acls


@pytest.mark.spec("S1")
def test_an_acl_removed_and_added_again_is_there() -> None:
    added = acl("orders")
    before = replayed(acl_record(added))

    after = replayed(removed_acl_record(added), acl_record(added), onto=before)

    assert after.acls is before.acls


@pytest.mark.spec("S1")
def test_removing_an_unknown_acl_is_a_fault_where_the_log_is_not_compacted() -> None:
    delta = MetadataDelta(MetadataImage.EMPTY, compacted=False)

    with pytest.raises(MetadataError, match="unknown ACL"):
        delta.replay(removed_acl_record(acl("orders")))


@pytest.mark.spec("S1")
def test_removing_an_unknown_acl_is_what_compaction_leaves_of_its_life() -> None:
    assert replayed(removed_acl_record(acl("orders"))).acls is MetadataImage.EMPTY.acls


@pytest.mark.spec("Q1", "Q11")
def test_quota_records_set_keys_one_by_one_and_remove_them_one_by_one() -> None:
    both = replayed(
        quota_record(USER, "producer_byte_rate", 1000.0), quota_record(USER, "consumer_byte_rate", 2000.5)
    )
    one = replayed(quota_record(USER, "producer_byte_rate", None), onto=both)
    none = replayed(quota_record(USER, "consumer_byte_rate", None), onto=one)

    assert dict(both.quotas.limits[USER]) == {"producer_byte_rate": 1000.0, "consumer_byte_rate": 2000.5}
    assert dict(one.quotas.limits[USER]) == {"consumer_byte_rate": 2000.5}
    assert USER not in none.quotas.limits


@pytest.mark.spec("Q1")
@pytest.mark.parametrize(
    "entity",
    [
        QuotaEntity(user="alice", client_id="app"),
        QuotaEntity(user="alice", client_id=DEFAULT),
        QuotaEntity(user=DEFAULT, client_id=DEFAULT),
        QuotaEntity(user="<default>"),
        QuotaEntity(client_id=DEFAULT),
        QuotaEntity(ip="10.0.0.1"),
        QuotaEntity(ip=DEFAULT),
    ],
)
def test_a_quota_record_names_its_entity_with_null_for_the_default(entity: QuotaEntity) -> None:
    image = replayed(quota_record(entity, "producer_byte_rate", 5.0))

    assert image.quotas.limit(entity, "producer_byte_rate") == 5.0
    assert list(image.quotas.limits) == [entity]


@pytest.mark.spec("Q11")
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_limit_that_is_no_number_stops_the_replay(value: float) -> None:
    with pytest.raises(MetadataError, match="users/alice: producer_byte_rate is"):
        replayed(quota_record(USER, "producer_byte_rate", value))


@pytest.mark.spec("Q11")
@pytest.mark.parametrize(
    ("kinds", "fault"), [([], "without any part"), (["topic"], "'topic'"), (["user", "user"], "twice")]
)
def test_a_quota_for_an_entity_that_cannot_be_stops_the_replay(kinds: list[str], fault: str) -> None:
    part = types.ClientQuotaRecord.EntityData
    record = types.ClientQuotaRecord(
        entity=[part(entity_type=kind, entity_name="x") for kind in kinds],
        key="producer_byte_rate",
        value=1.0,
        remove=False,
    )

    with pytest.raises(MetadataError, match=fault):
        replayed(record)


@pytest.mark.spec("R9")
def test_scram_records_set_and_remove_credentials_of_one_mechanism() -> None:
    set_ = replayed(
        scram_record(SHA_256, "bob", CREDENTIAL),
        scram_record(ScramMechanism.SCRAM_SHA_512, "alice", CREDENTIAL),
        scram_record(SHA_256, "alice", CREDENTIAL),
    )
    removed = replayed(scram_record(SHA_256, "alice", None), onto=set_)

    assert set_.scram.users() == {"alice", "bob"}
    assert set_.scram.credential(SHA_256, "alice") == CREDENTIAL
    assert removed.scram.credential(SHA_256, "alice") is None
    assert list(removed.scram.of_user("alice")) == [ScramMechanism.SCRAM_SHA_512]


@pytest.mark.spec("R9")
def test_a_scram_record_of_an_unknown_mechanism_stops_the_replay() -> None:
    record = scram_record(SHA_256, "alice", CREDENTIAL)
    record.mechanism = 7

    with pytest.raises(MetadataError, match="mechanism 7"):
        replayed(record)


@pytest.mark.spec("R9")
def test_token_records_set_replace_and_remove_one_token_each() -> None:
    first, other = token("t-1", renewers=("User:bob", "User:c:d")), token("t-2", requester="User:admin")
    renewed = token("t-1", expiry_timestamp_ms=8_000)

    both = replayed(token_record(first), token_record(other))
    replaced = replayed(token_record(renewed), onto=both)
    removed = replayed(removed_token_record("t-1"), removed_token_record("never-there"), onto=replaced)

    assert dict(both.tokens.by_id) == {"t-1": first, "t-2": other}
    assert dict(replaced.tokens.by_id) == {"t-1": renewed, "t-2": other}
    assert dict(removed.tokens.by_id) == {"t-2": other}


@pytest.mark.spec("R9")
@pytest.mark.parametrize("changes", [{"owner": "alice"}, {"requester": ""}, {"renewers": ("bob",)}])
def test_a_token_of_a_principal_that_is_none_stops_the_replay(changes: dict[str, object]) -> None:
    with pytest.raises(MetadataError, match="is not a principal"):
        replayed(token_record(token("t-1", **changes)))


@pytest.mark.spec("Q8")
def test_the_parts_a_batch_does_not_touch_stay_the_same_objects() -> None:
    before = replayed(
        acl_record(acl("a")),
        token_record(token("t-1")),
        quota_record(USER, "producer_byte_rate", 1.0),
        scram_record(SHA_256, "alice", CREDENTIAL),
    )

    after = replayed(acl_record(acl("b")), quota_record(USER, "producer_byte_rate", 1.0), onto=before)

    assert after.quotas is before.quotas
    assert after.scram is before.scram
    assert after.tokens is before.tokens
    assert after.acls is not before.acls


@pytest.mark.spec("S1")
def test_kafkas_records_that_do_not_concern_us_change_nothing_but_the_offset() -> None:
    records = [getattr(types, kind)() for kind in sorted(IGNORED_RECORDS)]

    assert replayed(*records) == MetadataImage(len(records) - 1)


@pytest.mark.spec("S1")
def test_every_record_kafka_can_write_is_applied_or_ignored_but_for_the_marks_of_transactions() -> None:
    unknown = set()
    for name in record_names():
        try:
            MetadataDelta(MetadataImage.EMPTY).replay(getattr(types, name)())
        except MetadataError as error:
            if "is an unknown record type" in str(error):
                unknown.add(name)

    # The loader takes these before any delta sees them.
    assert unknown == {"BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"}


def record_names() -> list[str]:
    """Every record that has an api key of the metadata log."""
    names = []
    for api_key in range(128):
        with suppress(WireError):
            names.append(catalog.record(api_key).name)
    assert len(names) >= 26
    return names


@pytest.mark.spec("S1")
def test_a_record_of_a_kind_we_do_not_know_stops_the_replay() -> None:
    with pytest.raises(MetadataError, match="SnapshotHeaderRecord"):
        replayed(types.SnapshotHeaderRecord())
