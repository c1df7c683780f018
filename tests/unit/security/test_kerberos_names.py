"""Rules for Kerberos names that are wrong are refused; good ones meet a broker's in tests/contract."""

import pytest

from proxy.security.kerberos_names import LocalRules, parts
from proxy.security.mapping_rules import NoMatchingRule

pytestmark = pytest.mark.spec("R9")

REALM = "ACME.ORG"


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("", "invalid rule: ''"),
        ("default", "invalid rule: 'default'"),
        ("DEFAULT/L", "invalid rule: 'DEFAULT/L'"),
        (" DEFAULT", "invalid rule: ' DEFAULT'"),
        ("RULE:[1:$1", "invalid rule: 'RULE:[1:$1'"),
        ("RULE:[1:$1]x", "invalid rule: 'RULE:[1:$1]x'"),
        ("RULE:[1:$1]s/a/b", "invalid rule: 'RULE:[1:$1]s/a/b'"),
        ("RULE:[:$1]", "invalid rule: 'RULE:[:$1]' does not say of how many parts"),
        ("RULE:[1:$2]", "invalid rule: 'RULE:[1:$2]': $2 is none of $0 to $1"),
        ("RULE:[1:$]", "invalid rule: 'RULE:[1:$]': $ is none of $0 to $1"),
        ("RULE:[1:$1](()", "invalid rule: pattern '(': missing )"),
        ("RULE:[1:$1]s/(/x/", "invalid rule: pattern '(': missing )"),
        ("RULE:[1:$1]s/(a)/$2/", "invalid rule: $2 refers to a group, and there are 1"),
        ("RULE:[1:$1]s/a/$1/", "invalid rule: $1 refers to a group, and there is none"),
    ],
)
def test_a_rule_that_can_never_work_is_refused_with_its_name(rule: str, told: str) -> None:
    with pytest.raises(ValueError, match="invalid rule") as refused:
        LocalRules(["DEFAULT", rule])
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        (["DEFAULT"], "alice@ACME.ORG", "alice"),
        (["DEFAULT"], "kafka/host.acme.org@ACME.ORG", "kafka"),
        (["RULE:[1:$1@$0](.*@PARTNER.ORG)s/@.*/-partner/", "DEFAULT"], "bob@PARTNER.ORG", "bob-partner"),
        (["RULE:[1:$1@$0](.*@PARTNER.ORG)s/@.*/-partner/", "DEFAULT"], "bob@ACME.ORG", "bob"),
        (["RULE:[2:$2.$1]"], "kafka/host@ACME.ORG", "host.kafka"),
        (["RULE:[1:$1]s/a/A/"], "banana@ACME.ORG", "bAnana"),
        (["RULE:[1:$1]s/a/A/g"], "banana@ACME.ORG", "bAnAnA"),
        (["RULE:[1:$1]/U"], "Alice@ACME.ORG", "ALICE"),
        (["RULE:[1:$1]/L"], "Alice@ACME.ORG", "alice"),
        (["RULE:[1:$1]s/(.)(.*)/$2$1/L"], "ALICE@ACME.ORG", "licea"),
        (["RULE:[3:$1]", "DEFAULT"], "alice@ACME.ORG", "alice"),
    ],
)
def test_the_first_rule_that_is_for_a_name_counts(rules: list[str], name: str, expected: str) -> None:
    assert LocalRules(rules).name(name, REALM) == expected


@pytest.mark.parametrize(
    ("rules", "name", "told"),
    [
        (["DEFAULT"], "alice@OTHER.ORG", "no rule of DEFAULT applies to 'alice@OTHER.ORG'"),
        (["RULE:[2:$1]", "RULE:[1:$1](b.*)"], "alice@ACME.ORG", "no rule of RULE:[2:$1], RULE:[1:$1](b.*)"),
        (
            ["RULE:[1:$1@$0]", "DEFAULT"],
            "alice@ACME.ORG",
            "'alice@ACME.ORG', of the rule RULE:[1:$1@$0], is no",
        ),
        (["RULE:[1:$1]s/.*//g", "DEFAULT"], "alice@ACME.ORG", "nothing is left of 'alice@ACME.ORG'"),
        (["DEFAULT"], "@ACME.ORG", "nothing is left of '@ACME.ORG'"),
    ],
)
def test_who_has_no_simple_name_is_nobody(rules: list[str], name: str, told: str) -> None:
    with pytest.raises(NoMatchingRule) as refused:
        LocalRules(rules).name(name, REALM)
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize(
    "name",
    [
        "a/b/c@R",
        "alice",
        "alice/host",
        "a@b@R",
        "alice@R/x",
        "a\\@b@R",
        "a\\/b@R",
        "a\\\\b@R",
        "alice\n@R",
        "al\u2028ice@R",
        "",
    ],
)
def test_a_name_of_any_other_form_is_nobodys(name: str) -> None:
    with pytest.raises(ValueError, match="malformed Kerberos name"):
        parts(name)
    with pytest.raises(ValueError, match="malformed Kerberos name"):
        LocalRules(["RULE:[1:x]", "RULE:[2:x]"]).name(name, REALM)


def test_without_a_default_realm_default_is_for_nobody() -> None:
    with pytest.raises(NoMatchingRule):
        LocalRules().name("alice@ACME.ORG", "")
