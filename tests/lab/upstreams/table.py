"""The table of docs/tested-with.md: a row for each part of the core, a column for each release.

A run replaces the cells of the releases and parts that it has run, and leaves the others as they are.
"""

from collections.abc import Iterable, Mapping, Sequence

from tests.lab.cluster.release import Feature, Release
from tests.lab.upstreams.suite import Outcome

BEGIN, END = "<!-- written by `make upstreams` -->\n", "<!-- end -->\n"
_FIRST = "tests"

Columns = Mapping[str, Mapping[str, str]]
"""Release -> row -> cell."""


def cells(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """The column of a release, by row: how many tests passed, failed and were not offered."""
    counts: dict[str, dict[str, int]] = {}
    for outcome in outcomes:
        row = counts.setdefault(outcome.row, {"passed": 0, "failed": 0, "skipped": 0})
        row[outcome.result] += 1
    return {row: _cell(**count) for row, count in counts.items()}


def _cell(passed: int, failed: int, skipped: int) -> str:
    said = [
        f"{passed} passed" if passed else "",
        f"**{failed} failed**" if failed else "",
        f"{skipped} not offered" if skipped else "",
    ]
    return ", ".join(filter(None, said))


def written(page: str, rows: Sequence[str], columns: Columns) -> str:
    """The page with these columns in its tables; ValueError if it lacks the marks."""
    before, _, rest = page.partition(BEGIN)
    old, _, after = rest.partition(END)
    if not rest or not after:
        raise ValueError(f"the page has no line {BEGIN.strip()!r}, or none {END.strip()!r} after it")
    merged = columns_in(old)
    for release, column in columns.items():
        merged.setdefault(release, {}).update(column)
    releases = sorted(map(Release.of, merged), key=Release.order)
    head = [_FIRST, *(_title(release) for release in releases)]
    lines = [[row, *(merged[str(release)].get(row, "") for release in releases)] for row in rows]
    features = [[feature.text, *(_offered(release, feature) for release in releases)] for feature in Feature]
    body = f"{_markdown(head, lines)}\n{_markdown(['the broker has', *head[1:]], features)}"
    return f"{before}{BEGIN}\n{body}\n{END}{after}"


def _offered(release: Release, feature: Feature) -> str:
    return "yes" if release.has(feature) else "no"


def _title(release: Release) -> str:
    return release.version + (" ZooKeeper" if release.zookeeper else " KRaft")


def _release(title: str) -> str:
    version, mode = title.split()
    return str(Release(version, mode == "ZooKeeper"))


def _markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(head)
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *lines))


def columns_in(tables: str) -> dict[str, dict[str, str]]:
    """What the first of the two tables says."""
    first, _, _ = tables.strip().partition("\n\n")
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in first.splitlines()]
    if not lines:
        return {}
    (_, *titles), _, *rows = lines
    return {_release(title): {row[0]: row[place] for row in rows} for place, title in enumerate(titles, 1)}
