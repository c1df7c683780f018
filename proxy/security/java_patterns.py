"""Compiles a pattern of Java's regular expressions with Python's, or says why it cannot.

proxy.security.mapping_rules and proxy.security.kerberos_names use it: their rules come from a broker's
server.properties. What both languages read alike passes as it is, what differs is translated, and the rest
is a ValueError, never another meaning. The names that are matched contain no line ends.
"""

import re
from collections.abc import Callable

from proxy.security.sasl.exchange import shown

_CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7F",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1F\x7F",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0B\f\r",
}
"""The members of java.util.regex.Pattern's POSIX classes, which are ASCII's."""
_BLANKS = {"h": r" \t\xA0\u1680\u180E\u2000-\u200A\u202F\u205F\u3000", "v": r"\n\x0B\f\r\x85\u2028\u2029"}
_OUTSIDE = {"R": rf"(?:\r\n|[{_BLANKS['v']}])", "Z": r"(?=\n?\Z)", "z": r"\Z"}
_CHARACTERS = {"e": r"\x1B"}
_SAME = frozenset("dDsSwWtnrfa")
_SAME_OUTSIDE = frozenset("bBA")
_TOKEN = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|\Z)"
    r"|\\(?P<negated>[pP])\{(?P<property>[^}]*)\}"
    r"|\\x\{(?P<code>[0-9a-fA-F]+)\}|\\0(?P<octal>[0-3]?[0-7]{1,2})|\\c(?P<control>.)"
    r"|\\(?P<hex>x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})|\\k<(?P<group>[a-zA-Z][a-zA-Z0-9]*)>"
    r"|\\(?P<reference>[1-9]\d+)|\\(?P<escaped>.)"
    r"|\(\?<(?P<name>[a-zA-Z][a-zA-Z0-9]*)>"
    r"|\(\?(?P<flags>[a-zA-Z]*-?[a-zA-Z]*)(?P<scope>[:)])"
    r"|(?P<repeated>\{\d+(?:,\d*)?\})"
    r"|(?P<both>&&)"
    r"|(?P<text>.)",
    re.DOTALL,
)
_FLAGS = frozenset("ism")


def compiled(pattern: str) -> "re.Pattern[str]":
    r"""Compile a Java pattern; ValueError if it is invalid, or if Python has nothing that means the same."""
    try:
        # \w, \d and \s are ASCII's in Java.
        return re.compile(_Translation(pattern).text(), re.ASCII)
    except (ValueError, re.error, OverflowError) as error:
        raise ValueError(f"invalid rule: pattern {pattern!r}: {error}") from error


def is_whole(pattern: "re.Pattern[str]", text: str) -> bool:
    """Whether the pattern is for the whole text. ValueError if not every Java says the same."""
    _check(pattern, text)
    return pattern.fullmatch(text) is not None


def substituted(
    pattern: "re.Pattern[str]", replacement: Callable[["re.Match[str]"], str], text: str, most: int = 0
) -> str:
    """Replace what the pattern finds in the text, `most` times; 0: each time. ValueError as above.

    Behind an empty match Java goes on one character later. Python's `sub` looks for another one there first.
    """
    _check(pattern, text)
    parts, end, position = [], 0, 0
    while position <= len(text) and (match := pattern.search(text, position)) is not None:
        parts += [text[end : match.start()], replacement(match)]
        end = match.end()
        position = end + (match.start() == end)
        most -= 1
        if not most:
            break
    return "".join(parts) + text[end:]


def _check(pattern: "re.Pattern[str]", text: str) -> None:
    # Which letters a word has beside ASCII's differs between Java 17, later ones, and Python.
    if not text.isascii() and _BOUNDARY.search(pattern.pattern) is not None:
        raise ValueError(f"a rule with \\b or \\B is for names in ASCII only, and not for {shown(text)}")


_BOUNDARY = re.compile(r"(?<!\\)(?:\\\\)*\\[bB]")


class _Translation:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._in_class = False
        self._first = 0
        """Where the first member of the class would be."""
        self._flags = ""

    def text(self) -> str:
        """Return the pattern in Python's notation."""
        parts = [self._part(token) for token in _TOKEN.finditer(self._pattern)]
        if self._in_class:
            raise ValueError("a ] is missing")
        return self._flags + "".join(parts)

    def _part(self, token: "re.Match[str]") -> str:
        if token["text"] is not None:
            return self._character(token["text"], token.start())
        if token["escaped"] is not None:
            return self._escaped(token["escaped"])
        part: Callable[[re.Match[str]], str] = getattr(self, f"_{token.lastgroup}")
        return part(token)

    def _quoted(self, token: "re.Match[str]") -> str:
        return re.escape(token["quoted"])

    def _property(self, token: "re.Match[str]") -> str:
        members = _CLASSES.get(token["property"])
        if members is None:
            known = ", ".join(_CLASSES)
            raise ValueError(f"{token[0]} is not supported; write the characters in [], or one of {known}")
        return self._set(members, token["negated"] == "P", token[0])

    def _code(self, token: "re.Match[str]") -> str:
        return re.escape(chr(int(token["code"], 16)))

    def _octal(self, token: "re.Match[str]") -> str:
        return re.escape(chr(int(token["octal"], 8)))

    def _control(self, token: "re.Match[str]") -> str:
        return re.escape(chr(ord(token["control"]) ^ 64))

    def _hex(self, token: "re.Match[str]") -> str:
        return token[0]

    def _reference(self, token: "re.Match[str]") -> str:
        raise ValueError(f"{token[0]} is ambiguous; write (?:\\{token['reference'][0]}) before other digits")

    def _group(self, token: "re.Match[str]") -> str:
        if self._in_class:
            raise ValueError(f"{token[0]} cannot be in []")
        return f"(?P={token['group']})"

    def _name(self, token: "re.Match[str]") -> str:
        if self._in_class:
            return "".join(map(re.escape, token[0]))
        return f"(?P<{token['name']}>"

    def _scope(self, token: "re.Match[str]") -> str:
        if self._in_class:
            return "".join(map(re.escape, token[0]))
        unknown = set(token["flags"]) - _FLAGS - {"-"}
        if unknown:
            raise ValueError(f"{token[0]} is not supported; the flags are i, s and m")
        if token["scope"] == ":" or not token["flags"]:
            return token[0]
        # Python has flags without a scope only for the whole pattern.
        if self._pattern[: token.start()] not in ("", "^") or "-" in token["flags"]:
            raise ValueError(f"{token[0]} is not at the start; move it there, or write {token[0][:-1]}:...)")
        self._flags += token[0]
        return ""

    def _repeated(self, token: "re.Match[str]") -> str:
        return "".join(map(re.escape, token[0])) if self._in_class else token[0]

    def _both(self, _token: "re.Match[str]") -> str:
        if self._in_class:
            raise ValueError("&& in [] is not supported; write the characters that remain")
        return "&&"

    def _escaped(self, character: str) -> str:
        if not (character.isascii() and character.isalnum()):
            return re.escape(character)
        if character.lower() in _BLANKS:
            return self._set(_BLANKS[character.lower()], character.isupper(), f"\\{character}")
        if character in _CHARACTERS:
            return _CHARACTERS[character]
        if character in _SAME:
            # Java's \a and Python's are the same bell.
            return f"\\{character}"
        if not self._in_class and (character in _SAME_OUTSIDE or character in "123456789"):
            return f"\\{character}"
        if not self._in_class and character in _OUTSIDE:
            return _OUTSIDE[character]
        where = " in []" if self._in_class else ""
        raise ValueError(f"\\{character}{where} is not supported; write the characters themselves")

    def _character(self, character: str, position: int) -> str:
        if not self._in_class:
            if character == "[":
                self._in_class = True
                self._first = position + (2 if self._pattern.startswith("[^", position) else 1)
            elif character == "{":
                raise ValueError("escape { where it repeats nothing: write \\{")
            return character
        if character == "[":
            raise ValueError("a set in a set is not supported; write the characters in one [], and \\[ for [")
        if character == "]":
            if position == self._first:
                return r"\]"
            self._in_class = False
        if character == "-" and self._pattern.startswith("-", position + 1):
            raise ValueError("-- in [] is ambiguous; write \\-")
        # Python warns of || and ~~ in a set, which some day may mean something else.
        return f"\\{character}" if character in "|~&" else character

    def _set(self, members: str, negated: bool, notation: str) -> str:
        if not self._in_class:
            return f"[{'^' if negated else ''}{members}]"
        if negated:
            raise ValueError(f"{notation} in [] is not supported; write the characters themselves")
        return members


_DOUBLED = re.compile(r"(?<!\\)\\\\(?=[A-Za-z@-]|\.(?![|)*+?{]|\Z))")


def single_backslashes(pattern: str) -> str | None:
    r"""Return the pattern with single backslashes if it seems to be copied from a .properties file.

    There \\w is \w; here it is a backslash and a w, which no name contains. None if nothing is doubled.
    """
    meant = _DOUBLED.sub(lambda _: "\\", pattern)
    return None if meant == pattern else meant.replace("\\\\", "\\")
