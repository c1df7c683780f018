"""Connections by address: counted, measured by Kafka's own numbers, turned away and let in again."""

import pytest

from proxy.metadata.image import QuotasImage
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.quota.connections import (
    MAX_ADDRESSES,
    TOO_FAST,
    TOO_MANY,
    TOO_MANY_OF_ADDRESS,
    TOO_MANY_OF_LISTENER,
    ConnectionLimits,
    ConnectionQuotas,
    RejectedConnection,
    same_address,
)
from proxy.quota.keys import CONNECTION_CREATION_RATE
from proxy.quota.rate import Rate, Rates, unshared
from tests.support.metadata_log import quotas_image

pytestmark = pytest.mark.spec("Q12", "O6")

NOW = 1_700_000_000_000
EXTERNAL, ADMIN = "EXTERNAL", "ADMIN"
HERE, THERE = "192.168.1.1", "192.168.1.2"
NOTHING = QuotasImage()


def rates(of: dict[str | None, float]) -> QuotasImage:
    """None: of addresses that have none of their own."""
    return quotas_image(
        {
            QuotaEntity(ip=DEFAULT if ip is None else ip): {CONNECTION_CREATION_RATE: rate}
            for ip, rate in of.items()
        }
    )


def connected(
    quotas: ConnectionQuotas,
    count: int,
    image: QuotasImage,
    every_ms: int,
    address: str = HERE,
    begin_ms: int = NOW,
) -> list[RejectedConnection | None]:
    """What comes of connections in equal intervals."""
    return [quotas.open(EXTERNAL, address, image, begin_ms + n * every_ms) for n in range(count)]


def let_in(quotas: ConnectionQuotas, count: int, address: str = HERE) -> list[str | None]:
    outcomes = [quotas.open(EXTERNAL, address, NOTHING, NOW) for _ in range(count)]
    return [None if away is None else away.reason for away in outcomes]


def test_without_limits_all_come_in_and_go() -> None:
    quotas = ConnectionQuotas(ConnectionLimits())

    assert connected(quotas, 200, NOTHING, 0) == [None] * 200
    assert (quotas.count, quotas.of_address(HERE), quotas.measured_addresses) == (200, 200, 0)
    for _ in range(200):
        quotas.close(EXTERNAL, HERE)
    assert (quotas.count, quotas.of_address(HERE)) == (0, 0)


def test_the_end_of_a_connection_that_never_was_is_a_fault() -> None:
    with pytest.raises(ValueError, match="no connection from"):
        ConnectionQuotas(ConnectionLimits()).close(EXTERNAL, HERE)


def test_an_address_has_so_many_connections_and_a_place_again_for_each_that_ends() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(max_connections_per_ip=17))

    assert let_in(quotas, 19) == [None] * 17 + [TOO_MANY_OF_ADDRESS] * 2
    assert let_in(quotas, 1, THERE) == [None]
    for _ in range(2):
        quotas.close(EXTERNAL, HERE)
    assert let_in(quotas, 3) == [None, None, TOO_MANY_OF_ADDRESS]
    # Unlike at a broker, one that is turned away never was there.
    assert quotas.of_address(HERE) == 17


def test_an_address_may_have_a_limit_of_its_own() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(max_connections_per_ip=0, per_ip_overrides={HERE: 2}))

    assert let_in(quotas, 3) == [None, None, TOO_MANY_OF_ADDRESS]
    assert let_in(quotas, 1, THERE) == [TOO_MANY_OF_ADDRESS]


def test_a_listener_has_its_own_limit_within_that_of_all() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(max_connections=5, of_listener={EXTERNAL: 3}))

    assert let_in(quotas, 4) == [None, None, None, TOO_MANY_OF_LISTENER]
    others = [quotas.open(ADMIN, HERE, NOTHING, NOW) for _ in range(3)]
    assert others == [None, None, RejectedConnection(TOO_MANY)]
    quotas.close(ADMIN, HERE)
    assert let_in(quotas, 1) == [TOO_MANY_OF_LISTENER]
    quotas.close(EXTERNAL, HERE)
    assert let_in(quotas, 1) == [None]


def test_one_who_hurries_is_turned_away_for_as_long_as_it_takes_and_a_window_at_most() -> None:
    # As Kafka's test has it: two samples of a second, of which one has to be there.
    quotas, image = ConnectionQuotas(ConnectionLimits(), 2, 1), rates({HERE: 10})

    outcomes = connected(quotas, 20, image, 0)

    assert outcomes[:10] == [None] * 10
    # The eleventh would make it 11 a second: (11 - 10) / 10 of a second. It is not counted.
    assert outcomes[10:] == [RejectedConnection(TOO_FAST, 100)] * 10
    assert quotas.count == 10


def test_the_wait_is_never_longer_than_a_window() -> None:
    quotas, image = ConnectionQuotas(ConnectionLimits(), 11, 2), rates({HERE: 0.01})

    assert connected(quotas, 1, image, 0) == [RejectedConnection(TOO_FAST, 2_000)]


def test_in_observe_mode_one_who_hurries_comes_in_and_counts_and_limits_of_the_file_hold() -> None:
    limits = ConnectionLimits(max_connections_per_ip=15)
    quotas, image = ConnectionQuotas(limits, 2, 1, enforced=False), rates({HERE: 10})

    outcomes = connected(quotas, 16, image, 0)

    assert outcomes[:10] == [None] * 10
    assert outcomes[10] == RejectedConnection(TOO_FAST, 100, only_observed=True)
    assert outcomes[14] == RejectedConnection(TOO_FAST, 500, only_observed=True)
    assert outcomes[15] == RejectedConnection(TOO_MANY_OF_ADDRESS)
    assert quotas.count == 15


@pytest.mark.parametrize("every_ms", [40, 50])
def test_who_keeps_to_the_rate_always_comes_in(every_ms: int) -> None:
    quotas, image = ConnectionQuotas(ConnectionLimits(), 2, 1), rates({None: 30})

    assert connected(quotas, 80, image, every_ms) == [None] * 80


def test_who_does_not_comes_in_as_often_as_the_rate_allows() -> None:
    quotas, image = ConnectionQuotas(ConnectionLimits(), 2, 1), rates({None: 20})

    taken = [away is None for away in connected(quotas, 1_000, image, 25)]

    # 40 a second over 25 seconds, 20 of them each second.
    assert sum(taken) == pytest.approx(20 * 25, rel=0.05)


def test_each_address_is_measured_by_itself_and_its_own_quota_goes_before_the_default() -> None:
    quotas, image = ConnectionQuotas(ConnectionLimits(), 2, 1), rates({None: 2, HERE: 3})

    outcomes = [connected(quotas, 5, image, 0, address) for address in (HERE, THERE, "10.0.0.1")]

    assert [sum(away is None for away in each) for each in outcomes] == [3, 2, 2]


def test_another_quota_counts_for_the_next_connection_and_what_was_used_stays_used() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(), 2, 1)

    slow = connected(quotas, 5, rates({HERE: 3}), 0)
    faster = connected(quotas, 5, rates({HERE: 5}), 0)
    gone = connected(quotas, 5, NOTHING, 0)

    assert [sum(away is None for away in each) for each in (slow, faster, gone)] == [3, 2, 5]


@pytest.mark.parametrize(
    ("written", "comes"),
    [
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:DB8::7", "2001:db8:0:0:0:0:0:7"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1", "fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_an_address_is_the_same_however_it_is_written(written: str, comes: str) -> None:
    quotas = ConnectionQuotas(ConnectionLimits(), 2, 1)

    outcomes = connected(quotas, 2, rates({written: 1}), 0, same_address(comes))

    assert outcomes == [None, RejectedConnection(TOO_FAST, 1_000)]


def test_a_host_name_in_the_log_limits_nobody_and_does_no_harm() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(), 2, 1)

    assert connected(quotas, 5, rates({"db.acme.org": 1}), 0) == [None] * 5


def test_the_window_is_over_and_an_address_begins_anew() -> None:
    quotas, image = ConnectionQuotas(ConnectionLimits(), 2, 1), rates({HERE: 3})
    connected(quotas, 5, image, 0)

    assert connected(quotas, 3, image, 0, begin_ms=NOW + 3_000) == [None] * 3


def test_addresses_that_come_no_more_are_forgotten() -> None:
    quotas, image = ConnectionQuotas(ConnectionLimits(), 2, 1), rates({None: 5})
    for number in range(20_000):
        quotas.open(EXTERNAL, f"10.0.{number >> 8}.{number & 255}", image, NOW + 10 * number)

    assert quotas.measured_addresses < 2_000


@pytest.mark.spec("Q14")
def test_addresses_beyond_the_room_share_one_rate_with_the_limit_of_one() -> None:
    quotas, image = ConnectionQuotas(ConnectionLimits(), 2, 1), rates({None: 5, HERE: 5})
    for number in range(MAX_ADDRESSES):
        quotas.open(EXTERNAL, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", image, NOW)

    others = [quotas.open(EXTERNAL, f"11.0.0.{number}", image, NOW) for number in range(100)]

    assert sum(rejected is None for rejected in others) == 5
    assert quotas.open(EXTERNAL, HERE, image, NOW) is None
    assert (quotas.measured_addresses, quotas.others_count) == (MAX_ADDRESSES + 2, 100)


@pytest.mark.spec("Q13")
def test_another_governing_entity_of_an_address_brings_its_scope() -> None:
    """The rate of an address with a quota of its own is counted elsewhere: there it is over the limit."""
    elsewhere = Rate()
    elsewhere.record(1_000, NOW)

    def rates_of(_key: str, entity: QuotaEntity | None) -> Rates:
        return (lambda *_: elsewhere) if entity == QuotaEntity(ip=HERE) else unshared

    quotas = ConnectionQuotas(ConnectionLimits(), rates_of=rates_of)

    assert connected(quotas, 1, rates({None: 10.0}), 0) == [None]
    (away,) = connected(quotas, 1, rates({HERE: 10.0}), 0)
    assert away is not None
    assert away.reason == TOO_FAST
