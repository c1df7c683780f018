"""Any message in any version: written and read back, cut short, changed, and made up from nothing."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.wire import catalog, codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.errors import TooManyElements, WireError
from proxy.wire.header import FrameDecoder, decode_request_header
from proxy.wire.metadata_records import decode_record
from proxy.wire.schema import Layout, MessageSchema
from proxy.wire.work import Pace, Work
from tests.support.wire_messages import MessageFiller

CODECS = [
    codecs.data(name, version)
    for name in catalog.names()
    for version in catalog.by_name(name).versions.range
]  # fmt: skip

some_codec = st.sampled_from(CODECS)
some_random = st.randoms(use_true_random=False)


def encoded(codec: codecs.AnyCodec, random: Random) -> bytes:
    return codec.encode(MessageFiller(random).message(codec.name, codec.version))


def decodes_or_is_refused(codec: codecs.AnyCodec, buffer: bytes) -> None:
    """Anything else that is raised fails the test."""
    try:
        _, end = codec.decode(buffer)
    except WireError:
        return
    assert end <= len(buffer)


@pytest.mark.spec("E1", "S1")
@settings(max_examples=300, deadline=None)
@given(some_codec, some_random)
def test_a_message_is_read_back_as_it_was_written(codec: codecs.AnyCodec, random: Random) -> None:
    message = MessageFiller(random).message(codec.name, codec.version)

    buffer = codec.encode(message)

    assert codec.decode_exactly(buffer) == message
    assert codec.decode_exactly(memoryview(bytearray(buffer))) == message


@pytest.mark.spec("E1")
@pytest.mark.parametrize("kind", ["request", "response"])
def test_every_projection_writes_back_what_it_read(kind: str) -> None:
    random = Random(kind)
    for codec in CODECS:
        schema = catalog.by_name(codec.name)
        buffer = encoded(codec, random)
        if schema.kind == kind:
            for field in schema.root.fields:
                projected = codecs.AnyCodec(schema, codec.version, (field.attribute,))

                assert projected.encode(projected.decode_exactly(buffer)) == buffer


@pytest.mark.spec("O6")
@pytest.mark.parametrize("seed", range(3))
def test_a_message_that_is_cut_short_anywhere_is_refused(seed: int) -> None:
    random = Random(seed)
    for codec in CODECS[seed::3]:
        buffer = encoded(codec, random)
        for end in random.sample(range(len(buffer)), min(len(buffer), 40)):
            with pytest.raises(WireError, match=codec.name):
                codec.decode(buffer[:end])


@pytest.mark.spec("O6")
@settings(max_examples=300, deadline=None)
@given(some_codec, some_random, st.data())
def test_a_changed_message_decodes_or_is_refused(
    codec: codecs.AnyCodec, random: Random, data: st.DataObject
) -> None:
    buffer = bytearray(encoded(codec, random) or b"\x00")
    for _ in range(data.draw(st.integers(1, 4))):
        buffer[data.draw(st.integers(0, len(buffer) - 1))] = data.draw(st.integers(0, 255))

    decodes_or_is_refused(codec, bytes(buffer))


@pytest.mark.spec("O6")
@settings(max_examples=300, deadline=None)
@given(some_codec, st.binary(max_size=200))
def test_bytes_of_anybody_decode_or_are_refused(codec: codecs.AnyCodec, buffer: bytes) -> None:
    decodes_or_is_refused(codec, buffer)


@pytest.mark.spec("O6")
@pytest.mark.parametrize(
    "filling", [b"\x00", b"\x01", b"\x02", b"\x7f", b"\x80", b"\xff", b"\xff\xff\xff\xff\x07"]
)
def test_repeated_bytes_decode_or_are_refused_by_every_codec(filling: bytes) -> None:
    for codec in CODECS:
        decodes_or_is_refused(codec, filling * 60)


@pytest.mark.spec("O6")
@given(st.binary(max_size=60))
def test_headers_records_and_frames_of_anybody_are_read_or_refused(buffer: bytes) -> None:
    for read in (decode_request_header, decode_record, FrameDecoder(max_frame_bytes=50).feed):
        try:
            read(buffer)
        except WireError:
            continue


@pytest.mark.spec("O6")
@given(st.lists(st.binary(max_size=20)), st.randoms(use_true_random=False))
def test_frames_are_found_wherever_the_stream_is_cut(frames: list[bytes], random: Random) -> None:
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    decoder = FrameDecoder(max_frame_bytes=20)
    found = []

    while stream:
        cut = random.randint(1, len(stream))
        found += decoder.feed(stream[:cut])
        stream = stream[cut:]

    assert found == frames


PROJECTIONS = [
    (schema, version, raw)
    for schema, raw in (
        (catalog.response(ApiKey.METADATA), "topics.partitions"),
        (catalog.response(ApiKey.DESCRIBE_TOPIC_PARTITIONS), "topics.partitions"),
        (catalog.response(ApiKey.SHARE_FETCH), "responses.partitions"),
    )
    for version in schema.versions.range
]


@pytest.mark.spec("E1", "O6")
@settings(max_examples=200, deadline=None)
@given(st.sampled_from(PROJECTIONS), some_random, st.data())
def test_elements_skipped_by_one_match_end_where_they_end_one_by_one(
    projection: tuple[MessageSchema, int, str], random: Random, data: st.DataObject
) -> None:
    schema, version, raw = projection
    buffer = bytearray(encoded(codecs.data(schema.name, version), random))
    for _ in range(data.draw(st.integers(0, 3))):
        buffer[data.draw(st.integers(0, len(buffer) - 1))] = data.draw(st.integers(0, 255))
    at_once, one_by_one = (codecs.AnyCodec(schema, version, (raw,)) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Layout, "skipping_pattern", lambda _self, _array: None)
        expected = _outcome(one_by_one, bytes(buffer))

    assert _outcome(at_once, bytes(buffer)) == expected


@pytest.mark.spec("E1", "O6")
def test_the_partitions_of_metadata_are_skipped_by_one_match_and_counted() -> None:
    response = types.MetadataResponse
    partition = response.MetadataResponsePartition(replica_nodes=[1, 2, 3], isr_nodes=[1])
    topic = response.MetadataResponseTopic(name="t", partitions=[partition] * 64)
    buffer = codecs.of(response, 12).encode(response(topics=[topic]))
    codec = codecs.response(ApiKey.METADATA, 12, raw=("topics.partitions",))

    work = Work.on(lambda: codec.decode(buffer), Pace(), max_elements=64)

    with pytest.raises(TooManyElements):
        work.go_on()


def _outcome(codec: codecs.AnyCodec, buffer: bytes) -> object:
    try:
        message, end = codec.decode(buffer)
    except WireError as error:
        return str(error)
    return message, end
