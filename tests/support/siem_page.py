"""The tables of docs/siem.md, made from the mapping of the export.

    .venv/bin/python -m tests.support.siem_page

writes the tables anew, after the mapping was changed.
"""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from spark_audit.siem import mapping

PAGE = Path(__file__).resolve().parents[2] / "docs" / "siem.md"


def with_tables(text: str) -> str:
    """The page, with the tables as they have to be."""
    tables = {
        "| event | class |": _events(),
        "| operation | OCSF |": _operations(),
        "| field | OCSF |": _fields(),
    }
    lines, is_made = list[str](), False
    for line in text.splitlines():
        head = next((head for head in tables if line.startswith(head)), None)
        is_made = line.startswith("|") and (is_made or head is not None)
        if head is not None:
            lines += [line, "|" + "---|" * (line.count("|") - 1), *tables[head]]
        elif not is_made:
            lines.append(line)
    return "\n".join([*lines, ""])


def _events() -> Iterator[str]:
    for kind, events in groupby(mapping.EVENTS.items(), key=lambda row: row[1]):
        names = ", ".join(f"`{name}`" for name, _ in events)
        activity = "by operation" if kind.activity < 0 else kind.activity
        ocsf = f"{mapping.CLASSES[kind.ocsf_class]} ({kind.ocsf_class}), {activity}"
        cells = (names, kind.event_class, ocsf, kind.severity, kind.category, kind.type or "by operation")
        yield f"| {' | '.join(str(cell) for cell in cells)} |"


def _operations() -> Iterator[str]:
    for (activity, type_), operations in groupby(mapping.ACTIONS.items(), key=lambda row: row[1]):
        yield f"| {', '.join(f'`{name}`' for name, _ in operations)} | {activity} | {type_} |"
    yield "| others | 99 | info |"


def _fields() -> Iterator[str]:
    for field in mapping.FIELDS:
        cells = (f"`{name}`" if name else "" for name in (field.name, field.ocsf, field.ecs))
        yield f"| {' | '.join(cells)} |".replace("|  |", "| |")


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
