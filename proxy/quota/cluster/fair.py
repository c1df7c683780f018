"""Max-min fair shares: the water level at which the demands above it fill what is left."""

from collections.abc import Sequence


def fair_shares(demands: Sequence[float], capacity: float) -> list[float]:
    """Return a share for each demand; their sum is the smaller one of `capacity` and all demands.

    A demand up to the water level gets what it wants; all others get the level.
    """
    shares = [0.0] * len(demands)
    left = max(capacity, 0.0)
    order = sorted(range(len(demands)), key=demands.__getitem__)
    for place, index in enumerate(order):
        shares[index] = min(demands[index], left / (len(order) - place))
        left -= shares[index]
    return shares


def shares_with_headroom(demands: Sequence[float], capacity: float) -> list[float]:
    """Return fair shares, and hand out what is left over: half in proportion to demand, half in equal parts.

    So no member is throttled while capacity is unused. A demand of 0 gets nothing.
    """
    shares = fair_shares(demands, capacity)
    total = sum(shares)
    left = capacity - total
    wanting = sum(1 for demand in demands if demand > 0)
    if left <= 0 or not wanting:
        return shares
    return [share + (left / 2) * (share / total + 1 / wanting) if share > 0 else 0.0 for share in shares]
