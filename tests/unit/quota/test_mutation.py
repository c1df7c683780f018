"""controller_mutation_rate: token buckets by Kafka's own numbers, who shares one, what is strict."""

import pytest

from forwarding.controller.controller import CONTROLLER_APIS
from proxy.metadata.image import QuotasImage
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.quota.keys import CONTROLLER_MUTATION_RATE
from proxy.quota.mutation import MAX_BUCKETS, MutationQuota, MutationQuotas, TokenBucket
from proxy.quota.precedence import OTHERS
from proxy.wire.api_keys import ApiKey
from tests.support.metadata_log import quotas_image

pytestmark = pytest.mark.spec("Q12")

NOW = 1_700_000_000_000
SECOND = 1_000
CREATE, DELETE, PARTITIONS = ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS


def limits(limits: dict[QuotaEntity, float]) -> QuotasImage:
    return quotas_image({entity: {CONTROLLER_MUTATION_RATE: limit} for entity, limit in limits.items()})


ALICE_TEN = limits({QuotaEntity(user="alice"): 10})


def quota(
    quotas: MutationQuotas,
    image: QuotasImage = ALICE_TEN,
    strict: bool = True,
    user: str = "alice",
    client_id: str = "cli",
    now_ms: int = NOW,
) -> MutationQuota:
    found = quotas.of_request(strict, image, user, client_id, now_ms)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "steps",
    [
        # TokenBucketTest: 5 a second, 20 s of burst. (seconds later, taken, remaining)
        [(0, 0, 100), (0, 60, 40), (2, 5, 45), (2, 60, -5)],
        [(0, -60, 100), (2, 60, 40), (2, -60, 100)],
    ],
    ids=["record", "unrecord"],
)
def test_a_bucket_holds_what_kafkas_holds(steps: list[tuple[int, int, float]]) -> None:
    bucket, now_ms = TokenBucket(5, 20, NOW), NOW
    for seconds, taken, remaining in steps:
        now_ms += seconds * SECOND
        assert bucket.take(taken, now_ms) == pytest.approx(remaining)


@pytest.mark.parametrize(
    ("overdrawn", "throttle_ms"), [(0, None), (5, 500), (10, 1_000), (0.01, 1), (0.001, 0)]
)
def test_an_overdrawn_bucket_says_how_long_it_takes_to_fill(overdrawn: float, throttle_ms: int) -> None:
    bucket = TokenBucket(10, 1, NOW)
    bucket.take(10 + overdrawn, NOW)

    assert bucket.overdrawn_ms(NOW) == throttle_ms


def test_a_limit_near_zero_throttles_as_long_as_the_wire_says() -> None:
    bucket = TokenBucket(5e-324, 11, NOW)
    bucket.take(1, NOW)

    assert bucket.overdrawn_ms(NOW) == 2**31 - 1


def test_a_strict_quota_refuses_once_the_bucket_is_overdrawn_and_not_for_the_size_of_a_request() -> None:
    asked = quota(MutationQuotas(10, 1))

    assert [asked.record(90, NOW), asked.record(90, NOW), asked.throttle_time_ms(NOW)] == [True, True, 0]
    assert not asked.record(90, NOW)
    assert asked.throttle_time_ms(NOW) == 8_000
    assert asked.throttle_time_ms(NOW + 5_000) == 3_000
    assert asked.throttle_time_ms(NOW + 9_000) == 0


def test_a_permissive_quota_refuses_nothing_and_tells_how_long_to_wait() -> None:
    asked = quota(MutationQuotas(10, 1), strict=False)

    reported = [(asked.record(90, NOW), asked.throttle_time_ms(NOW)) for _ in range(3)]

    assert reported == [(True, 0), (True, 8_000), (True, 17_000)]
    assert asked.throttle_time_ms(NOW + 5_000) == 12_000


def test_a_spike_is_taken_whole_after_a_time_within_the_quota_and_the_next_one_when_it_is_paid_for() -> None:
    quotas, now_ms = MutationQuotas(10, 1), NOW
    for _ in range(10):
        assert quota(quotas, now_ms=now_ms).record(10, now_ms)
        now_ms += SECOND

    assert quota(quotas, now_ms=now_ms).record(110, now_ms)
    refused = quota(quotas, now_ms=now_ms)
    assert not refused.record(110, now_ms)
    assert refused.throttle_time_ms(now_ms) == 1_000
    now_ms += refused.throttle_time_ms(now_ms)
    assert quota(quotas, now_ms=now_ms).record(110, now_ms)


def test_the_burst_is_the_whole_time_of_all_windows() -> None:
    asked = quota(MutationQuotas(5, 4), strict=False)

    asked.record(10 * 5 * 4, NOW)
    assert asked.throttle_time_ms(NOW) == 0
    asked.record(10, NOW)
    assert asked.throttle_time_ms(NOW) == SECOND


@pytest.mark.parametrize(
    ("api_key", "version", "strict"),
    [
        (CREATE, 6, True),
        (CREATE, 5, False),
        (DELETE, 5, True),
        (DELETE, 4, False),
        (PARTITIONS, 3, True),
        (PARTITIONS, 2, False),
    ],
)
def test_versions_whose_clients_know_the_error_are_refused_with_it(
    api_key: ApiKey, version: int, strict: bool
) -> None:
    charge = CONTROLLER_APIS[api_key].charge
    assert charge is not None
    asked = quota(MutationQuotas(), strict=version >= charge.strict_since)
    asked.record(111, NOW)

    assert asked.record(1, NOW) is not strict


def test_without_a_quota_or_where_nothing_is_mutated_nothing_governs() -> None:
    quotas = MutationQuotas()

    assert quotas.of_request(True, ALICE_TEN, "bob", "cli", NOW) is None
    assert {key for key, served in CONTROLLER_APIS.items() if served.charge is not None} == {
        CREATE,
        DELETE,
        PARTITIONS,
    }
    assert len(quotas) == 0


@pytest.mark.parametrize(
    ("entity", "other", "shared"),
    [
        (QuotaEntity(user="alice"), ("alice", "other"), True),
        (QuotaEntity(user=DEFAULT), ("bob", "cli"), False),
        (QuotaEntity(client_id="cli"), ("bob", "cli"), True),
        (QuotaEntity(client_id=DEFAULT), ("alice", "other"), False),
        (QuotaEntity(user="alice", client_id=DEFAULT), ("alice", "other"), False),
    ],
)
def test_who_shares_a_quota_id_shares_its_tokens(
    entity: QuotaEntity, other: tuple[str, str], shared: bool
) -> None:
    quotas, image = MutationQuotas(), limits({entity: 10})
    quota(quotas, image).record(111, NOW)

    assert quota(quotas, image, user=other[0], client_id=other[1]).record(1, NOW) is not shared


def test_another_limit_counts_at_once_and_what_was_used_stays_used() -> None:
    quotas = MutationQuotas(10, 1)
    quota(quotas).record(110, NOW)
    faster = limits({QuotaEntity(user="alice"): 20})

    refused = quota(quotas, faster)

    assert not refused.record(1, NOW)
    assert refused.throttle_time_ms(NOW) == 500
    assert quota(quotas, faster, now_ms=NOW + 500).record(1, NOW + 500)


def test_a_clock_that_is_set_back_neither_fills_nor_empties_a_bucket() -> None:
    bucket = TokenBucket(10, 1, NOW)
    bucket.take(15, NOW)

    assert bucket.tokens(NOW - 3_600_000) == -5
    assert bucket.tokens(NOW - 3_599_000) == 5


def test_clients_that_used_nothing_lately_are_forgotten() -> None:
    quotas, image = MutationQuotas(), limits({QuotaEntity(client_id=DEFAULT): 10})
    quota(quotas, image, client_id="busy").record(100_000, NOW)
    for number in range(5_000):
        quota(quotas, image, client_id=f"once-{number}", now_ms=NOW + number).record(1, NOW + number)

    assert len(quotas) < 2_100
    assert not quota(quotas, image, client_id="busy").record(1, NOW)


@pytest.mark.spec("Q14", "O6")
def test_client_ids_beyond_the_room_share_one_bucket_with_the_limit_of_one() -> None:
    quotas, image = (
        MutationQuotas(),
        limits({QuotaEntity(client_id=DEFAULT): 10, QuotaEntity(client_id="own"): 10}),
    )
    for number in range(MAX_BUCKETS + 1_000):
        asked = quota(quotas, image, client_id=f"c{number}")
        asked.record(200, NOW)

    last = quota(quotas, image, client_id="last")

    assert (last.governing.quota_id, last.governing.limit) == (f":{OTHERS}", 10)
    assert last.record(1, NOW) is False
    assert quota(quotas, image, client_id="own").governing.quota_id == ":own"
    assert (len(quotas), quotas.others_count) == (MAX_BUCKETS + 2, 1_001)


def test_a_client_that_always_names_another_one_makes_no_request_go_through_all_buckets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxy.quota.mutation.MAX_BUCKETS", 500)
    quotas, image = MutationQuotas(), limits({QuotaEntity(client_id=DEFAULT): 10})
    looked_at, is_full = 0, TokenBucket.is_full

    def counted(bucket: TokenBucket, now_ms: int) -> bool:
        nonlocal looked_at
        looked_at += 1
        return is_full(bucket, now_ms)

    monkeypatch.setattr(TokenBucket, "is_full", counted)
    for number in range(2_000):
        quota(quotas, image, client_id=f"c{number}").record(200, NOW)

    assert looked_at <= 3 * 500


def test_what_is_only_observed_is_taken_and_known() -> None:
    quotas = MutationQuotas(enforced=False)
    asked = quota(quotas)

    assert all(asked.record(111, NOW) for _ in range(2))
    assert (asked.enforced, asked.throttle_time_ms(NOW)) == (False, 11_200)


def test_only_buckets_that_are_not_full_are_shown() -> None:
    quotas = MutationQuotas()
    quota(quotas, client_id="idle")
    quota(quotas, limits({QuotaEntity(client_id="busy"): 10}), client_id="busy").record(30, NOW)

    ((found, bucket),) = quotas.used(NOW)

    assert (found.quota_id, found.limit, bucket.tokens(NOW)) == (":busy", 10, 80)
    assert quotas.used(NOW + 3_000) == []


@pytest.mark.spec("O9", "D2")
def test_other_settings_hold_from_the_next_request_and_what_was_used_counts() -> None:
    quotas = MutationQuotas(window_num=1, enforced=False)
    before = quota(quotas)
    assert before.record(30, NOW)
    quotas.follow(enforced=True, excluded=["User:bob"], generation=3)

    after = quota(quotas)

    assert (before.enforced, before.settings_generation) == (False, 0)
    assert (after.enforced, after.settings_generation) == (True, 3)
    assert not after.record(1, NOW)
    assert (quotas.excludes(["User:bob"]), quotas.excludes(["User:alice"])) == (True, False)


@pytest.mark.spec("Q4", "A8")
def test_a_member_has_the_limit_of_its_group_and_no_session_without_it_takes_it_away() -> None:
    quotas = MutationQuotas(11, 1)
    image = limits({QuotaEntity(user="Group:ops"): 2, QuotaEntity(user=DEFAULT): 100})

    def of(user: str, *groups: str) -> MutationQuota:
        found = quotas.of_request(True, image, user, "cli", NOW, groups)
        assert found is not None
        return found

    assert of("alice", "ops").record(30, NOW)
    assert not of("alice", "ops").record(1, NOW)
    assert of("bob", "ops").record(1, NOW)
    assert of("alice").record(1_000, NOW)
    assert of("alice", "ops").throttle_time_ms(NOW) == 0  # Nothing was recorded by this request.

    used = {found.quota_id: (found.limit, bucket.tokens(NOW)) for found, bucket in quotas.used(NOW)}
    assert used == {"alice@ops:": (2, -8), "bob@ops:": (2, 21), "alice:": (100, 100)}
