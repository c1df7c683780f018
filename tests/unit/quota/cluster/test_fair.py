"""Max-min fair shares, by examples and by their defining properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.quota.cluster.coordinator import fair_shares, shares_with_headroom

pytestmark = pytest.mark.spec("Q13")

DEMANDS = st.lists(st.floats(0, 1), max_size=12)
CAPACITY = st.floats(0, 1)


@pytest.mark.parametrize(
    ("demands", "capacity", "shares"),
    [
        ([], 0.98, []),
        ([0.2, 0.3], 0.9, [0.2, 0.3]),
        ([1.0, 1.0, 1.0], 0.9, [0.3, 0.3, 0.3]),
        ([0.1, 1.0, 1.0], 0.9, [0.1, 0.4, 0.4]),
        ([1.0, 0.05, 0.3], 0.75, [0.4, 0.05, 0.3]),
        ([1.0], 0.0, [0.0]),
    ],
)
def test_who_wants_less_than_the_level_gets_it_and_the_others_share_the_rest(
    demands: list[float], capacity: float, shares: list[float]
) -> None:
    assert fair_shares(demands, capacity) == pytest.approx(shares)


@given(DEMANDS, CAPACITY)
def test_nobody_gets_less_than_the_smaller_one_of_demand_and_equal_part(
    demands: list[float], capacity: float
) -> None:
    shares = fair_shares(demands, capacity)

    equal = capacity / len(demands) if demands else 0
    assert all(
        min(demand, equal) - 1e-9 <= share <= demand for demand, share in zip(demands, shares, strict=True)
    )
    assert sum(shares) == pytest.approx(min(sum(demands), capacity), abs=1e-9)


@given(DEMANDS, CAPACITY)
def test_what_is_left_over_is_handed_out_among_those_with_a_demand(
    demands: list[float], capacity: float
) -> None:
    shares = shares_with_headroom(demands, capacity)

    wanting = any(demand > 1e-6 for demand in demands)
    assert sum(shares) <= capacity + 1e-9
    assert not wanting or sum(shares) == pytest.approx(capacity, abs=1e-9)
    assert all(share == 0 for demand, share in zip(demands, shares, strict=True) if demand == 0)


def test_half_of_what_is_left_over_follows_demand_and_half_is_divided_equally() -> None:
    assert shares_with_headroom([0.1, 0.3], 0.8) == pytest.approx([0.1 + 0.05 + 0.1, 0.3 + 0.15 + 0.1])
