"""kafka-acls commands in a proposal against Kafka's own AclCommand: which ACLs each would add or remove."""

import shlex
import subprocess
from pathlib import Path
from random import Random

import pytest

from spark_audit.proposal import ProposalError, Removal, parse_proposal
from tests.lab.cluster.java import java

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("D10")]

ORACLE = Path(__file__).parent / "java" / "AclCommands.java"
COMMANDS = 600
RESOURCES = [
    "--topic t",
    "--topic 'ä b'",
    "--topic '*'",
    "--group g",
    "--cluster",
    "--transactional-id x",
    "--delegation-token d",
    "--user-principal User:u",
]
ENTRIES = ["--allow-principal User:a", "--allow-principal 'User:CN=b, O=c'", "--deny-principal User:d"]
HOSTS = ["--allow-host 10.0.0.1", "--deny-host 10.0.0.2", "--allow-host ' *'"]
OPERATIONS = [
    "Read",
    "Write",
    "all",
    "DescribeConfigs",
    "DESCRIBE_CONFIGS",
    "describeconfigs",
    "READ",
    "Create",
    "Describe",
    "Reed",
]
OTHERS = [
    *("--producer", "--consumer", "--idempotent", "--force"),
    *(f"--resource-pattern-type {kind}" for kind in ("prefixed", "PREFIXED", "match", "any")),
]


def a_command(random: Random) -> str:
    words = [random.choice(["--add", "--remove"])]
    if random.random() < 0.2:
        words += ["--topic t", "--group g", random.choice(OTHERS[:2])]
        words += random.choice([[], ["--transactional-id x"], ["--cluster"], ["--consumer", "--producer"]])
        return " ".join([*words, *random.choices([*ENTRIES, "--idempotent"], k=2)])
    words += random.choices(RESOURCES, k=random.choice([0, 1, 1, 1, 2]))
    words += random.choices(ENTRIES, k=random.choice([0, 1, 1, 2]))
    words += random.choices(HOSTS, k=random.choice([0, 0, 1]))
    words += [f"--operation {name}" for name in random.choices(OPERATIONS, k=random.choice([0, 1, 1, 2]))]
    words += random.choices(OTHERS, k=random.choice([0, 0, 1, 1, 2]))
    return " ".join(words)


def ours(command: str) -> str:
    try:
        proposal = parse_proposal(f"kafka-acls {command}", "p")
    except ProposalError:
        return "E"
    found = {
        ",".join((acl.resource_type, hexed(acl.resource_name), acl.pattern_type, *entry(acl[3:])))
        for acl in proposal.added
    }
    return " ".join(sorted(found | {filter_of(removal) for removal in proposal.removed}))


def filter_of(removal: Removal) -> str:
    pattern = (removal.resource_type, hexed(removal.resource_name), removal.pattern_type)
    return ",".join((*pattern, *(() if removal.entry is None else entry(removal.entry))))


def entry(fields: tuple[str, ...]) -> tuple[str, ...]:
    principal, host, *rest = fields
    return hexed(principal), hexed(host), *rest


def hexed(text: str) -> str:
    return text.encode().hex()


def test_kafka_acls_would_do_what_a_proposal_means(kafka_libs: Path) -> None:
    random = Random(81)
    commands = [a_command(random) for _ in range(COMMANDS)]
    lines = [
        " ".join([command.split()[0][2:], *map(hexed, ["--bootstrap-server", "b:1", *shlex.split(command)])])
        for command in commands
    ]

    asked = subprocess.run(
        [java(), "-cp", f"{kafka_libs}/*", str(ORACLE)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )

    kafkas = asked.stdout.splitlines()
    wrong = [
        (command, ours(command), theirs)
        for command, theirs in zip(commands, kafkas, strict=True)
        if ours(command) != theirs
    ]
    assert wrong == [], f"{len(wrong)} of {len(commands)} differ"
    assert 0.2 < kafkas.count("E") / len(kafkas) < 0.8, "the commands no longer try both outcomes"
