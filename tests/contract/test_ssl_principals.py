"""Names of certificates' owners against Kafka's: Java writes the subject, its mapper applies the rules."""

from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier

from proxy.security.distinguished_name import subject
from proxy.security.mapping_rules import MappingRules, NoMatchingRule
from tests.contract.test_wire_kafka_jars import run_java

CN, ORG, UNIT, C, DC = (
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.COUNTRY_NAME,
    NameOID.DOMAIN_COMPONENT,
)
KEY = ec.generate_private_key(ec.SECP256R1())

NAMES: list[list[list[tuple[ObjectIdentifier, str]]]] = [
    [[(CN, "alice")]],
    [
        [(C, "DE")],
        [(NameOID.STATE_OR_PROVINCE_NAME, "Berlin")],
        [(ORG, "Acme")],
        [(UNIT, "Data")],
        [(CN, "alice")],
    ],
    [[(DC, "com")], [(DC, "acme")], [(NameOID.USER_ID, "u1")], [(CN, "kafka.acme.com")]],
    [[(ORG, 'Acme, Inc. <a+b=c> #1; "x" \\ y')], [(CN, "#alice")]],
    [[(ORG, "  spaced  out  ")], [(CN, " ")], [(UNIT, "in the middle")]],
    [[(ORG, "Zoë GmbH")], [(CN, "Łukasz Ω 東京 🚰")]],
    [[(NameOID.EMAIL_ADDRESS, "alice@acme.com")], [(CN, "alice")]],
    [[(NameOID.SERIAL_NUMBER, "42")], [(NameOID.TITLE, "Dr")], [(NameOID.STREET_ADDRESS, "Main St 1")]],
    [[(NameOID.LOCALITY_NAME, "Köln")], [(NameOID.GIVEN_NAME, "A" * 60)], [(CN, "x")]],
    [[(UNIT, "a"), (CN, "b")], [(ORG, "c")]],
    [[(CN, "nul\0inside")]],
    [[(NameOID.PSEUDONYM, "p")]],
]

RULES = [
    "DEFAULT",
    "",
    "RULE:^CN=(.*?),.*$/$1/",
    "RULE:^CN=(.*?)(,.*)?$/$1/L, DEFAULT",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),.*$/$1@$2/U,RULE:^CN=(.*?)(,.*)?$/$1@$4-$12\\/x/",
    " RULE:^UID=(.*),(.*)$/$2/ ,  DEFAULT ",
    "RULE:.*/x/",
    "RULE:(?<first>CN=[^,]*).*/${first}!/U",
    "RULE:^CN=(\\w+)(,.*)?$/$1/",
    "RULE:^CN=alice$/a,b\\$1/",
    "RULE:no slash",
    "RULE:a/b",
    "garbage",
    "DEFAULT garbage",
    "RULE:(/x/",
    ",,DEFAULT,,",
    "RULE:[^🚰]*?/-/,DEFAULT",
    "RULE:(|CN=)[^🚰]*?/<$1>/U,DEFAULT",
]


PATTERNS = [
    r"^CN=(\w+)(?i),ou=.*$",
    r"(?i)^cn=(\w+),.*$",
    r"^(?i)cn=(\w+).*$",
    r"^(?i:cn)=(\w+).*$",
    r"^\QCN=\E(\w+).*$",
    r"^\QCN=(.*)\E(.*)$",
    r"^CN=([\Qae-\Eilc]+).*$",
    r"^CN=(\p{Alpha}+).*$",
    r"^CN=(\p{Lower}+),\P{Lower}+.*$",
    r"^CN=([\p{Alnum}.]+).*$",
    r"^CN=([^\p{Punct}]+).*$",
    r"^\p{Upper}+=(\p{Graph}*).*$",
    r"^CN=(\h*).*$",
    r"^CN=(\H+).*$",
    r"^CN=([\h\w]*).*$",
    r"^CN=(.*?)\v*$",
    r"^CN=(\V*)$",
    r"^CN=(.*)\R?$",
    r"^CN=(.*)\Z",
    r"^CN=(.*)\z",
    r"\ACN=(.*)$",
    r"^CN=(\x61\x{6c}\u0069\0143\x65).*$",
    r"^CN=(?<who>\w)(?:.*\k<who>)?.*$",
    r"^CN=(\w)(?:.*\1)?.*$",
    r"^CN=(\w)(?:.*\11)?.*$",
    r"^CN=(\w++),.*$",
    r"^CN=(\w*+)\w.*$",
    r"^CN=(?>(\w+)),.*$",
    r"^CN=([a-z&&[^b]]+).*$",
    r"^CN=([a-c[i-l]]+).*$",
    r"^CN=([]a-z]+).*$",
    r"^CN=([^]]+).*$",
    r"^CN=([a|b~~||&cil]+).*$",
    r"^CN=([&-l]+).*$",
    r"^CN=([a--z]+).*$",
    r"^CN=(\p{L}+).*$",
    r"^CN=(\p{IsAlphabetic}+).*$",
    r"^CN=(\X+).*$",
    r"\GCN=(\w+).*$",
    r"^CN=(a{0,2}.*)$",
    r"^CN=(a{,2}.*)$",
    r"^CN=({a}.*)$",
    r"(?x)^CN = (\w+) .* $",
    r"(?u)^CN=(\w+).*$",
    r"(?s)^CN=(.*)$",
    r"(?m)^CN=(.*)$",
    r"^CN=(\cA|.).*$",
    r"^CN=([\b]|.).*$",
    r"^CN=(\e?.*)$",
    r"^CN=(\y.*)$",
    r"^CN=(.*?)\\,.*$",
    r"^CN=((?:\\.|[^,])*).*$",
    r"^[\w.]+=([^,]+)(?:,.*)?$",
    r"^([(?<a>N-]+C?)=.*$",
    r"^CN=([{2}a-z]+).*$",
    r"^CN=(?<=CN=)(\w+).*$",
    r"^CN=(\w*)\b.*$",
    r"^CN=(.*?)\B.*$",
]
"""Of Java's regular expressions; those that Python cannot do are rejected, and never mean something else."""


TYPES = (_ASN1Type.UTF8String, _ASN1Type.T61String, _ASN1Type.IA5String, _ASN1Type.UniversalString)
BMP = _ASN1Type.BMPString
TEXTS = [
    "alice",
    "Zoë",
    "Ã©",
    "ab",
    " a ",
    "#a",
    "a,b",
    "a\0b",
    "\ufeffa",
    "e\u0301",
    "\u202ea",
    "İ",
    "ß",
    "𐐀",
]
"""In other types than usual. Java reads the bytes of each type as UTF-8."""


def certificate(name: list[list[tuple[ObjectIdentifier, str]]], asn1_type: _ASN1Type | None = None) -> bytes:
    parts = [
        x509.RelativeDistinguishedName(
            [x509.NameAttribute(oid, value, asn1_type, _validate=False) for oid, value in part]
        )
        for part in name
    ]
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(parts))
        .issuer_name(x509.Name([x509.NameAttribute(CN, "ca")]))
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(KEY, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.DER)


def our_answer(der: bytes, rules: str) -> str:
    try:
        return MappingRules(rules).name(subject(der))
    except NoMatchingRule:
        return "! NoMatchingRule"
    except ValueError:
        return "! refused"


def kafkas_answers(kafka_libs: Path, file: Path, questions: list[tuple[bytes, str]]) -> list[str]:
    lines = [
        f"{b64encode(der).decode()} {b64encode(rules.encode()).decode() or '='}" for der, rules in questions
    ]
    file.write_text("\n".join(lines) + "\n", encoding="ascii")
    answers = run_java(kafka_libs, "SslPrincipals.java", str(file)).split("\n")[: len(questions)]
    return [b64decode(answer).decode() for answer in answers]


@pytest.mark.kafka
@pytest.mark.spec("R9")
def test_owners_of_certificates_have_the_names_that_kafka_gives_them(
    kafka_libs: Path, tmp_path: Path
) -> None:
    rules_with_pattern = [f"RULE:{pattern}/<$1>/,DEFAULT" for pattern in PATTERNS]
    questions = [
        (certificate(name), rules) for name in NAMES for rules in RULES + rules_with_pattern if rules
    ]

    theirs = kafkas_answers(kafka_libs, tmp_path / "questions", questions)

    differ = []
    for (der, rules), kafka in zip(questions, theirs, strict=True):
        ours = our_answer(der, rules)
        # A rule that is wrong fails a broker when it is used, and us when we start.
        refused = ours == "! refused" and (kafka.startswith("! ") or rules in rules_with_pattern)
        if ours != kafka and not refused:
            differ.append((subject(der), rules, kafka, ours))
    assert differ == []


@pytest.mark.kafka
@pytest.mark.spec("R9")
def test_a_name_in_any_type_of_text_is_the_one_that_kafka_reads_or_none(
    kafka_libs: Path, tmp_path: Path
) -> None:
    rules = ["DEFAULT", "RULE:^(.*)$/$1/L", "RULE:^(.*)$/$1/U"]
    questions = [
        (certificate([[(CN, text)], [(UNIT, "office"), (NameOID.TITLE, text)]], asn1_type), rule)
        for text in TEXTS
        for asn1_type in (*TYPES, BMP)
        for rule in rules
    ]

    theirs = kafkas_answers(kafka_libs, tmp_path / "questions", questions)

    ours = [our_answer(*question) for question in questions]
    differ = [pair for pair in zip(theirs, ours, strict=True) if pair[0] != pair[1]]
    assert [pair for pair in differ if pair[1] != "! refused"] == []
    assert len(differ) < len(questions) / 4
