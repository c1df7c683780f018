"""Principals and groups from certificates: the subject, alternative names (SPIFFE) and units, by rules."""

from ipaddress import ip_address

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from proxy.security.mapping_rules import NoMatchingRule
from proxy.security.principal import Principal
from proxy.security.principal_builder import (
    ALTERNATIVE_NAME_RULES,
    FROM,
    GROUPS_FROM,
    GROUPS_RULES,
    MAPPING_RULES,
    AuthenticationContext,
    DefaultPrincipalBuilder,
)
from tests.support.named_certificates import named, uri

pytestmark = pytest.mark.spec("A9")

API = uri("spiffe://example.org/ns/payments/sa/api")
SPIFFE = r"RULE:^SAN:URI:spiffe:\/\/example\.org\/ns\/([^\/]+)\/sa\/([^\/]+)$/$1.$2/"
"""Kafka's syntax: a slash in a pattern is escaped."""


def principal(certificate: bytes, **settings: str) -> Principal:
    builder = DefaultPrincipalBuilder()
    names = {
        "names_from": FROM,
        "san_rules": ALTERNATIVE_NAME_RULES,
        "rules": MAPPING_RULES,
        "groups_from": GROUPS_FROM,
        "groups_rules": GROUPS_RULES,
    }
    builder.configure({names[name]: value for name, value in settings.items()})
    return builder.build(
        AuthenticationContext(listener="SSL", security_protocol="SSL", host="", certificate=certificate)
    )


@pytest.mark.parametrize(
    ("source", "name", "text"),
    [
        ("SAN:URI", API, "SAN:URI:spiffe://example.org/ns/payments/sa/api"),
        ("SAN:DNS", x509.DNSName("api.example.org"), "SAN:DNS:api.example.org"),
        ("SAN:EMAIL", x509.RFC822Name("api@example.org"), "SAN:EMAIL:api@example.org"),
        ("SAN:IP", x509.IPAddress(ip_address("2001:db8::1")), "SAN:IP:2001:db8::1"),
    ],
)
def test_a_name_begins_with_its_kind(source: str, name: x509.GeneralName, text: str) -> None:
    assert str(principal(named("alice", [name]), names_from=source)) == f"User:{text}"


def test_an_svid_without_a_subject_has_the_name_that_the_rules_make_of_its_uri() -> None:
    assert str(principal(named(None, [API]), names_from="SAN:URI", san_rules=SPIFFE)) == "User:payments.api"


def test_the_first_source_with_a_name_counts_and_each_has_its_own_rules() -> None:
    settings = {"names_from": "SAN:URI,SUBJECT", "san_rules": SPIFFE, "rules": "RULE:^CN=(.*)$/$1/U"}

    assert str(principal(named("alice", [API]), **settings)) == "User:payments.api"
    assert str(principal(named("alice", [uri("https://alice.example")]), **settings)) == "User:ALICE"
    assert str(principal(named("alice"), **settings)) == "User:ALICE"
    settings["names_from"] = "SUBJECT,SAN:URI"
    assert str(principal(named("alice", [API]), **settings)) == "User:ALICE"
    assert str(principal(named(None, [API]), **settings)) == "User:payments.api"


@pytest.mark.parametrize("certificate", [named("alice"), named("alice", [uri("spiffe://else.example/x")])])
def test_a_certificate_from_which_no_rule_makes_a_name_is_nobody(certificate: bytes) -> None:
    with pytest.raises(NoMatchingRule, match=r"no rule applies to SAN:URI of the certificate of 'CN=alice'"):
        principal(certificate, names_from="SAN:URI", san_rules=SPIFFE)


def test_two_names_of_one_kind_are_nobody_unless_the_rules_make_them_one() -> None:
    certificate = named("alice", [x509.DNSName("a.example.org"), x509.DNSName("localhost"), API])

    with pytest.raises(
        ValueError, match=r"SAN:DNS of the certificate has several names: 'SAN:DNS:a\.example"
    ):
        principal(certificate, names_from="SAN:DNS,SUBJECT")
    rule = r"RULE:^SAN:DNS:([^.]+)\.example\.org$/$1/"
    assert str(principal(certificate, names_from="SAN:DNS", san_rules=rule)) == "User:a"
    twice = named(None, [API, API])
    assert str(principal(twice, names_from="SAN:URI", san_rules=SPIFFE)) == "User:payments.api"


def test_no_alternative_name_passes_for_a_subject() -> None:
    """A CA may let clients choose alternative names, and not subjects."""
    impostor = named(None, [uri("CN=admin,O=acme"), x509.DNSName("CN=admin")])

    assert str(principal(impostor, names_from="SUBJECT,SAN:URI")) == "User:SAN:URI:CN=admin,O=acme"


@pytest.mark.parametrize("text", ["spiffe://example.org/a\0b", "spiffe://example.org/a\nb", "\x7f"])
@pytest.mark.parametrize("settings", [{"names_from": "SAN:URI"}, {"groups_from": "SAN:URI"}])
def test_a_name_with_a_control_character_is_nobody(text: str, settings: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="SAN:URI of the certificate contains a control character"):
        principal(named("alice", [uri(text)]), **settings)


@pytest.mark.spec("A8")
def test_groups_are_units_and_alternative_names_by_rule() -> None:
    certificate = named("alice", [API, x509.DNSName("x.example")], ["payments", "on call", "payments"])

    found = principal(certificate, groups_from="OU")
    assert (found.name.partition(",")[0], found.groups) == ("CN=alice", ("OU=on call", "OU=payments"))
    rules = r"RULE:^OU=(.*)$/$1/,RULE:^SAN:URI:spiffe:\/\/example\.org\/ns\/([^\/]+)\/.*$/ns:$1/"
    found = principal(certificate, groups_from="OU,SAN:URI,SAN:DNS", groups_rules=rules)
    assert found.groups == ("ns:payments", "on call", "payments")
    assert principal(named("alice"), groups_from="OU").groups == ()
    assert principal(certificate).groups == ()


@pytest.mark.spec("A8")
def test_more_groups_than_a_session_may_have_are_nobody() -> None:
    names = [uri(f"urn:x:{number}") for number in range(1_001)]

    with pytest.raises(ValueError, match="1001 groups, limit 1000"):
        principal(named("alice", names), groups_from="SAN:URI")


HUGE = "x" * 32_768
"""Longer than a certificate may be of which more than the subject is read."""


@pytest.mark.spec("A8", "O8")
@pytest.mark.parametrize(
    ("certificate", "settings", "reason"),
    [
        (
            named("a", [uri(f"urn:{n}") for n in range(5_000)]),
            {"groups_from": "SAN:URI"},
            "SAN:URI of a cert",
        ),
        (named("a", [uri(HUGE)]), {"names_from": "SAN:URI"}, "SAN:URI of a certificate of"),
        (named("a", (), [HUGE]), {"groups_from": "OU"}, "OU of a certificate of"),
        (named("a", (), ["u"] * 2_000), {"groups_from": "OU"}, "OU of a certificate of"),
        (named("a", (), [HUGE[:9_000]]), {"groups_from": "OU"}, "a group has 9003 bytes, limit 249"),
        (named("a", (), [HUGE[:9_000] + "\x01"]), {"groups_from": "OU"}, "contains a control character"),
        (named("a", [uri(HUGE[:7_000]), uri(HUGE[:7_001])]), {"names_from": "SAN:URI"}, "has several names"),
    ],
    ids=[
        "many names",
        "a huge name",
        "a huge unit",
        "many units",
        "a long group",
        "a control character",
        "two",
    ],
)
def test_a_certificate_with_many_or_huge_names_is_nobody_and_the_reason_is_short(
    certificate: bytes, settings: dict[str, str], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason) as wrong:
        principal(certificate, **settings)
    assert len(str(wrong.value)) < 250


@pytest.mark.spec("A8", "O8")
def test_a_unit_that_looks_like_an_acls_principal_is_a_name_and_the_subject_alone_may_be_long() -> None:
    assert principal(named("a", (), ["Group:payments"]), groups_from="OU").groups == ("OU=Group:payments",)
    assert len(principal(named("a", (), [HUGE])).name) > len(HUGE)


@given(st.binary(max_size=300))
def test_bytes_that_are_no_certificate_are_nobody(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        principal(content, names_from="SAN:URI", groups_from="OU")


@given(st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30), max_size=4))
def test_every_certificate_has_exactly_one_name_or_none(texts: list[str]) -> None:
    certificate = named(None, map(uri, texts))

    if len(set(texts)) == 1:
        assert principal(certificate, names_from="SAN:URI").name == f"SAN:URI:{texts[0]}"
    else:
        with pytest.raises((NoMatchingRule, ValueError)):
            principal(certificate, names_from="SAN:URI")


@pytest.mark.spec("R9", "O8")
def test_a_subject_with_so_many_parts_that_rules_would_take_long_is_nobody() -> None:
    """Of Kafka's documentation: each of its groups may end at many commas."""
    rules = "RULE:^CN=(.*?),OU=(.*?),OU=(.*?),OU=(.*?),OU=(.*?),C=(.*?)$/$1@$2/L"

    with pytest.raises(NoMatchingRule):
        principal(named("alice", units=["data"] * 63), rules=rules)
    with pytest.raises(ValueError, match="the certificate's subject has 65 parts, limit 64"):
        principal(named("alice", units=["data"] * 64), rules=rules)
