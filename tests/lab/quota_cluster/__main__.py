"""`python -m tests.lab.quota_cluster`: prints the figures of docs/quotas.md and draws their picture."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.lab.cluster.saying import say
from tests.lab.quota_cluster.figures import PATTERNS, traffic, use
from tests.lab.quota_cluster.plot import plot

PICTURE = Path(__file__).resolve().parents[3] / "docs" / "pictures" / "quota-cluster.svg"
TRAFFICS = ((3, 0), (3, 10_000), (50, 10_000), (1000, 0), (1000, 100_000))


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.quota_cluster", description=__doc__)
    parser.add_argument("--only", choices=("use", "traffic"), help="one of the two tables")
    parser.add_argument(
        "--most", type=int, default=50, help="leave out runs with more proxies (1000 take very long)"
    )
    options = parser.parse_args(argv)
    if options.only != "traffic":
        _uses(options.most)
    if options.only != "use":
        _traffics(options.most)
    return 0


def _uses(most: int) -> None:
    say("| proxies | load | used in 30 s | most above the limit | steady after |")
    say("|---|---|---|---|---|")
    uses = [use(proxies, pattern) for proxies in (3, 50, 1000) if proxies <= most for pattern in PATTERNS]
    for found in uses:
        say(
            f"| {found.proxies} | {found.pattern} | {found.used:.1%} | {found.most_beyond:.2f} windows"
            f" | {found.converged_s:.0f} s |"
        )
    PICTURE.write_text(plot([found for found in uses if found.pattern == "moving"]), encoding="utf-8")


def _traffics(most: int) -> None:
    say(
        "| proxies | quota-ids | records/s | kB/s written | a member reads | a member writes at most"
        " | CPU of a member | leased |"
    )
    say("|---|---|---|---|---|---|---|---|")
    for proxies, quota_ids in TRAFFICS:
        if proxies <= most:
            found = traffic(proxies, quota_ids)
            say(
                f"| {proxies} | {quota_ids:,} | {found.written:,.0f} | {found.written_bytes / 1000:,.0f}"
                f" | {found.read:,.0f}/s, {found.read_bytes / 1000:,.0f} kB/s"
                f" | {found.most_written_bytes / 1000:,.1f} kB/s | {found.seconds:.2%}"
                f" | {found.clustered:.0%} |"
            )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
