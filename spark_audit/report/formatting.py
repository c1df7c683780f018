"""Formats single values for the reader: numbers, sizes, times, changes. Used by the template."""

import json
import math
import re
from datetime import UTC, date, datetime
from unicodedata import combining, normalize

from markupsafe import Markup, escape
from pyspark.sql import Row

from spark_audit import schema as S

_UNSEEN = re.compile(
    # Those that `str.isprintable` takes for visible: they have no width, or look like a space.
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_LIKE_LATIN = frozenset(
    # Greek, then Cyrillic, then Armenian, and Latin without a dot or as in handwriting.
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03bd"
    "\u0405\u0406\u0408\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425"
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04ae\u04af\u04bb\u04c0\u04cf"
    "\u0501\u051b\u051d\u0555\u0578\u057d\u0585\u0131\u0251\u0261"
)
"""Letters of other scripts that look the same as Latin ones (Unicode's confusables.txt)."""
_LAST_LATIN = "\u024f"

_EXACT = 10**15
_LONGEST, _LONGEST_TEXT = 400, 4_000
"""Characters of a name and of a text that are shown."""


def visible(value: object) -> object:
    """Return a client's text in one line, with escapes, so that no name looks like another."""
    if value is None:
        return ""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _shortened(one_line(value))


def one_line(text: str) -> str:
    """Return text as `visible` shows it, of any length."""
    return escaped(text).replace("\n", "\\n").replace("\t", "\\t")


def _shortened(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"


def escaped(text: str) -> str:
    """Return text in which no character misleads: each that does is an escape.

    Those are control characters, marks that change the direction of writing, characters without width,
    spaces other than the common one, characters that are another form of one (NFKC) or a part of one (NFC),
    and letters that look like Latin ones, in a word without a letter that shows its script.
    """
    if text.isascii() and text.isprintable():
        return text
    is_composed = normalize("NFC", text) == text

    def of_word(found: re.Match[str]) -> str:
        others = [char for char in found[0] if char.isalpha() and char > _LAST_LATIN]
        is_like_latin = all(char in _LIKE_LATIN for char in others)
        return "".join(
            _as_escape(char)
            if _is_unseen(char)
            or (combining(char) and not is_composed)
            or (is_like_latin and char in _LIKE_LATIN)
            else char
            for char in found[0]
        )

    return re.sub(r"\w+|\W", of_word, text)


def _is_unseen(char: str) -> bool:
    if char.isascii():
        return not char.isprintable() and char not in "\n\t"
    return not char.isprintable() or _UNSEEN.match(char) is not None or normalize("NFKC", char) != char


def _as_escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if char <= "\uffff" else f"\\U{ord(char):08x}"


def lines(text: str) -> Markup:
    """Return text with its line breaks."""
    return escape(escaped(text))


def told(text: str) -> Markup:
    """Return what a finding says, with its line breaks."""
    return escape(_shortened(escaped(text), _LONGEST_TEXT))


def pretty(value: object) -> Markup:
    """Return JSON on several lines."""
    return told(json.dumps(value, indent=1, ensure_ascii=False))


def number(value: float | None) -> str:
    """Format a count or a quota: 1048576.0 -> 1,048,576. Of more than 15 digits, shows the first ones."""
    if value is None:
        return ""
    return f"{int(value):,}" if abs(value) < _EXACT and value == int(value) else f"{value:,.6g}"


def short(value: float) -> str:
    """Format a number in little space: 1500000 -> 1.5M."""
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:,.4g}{unit}"
    return f"{value:,.4g}"


def size(count: int | None) -> str:
    """Format a size: 1536 -> 1.5 KiB."""
    if count is None:
        return ""
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"


def span(milliseconds: float | None) -> str:
    """Format a duration: 90000 -> 1.5 min."""
    if milliseconds is None:
        return ""
    for limit, divisor, unit in ((1_000, 1, "ms"), (60_000, 1_000, "s"), (3_600_000, 60_000, "min")):
        if milliseconds < limit:
            return f"{milliseconds / divisor:,.3g} {unit}"
    if milliseconds < 172_800_000:
        return f"{milliseconds / 3_600_000:,.1f} h"
    return f"{milliseconds / 86_400_000:,.1f} d"


def stretch(milliseconds: int) -> str:
    """Format an interval as the unit of an axis: 60000 -> minute, 1800000 -> 30 minutes."""
    for divisor, unit in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second")):
        if milliseconds >= divisor:
            count = milliseconds // divisor
            return unit if count == 1 else f"{count} {unit}s"
    return f"{milliseconds} ms"


def moment(time_ms: int | None) -> str:
    """Format a moment in UTC."""
    return (
        "" if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    )


def share(part: int, whole: int) -> str:
    """Format a part in per cent, rounded down: 999,999 of 1,000,000 -> 99.9 %."""
    if not whole or part == whole:
        return "100 %" if whole else "–"
    return f"{int(1000 * part / whole) / 10:g} %"


def compared(now: float, before: float, day: str = "") -> str:
    """Format how much more or less a number is than that of a day before: 12 and 10 -> +20 % vs 22 Nov."""
    if now == before:
        return f"same as {day}" if day else "same"
    if not before:
        return f"none on {day}" if day else "none"
    percent = round(100 * (now - before) / before)
    more = (
        f"×{number(round(now / before))}"
        if now >= 10 * before
        else f"{percent:+} %".replace("-", "−").replace("+0", "±0")
    )
    return f"{more} vs {day}" if day else more


def short_day(day: date, before: str = "") -> str:
    """Format a day: 22 Nov."""
    return f"{before}{day:%d %b}"


def used(amount: float | None, quota_key: str | None) -> str:
    """Format the use of a quota: bytes, time on an event loop, or partitions."""
    if amount is None or quota_key is None:
        return ""
    if quota_key.endswith("_byte_rate"):
        return size(int(amount))
    return span(amount / 1000) if quota_key == "request_percentage" else number(amount)


def part(value: float | None) -> str:
    """Format a part of a limit in per cent, rounded up: 0.0001 -> 1 %."""
    return "" if value is None else f"{math.ceil(100 * value):,} %"


def record(row: Row) -> list[object]:
    """Return a record as the search on the page has it: times, names, what was decided, and its place.

    Its time is followed by the moments in ms between which it counts in a plot.
    """
    begin_ms, fields = row[S.INTERVAL_START_MS], row.asDict()
    if begin_ms is None or not 0 <= begin_ms <= row[S.TIME_MS]:
        begin_ms = row[S.TIME_MS]
    wait_ms = (row[S.THROTTLE_TIME_MS] or 0) // (row[S.COUNT] or 1) if row[S.EVENT] == "throttled" else 0
    end_ms = row[S.TIME_MS] + wait_ms if wait_ms else begin_ms
    objects = [f"{each['operation']} {each['type']} {each['name'] or ''}" for each in row[S.OBJECTS] or ()]
    resource = f"{row[S.RESOURCE_TYPE]} {row[S.RESOURCE_NAME] or '(any)'}" if row[S.RESOURCE_TYPE] else ""
    names = (S.PRINCIPAL, S.HOST, S.CLIENT_ID, S.METHOD, S.OPERATION)
    texts = [fields[S.EVENT], *(fields[name] for name in names), resource or ", ".join(objects)]
    place = f"{row[S.PROXY_ID]}/{row[S.BOOT_ID]}/{row[S.SEQUENCE]}"
    shown = [_shortened(str(visible(text or ""))) for text in [*texts, _outcome(row), place]]
    return [row[S.TIME_MS], begin_ms, end_ms, fields["kind"], *shown]


def _outcome(row: Row) -> str:
    words = [f"{number(row[S.COUNT])} times"] if (row[S.COUNT] or 1) > 1 and row["kind"] != "other" else []
    if row[S.MECHANISM]:
        words += [row[S.LISTENER], row[S.MECHANISM]]
    if row[S.GRANTED] is not None:
        words.append(
            f"{'allowed' if row[S.GRANTED] else 'denied'} by {row[S.RULE]} {row[S.ACL_ID] or ''}".rstrip()
        )
    if row[S.GROUPS]:
        words.append(f"groups: {' '.join(row[S.GROUPS])}")
    if row[S.QUOTA_KEY] is not None:
        words.append(f"{row[S.QUOTA_KEY]} of {row[S.QUOTA_ID]}: {number(row[S.QUOTA_LIMIT])}")
    if row[S.THROTTLE_TIME_MS]:
        words.append(f"throttled for {span(row[S.THROTTLE_TIME_MS])}")
    if row[S.ERROR_CODE]:
        words.append(f"error {row[S.ERROR_CODE]}")
    return ", ".join(str(each) for each in [*words, row[S.MESSAGE]] if each)
