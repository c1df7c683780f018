"""Values of the metadata log, against what Kafka's own MetadataRecordSerde wrote."""

import pytest

from proxy.wire import types as t
from proxy.wire.errors import WireError
from proxy.wire.metadata_records import decode_record, encode_record

pytestmark = pytest.mark.spec("S1")

ALLOW_ALICE_TO_READ = t.AccessControlEntryRecord(
    id=(1).to_bytes(8, "big") + (2).to_bytes(8, "big"),
    resource_type=2,
    resource_name="payments",
    pattern_type=3,
    principal="User:alice",
    host="*",
    operation=3,
    permission_type=3,
)

WRITTEN_BY_KAFKA = [
    (
        ALLOW_ALICE_TO_READ,
        0,
        "0112000000000000000001000000000000000202097061796d656e7473030b557365723a616c696365022a030300",
    ),
    (
        t.RegisterBrokerRecord(broker_id=1, broker_epoch=7),
        3,
        "0100030000000100000000000000000000000000000000000000000000000007010101010000",
    ),
    (t.NoOpRecord(), 0, "01140000"),
    (
        t.DelegationTokenRecord(
            owner="User:alice",
            requester="User:admin",
            renewers=["User:bob", "User:c:d"],
            issue_timestamp=1_795_435_200_000,
            max_timestamp=1_796_040_000_000,
            expiration_timestamp=1_795_521_600_000,
            token_id="sPvNH2gzTTyWg3Fg4xBlQA",
        ),
        0,
        "010a000b557365723a616c6963650b557365723a61646d696e0309557365723a626f6209557365723a633a64"
        "000001a20846fe00000001a22c538200000001a20d6d5a00177350764e4832677a54547957673346673478426c514100",
    ),
    (
        t.RemoveDelegationTokenRecord(token_id="sPvNH2gzTTyWg3Fg4xBlQA"),
        0,
        "011a00177350764e4832677a54547957673346673478426c514100",
    ),
]


@pytest.mark.parametrize(("message", "version", "value"), WRITTEN_BY_KAFKA)
def test_a_record_is_written_and_read_as_kafka_writes_it(message: object, version: int, value: str) -> None:
    assert encode_record(message, version).hex() == value  # type: ignore[arg-type] # messages are Any
    assert decode_record(memoryview(bytes.fromhex(value))) == message


def test_a_record_tells_its_kind_and_key() -> None:
    record = decode_record(encode_record(ALLOW_ALICE_TO_READ))

    assert (type(record).__name__, record.api_key) == ("AccessControlEntryRecord", 18)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("", "metadata record: frame version: the bytes end here, after 0"),
        ("01", "metadata record: api key: the bytes end here, after 1"),
        ("01ffffffffff01", "metadata record: api key: a varint of more than 5 bytes"),
        ("00140000", "metadata record with frame version 0, not 1"),
        ("01e70700", "no metadata record has the api key 999"),
        ("01140900", "NoOpRecord has versions 0, not 9"),
        ("011400", "NoOpRecord v0: the bytes end here, after 3"),
        ("0114000000", "NoOpRecord v0: 1 bytes after the end at byte 4"),
    ],
)
def test_a_malformed_value_is_refused(value: str, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode_record(bytes.fromhex(value))


@pytest.mark.parametrize("message", [t.DefaultPrincipalData(), t.CreateAclsRequest.AclCreation()])
def test_only_metadata_records_go_into_the_log(message: object) -> None:
    with pytest.raises(WireError, match="is no metadata record"):
        encode_record(message)  # type: ignore[arg-type] # messages are Any
