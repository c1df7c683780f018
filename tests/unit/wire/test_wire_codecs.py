"""Codecs: what a round trip keeps, what a projection leaves alone, and what is said of what does not fit."""

import gc
from typing import Any

import pytest

from proxy.wire import catalog, codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.errors import WireError

CREATE_ACLS = codecs.request(ApiKey.CREATE_ACLS, 3)
METADATA = codecs.request(ApiKey.METADATA, 12)

# One CreateAcls v3 request by hand, as KIP-482 has it: one creation, and two unknown tags behind it.
CREATION = b"\x02" + b"\x04abc" + b"\x03" + b"\x07User:a" + b"\x02*" + b"\x03\x03"
UNKNOWN_TAGS = b"\x02" + b"\x90\x4e\x02hi" + b"\x91\x4e\x00"
CREATE_ACLS_BYTES = b"\x02" + CREATION + b"\x00" + UNKNOWN_TAGS


def acl_creation() -> t.CreateAclsRequest.AclCreation:
    return t.CreateAclsRequest.AclCreation(
        resource_type=2, resource_name="abc", principal="User:a", host="*", operation=3, permission_type=3
    )


@pytest.mark.tooling
@pytest.mark.parametrize("name", catalog.names())
def test_a_message_of_defaults_survives_every_version(name: str) -> None:
    message = getattr(t, name)()

    for version in catalog.by_name(name).versions.range:
        codec = codecs.data(name, version)

        assert codec.decode_exactly(codec.encode(message)) == message


@pytest.mark.spec("S8")
def test_a_request_is_read_into_named_fields() -> None:
    message, end = CREATE_ACLS.decode(CREATE_ACLS_BYTES)

    assert end == len(CREATE_ACLS_BYTES)
    assert message == t.CreateAclsRequest(
        creations=[acl_creation()], unknown_tags={10_000: b"hi", 10_001: b""}
    )


@pytest.mark.spec("E1")
def test_unknown_tagged_fields_are_written_back_in_their_place() -> None:
    message, _ = CREATE_ACLS.decode(CREATE_ACLS_BYTES)

    assert CREATE_ACLS.encode(message) == CREATE_ACLS_BYTES


@pytest.mark.spec("E1")
def test_unknown_tagged_fields_stand_among_known_ones_by_tag() -> None:
    codec = codecs.response(ApiKey.API_VERSIONS, 3)
    message = t.ApiVersionsResponse(
        finalized_features_epoch=5, zk_migration_ready=True, unknown_tags={2_000: b"!"}
    )

    encoded = codec.encode(message)

    epoch, ready, unknown = b"\x01\x08" + bytes(7) + b"\x05", b"\x03\x01\x01", b"\xd0\x0f\x01!"
    assert encoded == bytes(2) + b"\x01" + bytes(4) + b"\x03" + epoch + ready + unknown
    assert codec.decode_exactly(encoded) == message


@pytest.mark.spec("E1")
def test_an_unknown_tag_cannot_pose_as_a_known_one() -> None:
    message = t.ApiVersionsResponse(unknown_tags={1: bytes(8)})

    with pytest.raises(WireError, match="unknown tagged fields hold the known tag 1"):
        codecs.response(ApiKey.API_VERSIONS, 3).encode(message)


@pytest.mark.spec("O6")
def test_bytes_and_records_are_views_of_the_frame() -> None:
    codec = codecs.request(ApiKey.PRODUCE, 11)
    partition = t.ProduceRequest.PartitionProduceData(index=0, records=b"r" * 1000)
    topic = t.ProduceRequest.TopicProduceData(name="orders", partition_data=[partition])
    frame = bytearray(codec.encode(t.ProduceRequest(acks=1, topic_data=[topic])))

    message, _ = codec.decode(memoryview(frame))
    frame[-500] = ord("!")

    records = message.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert bytes(records).count(b"!") == 1
    assert codec.encode(message) == bytes(frame)


@pytest.mark.spec("O6")
def test_a_message_without_bytes_holds_nothing_of_a_receive_buffer() -> None:
    receive_buffer = bytearray(CREATE_ACLS_BYTES)

    message, _ = CREATE_ACLS.decode(memoryview(receive_buffer))
    receive_buffer[:] = bytes(2 * len(receive_buffer))

    assert CREATE_ACLS.encode(message) == CREATE_ACLS_BYTES


@pytest.mark.spec("O6")
def test_a_refused_message_lets_go_of_the_receive_buffer() -> None:
    receive_buffer = bytearray(
        codecs.request(ApiKey.SASL_AUTHENTICATE, 2).encode(t.SaslAuthenticateRequest())
    )
    receive_buffer[0] = 9
    gc.disable()
    try:
        with pytest.raises(WireError):
            codecs.request(ApiKey.SASL_AUTHENTICATE, 2).decode(memoryview(receive_buffer))

        # A view that is still held would make this a BufferError.
        receive_buffer.clear()
    finally:
        gc.enable()


@pytest.mark.tooling
@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
def test_any_buffer_is_read_from_any_offset(buffer_type: type) -> None:
    buffer = buffer_type(b"...." + CREATE_ACLS_BYTES + b"trailing")

    message, end = CREATE_ACLS.decode(buffer, 4)

    assert end == 4 + len(CREATE_ACLS_BYTES)
    assert CREATE_ACLS.encode(message) == CREATE_ACLS_BYTES


@pytest.mark.tooling
def test_trailing_bytes_are_refused_where_a_message_should_be_alone() -> None:
    with pytest.raises(WireError, match="CreateAclsRequest v3: 3 bytes after the end at byte 28"):
        CREATE_ACLS.decode_exactly(CREATE_ACLS_BYTES + b"???")


# Projections


@pytest.mark.tooling
def test_a_projection_keeps_what_it_names_as_it_came() -> None:
    response = t.MetadataResponse(
        cluster_id="c",
        topics=[
            t.MetadataResponse.MetadataResponseTopic(
                name=name,
                partitions=[
                    t.MetadataResponse.MetadataResponsePartition(
                        partition_index=i, replica_nodes=[1, 2], unknown_tags={500: b"x"} if i else None
                    )
                    for i in range(3)
                ],
            )
            for name in ("a", "b")
        ],
    )
    encoded = codecs.response(ApiKey.METADATA, 12).encode(response)
    projected = codecs.response(ApiKey.METADATA, 12, raw=("topics.partitions", "brokers"))

    message = projected.decode_exactly(encoded)

    assert [topic.name for topic in message.topics] == ["a", "b"]
    assert bytes(message.brokers) == b"\x01"
    assert bytes(message.topics[0].partitions) in encoded
    assert projected.encode(message) == encoded


@pytest.mark.tooling
def test_what_a_projection_left_out_may_be_dropped_or_replaced() -> None:
    codec = codecs.response(ApiKey.METADATA, 12)
    projected = codecs.response(ApiKey.METADATA, 12, raw=("topics.partitions",))
    topics = [t.MetadataResponse.MetadataResponseTopic(name=name) for name in ("a", "b")]
    message = projected.decode_exactly(codec.encode(t.MetadataResponse(topics=topics)))

    del message.topics[0]
    message.topics[0].partitions = b"\x01"

    assert codec.decode_exactly(projected.encode(message)) == t.MetadataResponse(topics=topics[1:])


@pytest.mark.spec("O6")
def test_what_a_projection_skips_is_checked_all_the_same() -> None:
    projected = codecs.request(ApiKey.METADATA, 12, raw=("topics",))

    with pytest.raises(
        WireError, match="MetadataRequest v12: topics: 99 elements of at least 18 bytes claimed"
    ):
        projected.decode(b"\x64" + bytes(40))
    with pytest.raises(WireError, match="MetadataRequest v12: topics"):
        projected.decode(b"\x02" + bytes(16) + b"\x70abc\x00")


@pytest.mark.tooling
def test_a_projection_of_no_field_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match=r"MetadataRequest has no field topics\.partitions"):
        codecs.request(ApiKey.METADATA, 12, raw=("topics.partitions",))


# Malformed bytes


@pytest.mark.spec("O6")
def test_a_13_byte_request_that_claims_two_billion_topics_is_refused() -> None:
    frame = b"\xff\xff\xff\xff\x07" + bytes(8)

    with pytest.raises(
        WireError, match="topics: 2147483646 elements of at least 18 bytes claimed, 8 bytes left"
    ):
        METADATA.decode(frame)


@pytest.mark.spec("O6")
def test_a_13_byte_request_of_an_old_version_that_claims_two_billion_topics_is_refused() -> None:
    frame = b"\x7f\xff\xff\xff" + bytes(9)

    with pytest.raises(
        WireError, match="topics: 2147483647 elements of at least 2 bytes claimed, 9 bytes left"
    ):
        codecs.request(ApiKey.METADATA, 1).decode(frame)


@pytest.mark.tooling
@pytest.mark.parametrize(
    ("buffer", "complaint"),
    [
        (b"", "CreateAclsRequest v3: creations: the bytes end here, after 0"),
        (b"\x00", "creations: null where null is not allowed"),
        (b"\x02\x02\x00" + bytes(9), "creations.resource_name: null where null is not allowed"),
        (b"\x02\x02\x30" + bytes(9), "creations.resource_name: 47 bytes claimed, 9 left"),
        (b"\x02\x02\x02\xff" + bytes(9), "creations.resource_name: not UTF-8 at byte 0 of 1"),
        (b"\x02\x02\xff\xff\xff\xff\xff" + bytes(9), "creations.resource_name: a varint of more than 5"),
        (b"\x02\x02\xff\xff\xff\xff\x0f" + bytes(9), "creations.resource_name: a varint of 4294967295"),
        (b"\x02\x02\x81\x80\x04" + bytes(9), "creations.resource_name: a string of 65536 bytes, limit 32767"),
        (b"\x01\x01\x05", "the bytes end here, after 3"),
        (b"\x01\x01\x05\x09abc", "CreateAclsRequest v3: 9 bytes claimed, 3 left"),
    ],
)
def test_malformed_bytes_are_refused_with_the_field_and_the_numbers(buffer: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        CREATE_ACLS.decode(buffer)


@pytest.mark.tooling
@pytest.mark.parametrize(
    ("buffer", "complaint"),
    [
        (b"\xff\xff\xff\xfe", "topics: a count of -2"),
        (b"\x00\x00\x00\x01\xff\xff", "topics.name: null where null is not allowed"),
        (b"\x00\x00\x00\x01\xff\xf0", "topics.name: a length of -16"),
    ],
)
def test_negative_lengths_of_old_versions_are_refused(buffer: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        codecs.request(ApiKey.METADATA, 1).decode(buffer)


@pytest.mark.tooling
@pytest.mark.parametrize("size", [b"\x00", b"\x07", b"\x09"])
def test_a_known_tagged_field_must_be_as_long_as_its_size_says(size: bytes) -> None:
    response = bytes(2) + b"\x01" + bytes(4) + b"\x01" + b"\x01" + size + bytes(9)

    with pytest.raises(WireError, match="tagged field 1 ends at byte 18, but its size says"):
        codecs.response(ApiKey.API_VERSIONS, 3).decode(response)


@pytest.mark.spec("A7")
@pytest.mark.parametrize("replicas", [(2, -1), (-1, 2)])
def test_a_known_tagged_field_that_is_there_twice_is_refused(replicas: tuple[int, ...]) -> None:
    """A broker may read the first one, or the last: such as which replica it is that fetches (KIP-903)."""
    codec = codecs.request(ApiKey.FETCH, 15)
    encoded = codec.encode(t.FetchRequest())
    states = [b"\x01\x0d" + replica.to_bytes(4, "big", signed=True) + bytes(9) for replica in replicas]

    assert codec.decode_exactly(encoded[:-1] + b"\x01" + states[0]).replica_state.replica_id == replicas[0]
    with pytest.raises(WireError, match="tagged field 1 is there twice"):
        codec.decode(encoded[:-1] + b"\x02" + b"".join(states))


@pytest.mark.tooling
@pytest.mark.parametrize("mark", [b"\x00", b"\x02", b"\xfe"])
def test_a_nullable_struct_is_present_or_null_and_nothing_else(mark: bytes) -> None:
    codec = codecs.request(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    encoded = codec.encode(t.DescribeTopicPartitionsRequest())
    assert encoded[-2:] == b"\xff\x00"

    with pytest.raises(WireError, match="cursor: a null mark of"):
        codec.decode(encoded[:-2] + mark + encoded[-1:])


# Messages that do not fit


@pytest.mark.spec("E1")
def test_a_field_that_the_version_lacks_is_refused_when_it_is_set() -> None:
    message = t.MetadataRequest(topics=[], allow_auto_topic_creation=False)

    with pytest.raises(
        WireError,
        match="MetadataRequest v3: allow_auto_topic_creation: is set, but version 3 has no place for it",
    ):
        codecs.request(ApiKey.METADATA, 3).encode(message)


@pytest.mark.spec("E1")
def test_a_field_that_the_version_lacks_is_left_out_when_it_may_be_ignored() -> None:
    message = t.MetadataResponse(throttle_time_ms=100)

    codec = codecs.response(ApiKey.METADATA, 0)

    assert codec.decode_exactly(codec.encode(message)) == t.MetadataResponse()


@pytest.mark.tooling
@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"resource_name": None}, "creations.resource_name: 'NoneType' object has no attribute 'encode'"),
        ({"resource_name": "\ud800"}, "creations.resource_name: 'utf-8' codec can't encode"),
        ({"resource_name": "x" * 32_768}, "creations.resource_name: a string of 32768 bytes, limit 32767"),
        ({"resource_type": 128}, "creations.resource_type: .* format requires"),
        (
            {"operation": "READ"},
            "creations.operation, creations.permission_type: required argument is not an int",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_field(fields: dict[str, Any], complaint: str) -> None:
    message = t.CreateAclsRequest(creations=[t.CreateAclsRequest.AclCreation(**fields)])

    with pytest.raises(WireError, match=complaint):
        CREATE_ACLS.encode(message)


@pytest.mark.tooling
@pytest.mark.parametrize("uuid", [b"", bytes(15), bytes(17)])
def test_a_uuid_of_another_length_is_refused(uuid: bytes) -> None:
    one = t.MetadataRequest(topics=[t.MetadataRequest.MetadataRequestTopic(topic_id=uuid, name="a")])
    in_array = t.BrokerRegistrationRequest(log_dirs=[uuid])

    with pytest.raises(WireError, match=f"topics.topic_id: a uuid of {len(uuid)} bytes, not 16"):
        METADATA.encode(one)
    with pytest.raises(WireError, match=f"log_dirs: a uuid of {len(uuid)} bytes, not 16"):
        codecs.request(ApiKey.BROKER_REGISTRATION, 4).encode(in_array)


@pytest.mark.tooling
def test_unknown_tags_are_refused_where_nothing_is_tagged() -> None:
    with pytest.raises(WireError, match="there are unknown tagged fields, but version 1 is not flexible"):
        codecs.request(ApiKey.METADATA, 1).encode(t.MetadataRequest(unknown_tags={9: b""}))


@pytest.mark.tooling
def test_a_message_of_another_kind_is_refused() -> None:
    with pytest.raises(WireError, match=r"CreateAclsRequest v3: creations: .* no attribute 'creations'"):
        CREATE_ACLS.encode(t.MetadataRequest())


# Which codecs there are


@pytest.mark.tooling
def test_all_live_apis_have_codecs() -> None:
    assert codecs.live_api_keys() == tuple(sorted(ApiKey))


@pytest.mark.spec("A7")
@pytest.mark.parametrize(
    ("api_key", "version", "complaint"),
    [
        (4, 0, "no request has the api key 4"),
        (999, 0, "no request has the api key 999"),
        (-1, 0, "no request has the api key -1"),
        (ApiKey.METADATA, 99, "MetadataRequest has versions 0-13, not 99"),
        (ApiKey.PRODUCE, 2, "ProduceRequest has versions 3-13, not 2"),
    ],
)
def test_an_unknown_api_or_version_has_no_codec(api_key: int, version: int, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        codecs.request(api_key, version)


@pytest.mark.tooling
def test_other_unknown_messages_have_no_codec() -> None:
    with pytest.raises(WireError, match="no response has the api key 7"):
        codecs.response(7, 0)
    with pytest.raises(WireError, match="no metadata record has the api key 6"):
        codecs.record(6, 0)
    with pytest.raises(WireError, match="Kafka has no message named DefaultPrincipal"):
        codecs.data("DefaultPrincipal", 0)


@pytest.mark.spec("E8")
def test_a_version_that_kafka_has_not_settled_is_offered_only_when_asked_for() -> None:
    assert codecs.request_versions(ApiKey.INIT_PRODUCER_ID) == range(6)
    assert codecs.request_versions(ApiKey.INIT_PRODUCER_ID, unstable=True) == range(7)
    assert codecs.request_versions(ApiKey.METADATA) == range(14)


@pytest.mark.tooling
def test_codecs_are_made_once() -> None:
    assert codecs.request(ApiKey.METADATA, 12) is METADATA
    assert codecs.is_flexible(ApiKey.METADATA, 9)
    assert not codecs.is_flexible(ApiKey.METADATA, 8)


@pytest.mark.tooling
def test_the_codec_of_a_class_is_that_of_its_api_key() -> None:
    assert codecs.of(t.CreateAclsRequest, 3) is CREATE_ACLS
    assert codecs.of(t.MetadataResponse, 12) is codecs.response(ApiKey.METADATA, 12)
    with pytest.raises(WireError, match="CreateAclsRequest has versions 1-3, not 9"):
        codecs.of(t.CreateAclsRequest, 9)
