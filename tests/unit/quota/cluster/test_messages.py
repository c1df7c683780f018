"""The batches that members write: every message comes back as it was, and no bytes raise anything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.quota.cluster.member import ClusterMember
from proxy.quota.cluster.messages import (
    ONE,
    Batch,
    Claim,
    Demand,
    Goodbye,
    Grants,
    Heartbeat,
    MalformedError,
    Report,
    ShareChange,
    Target,
    decode,
    digest_of,
    encode,
    member_key,
)

pytestmark = pytest.mark.spec("Q13")

BOOT = b"\1" * 8
U16, U32 = st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1)
FRACTIONS = st.integers(0, ONE).map(lambda value: value / ONE)
DIGESTS = st.binary(min_size=16, max_size=16)
KEYS = st.binary(min_size=8, max_size=8)
TARGETS = st.builds(
    Target,
    KEYS,
    U32,
    U32,
    U32,
    st.lists(st.builds(ShareChange, DIGESTS, FRACTIONS, FRACTIONS), max_size=3).map(tuple),
    st.booleans(),
    st.booleans(),
)
DEMANDS = st.builds(Demand, DIGESTS, FRACTIONS, st.booleans(), FRACTIONS, FRACTIONS)
SECTIONS = st.one_of(
    st.builds(Heartbeat, st.text(max_size=20)),
    st.just(Goodbye()),
    st.builds(Claim, U16, U32),
    st.builds(
        Report,
        U16,
        U32,
        U32,
        U32,
        st.lists(DEMANDS, max_size=3).map(tuple),
        st.booleans(),
        st.booleans(),
        st.integers(0, 3),
        st.integers(4, 9),
    ),
    st.builds(Grants, U16, U32, st.lists(TARGETS, max_size=3).map(tuple)),
)
BATCHES = st.builds(
    Batch,
    st.text(max_size=20),
    st.binary(min_size=8, max_size=8),
    U32,
    st.lists(SECTIONS, max_size=4).map(tuple),
)


@given(BATCHES)
def test_a_batch_is_read_as_it_was_written_and_written_again_as_it_was_read(batch: Batch) -> None:
    read = decode(encode(batch))

    assert (read.member, read.boot, read.sequence) == (batch.member, batch.boot, batch.sequence)
    assert [type(section) for section in read.sections] == [type(section) for section in batch.sections]
    assert encode(decode(encode(read))) == encode(read)


def test_every_field_arrives() -> None:
    demand = Demand(b"d" * 16, 0.5, True, 0.25, 0.125)
    target = Target(b"k" * 8, 1, 2, 3, (ShareChange(b"c" * 16, 0.5, 0.25),), True, True)
    batch = Batch(
        "proxy-1/0",
        BOOT,
        7,
        (
            Heartbeat("host:9092"),
            Goodbye(),
            Claim(1, 2),
            Report(1, 2, 3, 4, (demand,), True, True, 1, 2),
            Grants(1, 2, (target,)),
        ),
    )

    read = decode(encode(batch))

    report, grants = read.sections[3], read.sections[4]
    assert isinstance(report, Report)
    assert isinstance(grants, Grants)
    assert read.sections[:3] == batch.sections[:3]
    assert report.demands[0].throttled
    assert [report.demands[0].demand, report.demands[0].held, report.demands[0].surrendered] == (
        pytest.approx([0.5, 0.25, 0.125])
    )
    assert (report.full, report.in_fallback, report.part, report.parts) == (True, True, 1, 2)
    assert (report.shard, report.epoch, report.generation, report.applied) == (1, 2, 3, 4)
    assert [grants.targets[0].changes[0].share, grants.targets[0].changes[0].credit] == (
        pytest.approx([0.5, 0.25])
    )
    assert (grants.targets[0].sequence, grants.targets[0].generation, grants.targets[0].number) == (1, 2, 3)
    assert grants.targets[0].report_all
    assert grants.targets[0].ack_wanted


@given(st.floats(0, 1))
def test_a_share_never_grows_on_the_wire(share: float) -> None:
    grants = Grants(0, 1, (Target(b"k" * 8, 1, 1, 1, (ShareChange(b"c" * 16, share),)),))

    (read,) = decode(encode(Batch("m", BOOT, 1, (grants,)))).sections

    assert isinstance(read, Grants)
    assert share - 1e-9 <= read.targets[0].changes[0].share <= share


@given(st.binary(max_size=200))
def test_a_member_counts_foreign_bytes_and_ignores_them(value: bytes) -> None:
    member = ClusterMember("proxy-1", BOOT, "host:9092", 4, 3, 0, 1_000)

    member.receive(0, b"\xff" + value, 1)

    assert (member.counts.malformed, member.counts.received) == (1, 0)


@given(BATCHES, st.data(), st.integers(0, 3))
def test_a_member_survives_every_changed_byte_and_every_cut(
    batch: Batch, data: st.DataObject, partition: int
) -> None:
    value = bytearray(encode(batch))
    value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    del value[data.draw(st.integers(1, len(value))) :]
    member = ClusterMember("proxy-1", BOOT, "host:9092", 4, 3, 0, 1_000)

    member.receive(partition, bytes(value), 1)
    for now_ms in range(250, 5000, 1000):
        member.tick(now_ms)

    assert member.counts.malformed + member.counts.received == 1


@given(BATCHES, st.integers(0, 3))
def test_a_member_survives_every_batch_of_another_one(batch: Batch, partition: int) -> None:
    member = ClusterMember("proxy-1", BOOT, "host:9092", 4, 3, 0, 1_000)

    member.receive(partition, encode(batch), 1)
    for now_ms in range(250, 5000, 1000):
        member.tick(now_ms)

    assert member.counts.received == 1


def test_a_later_version_is_malformed_and_a_later_kind_of_section_is_skipped() -> None:
    value = encode(Batch("m", BOOT, 1, (Claim(1, 2),)))

    with pytest.raises(MalformedError):
        decode(b"\2" + value[1:])
    assert decode(value + b"\x63\0\0\0\2ab" + encode(Batch("m", BOOT, 1, (Goodbye(),)))[15:]).sections == (
        Claim(1, 2),
        Goodbye(),
    )


def test_quota_ids_that_are_written_alike_have_different_digests() -> None:
    assert digest_of(("a", "b", "")) != digest_of(("a", "", "b")) != digest_of(("ab", "", ""))
    assert member_key("m", BOOT) != member_key("m", b"\2" * 8)
