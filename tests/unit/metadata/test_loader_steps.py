"""A large batch applied in steps: what it comes to, and what serves until the last of them."""

import pytest

from proxy.metadata.delta import MetadataError
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import STEP_ENTITIES, STEP_RECORDS
from proxy.metadata.quota_entity import QuotaEntity
from proxy.wire import types
from tests.support.metadata_log import acl_record, quota_record, values
from tests.unit.metadata.test_loader import BOB, DENY, Shown, loaded


def many(count: int) -> list[bytes]:
    """So many records, of every second entity one that takes its limit back."""
    names = [f"user-{number // 2 if number % 4 == 3 else number}" for number in range(count)]
    return values(
        *(
            quota_record(QuotaEntity(user=name), "producer_byte_rate", None if number % 4 == 3 else 1.0)
            for number, name in enumerate(names)
        )
    )


@pytest.mark.spec("O8", "S2", "S5")
def test_a_large_batch_is_applied_in_small_steps_and_appears_after_the_last_of_them() -> None:
    at_once, in_steps = Shown(), Shown()
    records = many(10 * STEP_RECORDS)
    loaded(at_once).batch(len(records) - 1, records)
    loader = loaded(in_steps)

    seen = [(loader.image, loader.next_offset) for _ in loader.batch_steps(len(records) - 1, records)]

    assert seen == [(MetadataImage.EMPTY, 0)] * 10
    assert (in_steps.images, in_steps.changed) == (at_once.images, at_once.changed)
    assert len(in_steps.images) == 2


@pytest.mark.spec("E13", "O8")
def test_no_offset_counts_as_applied_before_its_image_is_shown() -> None:
    shown = Shown()
    loader = loaded(shown)
    records = many(2 * STEP_ENTITIES)

    seen = {
        (loader.applied_offset, loader.image.offset) for _ in loader.batch_steps(len(records) - 1, records)
    }

    assert seen == {(-1, -1)}
    assert loader.applied_offset == loader.image.offset == len(records) - 1


@pytest.mark.spec("O8", "S5")
def test_the_old_image_serves_while_a_snapshot_is_applied_in_steps() -> None:
    shown = Shown()
    loader = loaded(shown)
    before = loader.batch(0, values(acl_record(DENY)))
    records = many(5 * STEP_RECORDS)

    seen = [loader.image for _ in loader.snapshot_steps(len(records), records)]

    assert all(image is before for image in seen)
    assert len(seen) >= 5
    assert (loader.image.acls.count, loader.image.offset) == (0, len(records))


@pytest.mark.spec("O8", "S2")
def test_an_aborted_transaction_of_many_steps_leaves_nothing() -> None:
    shown = Shown()
    loader = loaded(shown)
    records = [
        *values(quota_record(BOB, "producer_byte_rate", 1.0), types.BeginTransactionRecord(name="t")),
        *many(3 * STEP_RECORDS),
        *values(types.AbortTransactionRecord(reason="r")),
    ]

    loader.batch(len(records) - 1, records)

    assert list(loader.image.quotas.limits) == [BOB]
    assert shown.changed[-1] == ("users/bob",)


@pytest.mark.spec("O8", "S2")
def test_a_batch_that_is_not_applied_to_its_end_stops_the_loader() -> None:
    loader = loaded(Shown())
    records = many(3 * STEP_RECORDS)
    steps = loader.batch_steps(len(records) - 1, records)
    next(steps)

    steps.close()  # type: ignore[attr-defined]

    with pytest.raises(
        MetadataError, match=f"the batch that ends at offset {len(records) - 1} was applied in part only"
    ):
        loader.batch(len(records), records[:1])
