"""Java's regular expressions: translated, or rejected with a reason; tests/contract compares with Java."""

import warnings

import pytest

from proxy.security.java_patterns import compiled, single_backslashes
from proxy.security.kerberos_names import LocalRules
from proxy.security.mapping_rules import MappingRules

pytestmark = pytest.mark.spec("R9")


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        (r"\Qa.b\E.", ["a.bc"], ["axbc"]),
        (r"a\Q.+", ["a.+"], ["aa"]),
        (r"[\Q]^-\E]+", ["]^-"], ["a"]),
        (r"\p{Alpha}+", ["aZ"], ["1", "é"]),
        (r"\P{Alpha}+", ["1é"], ["a"]),
        (r"[\p{Digit}x]+", ["1x"], ["y"]),
        (r"[^\p{Punct}]", ["a"], ["]", "[", "`", "~", "\\"]),
        (r"\h+", [" \t\u3000"], ["\n"]),
        (r"\R", ["\r\n", "\u2028"], ["\r\r"]),
        (r"a\z", ["a"], ["a\n"]),
        (r"(?i)ab", ["AB"], []),
        (r"^(?i)ab", ["AB"], []),
        (r"a(?i:b)", ["aB"], ["AB"]),
        (r"(?<n>a)\k<n>", ["aa"], ["ab"]),
        (r"[]a]+", ["]a"], ["b"]),
        (r"[a|~~||&]+", ["a|~&"], ["b"]),
        (r"\x{1F6B0}", ["🚰"], []),
        (r"\0101\e\cA", ["A\x1b\x01"], []),
        (r"a++b*+c?+", ["aabc"], []),
    ],
)
def test_what_python_writes_otherwise_is_translated(
    pattern: str, matches: list[str], others: list[str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compiled(pattern)

    assert [text for text in matches if not found.fullmatch(text)] == []
    assert [text for text in others if found.fullmatch(text)] == []


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        (r"[a-z&&[^b]]", "&& in [] is not supported; write the characters that remain"),
        (r"[a[b]]", "a set in a set is not supported; write the characters in one [], and \\[ for ["),
        (r"[a--z]", "-- in [] is ambiguous; write \\-"),
        (r"\p{L}+", "\\p{L} is not supported; write the characters in [], or one of Lower, Upper"),
        (r"[\P{Alpha}]", "\\P{Alpha} in [] is not supported; write the characters themselves"),
        (r"[\H]", "\\H in [] is not supported; write the characters themselves"),
        (r"[\b]", "\\b in [] is not supported; write the characters themselves"),
        (r"\X", "\\X is not supported; write the characters themselves"),
        (r"\G", "\\G is not supported; write the characters themselves"),
        (r"a(?i)b", "(?i) is not at the start; move it there, or write (?i:...)"),
        (r"(?-i)b", "(?-i) is not at the start; move it there, or write (?-i:...)"),
        (r"(?x)b", "(?x) is not supported; the flags are i, s and m"),
        (r"(?iU:b)", "(?iU: is not supported; the flags are i, s and m"),
        (r"(a)\101", "\\101 is ambiguous; write (?:\\1) before other digits"),
        (r"a{,2}", "escape { where it repeats nothing: write \\{"),
        (r"[a", "a ] is missing"),
    ],
)
def test_what_python_cannot_do_is_rejected_with_the_reason(pattern: str, told: str) -> None:
    with pytest.raises(ValueError, match="invalid rule") as rejected:
        compiled(pattern)

    assert str(rejected.value).startswith(f"invalid rule: pattern {pattern!r}: {told}")


def test_rules_for_both_kinds_of_names_have_javas_patterns() -> None:
    assert MappingRules(r"RULE:^CN=(\p{Lower}+),.*$/$1/").name("CN=bob,O=x") == "bob"
    assert LocalRules((r"RULE:[1:$1](\p{Lower}+)s/\Qo\E/0/",)).name("bob@X", "X") == "b0b"
    with pytest.raises(ValueError, match="&& in"):
        MappingRules(r"RULE:^CN=([a-z&&[^b]]+).*$/$1/")
    with pytest.raises(ValueError, match="&& in"):
        LocalRules((r"RULE:[1:$1]([a-z&&b]+)",))


@pytest.mark.parametrize(
    ("rule", "name"),
    [("RULE:.*?/-/", "-C-N-=-b-"), ("RULE:(|CN=).*?/-/", "-C-N-=-b-"), ("RULE:(CN=)?.*/<$1>/", "<CN=><>")],
)
def test_behind_an_empty_match_the_next_one_begins_a_character_later(rule: str, name: str) -> None:
    assert MappingRules(rule).name("CN=b") == name


@pytest.mark.parametrize("boundary", [r"(\w*)\b.*", r"(\w*)\\*\B.*"])
def test_no_java_says_where_a_word_ends_beyond_ascii(boundary: str) -> None:
    r"""Of Zoë a later Java takes Zo for a word, and Java 17 all of it: one would be the other's user."""
    assert MappingRules(f"RULE:^CN={boundary}$/$1/").name("CN=Zo-e") in ("Zo", "Z")
    with pytest.raises(ValueError, match="for names in ASCII only, and not for 'CN=Zoë'"):
        MappingRules(f"RULE:^CN={boundary}$/$1/,DEFAULT").name("CN=Zoë")
    with pytest.raises(ValueError, match="for names in ASCII only, and not for 'Zoë'"):
        LocalRules((f"RULE:[1:$1]s/{boundary}/$1/", "DEFAULT")).name("Zoë@X", "X")
    assert MappingRules(r"RULE:^CN=(\w*)\\b.*$/$1/,DEFAULT").name("CN=Zoë") == "CN=Zoë"


@pytest.mark.parametrize(
    ("rule", "meant"),
    [
        (r"RULE:^CN=(\\w+).*$/$1/", r"RULE:^CN=(\w+).*$/$1/"),
        (r"RULE:^CN=(.*?)\\.acme\\.com,.*$/$1/", r"RULE:^CN=(.*?)\.acme\.com,.*$/$1/"),
        (r"RULE:^CN=([\\d]+)\\.x/$1/", r"RULE:^CN=([\d]+)\.x/$1/"),
        (r"RULE:^CN=(\w+)\.x/$1/", None),
        (r"RULE:^CN=(.*?)(?<!\\),.*$/$1/", None),
        (r"RULE:^CN=((?:\\.|[^,])*),.*$/$1/", None),
        (r"RULE:^CN=(\\\w\w).*$/$1/", None),
        ("DEFAULT", None),
    ],
)
def test_doubled_backslashes_are_found(rule: str, meant: str | None) -> None:
    assert single_backslashes(rule) == meant
