"""docs/tampering.md: the matrix as tables, written from a run, and read to compare another run with it."""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.lab.tampering.reasons import reason
from tests.lab.tampering.tables import ACTORS
from tests.lab.tampering.topics import ANYBODY, WITH_KEY, WITHOUT_KEY, Cell

PAGE = Path("docs/tampering.md")
SHOWN = 3
"""A cell names at most so many checks."""
NOT_MADE = "n/a"
Matrix = Mapping[Cell, Sequence[set[str]]]
"""Cell -> what finds each edit of it."""

WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
"""The prose of the page."""


def text_of(cell: Cell, found: Sequence[set[str]]) -> str:
    """The text of one cell. ValueError if an edit is not found and there is no reason."""
    names = sorted(set().union(*found))
    shown = ", ".join(f"`{name}`" for name in names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
    count = sum(map(bool, found))
    if count == len(found):
        return shown
    why = reason(cell)
    if why is None:
        raise ValueError(f"nothing finds it, and there is no reason: {cell}")
    return f"{shown} in {count} of {len(found)}, [{why}](#reasons)" if count else f"[{why}](#reasons)"


def texts_of(matrix: Matrix) -> dict[Cell, str]:
    """The text of each cell."""
    return {cell: text_of(cell, found) for cell, found in matrix.items()}


def write(texts: Mapping[Cell, str]) -> str:
    """The whole page."""
    sections = [
        _section(place, {cell: text for cell, text in texts.items() if cell.place == place})
        for place in WORDS["places"]
    ]
    why = "\n".join(f"* **{letter}.** {text}" for letter, text in WORDS["reasons"].items())
    return f"{WORDS['introduction']}\n{''.join(sections)}## Reasons\n\n{why}\n"


def _section(place: str, texts: Mapping[Cell, str]) -> str:
    of_section = {cell.actor for cell in texts}
    actors = [actor for actor in (WITHOUT_KEY, WITH_KEY, ANYBODY, *ACTORS) if actor in of_section]
    rows: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for item, action in dict.fromkeys((cell.item, cell.action) for cell in texts):
        row = tuple(texts.get(Cell(place, item, action, actor), NOT_MADE) for actor in actors)
        rows.setdefault((action, row), []).append(item)
    lines = [
        f"## {place[0].upper()}{place[1:]}\n",
        *([f"{WORDS['sections'][place]}\n"] if place in WORDS["sections"] else []),
        f"| what | | {' | '.join(actors)} |",
        "|---" * (len(actors) + 2) + "|",
        *(
            f"| {'; '.join(_named(item) for item in items)} | {action} | {' | '.join(row)} |"
            for (action, row), items in rows.items()
        ),
    ]
    return "\n".join(lines) + "\n\n"


def _named(item: str) -> str:
    return f"`{item}`" if re.fullmatch(r"[a-z_0-9]+", item) else item


def read(page: str) -> dict[Cell, str]:
    """Cell -> its text on the page."""
    found: dict[Cell, str] = {}
    for section in page.split("\n## ")[1:]:
        title, *lines = section.splitlines()
        place = title[0].lower() + title[1:]
        rows = [
            [part.strip() for part in line.strip("|").split("|")] for line in lines if line.startswith("|")
        ]
        for items, action, *texts in rows[2:]:
            for item in items.split("; "):
                for actor, text in zip(rows[0][2:], texts, strict=True):
                    if text != NOT_MADE:
                        found[Cell(place, item.strip("`"), action, actor)] = text
    return found


def differences(known: Mapping[Cell, str], now: Mapping[Cell, str]) -> list[str]:
    """The cells that are not the same on the page as in a run."""
    return [
        f"{' / '.join(cell)}\n  on the page: {known.get(cell)}\n  in this run: {now.get(cell)}"
        for cell in sorted(known.keys() | now.keys())
        if known.get(cell) != now.get(cell)
    ]


def collected(pairs: Iterable[tuple[Cell, set[str]]]) -> dict[Cell, list[set[str]]]:
    """Cell -> what finds each of its edits."""
    matrix: dict[Cell, list[set[str]]] = {}
    for cell, found in pairs:
        matrix.setdefault(cell, []).append(found)
    return matrix
