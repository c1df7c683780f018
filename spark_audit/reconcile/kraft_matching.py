"""Matches changes of the same content with the requests that claim them.

Runs in a UDF, over the few rows of one content. Each claim takes one change, as early as possible, and the
claim that ends first goes first, so that as many as possible are matched. Does not import Spark.
"""

from heapq import heappop, heappush


def matched(
    offsets: list[int] | None, claims: list[tuple[int, int, str]] | None
) -> tuple[list[int], list[str]]:
    """Return the offsets that a claim (first offset, last offset, id) takes, and the ids that took none."""
    waiting = sorted(claims or [], reverse=True)
    open_claims: list[tuple[int, str]] = []
    taken, unmatched = [], []
    for offset in sorted(offsets or []):
        while waiting and waiting[-1][0] <= offset:
            _, last, claim_id = waiting.pop()
            heappush(open_claims, (last, claim_id))
        while open_claims and open_claims[0][0] < offset:
            unmatched.append(heappop(open_claims)[1])
        if open_claims:
            heappop(open_claims)
            taken.append(offset)
    return taken, sorted([*unmatched, *(each[1] for each in open_claims), *(each[2] for each in waiting)])
