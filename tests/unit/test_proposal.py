"""A proposal: read from commands, compared with a log, with the effect on single questions."""

from pathlib import Path

import pytest

from proxy.__main__ import main
from proxy.commands.init import Wanted, write_examples
from spark_audit.least_privilege.commands import acl_command
from spark_audit.proposal import ProposalError, ProposedAcl, Removal, parse_proposal, resolve
from tests.support.images import acl_record, quota_record, scram_record
from tests.support.log_files import batch, segment

pytestmark = pytest.mark.spec("D10")

ALICE_READS = ProposedAcl("TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW")


def test_commands_and_settings_become_changes() -> None:
    proposal = parse_proposal(
        "# Retire the wildcard.\n"
        "bin/kafka-acls.sh --bootstrap-server b:9092 --remove --force \\\n"
        "    --allow-principal User:alice --operation Read --topic '*'  # from 2019\n"
        "\n"
        "kafka-acls --add --deny-principal=User:bob --deny-host 10.0.0.1 --operation DescribeConfigs"
        " --group g\n"
        "kafka-configs.sh --alter --entity-type users --entity-default --entity-type clients --entity-name c"
        " --add-config producer_byte_rate=1024,request_percentage=50.5 --delete-config consumer_byte_rate\n"
        "super.users = User:admin; User:CN=a,O=b\n"
        "allow.everyone.if.no.acl.found=false\n"
        "connections.max.reauth.ms=3600000\n",
        "p",
    )

    entity = (("client-id", "c"), ("user", None))
    assert proposal.removed == {Removal("TOPIC", "*", "LITERAL", ("User:alice", "*", "READ", "ALLOW")): "p:2"}
    assert proposal.added == {
        ProposedAcl("GROUP", "g", "LITERAL", "User:bob", "10.0.0.1", "DESCRIBE_CONFIGS", "DENY"): "p:5"
    }
    assert proposal.quotas == {
        (entity, "producer_byte_rate"): (1024.0, "p:6"),
        (entity, "request_percentage"): (50.5, "p:6"),
        (entity, "consumer_byte_rate"): (None, "p:6"),
    }
    assert proposal.super_users == ("User:admin", "User:CN=a,O=b")
    assert (proposal.allow_everyone, proposal.max_reauth_ms) == (False, 3_600_000)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("kafka-acl --add", "'kafka-acl' is no change; write kafka-acls, kafka-configs, member or KEY=VALUE"),
        ("kafka-acls --add --topics t", "--topics is unknown; did you mean --topic?"),
        ("kafka-acls --topic t", "write either --add or --remove"),
        ("kafka-acls --add --topic t", "--add needs --allow-principal or --deny-principal"),
        ("kafka-acls --add --topic", "argument --topic: expected one argument"),
        ("kafka-acls --add --topic 't", "No closing quotation"),
        ("kafka-acls --add --allow-principal User:a", "no resource is named; write --topic NAME"),
        ("kafka-acls --add --topic '' --allow-principal User:a", "the name of a resource is empty"),
        (
            "kafka-acls --add --topic t --allow-principal alice",
            "write its type before it, such as User:alice",
        ),
        ("kafka-acls --add --topic t --allow-principal User:a --operation Reed", "did you mean Read?"),
        ("kafka-acls --add --group g --allow-principal User:a --operation Write", "no operation on a GROUP"),
        (
            "kafka-acls --add --topic t --allow-principal User:a --resource-pattern-type match",
            "is literal or prefixed",
        ),
        ("kafka-acls --add --producer --group g --allow-principal User:a", "--producer needs --topic"),
        ("kafka-acls --add --consumer --topic t --allow-principal User:a", "--consumer needs --topic and"),
        ("kafka-acls --add --topic t --idempotent --allow-principal User:a", "--idempotent needs --producer"),
        ("kafka-configs --alter --add-config producer_rate=3 --user a", "did you mean producer_byte_rate?"),
        ("kafka-configs --alter --add-config producer_byte_rate=0 --user a", "write a number above 0"),
        (
            "kafka-configs --alter --add-config producer_byte_rate=1 --entity-type users",
            "needs one --entity-",
        ),
        (
            "kafka-configs --alter --add-config x=1 --entity-type ips --entity-name 1",
            "quotas of ips cannot be",
        ),
        ("kafka-configs --alter --add-config producer_byte_rate=1", "the quota needs --entity-type"),
        ("kafka-configs --add-config producer_byte_rate=1 --user a", "is changed with --alter"),
        ("super.user=User:a", "did you mean super.users?"),
        ("super.users=alice", "write its type before it"),
        ("allow.everyone.if.no.acl.found=yes", "write true or false"),
        ("connections.max.reauth.ms=1h", "write a number of milliseconds"),
    ],
)
def test_an_error_names_the_line_and_what_to_write(line: str, problem: str) -> None:
    with pytest.raises(ProposalError) as error:
        parse_proposal(f"super.users=User:a\n\n{line}", "p")

    assert [found.partition(": ")[0] for found in error.value.problems] == ["p:3"]
    assert problem in error.value.problems[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the file proposes nothing"),
        ("member User:alice left Group:x", "write member PRINCIPAL joins GROUP or member PRINCIPAL leaves"),
        ("member User:alice joins payments", "write member PRINCIPAL joins GROUP"),
        ("member alice joins Group:x", "'alice' is no principal"),
        (
            "member User:a joins Group:x\nmember User:a leaves Group:x",
            "p:2: the same member does the opposite at p:1",
        ),
        (
            "kafka-acls --add --topic t --allow-principal User:a\n"
            "kafka-acls --remove --topic t --allow-principal User:a",
            "p:2: ALLOW User:a from * ALL TOPIC LITERAL t is removed here and added at p:1",
        ),
        (
            "kafka-configs --alter --add-config producer_byte_rate=1 --user a\n"
            "kafka-configs --alter --delete-config producer_byte_rate --user a",
            "p:2: producer_byte_rate of the same entity has another value at p:1",
        ),
        ("super.users=User:a\nsuper.users=User:b", "p:2: super.users is set at p:1 already"),
    ],
)
def test_a_contradiction_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(ProposalError) as error:
        parse_proposal(text, "p")

    assert [problem in found for found in error.value.problems] == [True]


def test_a_removal_selects_what_kafka_acls_would_delete() -> None:
    there = {
        "1": ALICE_READS,
        "2": ALICE_READS._replace(resource_name="or", pattern_type="PREFIXED", operation="ALL"),
        "3": ALICE_READS._replace(resource_name="*"),
        "4": ALICE_READS._replace(host="10.0.0.1"),
        "5": ALICE_READS._replace(resource_type="GROUP"),
    }

    def removed(line: str) -> list[str]:
        return sorted(resolve(parse_proposal(f"kafka-acls --remove {line}", "p"), there, (), ()).removed)

    one = "--allow-principal User:alice --topic orders"
    assert removed(f"{one} --operation Read") == ["1"]
    assert removed(one) == []  # The default is the operation All, not any operation.
    assert removed("--topic orders") == ["1", "4"]
    assert removed("--topic orders --resource-pattern-type match") == ["1", "2", "3", "4"]
    assert removed("--topic or --resource-pattern-type any") == ["2"]


def test_what_does_not_fit_the_state_is_said() -> None:
    proposal = parse_proposal(
        "kafka-acls --remove --allow-principal User:alice --operation Read --topic order\n"
        "kafka-acls --add --allow-principal User:alice --operation Read --topic orders\n"
        "kafka-acls --add --allow-principal User:alcie --operation Read --topic orders\n"
        "kafka-configs --alter --delete-config producer_byte_rate --user alice\n"
        "kafka-configs --alter --add-config producer_byte_rate=5 --user Group:staff\n"
        "kafka-configs --alter --add-config producer_byte_rate=5 --user Group:stuff\n",
        "p",
    )

    found = resolve(proposal, {"1": ALICE_READS}, (), {"User:alice", "Group:staff"})

    assert found.problems == [
        "p:1: there is no such ACL: ALLOW User:alice from * READ TOPIC LITERAL order; did you mean"
        " ALLOW User:alice from * READ TOPIC LITERAL orders?",
        "p:4: no producer_byte_rate is set for this entity",
    ]
    assert found.warnings == [
        "p:2: there is this ACL already: ALLOW User:alice from * READ TOPIC LITERAL orders",
        "p:3: User:alcie is in no ACL, quota or login yet; did you mean User:alice?",
        "p:6: Group:stuff is in no ACL, quota or login yet; did you mean Group:staff?",
    ]
    assert found.added == [ALICE_READS._replace(principal="User:alcie")]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    records = [
        acl_record(1, "orders"),
        quota_record("producer_byte_rate", 5.0, user="al/ice"),
        scram_record("bob"),
    ]
    return segment(tmp_path, batch(0, *records))


def check(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, list[str], list[str]]:
    # Without main: its log lines would go to this test's standard error for good.
    code = main(["check", *map(str, words)])
    said = capsys.readouterr()
    return code, said.out.splitlines(), said.err.splitlines()


def test_penstock_check_says_what_a_proposal_changes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, log: Path
) -> None:
    proposal, questions = tmp_path / "proposal", tmp_path / "questions"
    proposal.write_text(
        "kafka-acls --remove --allow-principal User:alice --operation Read --topic orders\n"
        "kafka-acls --add --allow-principal User:bob --operation Write --topic ord"
        " --resource-pattern-type prefixed\n"
        "kafka-configs --alter --delete-config producer_byte_rate --user al/ice\n"
    )
    questions.write_text(
        "User:alice 10.0.0.1 Read Topic orders\nUser:bob 10.0.0.1 Describe topic orders\n"
        "User:admin 10.0.0.1 Write TransactionalId t\n"
    )
    write_examples(Wanted(tmp_path, "controller"))
    config = tmp_path / "controller.yaml"  # User:admin is a super user there.
    # The log is not signed.
    lines = config.read_text().splitlines(keepends=True)
    config.write_text("".join(line for line in lines if not line.startswith("metadata:")))

    code, out, err = check(
        capsys, "--proposal", proposal, "--log", log, "--questions", questions, "-c", config
    )

    assert (code, [line for line in err if "warning" not in line and "note" not in line]) == (0, [])
    assert out[1:] == [
        f"{proposal}: ok",
        "at offset 2: 1 ACLs to add, 1 to remove, 1 quotas and 0 settings to change",
        "User:alice 10.0.0.1 READ TOPIC orders: NEWLY DENIED: allowed (acl) -> denied (default.deny)",
        "User:bob 10.0.0.1 DESCRIBE TOPIC orders: NEWLY ALLOWED: denied (default.deny) -> allowed (acl)",
        "User:admin 10.0.0.1 WRITE TRANSACTIONAL_ID t: unchanged: allowed (super.users)"
        " -> allowed (super.users)",
    ]


def test_penstock_check_applies_proposed_settings(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, log: Path
) -> None:
    proposal, questions = tmp_path / "proposal", tmp_path / "questions"
    proposal.write_text("super.users=User:root\nallow.everyone.if.no.acl.found=true\n")
    questions.write_text("User:root h Read Topic orders\nUser:x h Read Topic orders\nUser:x h Read Topic t\n")

    code, out, err = check(capsys, "--proposal", proposal, "--log", log, "--questions", questions)

    assert code == 0
    assert [line.partition(": ")[2].partition(":")[0] for line in out[2:]] == [
        "NEWLY ALLOWED",
        "unchanged",
        "NEWLY ALLOWED",
    ]
    assert err == [f"warning: {proposal}:1: User:root is in no ACL, quota or login yet"]


@pytest.mark.spec("A8")
@pytest.mark.parametrize(
    ("change", "effect"),
    [
        ("leaves", "NEWLY DENIED: allowed (super.users) -> denied (default.deny)"),
        ("joins", "NEWLY ALLOWED: denied (default.deny) -> allowed (super.users)"),
    ],
)
def test_penstock_check_decides_without_and_with_a_member(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, log: Path, change: str, effect: str
) -> None:
    proposal, questions = tmp_path / "proposal", tmp_path / "questions"
    proposal.write_text(f"member User:x {change} Group:ops\n")
    questions.write_text("User:x h Read Topic t\nUser:y h Read Topic t\n")
    write_examples(Wanted(tmp_path, "controller"))
    config = tmp_path / "controller.yaml"
    lines = config.read_text().splitlines(keepends=True)
    config.write_text("".join(line for line in lines if not line.startswith("metadata:")))
    config.write_text(
        config.read_text().replace("super.users: User:admin", "super.users: Group:ops;User:admin")
    )

    code, out, _ = check(capsys, "--proposal", proposal, "--log", log, "--questions", questions, "-c", config)

    assert code == 0
    assert out[-2] == f"User:x h READ TOPIC t: {effect}"
    assert out[-1].startswith("User:y h READ TOPIC t: unchanged")


@pytest.mark.parametrize(
    ("proposal", "questions", "words", "problem"),
    [
        ("kafka-acls --remove --topic t", "", ["--log", "LOG"], "proposal:1: there is no such ACL"),
        ("super.users=", "User:a h Read Topic", ["--log", "LOG"], "questions:1: a question has the form"),
        ("super.users=", "User:a h Read Tpic t", ["--log", "LOG"], "'Tpic' is no resource type"),
        ("super.users=", "a h Read Topic t", ["--log", "LOG"], "questions:1: "),
        ("super.users=", "User:a h Read Topic t", [], "questions need the log"),
        ("super.users=", "", ["--log", "/nowhere"], "the metadata log cannot be read: /nowhere"),
        ("super.users=", "", ["--log", "topic"], "needs --config"),
    ],
)
def test_penstock_check_ends_with_2_if_it_cannot_say(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    log: Path,
    proposal: str,
    questions: str,
    words: list[str],
    problem: str,
) -> None:
    (tmp_path / "proposal").write_text(proposal)
    (tmp_path / "questions").write_text(questions)
    words = [str(log) if word == "LOG" else word for word in words]

    code, out, err = check(
        capsys, "--proposal", tmp_path / "proposal", "--questions", tmp_path / "questions", *words
    )

    assert (code, out, len(err)) == (2, [], 1)
    assert problem in err[0]


def test_a_proposal_is_parsed_without_a_log(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "proposal"
    path.write_text("allow.everyone.if.no.acl.found=true")

    assert check(capsys, "--proposal", path) == (0, [f"{path}: ok"], [])
    path.unlink()
    assert check(capsys, "--proposal", path)[0] == 2


@pytest.mark.spec("S13")
@pytest.mark.parametrize(
    ("host", "fault"),
    [
        ("10.0.0.0/33", "is neither an address nor"),
        ("nonsense", "is neither an address nor"),
        ("::1", "has to be written as 0:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.1", "has to be written as 10.0.0.1"),
        ("fe80::1%eth0", "has to be written as fe80:0:0:0:0:0:0:1"),
        ("10.0.0.1%2", "has to be written as 10.0.0.1"),
        ("0:0:0:0:0:0:0:1%2", "has to be written as 0:0:0:0:0:0:0:1"),
    ],
)
def test_an_acl_for_what_is_no_address_is_no_proposal_but_one_that_is_there_may_be_removed(
    host: str, fault: str
) -> None:
    words = f"--deny-principal User:bob --deny-host {host} --operation Read --topic orders"

    with pytest.raises(ProposalError, match=fault):
        parse_proposal(f"kafka-acls --add {words}", "p")
    assert parse_proposal(f"kafka-acls --remove {words}", "p").removed
    for right in ("0:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:0:1%2"):
        assert parse_proposal(f"kafka-acls --add {words}".replace(host, right), "p").added


UNTIL = "penstock acl --add --allow-principal User:alice --operation Read --topic orders --until"


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("text", "until_ms"),
    [
        ("2027-01-31T18:00Z", 1_801_418_400_000),
        ("2027-01-31T19:00+01:00", 1_801_418_400_000),
        ("2027-01-31T18:00:00.250Z", 1_801_418_400_250),
    ],
)
def test_an_added_acl_may_have_an_end(text: str, until_ms: int) -> None:
    proposal = parse_proposal(f"{UNTIL} {text}", "p")
    (added,) = proposal.added

    assert proposal.ends == {added: until_ms}
    assert resolve(proposal, {}, (), ("User:alice",)).ends == {added: until_ms}


@pytest.mark.spec("A11")
def test_an_acl_that_is_there_is_replaced_by_the_one_with_an_end() -> None:
    proposal = parse_proposal(f"{UNTIL} 2027-01-31T18:00Z", "p")
    (added,) = proposal.added

    found = resolve(proposal, {"7": added, "8": added._replace(host="10.0.0.1")}, (), ("User:alice",))

    assert (found.added, found.removed, found.warnings) == ([added], {"7": added}, [])


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (f"{UNTIL} 2027-01-31T18:00", "no time with a zone"),
        (f"{UNTIL} 2027-13-31T18:00Z", "no time with a zone"),
        (f"{UNTIL} 0001-01-01T00:00Z", "no time with a zone"),
        (f"{UNTIL} tomorrow", "no time with a zone"),
        (f"{UNTIL} 2027-01-31T18:00Z --until 2028-01-31T18:00Z", "once"),
        (f"{UNTIL} 2027-01-31T18:00Z --deny-principal User:bob", "--add --allow-principal"),
        (f"{UNTIL} 2027-01-31T18:00Z".replace("--add", "--remove"), "--add --allow-principal"),
        (f"{UNTIL} 2027-01-31T18:00Z\n{UNTIL} 2028-01-31T18:00Z", "another end, or none, at p:1"),
        (
            f"{UNTIL} 2027-01-31T18:00Z\n"
            "kafka-acls --add --allow-principal User:alice --operation Read --topic orders",
            "another end, or none, at p:1",
        ),
    ],
)
def test_an_end_that_means_nothing_is_a_problem(line: str, fault: str) -> None:
    with pytest.raises(ProposalError, match=fault):
        parse_proposal(line, "p")


@pytest.mark.spec("A11", "D11")
def test_the_command_of_a_narrower_grant_has_the_end_of_the_wider_one() -> None:
    command = acl_command("add", ALICE_READS, 1_801_418_400_250)

    assert parse_proposal(command, "p").ends == {ALICE_READS: 1_801_418_400_250}
    assert acl_command("add", ALICE_READS).startswith("kafka-acls --add")


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("year", "effect"), [(2020, "NEWLY DENIED"), (2200, "unchanged")], ids=["past", "later"]
)
def test_penstock_check_decides_by_the_end_of_a_proposed_acl(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, log: Path, year: int, effect: str
) -> None:
    proposal, questions = tmp_path / "proposal", tmp_path / "questions"
    proposal.write_text(f"{UNTIL} {year}-01-31T18:00Z\n")
    questions.write_text("User:alice 10.0.0.1 Read Topic orders\n")

    code, out, _ = check(capsys, "--proposal", proposal, "--log", log, "--questions", questions)

    assert code == 0
    assert f"User:alice 10.0.0.1 READ TOPIC orders: {effect}: allowed (acl)" in out[-1]
