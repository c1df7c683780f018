"""`ssl.principal.mapping.rules`: maps a certificate's distinguished name to the principal's name (KIP-371).

Rules are tried in order; the first whose pattern matches the whole name applies. The syntax is that of a
broker, with Java's regular expressions (proxy.security.java_patterns) and replacements, which become
Python's. proxy.security.kerberos_names uses the replacements too.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from proxy.security.java_patterns import compiled, is_whole, substituted
from proxy.security.sasl.exchange import shown

Replacement = Callable[["re.Match[str]"], str]


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


DEFAULT = "DEFAULT"
_RULE = "RULE:"
_LINE_ENDS = frozenset("\n\r\u0085\u2028\u2029")


class NoMatchingRule(Exception):
    """No rule matches a name: the client is not authenticated."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; without a pattern it is DEFAULT, which returns the name unchanged."""

    pattern: "re.Pattern[str] | None"
    replacement: "Callable[[re.Match[str]], str]"
    change_case: Callable[[str], str]

    def apply(self, name: str) -> str | None:
        """Return the principal's name, None if the rule is for other names."""
        if self.pattern is None:
            return name
        # In Java a dot matches none of these: a name with one matches no rule.
        if not _LINE_ENDS.isdisjoint(name) or not is_whole(self.pattern, name):
            return None
        return self.change_case(substituted(self.pattern, self.replacement, name))


class MappingRules:
    def __init__(self, text: str = DEFAULT) -> None:
        """Parse the rules; ValueError names the invalid one."""
        self._text = text
        self._rules = tuple(_Reader(text).rules())

    def name(self, distinguished_name: str) -> str:
        """Return the principal's name; NoMatchingRule."""
        name = self.find(distinguished_name)
        if name is None:
            raise NoMatchingRule(f"no rule of {self._text!r} applies to {shown(distinguished_name)}")
        return name

    def find(self, text: str) -> str | None:
        """Return what the first rule for this text makes of it; None if no rule is for it."""
        return next((name for rule in self._rules if (name := rule.apply(text)) is not None), None)


class _Reader:
    """Splits the text into rules: DEFAULT, or RULE:pattern/replacement/ with optional L or U."""

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        self._position = 0

    def rules(self) -> list[Rule]:
        found = []
        while self._position < len(self._text):
            self._skip_blanks()
            begin = self._position
            rule = self._rule()
            self._skip_blanks()
            if self._position < len(self._text) and not self._took(","):
                raise ValueError(f"invalid rule: {self._text[begin:]!r}")
            if rule is not None:
                found.append(rule)
        return found

    def _rule(self) -> Rule | None:
        if self._took(DEFAULT):
            return Rule(None, lambda match: match[0], str)
        if not self._took(_RULE):
            return None
        pattern, text = self._up_to_slash(), self._up_to_slash()
        java = compiled(pattern)
        return Rule(java, replacement(text, java, spare_groups_stay=True), self._case())

    def _case(self) -> Callable[[str], str]:
        if self._took("L"):
            return str.lower
        return str.upper if self._took("U") else str

    def _up_to_slash(self) -> str:
        begin = self._position
        while self._position < len(self._text):
            character = self._text[self._position]
            self._position += 2 if character == "\\" else 1
            if character == "/":
                return self._text[begin : self._position - 1]
        raise ValueError(f"invalid rule: a slash is missing after {self._text[begin:]!r}")

    def _took(self, word: str) -> bool:
        if not self._text.startswith(word, self._position):
            return False
        self._position += len(word)
        return True

    def _skip_blanks(self) -> None:
        while self._text[self._position : self._position + 1].isspace():
            self._position += 1
