"""`penstock policy`: what it prints and returns, by what names a policy."""

import json
from pathlib import Path

import pytest

from proxy.__main__ import main
from tests.support.images import acl_record
from tests.support.log_files import batch, segment

pytestmark = pytest.mark.spec("D18")

LISTED = """\
Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=payroll-, patternType=PREFIXED)`:~
 \t(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)
\t(principal=User:CN=etl, O=b, host=10.0.0.0/8, operation=ALL, permissionType=ALLOW)

Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=*, patternType=LITERAL)`:~
 \t(principal=User:*, host=*, operation=DESCRIBE, permissionType=ALLOW)
""".replace("~", " ")

NARROWED = """\
# Alice reads reports only.
kafka-acls --remove --allow-principal User:alice --operation Read --topic payroll- \\
    --resource-pattern-type prefixed
kafka-acls --add --allow-principal User:alice --operation Read --topic payroll-reports- \\
    --resource-pattern-type prefixed
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "listed.txt").write_text(LISTED, encoding="utf-8")
    (tmp_path / "narrowed.txt").write_text(NARROWED, encoding="utf-8")
    return tmp_path


def test_a_proposal_is_compared_with_what_kafka_acls_has_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "diff", "listed.txt", "narrowed.txt"]) == 1

    assert capsys.readouterr().out == (
        "NEWLY DENIED: User:alice from *: READ TOPIC payroll-* but payroll-reports-*\n"
        "    User:alice 192.0.2.1 READ TOPIC payroll-x: allowed (acl) -> denied (default.deny)\n"
        "1 region: 0 newly allowed, 1 newly denied\n"
    )


RIGHTS = """\
# Alice reads reports only.
acls:
- {resource.type: TOPIC, resource.name: payroll-reports-, pattern.type: PREFIXED,
   principal: 'User:alice', operation: READ}
- {resource.type: TOPIC, resource.name: payroll-, pattern.type: PREFIXED,
   principal: 'User:CN=etl, O=b', host: 10.0.0.0/8, operation: ALL}
- {resource.type: TOPIC, resource.name: '*', principal: 'User:*', operation: DESCRIBE}
quotas: []
"""


@pytest.mark.spec("D19")
def test_a_file_of_rights_is_compared_as_the_whole_policy(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "rights.yaml").write_text(RIGHTS, encoding="utf-8")
    assert main(["policy", "diff", "listed.txt", "rights.yaml"]) == 1
    of_rights = capsys.readouterr().out
    assert main(["policy", "diff", "listed.txt", "narrowed.txt"]) == 1
    assert capsys.readouterr().out == of_rights

    (files / "rights.yaml").write_text("acls:\n- {}\n", encoding="utf-8")
    assert main(["policy", "diff", "listed.txt", "rights.yaml"]) == 2
    assert "rights.yaml:2: acls[0] > resource.type" in capsys.readouterr().err


LISTED_WITH_END = LISTED.replace(
    "operation=READ, permissionType=ALLOW)", "operation=READ, permissionType=ALLOW, until={})"
)


@pytest.mark.spec("A11")
def test_another_end_is_a_difference_and_what_has_ended_allows_nothing(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    later, ended = "2999-01-31T18:00:00.000Z", "2001-01-31T18:00:00.000Z"
    (files / "later.txt").write_text(LISTED_WITH_END.format(later), encoding="utf-8")
    (files / "ended.txt").write_text(LISTED_WITH_END.format(ended), encoding="utf-8")
    acl = "ALLOW User:alice from * READ TOPIC PREFIXED payroll-"

    assert main(["policy", "diff", "listed.txt", "later.txt"]) == 1
    assert capsys.readouterr().out == f"OTHER END: {acl}: never -> {later}\n"
    assert main(["policy", "diff", "listed.txt", "later.txt", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ends"] == [{"acl": acl, "old": "never", "new": later}]
    assert main(["policy", "diff", "later.txt", "later.txt"]) == 0
    assert capsys.readouterr().out.startswith("equal")
    assert main(["policy", "diff", "listed.txt", "ended.txt"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("NEWLY DENIED: User:alice from *: READ TOPIC payroll-*\n")
    assert "OTHER END" not in said


def test_json_has_the_same_regions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "diff", "listed.txt", "narrowed.txt", "--json"]) == 1

    assert json.loads(capsys.readouterr().out) == {
        "equal": False,
        "ends": [],
        "regions": [
            {
                "effect": "newly_denied",
                "text": "NEWLY DENIED: User:alice from *: READ TOPIC payroll-* but payroll-reports-*",
                "principals": ["User:alice"],
                "groups": [],
                "hosts": [{"of": "*", "but": []}],
                "operations": ["READ"],
                "resource_type": "TOPIC",
                "names": [{"of": "payroll-*", "but": [{"of": "payroll-reports-*", "but": []}]}],
                "witness": {
                    "principal": "User:alice",
                    "groups": [],
                    "host": "192.0.2.1",
                    "operation": "READ",
                    "resource_type": "TOPIC",
                    "resource_name": "payroll-x",
                    "old_rule": "acl",
                    "new_rule": "default.deny",
                    "text": "User:alice 192.0.2.1 READ TOPIC payroll-x: allowed (acl)"
                    " -> denied (default.deny)",
                },
            }
        ],
    }


def test_equal_policies_have_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "diff", "listed.txt", "listed.txt", "--super-users", "User:admin"]) == 0

    assert capsys.readouterr().out == "equal: every request is decided as before\n"


def test_two_offsets_of_a_log_are_compared(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = segment(files, batch(0, acl_record(1)), batch(1, acl_record(2, "bills", host="10.0.0.0/8")))

    assert main(["policy", "diff", f"{log}@0", f"{log}@1"]) == 1

    assert capsys.readouterr().out == (
        "NEWLY ALLOWED: User:alice from 10.0.0.0/8: READ, DESCRIBE TOPIC bills\n"
        "    User:alice 10.0.0.1 READ TOPIC bills: denied (default.deny) -> allowed (acl)\n"
        "1 region: 1 newly allowed, 0 newly denied\n"
    )


def test_a_move_from_an_acl_file_shows_that_others_lose_what_was_open(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alice = {"principal": "alice", "permissionType": "ALLOW", "operations": ["READ"], "hosts": ["*"]}
    topics = {"orders": {"acls": [alice]}}
    (files / "acls.json").write_text(json.dumps({"version": 1, "acls": [alice], "topics": topics}))
    (files / "moved.txt").write_text(
        "kafka-acls --add --allow-principal User:alice --operation Read --topic orders"
    )

    assert main(["policy", "diff", "acls.json", "acls.json"]) == 0
    capsys.readouterr()
    assert main(["policy", "diff", "moved.txt", "acls.json"]) == 1

    lines = capsys.readouterr().out.splitlines()
    assert (
        "NEWLY ALLOWED: any principal from *: READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS,"
        " ALTER_CONFIGS TOPIC * but orders"
    ) in lines
    assert not [line for line in lines if line.startswith("NEWLY DENIED")]


def test_settings_are_those_of_the_configuration_or_of_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "diff", "listed.txt", "narrowed.txt", "--super-users", "User:alice"]) == 0

    assert main(["policy", "diff", "listed.txt", "narrowed.txt", "--super-users", "alice"]) == 2
    assert "listed.txt: super.users: expected a principal" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "{path}: the file proposes nothing; write a kafka-acls command, for example"),
        (LISTED + "Current ACL", "{path}: line 7 is no line of kafka-acls --list: 'Current ACL'"),
        (LISTED.replace("=READ", "=SING"), "{path}: line 2: SING is unknown"),
        ('{"version": 2, "acls": []}', "{path}: the file: version 2, supported: 1"),
        (
            "kafka-acls --remove --topic t",
            "{path}:1: there is no such ACL: every ACL TOPIC LITERAL t",
        ),
        ("kafka-acls --add --topic t", "{path}:1: --add needs --allow-principal or --deny-principal"),
    ],
)
def test_what_cannot_be_read_has_exit_code_2(
    files: Path, content: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "new").write_text(content, encoding="utf-8")

    assert main(["policy", "diff", "listed.txt", "new"]) == 2

    printed = capsys.readouterr()
    assert (printed.out, printed.err.strip()) == ("", problem.format(path="new"))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["missing", "listed.txt"], "missing: "),
        (["live", "listed.txt"], "live: live needs --bootstrap-server"),
        (["topic", "listed.txt"], "topic: --log topic needs --config"),
    ],
)
def test_a_source_that_needs_something_says_so(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy", "diff", *words]) == 2

    assert capsys.readouterr().err.startswith(problem)


def test_a_proposal_does_not_change_an_acl_file(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "acls.json").write_text('{"version": 1, "acls": []}')

    assert main(["policy", "diff", "acls.json", "narrowed.txt"]) == 2

    assert "it does not fit an ACL file" in capsys.readouterr().err


def test_an_acl_that_is_not_understood_is_noted(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "names.txt").write_text(LISTED.replace("10.0.0.0/8", "db-1"), encoding="utf-8")

    assert main(["policy", "diff", "names.txt", "names.txt"]) == 0

    assert "note: names.txt: ALLOW User:CN=etl, O=b from db-1 ALL TOPIC PREFIXED payroll-: Host 'db-1'" in (
        capsys.readouterr().err
    )


def test_assertions_are_proved_or_have_a_counterexample(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "asserted").write_text(
        "# Salaries.\n"
        'payroll: no principal but User:alice and "User:CN=etl, O=b" may READ topic prefix payroll-\n'
        "User:ci never ANY topic prefix prod-\n"
    )

    assert main(["policy", "assert", "asserted", "listed.txt"]) == 1
    assert capsys.readouterr().out == (
        "payroll: proved\nline 3: User:ci 192.0.2.1 DESCRIBE TOPIC prod-x is allowed (acl)\n"
    )

    assert main(["policy", "assert", "asserted", "listed.txt", "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["violations"]
    assert (found["name"], found["allowed"], found["rule"]) == ("line 3", True, "acl")
    assert found["assertion"] == "User:ci never ANY topic prefix prod-"

    (files / "asserted").write_text("User:alice may READ topic prefix payroll-\n")
    assert main(["policy", "assert", "asserted", "listed.txt"]) == 0

    (files / "asserted").write_text("# nothing\n")
    assert main(["policy", "assert", "asserted", "listed.txt"]) == 2

    (files / "asserted").write_text("User:alice must READ topic orders\n")
    assert main(["policy", "assert", "asserted", "listed.txt"]) == 2
    assert capsys.readouterr().err.endswith("asserted: line 1, column 12: expected 'may' or 'never'\n")


def test_useless_acls_are_listed_with_the_reason(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "added.txt").write_text(
        "kafka-acls --add --allow-principal User:alice --operation Read --topic payroll-2026"
        " --topic payroll- --resource-pattern-type prefixed\n"
    )

    assert main(["policy", "useless", "added.txt"]) == 1
    assert capsys.readouterr().out == (
        "ALLOW User:alice from * READ TOPIC PREFIXED payroll-2026\n"
        "    covered by another ACL: ALLOW User:alice from * READ TOPIC PREFIXED payroll-\n"
    )
    assert main(["policy", "useless", "added.txt", "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["useless"]
    assert found["because_of"] == "ALLOW User:alice from * READ TOPIC PREFIXED payroll-"
    assert main(["policy", "useless", "listed.txt"]) == 0

    (files / "acls.json").write_text('{"version": 1, "acls": []}')
    assert main(["policy", "useless", "acls.json"]) == 2
