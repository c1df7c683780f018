"""What a loader shows, and when: nothing of half a log, each batch whole, a re-read only when it is whole."""

import pytest

from proxy.metadata.acl import PermissionType
from proxy.metadata.delta import MetadataError
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.wire import types
from proxy.wire.message import Message
from tests.support.metadata_log import acl, acl_record, image_of, quota_record, removed_acl_record, values

DENY = acl("foo", principal="User:bob", permission_type=PermissionType.DENY)
ALLOW = acl("*", principal="User:bob")
BOB = QuotaEntity(user="bob")
MARKS = {
    "B": types.BeginTransactionRecord(),
    "E": types.EndTransactionRecord(),
    "A": types.AbortTransactionRecord(),
}


class Shown:
    """Remembers what a loader shows."""

    def __init__(self) -> None:
        self.images: list[MetadataImage] = []
        self.changed: list[tuple[str, ...]] = []

    def __call__(self, image: MetadataImage, changed: tuple[str, ...]) -> None:
        self.images.append(image)
        self.changed.append(changed)

    @property
    def acl_names(self) -> list[set[str]]:
        return [{acl.resource_name for acl in image.acls.by_id.values()} for image in self.images]


def loaded(shown: Shown) -> Loader:
    """A loader that has loaded the empty log."""
    loader = Loader(shown, compacted=False)
    loader.load_until(0)
    return loader


@pytest.mark.spec("S3", "S4")
def test_nothing_is_shown_before_the_high_water_mark_is_reached() -> None:
    shown = Shown()
    loader = Loader(shown)
    loader.load_until(3)

    loader.batch(0, values(acl_record(DENY)))
    loader.batch(1, values(acl_record(ALLOW)))

    assert (shown.images, loader.ready, loader.image) == ([], False, MetadataImage.EMPTY)


@pytest.mark.spec("S3")
def test_at_the_high_water_mark_everything_is_shown_at_once() -> None:
    shown = Shown()
    loader = Loader(shown)
    loader.load_until(2)

    loader.batch(0, values(acl_record(DENY)))
    loader.batch(1, values(acl_record(ALLOW), quota_record(BOB, "producer_byte_rate", 1.0)))

    assert (shown.acl_names, shown.changed, loader.ready) == ([{"foo", "*"}], [()], True)
    assert loader.image is shown.images[0]


@pytest.mark.spec("S3")
def test_an_empty_log_is_loaded_as_soon_as_its_end_is_known() -> None:
    shown = Shown()

    loader = loaded(shown)

    assert (loader.ready, shown.images) == (True, [MetadataImage.EMPTY])


@pytest.mark.spec("S3")
def test_batches_read_before_the_high_water_mark_is_known_are_not_shown() -> None:
    shown = Shown()
    loader = Loader(shown)

    loader.batch(4, values(acl_record(ALLOW)))
    before = list(shown.images)
    loader.load_until(5)

    assert (before, shown.acl_names) == ([], [{"*"}])


@pytest.mark.spec("S3")
def test_control_records_at_the_end_of_the_log_count_towards_the_high_water_mark() -> None:
    loader = Loader(Shown())
    loader.load_until(3)

    loader.batch(1, values(acl_record(ALLOW)))
    loader.batch(2, [])

    assert (loader.ready, loader.image.offset, loader.next_offset) == (True, 2, 3)


@pytest.mark.spec("S2")
def test_each_batch_after_loading_appears_whole_and_at_once() -> None:
    shown = Shown()
    loader = loaded(shown)

    loader.batch(1, values(acl_record(DENY), acl_record(ALLOW)))
    loader.batch(2, values(removed_acl_record(DENY)))

    assert shown.acl_names == [set(), {"foo", "*"}, {"*"}]
    assert [image.offset for image in shown.images] == [-1, 1, 2]


@pytest.mark.spec("S2")
def test_an_image_once_shown_never_changes() -> None:
    loader = loaded(Shown())
    earlier = loader.batch(0, values(acl_record(DENY)))

    loader.batch(1, values(removed_acl_record(DENY)))

    assert earlier == MetadataImage(0, image_of(DENY).acls)


@pytest.mark.spec("S5")
def test_a_batch_that_was_applied_already_changes_nothing() -> None:
    shown = Shown()
    loader = loaded(shown)
    loader.batch(0, values(acl_record(ALLOW)))

    loader.batch(0, values(acl_record(acl("again"))))

    assert shown.acl_names == [set(), {"*"}]


@pytest.mark.spec("S1")
def test_tombstones_are_passed_over() -> None:
    loader = loaded(Shown())

    image = loader.batch(2, [None, *values(acl_record(ALLOW)), None])

    assert (image.offset, image.acls.count) == (2, 1)


@pytest.mark.spec("Q9")
def test_changed_quotas_are_named_with_the_image_that_has_them() -> None:
    shown = Shown()
    loader = loaded(shown)

    loader.batch(1, values(quota_record(BOB, "producer_byte_rate", 1.0), acl_record(ALLOW)))
    loader.batch(2, values(acl_record(DENY)))
    loader.batch(3, values(quota_record(BOB, "producer_byte_rate", None)))

    assert shown.changed == [(), ("users/bob",), (), ("users/bob",)]


@pytest.mark.spec("S5")
def test_a_re_read_is_shown_only_when_it_has_caught_up() -> None:
    shown = Shown()
    loader = loaded(shown)
    loader.batch(1, values(acl_record(ALLOW), quota_record(BOB, "producer_byte_rate", 1.0)))

    loader.reload_until(5)
    loader.batch(3, values(acl_record(DENY)))
    while_reading = (loader.ready, loader.image)
    loader.batch(4, values(quota_record(BOB, "producer_byte_rate", 2.0)))

    assert while_reading == (True, shown.images[1])
    assert shown.acl_names == [set(), {"*"}, {"foo"}]
    assert shown.changed[-1] == ("users/bob",)


@pytest.mark.spec("S5")
def test_a_snapshot_replaces_everything_at_once() -> None:
    shown = Shown()
    loader = loaded(shown)
    loader.batch(1, values(acl_record(ALLOW)))

    loader.snapshot(9, values(acl_record(DENY), quota_record(BOB, "producer_byte_rate", 1.0)))
    loader.batch(10, values(acl_record(acl("later"))))

    assert shown.acl_names == [set(), {"*"}, {"foo"}, {"foo", "later"}]
    assert [image.offset for image in shown.images] == [-1, 1, 9, 10]
    assert shown.changed[2:] == [("users/bob",), ()]


@pytest.mark.spec("S3", "S5")
def test_a_snapshot_short_of_the_high_water_mark_waits_for_the_log_after_it() -> None:
    shown = Shown()
    loader = Loader(shown, compacted=False)
    loader.load_until(12)

    loader.snapshot(9, values(acl_record(DENY)))
    after_snapshot = list(shown.images)
    loader.batch(11, values(acl_record(ALLOW)))

    assert (after_snapshot, shown.acl_names) == ([], [{"foo", "*"}])


@pytest.mark.spec("S5")
def test_a_snapshot_of_the_past_is_refused() -> None:
    loader = loaded(Shown())
    loader.batch(7, values(acl_record(DENY)))

    with pytest.raises(MetadataError, match="ends at offset 6, before the image's 7"):
        loader.snapshot(6, values(acl_record(ALLOW)))


@pytest.mark.spec("S2")
def test_a_metadata_transaction_appears_only_with_its_end() -> None:
    shown = Shown()
    loader = loaded(shown)

    loader.batch(2, values(acl_record(acl("before")), types.BeginTransactionRecord(), acl_record(ALLOW)))
    loader.batch(3, values(acl_record(acl("more"))))
    within = list(shown.acl_names)
    loader.batch(4, values(acl_record(DENY), types.EndTransactionRecord()))

    assert within == [set(), {"before"}]
    assert shown.acl_names[2:] == [{"before", "*", "more", "foo"}]
    assert [image.offset for image in shown.images] == [-1, 0, 4]


@pytest.mark.spec("S2", "Q9")
def test_an_aborted_metadata_transaction_was_never_there() -> None:
    shown = Shown()
    loader = loaded(shown)

    loader.batch(
        4,
        values(
            quota_record(BOB, "producer_byte_rate", 1.0),
            types.BeginTransactionRecord(),
            acl_record(ALLOW),
            quota_record(QuotaEntity(user="carol"), "producer_byte_rate", 1.0),
            types.AbortTransactionRecord(),
        ),
    )
    loader.batch(5, values(acl_record(DENY)))

    assert shown.acl_names == [set(), set(), {"foo"}]
    assert shown.changed == [(), ("users/bob",), ()]


@pytest.mark.spec("S2")
@pytest.mark.parametrize("record", [*MARKS.values(), types.FeatureLevelRecord(name="x", feature_level=1)])
def test_the_log_of_our_controllers_has_neither_metadata_transactions_nor_features(record: Message) -> None:
    loader = Loader(Shown())
    loader.load_until(0)

    with pytest.raises(MetadataError, match="only Kafka's own log has such records"):
        loader.batch(1, values(acl_record(DENY), record))


@pytest.mark.spec("S2")
@pytest.mark.parametrize("marks", ["BB", "E", "A", "BEE", "BAE"])
def test_metadata_transactions_follow_each_other(marks: str) -> None:
    loader = loaded(Shown())

    with pytest.raises(MetadataError, match=f"at offset {len(marks) - 1}: {type(MARKS[marks[-1]]).__name__}"):
        loader.batch(len(marks) - 1, values(*(MARKS[mark] for mark in marks)))


@pytest.mark.spec("S3")
def test_a_log_that_ends_within_a_transaction_is_loaded_without_it() -> None:
    shown = Shown()
    loader = Loader(shown, compacted=False)
    loader.load_until(3)

    loader.batch(2, values(acl_record(DENY), types.BeginTransactionRecord(), acl_record(ALLOW)))

    assert (loader.ready, shown.acl_names) == (True, [{"foo"}])


@pytest.mark.spec("S1")
@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x01",
        b"\x02\x12\x00",
        b"\x01\xe8\x07\x00\x00",
        values(acl_record(DENY))[0][:-3],
        values(acl_record(DENY))[0] + b"\x00",
        values(removed_acl_record(acl("never added")))[0],
    ],
    ids=["empty", "cut", "frame version", "unknown kind", "short", "long", "contradiction"],
)
def test_a_record_that_cannot_be_applied_stops_the_loader_for_good(value: bytes) -> None:
    shown = Shown()
    loader = loaded(shown)
    loader.batch(4, values(acl_record(DENY)))

    with pytest.raises(MetadataError, match="offset 7"):
        loader.batch(7, [*values(acl_record(acl("a"))), value, *values(acl_record(ALLOW))])
    with pytest.raises(MetadataError, match="no longer read"):
        loader.batch(8, values(acl_record(ALLOW)))

    assert shown.acl_names == [set(), {"foo"}]


def quiet(shown: Shown) -> Loader:
    """A loader of Kafka's own log, most of which is none of our business."""
    loader = Loader(shown, compacted=False, every_offset=False)
    loader.load_until(0)
    return loader


@pytest.mark.spec("S2")
def test_where_only_changes_are_shown_the_offset_moves_without_an_image() -> None:
    shown = Shown()
    loader = quiet(shown)

    for offset, record in enumerate((types.NoOpRecord(), acl_record(ALLOW), types.NoOpRecord())):
        loader.batch(offset, values(record))
    loader.batch(3, [])

    assert [image.offset for image in shown.images] == [-1, 1]
    assert (loader.applied_offset, loader.next_offset, loader.image.offset) == (3, 4, 1)


@pytest.mark.spec("S2", "Q9")
def test_where_only_changes_are_shown_a_limit_that_is_set_to_what_it_was_is_none() -> None:
    shown = Shown()
    loader = quiet(shown)

    loader.batch(0, values(quota_record(BOB, "producer_byte_rate", 1.0)))
    loader.batch(1, values(quota_record(BOB, "producer_byte_rate", 1.0)))
    loader.batch(2, values(quota_record(BOB, "producer_byte_rate", 2.0)))

    assert [image.offset for image in shown.images] == [-1, 0, 2]
    assert shown.changed == [(), ("users/bob",), ("users/bob",)]


@pytest.mark.spec("S1")
def test_where_only_changes_are_shown_records_without_meaning_are_not_even_read() -> None:
    loader = quiet(Shown())
    a_controller_of_the_future = b"\x01\x1b\x63whatever"

    loader.batch(0, [a_controller_of_the_future, *values(acl_record(ALLOW))])

    assert loader.image.acls.count == 1


@pytest.mark.spec("S1")
@pytest.mark.parametrize("value", [b"", b"\x01", b"\x02\x1b\x00", b"\x01\x7f\x00"])
def test_what_is_no_record_of_a_known_kind_is_never_passed_over(value: bytes) -> None:
    loader = quiet(Shown())

    with pytest.raises(MetadataError, match="offset 0"):
        loader.batch(0, [value])


@pytest.mark.spec("S5")
def test_a_log_that_is_read_again_may_begin_with_a_snapshot_of_an_earlier_offset() -> None:
    shown = Shown()
    loader = quiet(shown)
    loader.batch(9, values(acl_record(DENY)))

    loader.reload_until(5)
    loader.snapshot(2, values(acl_record(ALLOW)))
    before = shown.acl_names[-1]
    loader.batch(4, [])

    assert (before, shown.acl_names[-1], loader.applied_offset) == ({"foo"}, {"*"}, 4)


@pytest.mark.spec("Q9")
def test_only_entities_whose_limits_really_change_are_reported() -> None:
    shown = Shown()
    loader = loaded(shown)
    loader.batch(0, values(quota_record(BOB, "producer_byte_rate", 1.0)))

    loader.batch(
        3,
        values(
            quota_record(QuotaEntity(client_id=DEFAULT), "producer_byte_rate", 2.0),
            quota_record(BOB, "producer_byte_rate", 1.0),
            quota_record(QuotaEntity(user="carol"), "consumer_byte_rate", None),
        ),
    )

    assert shown.changed[1:] == [("users/bob",), ("clients/<default>",)]
