"""Why no check finds an edit: the letters of the reasons in words.toml."""

from tests.lab.tampering.tables import BY_KEY
from tests.lab.tampering.topics import DUPLICATE, INSERT, LOG_TOPIC, SPOOL, WITH_KEY, Cell

KEY, RUNS, COPY, PLACE, STORED = "K", "R", "C", "M", "P"


def reason(cell: Cell) -> str | None:
    """The letter of the reason for which this edit need not be found, None if there is none."""
    if cell.action == DUPLICATE or "that no version names" in cell.item or "statistics" in cell.item:
        return COPY
    if cell.item == "the position" and cell.place == SPOOL:
        return COPY
    if "put back" in cell.item:
        return STORED
    if cell.place == LOG_TOPIC and cell.action != INSERT:
        return PLACE
    if cell.actor == BY_KEY or (cell.actor == WITH_KEY and cell.place.startswith("file")):
        return RUNS
    return KEY if cell.actor == WITH_KEY else None
