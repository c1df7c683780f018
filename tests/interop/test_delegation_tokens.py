"""kafka-delegation-tokens through the gate, and Java clients that log in with what it made (KIP-48, KIP-373).

librdkafka and the Python clients have no way to say tokenauth=true.
"""

import re
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.lab.cluster.stack import Stack
from tests.lab.cluster.tools import ToolRun
from tests.lab.cluster.users import User
from tests.support.cluster_admin import ClusterAdmin
from tests.support.gates import Gate

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOOL = "kafka-delegation-tokens"
DAY = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
ROW = re.compile(r"^(\S+) +(\S+==) +(\S+) +(\S+) +(\[.*?\]) +(\S+) +(\S+) +(\S+) *$", re.MULTILINE)


def together(*calls: tuple[Gate, User, tuple[str, ...]]) -> list[ToolRun]:
    """Run that do not depend on one another, two at a time: each is mostly a JVM's start."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(lambda call: call[0].tools(call[1].name).run(*call[2]), calls))


def tool(gate: Gate, user: User, *arguments: str) -> ToolRun:
    return gate.tools(user.name).run(TOOL, *arguments)


def described_by(owner: User) -> tuple[str, ...]:
    # Without an owner the tool asks for the tokens of nobody, and is told of none.
    return TOOL, "--describe", "--owner-principal", f"User:{owner.name}"


def rows(run: ToolRun) -> list[list[str]]:
    """Id, HMAC, owner, requester, renewers, and the three dates of each token in a table."""
    return [list(row) for row in ROW.findall(run.stdout)]


def created(gate: Gate, user: User, *arguments: str, lifetime_ms: int = -1) -> tuple[ToolRun, list[str]]:
    run = tool(gate, user, "--create", "--max-life-time-period", str(lifetime_ms), *arguments)
    assert run.returncode == 0, run.said
    (row,) = rows(run)
    return run, row


def bearer(gate: Gate, row: list[str], mechanism: str = "SCRAM-SHA-256") -> User:
    """Whoever has that token; the gate's tools take it by its name."""
    user = User(row[0], mechanism, row[1], by_token=True)
    gate.users[user.name] = user
    return user


def masked(run: ToolRun, row: list[str]) -> str:
    """What the tool printed, but for what is new each time."""
    text = run.stdout.replace(row[0], "<id>").replace(row[1], "<hmac>")
    return re.sub(r" {2,}", " ", DAY.sub("<day>", text))


@pytest.mark.spec("R9", "E2")
def test_a_token_is_made_described_renewed_and_expired_by_its_owner(gate: Gate, alice: User) -> None:
    made, row = created(gate, alice, "--renewer-principal", "User:bob")
    described, renewed = together(
        (gate, alice, described_by(alice)),
        (gate, alice, (TOOL, "--renew", "--renew-time-period", "-1", "--hmac", row[1])),
    )
    expired = tool(gate, alice, "--expire", "--expiry-time-period", "-1", "--hmac", row[1])
    left, gone = together(
        (gate, alice, described_by(alice)),
        (gate, alice, (TOOL, "--renew", "--renew-time-period", "-1", "--hmac", row[1])),
    )

    me = f"User:{alice.name}"
    # To the letter what the tool prints of Kafka's own broker.
    header = "TOKENID HMAC OWNER REQUESTER RENEWERS ISSUEDATE EXPIRYDATE MAXDATE"
    line = f"<id> <hmac> {me} {me} [User:bob] <day> <day> <day>"
    assert (
        masked(made, row).split()
        == (
            "Calling create token operation with renewers :[User:bob] , max-life-time-period :-1"
            f" Created delegation token with tokenId : <id> {header} {line}"
        ).split()
    )
    assert (
        masked(described, row).split()
        == (
            f"Calling describe token operation for owners: [{me}] Total number of tokens : 1 {header} {line}"
        ).split()
    )
    assert masked(renewed, row) == (
        "Calling renew token operation with hmac :<hmac> , renew-time-period :-1\n"
        "Completed renew operation. New expiry date : <day>"
    )
    assert masked(expired, row) == (
        "Calling expire token operation with hmac :<hmac> , expire-time-period :-1\n"
        "Completed expire operation. New expiry date : <day>"
    )
    assert "Total number of tokens : 0" in left.stdout, left.said
    assert "DelegationTokenNotFoundException" in gone.said


@pytest.mark.spec("R9", "R10")
def test_java_clients_log_in_with_a_token_until_it_is_taken_back(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User, topic: str
) -> None:
    cluster_admin.allow_produce(alice, topic)
    cluster_admin.allow_consume(alice, topic, "tokens")
    _, row = created(gate, alice)

    producer = bearer(gate, row)
    produced = gate.tools(producer.name).run("kafka-console-producer", "--topic", topic, stdin="one\ntwo\n")
    consumer = bearer(gate, row, "SCRAM-SHA-512")
    consumed = gate.tools(consumer.name).run(
        "kafka-console-consumer",
        "--topic",
        topic,
        "--group",
        "tokens",
        "--from-beginning",
        "--max-messages",
        "2",
    )
    tool(gate, alice, "--expire", "--expiry-time-period", "-1", "--hmac", row[1])
    refused = gate.tools(consumer.name).run("kafka-topics", "--list")

    assert produced.returncode == 0, produced.said
    assert consumed.stdout == "one\ntwo\n", consumed.said
    assert "Authentication failed during authentication due to invalid credentials" in refused.said


@pytest.mark.spec("R9", "O7")
def test_a_token_for_another_is_for_those_who_may_make_one(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User
) -> None:
    bob = cluster_admin.user(f"bob-of-{alice.name}")
    owner = ("--owner-principal", f"User:{bob.name}", "--max-life-time-period", "-1")
    acl = ("--user-principal", f"User:{bob.name}", "--operation", "CreateTokens", "--allow-principal")

    refused = tool(gate, alice, "--create", *owner)
    granted = gate.tools("admin").run("kafka-acls", "--add", *acl, f"User:{alice.name}")
    _, row = created(gate, alice, "--owner-principal", f"User:{bob.name}")
    by_requester, of_bob = together(
        (gate, alice, (TOOL, "--renew", "--renew-time-period", "-1", "--hmac", row[1])),
        (gate, alice, described_by(bob)),
    )

    assert "DelegationTokenAuthorizationException" in refused.said
    assert granted.returncode == 0, granted.said
    assert row[2:4] == [f"User:{bob.name}", f"User:{alice.name}"]
    assert "DelegationTokenOwnerMismatchException" in by_requester.said
    assert [told[:4] for told in rows(of_bob)] == [row[:4]]


def content_of(path: Path) -> bytes:
    """Nothing if the broker has removed the file meanwhile, with the topic of another test."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


@pytest.mark.spec("R9", "R10", "D2")
def test_a_token_that_has_expired_logs_nobody_in_and_leaves_nothing_that_proved_it(
    stack: Stack, alice: User
) -> None:
    _, row = created(stack, alice, lifetime_ms=1)
    bearer(stack, row)

    refused = stack.tools(row[0]).run("kafka-topics", "--list")
    described = (stack.tools(alice.name).run(*described_by(alice)).stdout for _ in range(15))
    gone = any("Total number of tokens : 0" in told for told in described)
    # The broker's segments too: what the topics hold.
    files = [path for path in stack.directory.rglob("*") if path.is_file() and path.suffix != ".properties"]
    secrets = row[1].encode(), b64decode(row[1])
    holding = [path.name for path in files if any(secret in content_of(path) for secret in secrets)]

    assert "Authentication failed during authentication due to invalid credentials" in refused.said
    assert gone
    assert len(files) > 10
    assert holding == []
