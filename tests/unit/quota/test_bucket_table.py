"""What is kept for client ids, which clients choose: bounded in number and in bytes, and never unlimited."""

import tracemalloc

import pytest

from proxy.metadata.image import QuotasImage
from proxy.metadata.quota_entity import DEFAULT, MAX_NAME_CHARACTERS, QuotaEntity, short_name
from proxy.quota.bucket_table import BUCKET_BYTES, IDLE_MS, MAX_BYTES
from proxy.quota.keys import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from proxy.quota.precedence import OTHERS
from proxy.quota.throttle import Bucket, ClientQuotas
from tests.support.metadata_log import quotas_image
from tests.unit.quota.test_throttle import NOW, SECOND, Settings

pytestmark = pytest.mark.spec("Q14", "O6")

WINDOWS_MS = 20 * SECOND
A_FEW = 10 * (BUCKET_BYTES + 210)
"""Room for a few buckets in all, and half as many for one user."""
OF_EACH = QuotaEntity(client_id=DEFAULT)
LIMIT = 1_000.0


def limits(*entities: QuotaEntity) -> QuotasImage:
    return quotas_image({entity: {PRODUCER_BYTE_RATE: LIMIT} for entity in entities})


def used(
    quotas: ClientQuotas, image: QuotasImage, user: str, client_id: str, at_ms: int = NOW, size: int = 1
) -> Bucket:
    """A client that has a connection no longer, unless the caller holds what is returned."""
    bucket = quotas.bucket(PRODUCER_BYTE_RATE, image, user, client_id, now_ms=at_ms)
    bucket.record(size, at_ms)
    return bucket


def names(quotas: ClientQuotas) -> list[str]:
    return [bucket.quota_id for bucket in quotas.kept]


def test_client_ids_beyond_the_room_share_one_bucket_with_the_limit_of_one() -> None:
    quotas, image = ClientQuotas(Settings(), max_bytes=A_FEW), limits(OF_EACH)

    buckets = [used(quotas, image, "u", f"c{number}", size=2_000) for number in range(1_000)]

    own, others = buckets[0], buckets[-1]
    assert (own.quota_id, others.quota_id, others.limit) == (":c0", f":{OTHERS}", LIMIT)
    assert sum(bucket is others for bucket in buckets) == quotas.others_count[PRODUCER_BYTE_RATE] > 990
    assert len(quotas.kept) < 10
    # What 990 clients have recorded counts together, so all of them wait for all of it.
    assert own.record(0, NOW) == 0
    assert others.record(0, NOW) > 1_000 * SECOND


def test_one_user_leaves_room_for_the_next_one() -> None:
    quotas, image = ClientQuotas(Settings(), max_bytes=A_FEW), limits(OF_EACH)
    for number in range(1_000):
        used(quotas, image, "mallory", f"m{number}")
    of_mallory = len(names(quotas)) - 1

    of_alice = used(quotas, image, "alice", "app")

    assert of_alice.quota_id == ":app"
    assert 4 <= of_mallory <= 5
    for number in range(1_000):
        used(quotas, image, f"user-{number}", f"c{number}")
    assert quotas.kept.used_bytes <= A_FEW


@pytest.mark.parametrize(
    ("entity", "expected"),
    [
        (QuotaEntity(user="alice"), "alice:"),
        (QuotaEntity(user=DEFAULT), "alice:"),
        (QuotaEntity(client_id="app"), ":app"),
        (QuotaEntity(user=DEFAULT, client_id="app"), "alice:app"),
        (QuotaEntity(user="alice", client_id="app"), "alice:app"),
        (QuotaEntity(user="alice", client_id=DEFAULT), f"alice:{OTHERS}"),
        (QuotaEntity(user=DEFAULT, client_id=DEFAULT), f"alice:{OTHERS}"),
        (OF_EACH, f":{OTHERS}"),
    ],
)
def test_without_room_only_names_that_administrators_chose_have_their_own_bucket(
    entity: QuotaEntity, expected: str
) -> None:
    quotas, image = ClientQuotas(Settings(), max_bytes=1), limits(entity)

    found = used(quotas, image, "alice", "app")

    assert (found.quota_id, found.limit) == (expected, LIMIT)


def test_the_static_default_has_others_too() -> None:
    quotas = ClientQuotas(Settings(quota_producer_default=LIMIT), max_bytes=1)

    found = used(quotas, QuotasImage(), "u", "app")

    assert (found.quota_id, found.entity, found.limit) == (f":{OTHERS}", None, LIMIT)


def test_a_changed_limit_holds_for_the_others_at_once() -> None:
    quotas, image = ClientQuotas(Settings(), max_bytes=1), limits(OF_EACH)
    shared = used(quotas, image, "u", "a")

    lower = quotas_image({OF_EACH: {PRODUCER_BYTE_RATE: 10.0}})

    assert used(quotas, lower, "u", "b") is shared
    assert shared.limit == 10.0


def test_idle_buckets_make_room_once_their_windows_are_over() -> None:
    quotas, image = ClientQuotas(Settings(), max_bytes=A_FEW), limits(OF_EACH)
    held = used(quotas, image, "u", "held", size=20_000)
    for number in range(20):
        used(quotas, image, "u", f"old-{number}")
    before = names(quotas)

    soon = used(quotas, image, "u", "soon", NOW + WINDOWS_MS - 1).quota_id
    later = used(quotas, image, "u", "later", NOW + WINDOWS_MS).quota_id

    assert (soon, later) == (f":{OTHERS}", ":later")
    assert len(before) >= 4
    assert {*names(quotas)} == {":held", ":later", f":{OTHERS}"}
    # A session holds it: who connects again finds what was used.
    assert quotas.bucket(PRODUCER_BYTE_RATE, image, "u", "held") is held


def test_a_bucket_that_throttles_is_kept_until_its_time_is_over() -> None:
    quotas, image = ClientQuotas(Settings(), max_bytes=A_FEW), limits(OF_EACH)
    used(quotas, image, "u", "owes", size=1_000_000)
    for number in range(20):
        used(quotas, image, "u", f"c{number}")

    used(quotas, image, "u", "new", NOW + WINDOWS_MS)

    assert ":owes" in names(quotas)
    used(quotas, image, "u", "newer", NOW + IDLE_MS)
    list(quotas.drop_idle(NOW + IDLE_MS))
    assert ":owes" not in names(quotas)


def test_buckets_that_were_never_used_make_room_first() -> None:
    quotas, image = ClientQuotas(Settings(), max_bytes=A_FEW), limits(OF_EACH)

    found = {
        quotas.bucket(PRODUCER_BYTE_RATE, image, "u", f"c{n}", now_ms=NOW).quota_id for n in range(1_000)
    }

    assert len(found) == 1_000
    assert quotas.others_count == {}


def test_few_buckets_stay_for_an_hour_and_many_only_until_their_windows_are_over() -> None:
    image = limits(OF_EACH)
    few, many = ClientQuotas(Settings()), ClientQuotas(Settings(), max_bytes=A_FEW)
    for quotas in (few, many):
        for number in range(4):
            used(quotas, image, "u", f"c{number}")
        list(quotas.drop_idle(NOW + WINDOWS_MS))

    assert len(few.kept) == 4
    # Fewer than an eighth of the room stay.
    assert len(many.kept) == 1


def test_50_000_short_client_ids_of_one_user_have_their_own_buckets() -> None:
    quotas, image = ClientQuotas(Settings()), limits(OF_EACH)

    for number in range(50_000):
        used(quotas, image, "an-ordinary-user", f"connector-consumer-{number:05}")

    assert quotas.others_count == {}
    assert quotas.kept.used_bytes <= MAX_BYTES // 2


@pytest.mark.parametrize("client_id", ["x" * 32_000, "\U0001f600" * 8_000, "é" * 16_000])
def test_long_client_ids_take_no_more_memory_than_is_counted(client_id: str) -> None:
    keys = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)
    image = quotas_image({OF_EACH: dict.fromkeys(keys, LIMIT)})
    quotas = ClientQuotas(Settings(), max_bytes=2**20)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(2_000):
            for key in keys:
                bucket = quotas.bucket(key, image, "u", f"{number}{client_id}", now_ms=NOW)
                for window in range(12):
                    bucket.record(1, NOW + window * SECOND)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert after - before < 2**20
    assert quotas.others_count.total() > 5_000


def test_a_long_client_id_is_known_by_its_beginning_and_a_hash() -> None:
    one, other = "x" * 300, "x" * 299 + "y"

    assert short_name("x" * MAX_NAME_CHARACTERS) == "x" * MAX_NAME_CHARACTERS
    assert short_name(one) != short_name(other)
    assert short_name(one).startswith("x" * 222 + "~")
    assert len(short_name(one)) == MAX_NAME_CHARACTERS
    assert short_name(short_name(one)) == short_name(one)


def test_the_quota_of_a_long_client_id_is_found_by_all_of_it() -> None:
    long = "x" * 1_000
    quotas = ClientQuotas(Settings())
    image = quotas_image(
        {QuotaEntity(client_id=long): {PRODUCER_BYTE_RATE: 5.0}, OF_EACH: {PRODUCER_BYTE_RATE: 7.0}}
    )

    own, other = used(quotas, image, "u", long), used(quotas, image, "u", short_name(long) + "z")

    assert (own.limit, own.quota_id) == (5.0, f":{short_name(long)}")
    assert other.limit == 7.0
