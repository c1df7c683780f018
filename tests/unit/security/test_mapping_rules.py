"""Rules that are wrong are refused as they are read; good ones meet a broker's in tests/contract."""

import pytest

from proxy.security.mapping_rules import MappingRules, NoMatchingRule

pytestmark = pytest.mark.spec("R9")


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ("garbage", "invalid rule: 'garbage'"),
        ("DEFAULT RULE:a/b/", "invalid rule: 'DEFAULT RULE:a/b/'"),
        ("RULE:a/b", "invalid rule: a slash is missing after 'b'"),
        ("RULE:a/b/X", "invalid rule: 'RULE:a/b/X'"),
        ("RULE:(/b/", "invalid rule: pattern '(': missing )"),
        ("RULE:(a)/${nobody}/", "invalid rule: no group is named 'nobody'"),
        ("RULE:a/$1/", "invalid rule: $1 refers to a group, and there is none"),
        ("RULE:(a)/$x/", "invalid rule: replacement '$x': nothing to refer to at '$x'"),
    ],
)
def test_a_rule_that_can_never_work_is_refused_with_its_name(rules: str, told: str) -> None:
    with pytest.raises(ValueError, match="invalid rule") as refused:
        MappingRules(rules)
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("RULE:^CN=(.*),O=acme$/$1/", "alice"),
        ("RULE:^nobody$/x/,RULE:^CN=(alice),.*$/user-$1/U", "USER-ALICE"),
        ("RULE:CN/x/,DEFAULT", "CN=alice,O=acme"),
    ],
)
def test_the_first_rule_whose_pattern_is_the_whole_name_counts(rules: str, name: str) -> None:
    assert MappingRules(rules).name("CN=alice,O=acme") == name


@pytest.mark.parametrize("line_end", ["\n", "\r", "\u0085", "\u2028", "\u2029"])
def test_a_name_with_a_line_end_matches_no_pattern(line_end: str) -> None:
    with pytest.raises(NoMatchingRule, match="no rule of"):
        MappingRules("RULE:^CN=(.*?)(,.*)?$/$1/").name(f"CN=alice{line_end},CN=bob")
