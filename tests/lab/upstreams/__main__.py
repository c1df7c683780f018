"""`make upstreams`: runs the core in front of each release, and writes the table of docs/tested-with.md."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.lab.cluster.release import Release
from tests.lab.upstreams import suite, table

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tested-with.md"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.upstreams", description=__doc__)
    parser.add_argument(
        "releases", nargs="*", type=Release.of, default=suite.RELEASES, metavar="VERSION[-zookeeper]"
    )
    parser.add_argument(
        "--part",
        choices=suite.PARTS,
        action="append",
        help="only these tests; the other cells are left as they are",
    )
    arguments = parser.parse_args(argv)
    failed = 0
    rows = list(dict.fromkeys(row for part in suite.PARTS.values() for row, _ in part.rows))
    for release in arguments.releases:
        with tempfile.TemporaryDirectory(prefix="upstreams-") as directory:
            outcomes = list(suite.run(release, Path(directory), arguments.part or suite.PARTS))
        page = PAGE.read_text(encoding="utf-8")
        columns = {str(release): table.cells(outcomes)}
        PAGE.write_text(table.written(page, rows, columns), encoding="utf-8")
        faults = [outcome.test for outcome in outcomes if outcome.result == "failed"]
        report = [f"Kafka {release}: {len(outcomes)} tests, {len(faults)} of them failed", *faults]
        sys.stdout.write("\n  ".join(report) + "\n")
        sys.stdout.flush()
        failed += len(faults)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
