"""What an image says of records that are not understood, and how it is reported."""

from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from proxy.audit.record import AuditEvent
from proxy.metadata.acl import Operation, PermissionType
from proxy.metadata.delta import MetadataError
from proxy.metadata.image import MetadataImage, NotUnderstood
from proxy.metadata.loader import Loader
from proxy.net.pages.log_report import MAX_REPORTED, LogReport
from proxy.wire import metadata_records, types
from tests.support.images import acl_record

pytestmark = pytest.mark.spec("S13")

DENY, LATER = PermissionType.DENY, cast(Operation, 99)


def feature(name: str, level: int) -> Any:
    return types.FeatureLevelRecord(name=name, feature_level=level)


def encoded(*records: Any) -> list[bytes]:
    return [metadata_records.encode_record(record) for record in records]


def loaded(loader: Loader | None = None, *records: Any, at: int = 10) -> MetadataImage:
    loader = loader or Loader(lambda _image, _changed: None)
    loader.load_until(0)
    return loader.batch(at + len(records) - 1, encoded(*records))


def found(image: MetadataImage) -> list[tuple[int, str]]:
    return sorted((each.offset, each.record) for each in image.not_understood.values())


def test_an_image_names_the_offset_and_the_record_of_what_is_not_understood_until_it_is_removed() -> None:
    odd = acl_record(2, host="10.0.0.0-10.9.9.9", permission_type=DENY)
    loader = Loader(lambda _image, _changed: None)

    image = loaded(loader, acl_record(1), odd, acl_record(3), acl_record(4, operation=LATER))
    (first, _) = sorted(image.not_understood.values(), key=lambda each: each.offset)
    removed = loaded(loader, types.RemoveAccessControlEntryRecord(id=bytes(odd.id)), at=14)
    replaced = loaded(loader, acl_record(4), at=15)

    assert found(image) == [(11, "AccessControlEntryRecord"), (13, "AccessControlEntryRecord")]
    assert str(first) == (
        "AccessControlEntryRecord at offset 11: ACL AAAAAAAAAAAAAAAAAAAAAg: Host '10.0.0.0-10.9.9.9' is"
        " neither an address nor a network nor *. Names are not supported."
    )
    assert found(removed) == [(13, "AccessControlEntryRecord")]
    assert found(replaced) == []


def test_records_of_a_snapshot_have_the_offset_of_its_end() -> None:
    loader = Loader(lambda _image, _changed: None, compacted=False, every_offset=False)
    loader.load_until(0)

    image = loader.snapshot(99, encoded(acl_record(1, host="::1"), acl_record(2)))

    assert found(image) == [(99, "AccessControlEntryRecord")]


@pytest.mark.parametrize("every_offset", [True, False])
def test_records_have_the_offsets_that_they_are_given(every_offset: bool) -> None:
    images: list[MetadataImage] = []
    loader = Loader(lambda image, _changed: images.append(image), every_offset=every_offset)
    loader.load_until(0)

    values = encoded(acl_record(1, host="h"), acl_record(2), acl_record(3, host="h"))
    for _ in loader.batch_steps(40, values, [7, 8, 31]):
        pass

    assert found(images[-1]) == [(7, "AccessControlEntryRecord"), (31, "AccessControlEntryRecord")]
    with pytest.raises(MetadataError, match="record 2 of 2, at offset 44: "):
        list(loader.batch_steps(50, [*encoded(acl_record(4)), b"\x01\x7f\x00"], [43, 44]))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"\x01\x1e\x00\x00", "no metadata record has the api key 30"),
        (b"\x01\x12\x01" + encoded(acl_record(4))[0][3:], "AccessControlEntryRecord"),
        (b"\x01\x1d\x01" + encoded(types.UnregisterControllerRecord())[0][3:], "UnregisterControllerRecord"),
    ],
    ids=["a record of 4.5", "a newer ACL", "a newer record of Kafka's own"],
)
def test_a_record_that_is_newer_than_those_of_kafka_4_4_stops_the_replay(value: bytes, why: str) -> None:
    loader = Loader(lambda _image, _changed: None)
    loader.load_until(0)

    with pytest.raises(MetadataError, match=why):
        loader.batch(1, [*encoded(acl_record(1)), value])


@pytest.mark.parametrize(
    ("name", "level", "what"),
    [
        ("metadata.version", 33, None),
        ("metadata.version", 34, "metadata.version 34, known: 33"),
        ("share.version", 2, None),
        ("share.version", 3, "share.version 3, known: 2"),
        ("metadata.version", 0, None),
        ("group.version", 2, "group.version 2, known: 1"),
        ("future.version", 1, "future.version 1, known: none"),
        ("future.version", 0, None),
    ],
)
@pytest.mark.parametrize("every_offset", [True, False])
def test_a_feature_of_a_later_kafka_is_reported(
    name: str, level: int, what: str | None, every_offset: bool
) -> None:
    loader = Loader(lambda _image, _changed: None, compacted=False, every_offset=every_offset)

    image = loaded(loader, feature(name, level))

    assert [each.what for each in image.not_understood.values()] == ([] if what is None else [what])


class Report:
    """A report with what it has recorded."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []
        self.report = LogReport(self.events.append, CollectorRegistry())

    @property
    def recorded(self) -> list[tuple[int | None, str | None]]:
        return [(event.metadata_offset, event.message) for event in self.events]

    @property
    def metric(self) -> float:
        family, *_ = self.report.collect()
        return float(family.samples[0].value)


def test_each_is_reported_once_and_shown_as_long_as_it_lasts() -> None:
    it, loader = Report(), Loader(lambda _image, _changed: None)

    it.report.update(loaded(loader, acl_record(1, host="h")))
    it.report.update(loaded(loader, acl_record(2), at=11))
    assert it.recorded == [(10, str(loader.image.not_understood[next(iter(loader.image.not_understood))]))]
    assert [note.public for note in it.report.notes()] == [
        "degraded: 1 records of the metadata log are not understood and fail closed"
    ]
    assert "AccessControlEntryRecord at offset 10" in next(it.report.notes()).detailed
    assert (list(it.report.blocked()), it.metric) == ([], 1)

    it.report.update(loaded(loader, acl_record(3, host="h"), at=12))
    assert [offset for offset, _ in it.recorded] == [10, 12]
    it.report.update(loaded(loader, acl_record(1), acl_record(3), at=13))
    assert (list(it.report.notes()), it.metric, len(it.events)) == ([], 0, 2)


def test_very_many_are_counted() -> None:
    it = Report()
    records = [acl_record(number, host="h") for number in range(MAX_REPORTED + 50)]

    it.report.update(loaded(None, *records, at=0))

    assert len(it.events) == MAX_REPORTED + 1
    assert it.recorded[-1] == (MAX_REPORTED, f"50 more records up to offset {MAX_REPORTED + 49}")
    assert it.metric == MAX_REPORTED + 50


async def test_a_record_that_stops_the_feed_blocks_the_process() -> None:
    it, stopped = Report(), list[bool]()

    async def following() -> None:
        raise MetadataError("record 1 of 1, at offset 7: api key 127")

    await it.report.follow(following(), lambda: stopped.append(True))

    assert stopped == [True]
    assert [note.detailed for note in it.report.blocked()] == [
        "the metadata log has a record that cannot be applied: record 1 of 1, at offset 7: api key 127"
    ]
    assert (it.metric, len(it.events)) == (1, 1)
    assert "at offset 7" in (it.recorded[0][1] or "")


def test_a_record_is_shown_with_its_offset() -> None:
    assert str(NotUnderstood(3, "R", "x")) == "R at offset 3: x"
