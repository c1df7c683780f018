"""Formats single values for the reader: numbers, sizes, times, changes. Used by the template."""

import json
import re
from datetime import UTC, datetime

from markupsafe import Markup, escape

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
)

_EXACT = 10**15


def visible(value: object) -> object:
    """Returns a client's text with invisible characters as escapes, so that no name looks like another.

    Those are control characters, marks that change the direction of writing and characters without width.
    """
    if value is None:
        return ""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _escaped(value).replace("\n", "\\n").replace("\t", "\\t")


def _escaped(text: str) -> str:
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def lines(text: str) -> Markup:
    """Returns text with its line breaks."""
    return escape(_escaped(text))


def pretty(value: object) -> Markup:
    """Returns JSON on several lines."""
    return escape(_escaped(json.dumps(value, indent=1, ensure_ascii=False)))


def number(value: float | None) -> str:
    """Formats a count or a quota: 1048576.0 -> 1,048,576. Of more than 15 digits, shows the first ones."""
    if value is None:
        return ""
    return f"{int(value):,}" if abs(value) < _EXACT and value == int(value) else f"{value:,.6g}"


def short(value: float) -> str:
    """Formats a number in little space: 1500000 -> 1.5M."""
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:,.4g}{unit}"
    return f"{value:,.4g}"


def size(count: int | None) -> str:
    """Formats a size: 1536 -> 1.5 KiB."""
    if count is None:
        return ""
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"


def span(milliseconds: float | None) -> str:
    """Formats a duration: 90000 -> 1.5 min."""
    if milliseconds is None:
        return ""
    for limit, divisor, unit in ((1_000, 1, "ms"), (60_000, 1_000, "s"), (3_600_000, 60_000, "min")):
        if milliseconds < limit:
            return f"{milliseconds / divisor:,.3g} {unit}"
    if milliseconds < 172_800_000:
        return f"{milliseconds / 3_600_000:,.1f} h"
    return f"{milliseconds / 86_400_000:,.1f} d"


def stretch(milliseconds: int) -> str:
    """Formats an interval as the unit of an axis: 60000 -> minute, 1800000 -> 30 minutes."""
    for divisor, unit in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second")):
        if milliseconds >= divisor:
            count = milliseconds // divisor
            return unit if count == 1 else f"{count} {unit}s"
    return f"{milliseconds} ms"


def moment(time_ms: int | None) -> str:
    """Formats a moment in UTC."""
    return (
        "" if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    )


def share(part: int, whole: int) -> str:
    """Formats a part in per cent, rounded down: 999,999 of 1,000,000 -> 99.9 %."""
    if not whole or part == whole:
        return "100 %" if whole else "–"
    return f"{int(1000 * part / whole) / 10:g} %"


def change(body: str) -> str:
    """Formats a record of the log on one line: `ALLOW User:alice from * READ TOPIC LITERAL orders`."""
    fields = json.loads(body)
    if "permission_type" in fields:
        who = "{permission_type} {principal} from {host}".format(**fields)
        return "{} {operation} {resource_type} {pattern_type} {resource_name}".format(who, **fields)
    if "key" in fields:
        entity = ", ".join(f"{kind} {name or '<default>'}" for kind, name in fields["entity"].items())
        return f"{entity}: {fields['key']} {'removed' if fields['remove'] else number(fields['value'])}"
    if "mechanism" in fields:
        return "user {name}: {mechanism}".format(**fields)
    return ", ".join(f"{name} {value}" for name, value in fields.items())
