"""Metadata records: KRaft's bytes to names and JSON."""

import json
from typing import Any

import pytest

from spark_audit.kraft.metadata_records import RecordError, decode, decode_row
from tests.spark import kraft_bytes
from tests.spark.audit_trail import an_acl

pytestmark = pytest.mark.spec("D5")

ACL = an_acl(258, "DENY User:bob 10.0.0.7 ALTER_CONFIGS TOPIC PREFIXED pay")


def test_an_acl_record_is_told_with_kafkas_words() -> None:
    record = decode(kraft_bytes.access_control_entry(ACL))

    assert (record.api_key, record.name, record.version) == (18, "AccessControlEntryRecord", 0)
    assert record.fields == ACL


@pytest.mark.parametrize(
    ("written", "name", "fields"),
    [
        (
            "0112001f7e6a52cb9c4b62a1d3e50c9f8870ab02076f7264657273030b557365723a616c696365022a030300",
            "AccessControlEntryRecord",
            {
                "id": "H35qUsucS2Kh0-UMn4hwqw",
                "resource_type": "TOPIC",
                "resource_name": "orders",
                "pattern_type": "LITERAL",
                "principal": "User:alice",
                "host": "*",
                "operation": "READ",
                "permission_type": "ALLOW",
            },
        ),
        (
            "0113001f7e6a52cb9c4b62a1d3e50c9f8870ab00",
            "RemoveAccessControlEntryRecord",
            {"id": "H35qUsucS2Kh0-UMn4hwqw"},
        ),
        (
            "010e0003057573657206616c696365000a636c69656e742d69640000"
            "1370726f64756365725f627974655f7261746540900200000000000000",
            "ClientQuotaRecord",
            {
                "entity": {"user": "alice", "client-id": None},
                "key": "producer_byte_rate",
                "value": 1024.5,
                "remove": False,
            },
        ),
        (
            "010b0006616c696365010573616c740773746f726564077365727665720000200000",
            "UserScramCredentialRecord",
            {"name": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 8192},
        ),
        (
            "01160006616c6963650200",
            "RemoveUserScramCredentialRecord",
            {"name": "alice", "mechanism": "SCRAM-SHA-512"},
        ),
        (
            "010a000b557365723a616c6963650b557365723a61646d696e0309557365723a626f6209557365723a633a64"
            "000001a20846fe00000001a22c538200000001a20d6d5a00177350764e4832677a54547957673346673478426c514100",
            "DelegationTokenRecord",
            {
                "owner": "User:alice",
                "requester": "User:admin",
                "renewers": ["User:bob", "User:c:d"],
                "issue_timestamp_ms": 1_795_435_200_000,
                "max_timestamp_ms": 1_796_040_000_000,
                "expiry_timestamp_ms": 1_795_521_600_000,
                "token_id": "sPvNH2gzTTyWg3Fg4xBlQA",
            },
        ),
        (
            "011a00177350764e4832677a54547957673346673478426c514100",
            "RemoveDelegationTokenRecord",
            {"token_id": "sPvNH2gzTTyWg3Fg4xBlQA"},
        ),
        ("01140000", "NoOpRecord", None),
    ],
)
def test_what_kafkas_own_serialiser_writes_is_read(written: str, name: str, fields: dict[str, Any]) -> None:
    # From MetadataRecordSerde of Apache Kafka 4.2.1.
    record = decode(bytes.fromhex(written))

    assert (record.name, record.fields) == (name, fields)


def test_a_topic_and_its_owner_are_told() -> None:
    topic_id = kraft_bytes.uuid_bytes(ACL["id"])
    config = kraft_bytes.compact("orders") + kraft_bytes.compact("owner")

    assert [
        decode(kraft_bytes.framed(api_key, body)).fields
        for api_key, body in (
            (2, kraft_bytes.compact("orders") + topic_id),
            (4, b"\x02" + config + kraft_bytes.compact("User:alice")),
            (4, b"\x02" + config + kraft_bytes.compact(None)),
            (9, topic_id),
        )
    ] == [
        {"name": "orders", "topic_id": ACL["id"]},
        {"resource_type": "TOPIC", "resource_name": "orders", "name": "owner", "value": "User:alice"},
        {"resource_type": "TOPIC", "resource_name": "orders", "name": "owner", "value": None},
        {"topic_id": ACL["id"]},
    ]


def test_a_config_of_a_broker_is_told_without_its_value() -> None:
    body = b"\x04" + b"".join(map(kraft_bytes.compact, ("1", "ssl.key.password", "secret")))

    assert "secret" not in decode(kraft_bytes.framed(4, body)).body


def test_a_removed_acl_is_told_by_its_id() -> None:
    assert decode(kraft_bytes.remove_access_control_entry(ACL["id"])).fields == {"id": ACL["id"]}


def test_a_quota_keeps_apart_the_default_entity_and_a_name() -> None:
    value = kraft_bytes.client_quota({"user": "alice", "client-id": None}, "producer_byte_rate", 1024.5)

    assert decode(value).fields == {
        "entity": {"user": "alice", "client-id": None},
        "key": "producer_byte_rate",
        "value": 1024.5,
        "remove": False,
    }


def test_no_secret_of_a_scram_credential_is_in_what_is_told() -> None:
    value = kraft_bytes.user_scram_credential("alice", b"-salt-", b"-stored-", b"-server-", 8192)

    body = decode(value).body

    assert json.loads(body) == {"name": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 8192}


def test_a_removed_credential_is_told_by_user_and_mechanism() -> None:
    record = decode(kraft_bytes.remove_user_scram_credential("alice"))

    assert (record.name, record.fields) == (
        "RemoveUserScramCredentialRecord",
        {"name": "alice", "mechanism": "SCRAM-SHA-256"},
    )


@pytest.mark.parametrize(
    ("api_key", "name"), [(20, "NoOpRecord"), (0, "RegisterBrokerRecord"), (99, "Unknown(99)")]
)
def test_other_kinds_are_told_by_name_and_not_read(api_key: int, name: str) -> None:
    record = decode(kraft_bytes.framed(api_key, b"what is in it is of no concern", version=3))

    assert (record.name, record.version, record.body) == (name, 3, "{}")


@pytest.mark.parametrize(
    ("api_key", "complaint"),
    [
        (3, "PartitionRecord of version 3, known is 2"),
        (18, "AccessControlEntryRecord of version 3, known is 0"),
    ],
)
def test_a_kind_that_checks_read_is_not_guessed_at_in_a_later_version(api_key: int, complaint: str) -> None:
    told = decode_row(kraft_bytes.framed(api_key, b"what it may be", version=3))

    assert told == (None, None, None, None, f"of a later Kafka than this release knows: {complaint}")


def test_tagged_fields_of_a_later_kafka_are_stepped_over() -> None:
    value = kraft_bytes.remove_access_control_entry(ACL["id"])[:-1] + b"\x01\x07\x02xy"

    assert decode(value).fields == {"id": ACL["id"]}


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (None, "no value"),
        (b"", "1 bytes wanted at byte 0, 0 left"),
        (kraft_bytes.framed(19, bytes(16), frame_version=2), "frame version 2, known is 1"),
        (
            kraft_bytes.framed(19, bytes(16), version=1),
            "RemoveAccessControlEntryRecord of version 1, known is 0",
        ),
        (kraft_bytes.framed(19, bytes(12)), "16 bytes wanted at byte 3, 13 left"),
        (
            kraft_bytes.framed(19, bytes(16)) + b"!",
            "RemoveAccessControlEntryRecord with 1 bytes after its end",
        ),
        (kraft_bytes.framed(22, b"\x00\x01"), "null at byte 3 where a string must be"),
        (kraft_bytes.framed(22, b"\x03\xff\xfe\x01"), "a string before byte 6 is not UTF-8"),
        (b"\xff\xff\xff\xff\xff\x01", "a uvarint of more than 5 bytes before byte 5"),
        (b"\x01\x0e\x00\xff\xff\xff\xff\x0f", "1 bytes wanted at byte 8, 0 left"),
    ],
)
def test_bytes_that_are_no_record_are_refused_with_the_place(value: bytes | None, complaint: str) -> None:
    with pytest.raises(RecordError) as refused:
        decode(value)

    assert complaint in str(refused.value)


def test_a_row_holds_either_the_record_or_the_complaint() -> None:
    good, bad = decode_row(kraft_bytes.no_op()), decode_row(b"\x02")

    assert good == (20, "NoOpRecord", 0, "{}", None)
    assert bad[:4] == (None, None, None, None)
    assert str(bad[4]).startswith("not a metadata record: ")
