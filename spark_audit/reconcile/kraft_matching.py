"""Changes of one and the same content, and the requests that claim them: which belongs to which.

Runs in a UDF, over the few that have one content: each claim takes one change, as early as it can, the claim
that ends first before the others, so that as many as possible find each other. Imports nothing of Spark.
"""

from heapq import heappop, heappush


def matched(
    offsets: list[int] | None, claims: list[tuple[int, int, str]] | None
) -> tuple[list[int], list[str]]:
    """Offsets that a claim (first offset, last offset, id) takes, and the ids that took none."""
    waiting = sorted(claims or [], reverse=True)
    open_claims: list[tuple[int, str]] = []
    taken, unmet = [], []
    for offset in sorted(offsets or []):
        while waiting and waiting[-1][0] <= offset:
            _, last, claim_id = waiting.pop()
            heappush(open_claims, (last, claim_id))
        while open_claims and open_claims[0][0] < offset:
            unmet.append(heappop(open_claims)[1])
        if open_claims:
            heappop(open_claims)
            taken.append(offset)
    return taken, sorted([*unmet, *(each[1] for each in open_claims), *(each[2] for each in waiting)])
