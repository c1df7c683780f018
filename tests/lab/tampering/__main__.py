"""`python -m tests.lab.tampering`: compares docs/tampering.md with a run, or writes it (`--write`).

With `--edits N --seed S`: random edits. Exit code 1 if an edit is not found that the page calls found, or if
the page is not that of the run.
"""

import argparse
import sys
from collections.abc import Sequence

from spark_audit import session
from tests.lab.cluster.saying import say
from tests.lab.tampering import matrix, page, sampling
from tests.support.spark_session import FOR_A_DOZEN_ROWS


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.tampering", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {page.PAGE}")
    parser.add_argument("--parts", nargs="+", choices=matrix.PARTS, default=list(matrix.PARTS))
    parser.add_argument("--edits", type=int, default=0, help="so many random edits instead of the matrix")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    arguments = parser.parse_args(argv)
    spark = session.open_session(
        "local[2]", settings=sampling.FOR_MANY_ROWS if arguments.edits else FOR_A_DOZEN_ROWS
    )
    try:
        if arguments.edits:
            return sampling.run(spark, arguments.edits, arguments.seed, say)
        found = page.texts_of(page.collected(matrix.judged_parts(spark, arguments.parts, say)))
    finally:
        spark.stop()
    places = {cell.place for cell in found}
    before = page.read(page.PAGE.read_text(encoding="utf-8")) if page.PAGE.exists() else {}
    if arguments.write:
        others = {cell: text for cell, text in before.items() if cell.place not in places}
        page.PAGE.write_text(page.write(others | found), encoding="utf-8")
        return 0
    other = page.differences({cell: text for cell, text in before.items() if cell.place in places}, found)
    for line in other:
        say(line)
    return int(bool(other))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
