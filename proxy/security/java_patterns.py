"""Java's regular expressions and replacements made into Python's, for rules as brokers have them.

Python's expressions cover what rules use; what cannot be turned into them is a ValueError as a rule is read.
"""

import re
from collections.abc import Callable

Replacement = Callable[["re.Match[str]"], str]


def compiled(pattern: str) -> "re.Pattern[str]":
    """ValueError when it is none."""
    try:
        # Java names a group (?<name>...), Python (?P<name>...); and \w, \d and \s are ASCII's in Java.
        return re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", pattern), re.ASCII)
    except re.error as error:
        raise ValueError(f"invalid rule: pattern {pattern!r}: {error}") from error


_PART = re.compile(r"\\(?P<escaped>.)|\$\{(?P<name>\w+)\}|\$(?P<number>\d+)|(?P<text>[^\\$]+)", re.DOTALL)


def replacement(text: str, pattern: "re.Pattern[str]", *, spare_groups_stay: bool = False) -> Replacement:
    """Java's way to write one: $1 or ${name} for a group, a backslash before what is meant as it stands.

    `spare_groups_stay`: a number that no group has, though there are groups, stands for itself. Otherwise it
    is a ValueError, as all is that names no group.
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
    """As many digits as there are groups for."""
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
