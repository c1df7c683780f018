"""A whole stack: the commands of docs/commands.md as they stand, and what an administrator may not do."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.cluster.java import java
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import User
from tests.support.cluster_admin import ClusterAdmin

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long, pytest.mark.spec("O15")]

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def penstock(stack: Stack, *words: object, user: str = "admin") -> subprocess.CompletedProcess[str]:
    tools = stack.tools(user)
    command, *rest = map(str, words)
    connection = ["--bootstrap-server", tools.bootstrap, "--command-config", str(tools.properties)]
    return subprocess.run(
        [sys.executable, "-m", "proxy", command, *connection, *rest],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_commands_of_the_page_work_as_they_stand(stack: Stack, tmp_path: Path) -> None:
    tools = stack.tools("admin")
    program = tmp_path / "penstock"
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m proxy "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    blocks = BLOCK.findall(page.partition("\n## Rights as a file\n")[2])

    done = subprocess.run(
        ["sh", "-ec", "\n".join(blocks)],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PROXY": tools.bootstrap,
            "ADMIN": str(tools.properties),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done
    assert "+ user etl-1 SCRAM-SHA-512: 8192 iterations" in done.stdout
    assert "4 changes made" in done.stdout
    assert done.stdout.endswith(": no changes\n")
    listed = tools.run("kafka-acls", "--list", "--topic", "etl-orders")
    assert "principal=User:etl-1, host=*, operation=READ" in listed.stdout, listed.said
    users = tools.run("kafka-configs", "--describe", "--entity-type", "users", "--entity-name", "etl-1")
    assert "SCRAM-SHA-512=iterations=8192" in users.stdout, users.said
    assert "consumer_byte_rate=1048576.0" in users.stdout, users.said


def test_an_export_is_applied_without_a_change_and_what_was_added_since_is_pruned(
    stack: Stack, cluster_admin: ClusterAdmin, topic: str, tmp_path: Path
) -> None:
    exported = penstock(stack, "export")
    assert exported.returncode == 0, exported
    file = tmp_path / "rights.yaml"
    file.write_text(exported.stdout, encoding="utf-8")
    grant = "--allow-principal", "User:late", "--operation", "Read", "--topic", topic
    tools = stack.tools("admin")
    tools.run("kafka-acls", "--add", *grant)
    limit = "kafka-configs", "--alter", "--add-config", "request_percentage=12.5"
    tools.run(*limit, "--entity-type", "clients", "--entity-default")

    kept = penstock(stack, "diff", file)
    pruned = penstock(stack, "apply", file, "--prune")

    assert (kept.returncode, "--prune deletes them" in kept.stderr) == (0, True), kept
    assert pruned.returncode == 0, pruned
    assert f"- ALLOW User:late from * READ TOPIC LITERAL {topic}\n" in pruned.stdout
    assert "- request_percentage of clients/<default>: 12.5\n" in pruned.stdout
    assert penstock(stack, "export").stdout == exported.stdout


def test_one_without_the_rights_changes_nothing(
    stack: Stack, alice: User, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "rights.yaml"
    file.write_text(
        f"acls: [{{resource.type: TOPIC, resource.name: {topic}, principal: User:x, operation: READ}}]\n"
    )

    applied = penstock(stack, "apply", file, user=alice.name)

    assert (applied.returncode, "CLUSTER_AUTHORIZATION_FAILED" in applied.stderr) == (2, True), applied


@pytest.mark.spec("O11")
def test_the_requests_of_strimzis_user_operator_reconcile_a_user_and_find_nothing_to_do_again(
    stack: Stack, kafka_libs: Path, topic: str
) -> None:
    tools = stack.tools("admin")
    program = ROOT / "tests" / "lab" / "neighbours" / "java" / "UserOperator.java"
    words = tools.bootstrap, str(tools.properties), "a-kafka-user", topic

    ran = subprocess.run(
        [java(), "-cp", f"{kafka_libs}/*", str(program), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert ran.returncode == 0, ran.stderr
    nothing = "acls 0, quotas 0, users 0"
    changed = "acls 2, quotas 2, users 1"
    assert ran.stdout.splitlines() == [changed, nothing, changed, nothing]
