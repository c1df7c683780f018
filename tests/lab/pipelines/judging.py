"""Compares what each side passed, and what it told the clients, with the broker."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tests.lab.pipelines.place import BROKER, CLUSTER
from tests.lab.pipelines.running import Ran

PART = 0.05
JITTER_MS = 250
"""How far apart two throttle times may be because a request of one side came so much later."""
WINDOW_S = 10


def faults(ran: Sequence[Ran]) -> list[str]:
    """What is not as at the broker."""
    brokers = {each.client_id: each for each in ran if each.side == BROKER}
    found = [f"{each.case.name} at {each.side}: {error}" for each in ran for error in set(each.seen.errors)]
    for each in ran:
        if each.side != BROKER:
            found += [
                f"{each.case.name} at {each.side}: {fault}" for fault in _of(each, brokers[each.client_id])
            ]
    return found


def _of(ran: Ran, broker: Ran) -> Iterator[str]:
    # In a cluster a throttle time is at most a second, since the share may be another one then.
    in_cluster = ran.side == CLUSTER
    # The first requests of a time limit pass until their sum exceeds it, and each takes what it takes.
    after_s = 0 if ran.case.limit else WINDOW_S
    for what, measured, expected, slack in _measures(ran, broker, after_s):
        if what in _AT_MOST and ran.case.closes:
            continue
        least = 0.0 if in_cluster and what in _AT_MOST else expected
        most = expected
        if what == _BYTES:
            # Within a minute a broker passes the limit or up to a tenth more: it depends on when it pauses.
            limit = ran.case.limit * (len(ran.amounts) - after_s)
            least, most = min(limit, expected), max(limit * (1.1 if in_cluster else 1), expected)
        within = least * (1 - PART) - slack <= measured <= most * (1 + PART) + slack
        if not within:
            yield f"{measured:.0f} {what}, {expected:.0f} at the broker"


_BYTES, _LONGEST, _SUM = "bytes", "ms at the longest", "ms of throttle times"
_AT_MOST = (_LONGEST, _SUM)


def _measures(ran: Ran, broker: Ran, after_s: int) -> Iterator[tuple[str, float, float, float]]:
    """What it is, at a side, at the broker, and the slack beside PART."""
    case = ran.case
    what = _BYTES if case.request_bytes else "responses"
    yield what, _amount(ran, after_s), _amount(broker, after_s), case.request_bytes or case.connections
    longest, at_broker = (max(each.seen.throttle_ms, default=0.0) for each in (ran, broker))
    yield _LONGEST, longest, at_broker, JITTER_MS
    slack_ms = case.connections * max(at_broker, JITTER_MS)
    yield _SUM, sum(ran.seen.throttle_ms), sum(broker.seen.throttle_ms), slack_ms


def _amount(ran: Ran, after_s: int) -> int:
    """Since so many seconds after the beginning."""
    return ran.amounts[-1] - (ran.amounts[after_s - 1] if after_s else 0)


def table(ran: Sequence[Ran]) -> str:
    head = ("case", "side", "amount", f"in each {WINDOW_S} s", "throttled ms: sum", "longest", "responses")
    rows = [head, *(_row(each) for each in ran)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    )


def _row(ran: Ran) -> tuple[str, ...]:
    ends = [0, *ran.amounts[WINDOW_S - 1 :: WINDOW_S]]
    if len(ran.amounts) % WINDOW_S:
        ends.append(ran.amounts[-1])
    seen = ran.seen
    return (
        ran.case.name,
        ran.side,
        str(ran.amounts[-1]),
        " ".join(str(after - before) for before, after in pairwise(ends)),
        f"{sum(seen.throttle_ms):.0f}",
        f"{max(seen.throttle_ms, default=0):.0f}",
        str(seen.answers),
    )
