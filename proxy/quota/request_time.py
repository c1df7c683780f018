"""Time spent on a client's requests in, percent of an event loop out (KIP-124: request_percentage).

Fed with nanoseconds by proxy.session.throttling, for the buckets of proxy.quota.throttle: a bucket of this
key counts percent where others count bytes, and 100 is all of what one loop does in a second.
"""

REQUEST_PERCENTAGE = "request_percentage"

_PERCENT_A_SECOND_OF_ONE_NS = 100.0 / 1_000_000_000


def percent(spent_ns: int) -> float:
    """What `spent_ns` are of a second, as a rate of them a second is what they are of the time."""
    return spent_ns * _PERCENT_A_SECOND_OF_ONE_NS
