"""Converts Java's regular expressions and replacements into Python's, for mapping rules.

Python supports what rules use; anything else is a ValueError when the rule is read.
"""

import re
from collections.abc import Callable

Replacement = Callable[["re.Match[str]"], str]


def compiled(pattern: str) -> "re.Pattern[str]":
    """Compile a Java pattern; ValueError if it is invalid."""
    try:
        # Java names a group (?<name>...), Python (?P<name>...); \w, \d and \s are ASCII's in Java.
        return re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", pattern), re.ASCII)
    except re.error as error:
        raise ValueError(f"invalid rule: pattern {pattern!r}: {error}") from error


_PART = re.compile(r"\\(?P<escaped>.)|\$\{(?P<name>\w+)\}|\$(?P<number>\d+)|(?P<text>[^\\$]+)", re.DOTALL)


def replacement(text: str, pattern: "re.Pattern[str]", *, spare_groups_stay: bool = False) -> Replacement:
    """Convert a replacement: $1 or ${name} for a group, a backslash before a literal character.

    `spare_groups_stay`: the number of a missing group stands for itself if the pattern has groups. Otherwise
    it is a ValueError, as is an unknown name.
    """
    parts: list[str | tuple[str | int]] = []
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            raise ValueError(
                f"invalid rule: replacement {text!r}: nothing to refer to at {text[position:]!r}"
            )
        position = part.end()
        parts += _parts(part, pattern, spare_groups_stay)

    def replaced(match: "re.Match[str]") -> str:
        return "".join(part if isinstance(part, str) else match[part[0]] or "" for part in parts)

    return replaced


def _parts(
    part: "re.Match[str]", pattern: "re.Pattern[str]", spare_groups_stay: bool
) -> list[str | tuple[str | int]]:
    if part["number"] is not None:
        return _numbered(part["number"], pattern.groups, spare_groups_stay)
    if part["name"] is not None:
        if part["name"] not in pattern.groupindex:
            raise ValueError(f"invalid rule: no group is named {part['name']!r}")
        return [(part["name"],)]
    return [part["escaped"] if part["escaped"] is not None else part["text"]]


def _numbered(digits: str, groups: int, spare_groups_stay: bool) -> list[str | tuple[str | int]]:
    """Read as many digits as there are groups for."""
    length = len(digits)
    while length > 1 and int(digits[:length]) > groups:
        length -= 1
    number = int(digits[:length])
    if number > groups:
        if groups > 0 and spare_groups_stay:
            return [f"${digits}"]
        found = "there is none" if groups == 0 else f"there are {groups}"
        raise ValueError(f"invalid rule: ${digits} refers to a group, and {found}")
    return [(number,), digits[length:]]
