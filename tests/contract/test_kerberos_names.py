"""Names of Kerberos users against Kafka's: its own class applies the same rules to the same names."""

from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from proxy.security.kerberos_names import LocalRules
from proxy.security.mapping_rules import NoMatchingRule
from tests.contract.test_wire_kafka_jars import run_java

REALM = "ACME.ORG"
NAMES = [
    "alice@ACME.ORG",
    "Alice.Smith-1_x$@ACME.ORG",
    "kafka/broker-1.acme.org@ACME.ORG",
    "alice@PARTNER.ORG",
    "HTTP/web@PARTNER.ORG",
    "banana/aa@ACME.ORG",
    "alice@acme.org",
    "a/b/c@ACME.ORG",
    "a@b@ACME.ORG",
    "/host@ACME.ORG",
    "alice/@ACME.ORG",
    "alice@",
    "Zoë Ł@ACME.ORG",
    "東京/🚰@ACME.ORG",
    "a b@ACME.ORG",
]
RULES = [
    ["DEFAULT"],
    ["RULE:[1:$1]"],
    ["RULE:[2:$1]"],
    ["RULE:[2:$2@$0]"],
    ["RULE:[1:$1@$0](.*@ACME.ORG)s/@.*//", "DEFAULT"],
    ["RULE:[1:$1@$0](.*@PARTNER.ORG)s/@.*/-p/L", "RULE:[2:$1;$2]", "DEFAULT"],
    ["RULE:[1:$1](a.*)", "RULE:[1:other]", "RULE:[2:service]"],
    ["RULE:[1:$1]s/a/A/", "RULE:[2:$1$2]s/a/A/g"],
    ["RULE:[1:$1]s/b*/-/g", "RULE:[2:$1$2]s/x*/-/"],
    ["RULE:[1:$1]/L", "RULE:[2:$1]/U"],
    ["RULE:[1:$1]s/.*?/-/g", "RULE:[2:$1$2]s/|a/-/"],
    ["RULE:[1:$1]s/[a-z]*?/-/", "RULE:[2:$1$2]s/(|a)a??/-/"],
    ["RULE:[1:$1]L", "RULE:[2:$1]U"],
    ["RULE:[1:$1]s/(\\w)(.*)/$2.$1/", "RULE:[2:$2]s/^(.)(.)?.*$/$1$2x/"],
    ["RULE:[1:$1](\\w+)", "RULE:[2:$1](\\w+)"],
    ["RULE:[1:$1](\\S+\\.\\S+)s/(?<first>[^.]*).*/${first}/U", "DEFAULT"],
    ["RULE:[1:$0]", "RULE:[2:$0$0]"],
    ["RULE:[1:$1]s/.*//", "DEFAULT"],
    ["RULE:[1:a/b]", "DEFAULT"],
    ["RULE:[1:$1]s/a/\\$1/g"],
    ["RULE:[0:x]", "RULE:[3:$3]", "RULE:[1:fine]", "RULE:[2:fine]"],
    ["RULE:[1:]", "RULE:[2:]"],
    ["RULE:[01:one]", "RULE:[2:two]"],
    ["RULE:[1:$1]()", "RULE:[2:$1]()"],
    # Wrong ones.
    [""],
    ["default"],
    ["RULE:[1:$1](())", "RULE:[2:$1]"],
    ["DEFAULT/L"],
    [" DEFAULT"],
    ["DEFAULT "],
    ["DEFAULT,DEFAULT"],
    ["RULE:[:$1]"],
    ["RULE:[x:$1]"],
    ["RULE:[-1:$1]"],
    ["RULE:[1:$1"],
    ["RULE:[1:$1]x"],
    ["RULE:[1:$1]s/a/b"],
    ["RULE:[1:$1]s/a/b/gg"],
    ["RULE:[1:$1]s/a/b/G"],
    ["RULE:[1:$1]/LU"],
    ["RULE:[1:$1](a"],
    ["RULE:[1:$1]s/(/b/"],
    ["RULE:[1:$1](*)"],
    # Wrong when they are used.
    ["RULE:[1:$2]", "RULE:[2:$3]"],
    ["RULE:[1:$]", "RULE:[2:$x]"],
    ["RULE:[1:$1]s/(.)/$2/"],
    ["RULE:[1:$1]s/./$1/"],
    ["RULE:[1:$1]s/./$/"],
    ["RULE:[1:$1]s/./\\/"],
    ["RULE:[1:$1]s/./${nobody}/"],
]


def our_answer(name: str, rules: list[str]) -> str:
    try:
        local = LocalRules(rules)
    except ValueError:
        return "? refused"
    try:
        return local.name(name, REALM)
    except NoMatchingRule:
        return "! NoMatchingRule"
    except ValueError:
        return "! IllegalArgumentException"


def kafkas_answers(kafka_libs: Path, file: Path, questions: list[tuple[str, list[str]]]) -> list[str]:
    lines = [
        " ".join(b64encode(text.encode()).decode() or "-" for text in (REALM, name, *rules))
        for name, rules in questions
    ]
    file.write_text("\n".join(lines) + "\n", encoding="ascii")
    answers = run_java(kafka_libs, "KerberosNames.java", str(file)).split("\n")[: len(questions)]
    return [b64decode(answer).decode() for answer in answers]


@pytest.mark.kafka
@pytest.mark.spec("R9")
def test_kerberos_users_have_the_names_that_kafka_gives_them(kafka_libs: Path, tmp_path: Path) -> None:
    questions = [(name, rules) for rules in RULES for name in NAMES]

    theirs = kafkas_answers(kafka_libs, tmp_path / "questions", questions)

    differ, refused, failed_there = [], set(), set()
    for (name, rules), kafka in zip(questions, theirs, strict=True):
        ours = our_answer(name, rules)
        if kafka[:2] in ("? ", "! ") and kafka != "! NoMatchingRule":
            failed_there.add(tuple(rules))
        if ours == "? refused":
            refused.add(tuple(rules))
        elif ours != kafka and not (kafka == "" and ours == "! NoMatchingRule"):
            differ.append((name, rules, kafka, ours))
    assert differ == []
    # A rule that is wrong fails a broker when it is used, if not before, and us when we start.
    assert refused <= failed_there
    assert {tuple(rules) for rules in RULES[RULES.index([""]) :]} == refused
