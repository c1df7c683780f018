"""`sasl.kerberos.principal.to.local.rules`: maps a Kerberos name to the principal's name.

The syntax is that of a broker: `DEFAULT`, or `RULE:[n:format](match)s/pattern/replacement/g/L`. The rules are
tried in order on the name's parts. A rule that can never work is rejected when it is read; a broker would
report it only at a login. The caller supplies the default realm, which is in krb5.conf.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proxy.security.java_patterns import compiled, is_whole, substituted
from proxy.security.mapping_rules import NoMatchingRule, Replacement, replacement

DEFAULT = "DEFAULT"
_RULE = re.compile(
    r"DEFAULT|RULE:\[(?P<count>[0-9]*):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<every>g)?)?/?(?P<case>[LU])?"
)
_NAME = re.compile(r"(?P<first>[^/@]*)(?:/(?P<second>[^/@]*))?@(?P<realm>[^/@]*)")
_PART = re.compile(r"[^$]+|\$(?P<number>[0-9]*)")
_NOT_SIMPLE = re.compile(r"[/@]")
_CASES: dict[str, Callable[[str], str]] = {"L": str.lower, "U": str.upper, "": str}
_LINE_ENDS = re.compile(r"[\n\r\u0085\u2028\u2029]")


def parts(kerberos_name: str) -> tuple[str, ...]:
    """Split `alice/host@REALM` into (REALM, alice, host); ValueError without a realm and one or two parts.

    GSS-API writes a backslash before a literal separator: such a name is rejected, because its parts would be
    ambiguous. So is a name with a line end, where Java's dot does not match.
    """
    match = _NAME.fullmatch(kerberos_name)
    if match is None or "\\" in kerberos_name or _LINE_ENDS.search(kerberos_name):
        raise ValueError(f"malformed Kerberos name: {kerberos_name!r}")
    second = () if match["second"] is None else (match["second"],)
    return match["realm"], match["first"], *second


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule; `count` None is DEFAULT."""

    text: str
    count: int | None = None
    format: tuple[str | int, ...] = ()
    match: "re.Pattern[str] | None" = None
    pattern: "re.Pattern[str] | None" = None
    replaced: Replacement | None = None
    most: int = 0
    """The number of replacements; 0: all."""
    change_case: Callable[[str], str] = str

    def apply(self, name: Sequence[str], default_realm: str) -> str | None:
        """Return the principal's name, None if the rule is for other names; NoMatchingRule."""
        local = self._local(name, default_realm)
        if local is None:
            return None
        # As in Kafka, the later rules are not tried.
        if _NOT_SIMPLE.search(local):
            raise NoMatchingRule(f"{local!r}, of the rule {self.text}, is no simple name")
        return self.change_case(local)

    def _local(self, name: Sequence[str], default_realm: str) -> str | None:
        if self.count is None:
            return name[1] if name[0] == default_realm else None
        if len(name) - 1 != self.count:
            return None
        base = "".join(part if isinstance(part, str) else name[part] for part in self.format)
        if self.match is not None and not is_whole(self.match, base):
            return None
        if self.pattern is None or self.replaced is None:
            return base
        return substituted(self.pattern, self.replaced, base, self.most)


class LocalRules:
    def __init__(self, rules: Sequence[str] = (DEFAULT,)) -> None:
        """Parse the rules; ValueError names the invalid one."""
        self._texts = tuple(rules)
        self._rules = tuple(_read(rule) for rule in rules)

    def name(self, kerberos_name: str, default_realm: str) -> str:
        """Return the principal's name; ValueError for a malformed one, NoMatchingRule."""
        name = parts(kerberos_name)
        for rule in self._rules:
            local = rule.apply(name, default_realm)
            if local == "":
                raise NoMatchingRule(f"nothing is left of {kerberos_name!r} after the rule {rule.text}")
            if local is not None:
                return local
        raise NoMatchingRule(f"no rule of {', '.join(self._texts)} applies to {kerberos_name!r}")


def _read(text: str) -> _Rule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid rule: {text!r}")
    if text == DEFAULT:
        return _Rule(text)
    if not match["count"]:
        raise ValueError(f"invalid rule: {text!r} does not say of how many parts")
    count = int(match["count"])
    pattern = None if match["pattern"] is None else compiled(match["pattern"])
    return _Rule(
        text,
        count,
        _format(match["format"], count, text),
        None if match["match"] is None else compiled(match["match"]),
        pattern,
        None if pattern is None else replacement(match["replacement"], pattern),
        0 if match["every"] else 1,
        _CASES[match["case"] or ""],
    )


def _format(text: str, count: int, rule: str) -> tuple[str | int, ...]:
    found: list[str | int] = []
    for part in _PART.finditer(text):
        number = part["number"]
        found.append(part[0] if number is None else _numbered(number, count, rule))
    return tuple(found)


def _numbered(digits: str, most: int, rule: str) -> int:
    if not digits or int(digits) > most:
        raise ValueError(f"invalid rule: {rule!r}: ${digits} is none of $0 to ${most}")
    return int(digits)
