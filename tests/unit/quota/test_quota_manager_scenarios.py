"""The scenarios of Kafka's ClientQuotaManagerTest as data: who is limited by what, and who is throttled.

All within one ms, as there: what is recorded adds up. The rates and spikes are in test_rate.py, the same for
request_percentage in test_request_time.py.
"""

from dataclasses import dataclass

import pytest

from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.quota.keys import PRODUCER_BYTE_RATE
from proxy.quota.throttle import UNLIMITED, Bucket, ClientQuotas
from tests.support.metadata_log import quotas_image
from tests.unit.quota.test_throttle import NOW, Settings

SAMPLES = 11
NO_LIMIT = None


@dataclass(frozen=True)
class Put:
    """The quota of an entity is set, or removed."""

    entity: QuotaEntity
    limit: float | None


@dataclass(frozen=True)
class Check:
    """What limits a client, and whether so many bytes, once for each sample, are too many."""

    user: str
    client_id: str
    limit: float | None
    value: float
    throttled: bool


class Proxy:
    def __init__(self, samples: int = SAMPLES) -> None:
        self._quotas = ClientQuotas(Settings(samples))
        self._limits: dict[QuotaEntity, float] = {}
        self._image = quotas_image({})

    def goes_through(self, *steps: Put | Check) -> None:
        for step in steps:
            if isinstance(step, Put):
                self.put(step.entity, step.limit)
            else:
                self.check(step)

    def put(self, entity: QuotaEntity, limit: float | None) -> None:
        self._limits.pop(entity, None)
        if limit is not None:
            self._limits[entity] = limit
        self._image = quotas_image({each: {PRODUCER_BYTE_RATE: x} for each, x in self._limits.items()})

    def bucket(self, user: str, client_id: str) -> Bucket:
        return self._quotas.bucket(PRODUCER_BYTE_RATE, self._image, user, client_id)

    def check(self, check: Check) -> None:
        bucket = self.bucket(check.user, check.client_id)
        throttle_ms = bucket.record(check.value * SAMPLES, NOW)
        assert (throttle_ms > 0) == check.throttled, f"{check}: {throttle_ms} ms"
        if check.limit is NO_LIMIT:
            assert bucket is UNLIMITED
            assert bucket.max_in_window_bytes == 2**31 - 1
        else:
            assert bucket.limit == check.limit, check
            assert bucket.max_in_window_bytes == (SAMPLES - 1) * check.limit


def user(name: str) -> QuotaEntity:
    return QuotaEntity(user=name)


def both(name: str, client_id: str) -> QuotaEntity:
    return QuotaEntity(user=name, client_id=client_id)


EVERY_USER = QuotaEntity(user=DEFAULT)
EVERY_CLIENT = QuotaEntity(client_id=DEFAULT)
EVERY_USER_AND_CLIENT = QuotaEntity(user=DEFAULT, client_id=DEFAULT)

PRECEDENCE: list[Put | Check] = [
    Put(EVERY_USER, 1000),
    Put(EVERY_CLIENT, 2000),
    Put(EVERY_USER_AND_CLIENT, 3000),
    Put(user("userA"), 4000),
    Put(both("userA", "client1"), 5000),
    Put(user("userB"), 6000),
    Put(both("userB", "client1"), 7000),
    Put(QuotaEntity(user="userB", client_id=DEFAULT), 8000),
    Put(user("userC"), 10000),
    Put(QuotaEntity(client_id="client1"), 9000),
    # A user with a client-id has its own; the user's is shared by all of its other client-ids.
    Check("userA", "client1", 5000, 4500, False),
    Check("userA", "client2", 4000, 4500, True),
    Check("userA", "client3", 4000, 0, True),
    Check("userA", "client1", 5000, 0, False),
    # The user's default for client-ids gives each of them its own.
    Check("userB", "client1", 7000, 8000, True),
    Check("userB", "client2", 8000, 7000, False),
    Check("userB", "client3", 8000, 7000, False),
    Check("userC", "client1", 10000, 9000, False),
    Check("userD", "client1", 3000, 3500, True),
    Check("userD", "client2", 3000, 2500, False),
    Check("userE", "client1", 3000, 2500, False),
    # Without the default of users and client-ids the users' takes over: another quota-id, counted anew.
    Put(EVERY_USER_AND_CLIENT, NO_LIMIT),
    Check("userD", "client1", 1000, 0, False),
    Check("userE", "client4", 1000, 1500, True),
    Check("userF", "client4", 1000, 800, False),
    Check("userF", "client5", 1000, 800, True),
    # Without that one the client-ids', shared over all users.
    Put(EVERY_USER, NO_LIMIT),
    Check("userF", "client4", 2000, 0, False),
    Check("userF", "client5", 2000, 0, False),
    Check("userF", "client5", 2000, 2500, True),
    Check("userG", "client5", 2000, 0, True),
    # A changed limit holds for what was used before.
    Put(user("userA"), 8000),
    Put(both("userA", "client1"), 10000),
    Check("userA", "client2", 8000, 0, False),
    Check("userA", "client2", 8000, 4500, True),
    Check("userA", "client1", 10000, 0, False),
    Check("userA", "client1", 10000, 6000, True),
    Put(both("userA", "client1"), NO_LIMIT),
    Check("userA", "client6", 8000, 0, True),
    Put(both("userA", "client6"), 11000),
    Check("userA", "client6", 11000, 8500, False),
    Put(QuotaEntity(user="userA", client_id=DEFAULT), 12000),
    Put(both("userA", "client6"), NO_LIMIT),
    Check("userA", "client6", 12000, 4000, True),
]


@pytest.mark.spec("Q2", "Q4", "Q6", "Q8")
def test_the_precedence_of_kafkas_own_test() -> None:
    Proxy().goes_through(*PRECEDENCE)


@pytest.mark.spec("Q6", "Q8")
@pytest.mark.parametrize("entity", [EVERY_USER, user("userA"), both("userA", "client1")])
def test_a_quota_that_is_removed_limits_nobody_any_more(entity: QuotaEntity) -> None:
    Proxy().goes_through(
        Check("userA", "client1", NO_LIMIT, 1000, False),
        Put(entity, 10),
        Check("userA", "client1", 10, 1000, True),
        Put(entity, NO_LIMIT),
        Check("userA", "client1", NO_LIMIT, 1000, False),
    )


@pytest.mark.spec("Q6", "Q8")
@pytest.mark.parametrize(
    ("one", "other", "default", "name"),
    [
        (QuotaEntity(client_id="p1"), QuotaEntity(client_id="p2"), EVERY_CLIENT, "ANONYMOUS"),
        (user("User1"), user("User2"), EVERY_USER, "User1"),
        (both("User1", "p1"), both("User2", "p2"), EVERY_USER_AND_CLIENT, "User1"),
    ],
)
def test_a_quota_is_raised_lowered_and_falls_back_to_the_default(
    one: QuotaEntity, other: QuotaEntity, default: QuotaEntity, name: str
) -> None:
    Proxy().goes_through(
        Put(one, 2000),
        Put(other, 4000),
        Check("Random", "random-client-id", NO_LIMIT, 0, False),
        Check(name, "p1", 2000, 2500, True),
        Put(one, 3000),
        Check(name, "p1", 3000, 0, False),
        Put(one, 500),
        Check(name, "p1", 500, 0, True),
        Put(one, NO_LIMIT),
        Put(default, 4000),
        Check(name, "p1", 4000, 1000, False),
    )


@pytest.mark.spec("Q7")
def test_what_one_fetch_may_have_follows_the_number_of_windows() -> None:
    proxy = Proxy(samples=4)
    assert proxy.bucket("userA", "client1").max_in_window_bytes == 2**31 - 1

    proxy.put(EVERY_USER, 10)

    assert proxy.bucket("userA", "client1").max_in_window_bytes == 30


@pytest.mark.spec("Q4", "Q5")
def test_a_client_id_is_shown_as_it_is() -> None:
    proxy = Proxy()
    proxy.put(EVERY_CLIENT, 500)

    assert proxy.bucket("ANONYMOUS", "client@#$%").quota_id == ":client@#$%"
