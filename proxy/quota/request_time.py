"""Time spent on a client's requests, in percent of an event loop (KIP-124: request_percentage).

proxy.session.throttling measures nanoseconds. A bucket of this key counts percent where others count bytes;
100 is the whole time of one event loop in a second.
"""

REQUEST_PERCENTAGE = "request_percentage"

_PERCENT_A_SECOND_OF_ONE_NS = 100.0 / 1_000_000_000


def percent(spent_ns: int) -> float:
    """Convert nanoseconds to percent of a second: as a rate per second they are percent of the time."""
    return spent_ns * _PERCENT_A_SECOND_OF_ONE_NS
