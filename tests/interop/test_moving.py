"""docs/guide.md: ACLs that kafka-acls lists are made again by what deploy/acls.awk prints."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.cluster_admin import TIMEOUT_S, ClusterAdmin, admin
from tests.support.gates import Gate

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "acls.awk"
ODD = "User:CN=o'brien $(id), OU=data"


def listed(gate: Gate, principal: str) -> str:
    run = gate.tools("admin").run("kafka-acls", "--list", "--principal", principal)
    assert run.returncode == 0, run.said
    return run.stdout


@pytest.mark.spec("O1", "S8")
def test_acls_listed_by_kafkas_tool_are_made_again_as_they_were(
    gate: Gate, cluster_admin: ClusterAdmin
) -> None:
    kinds, patterns = admin.ResourceType, admin.ResourcePatternType
    operations, permissions = admin.AclOperation, admin.AclPermissionType
    bindings = [
        admin.AclBinding(*resource, ODD, *right)
        for resource, right in (
            ((kinds.TOPIC, "moved", patterns.LITERAL), ("*", operations.READ, permissions.ALLOW)),
            ((kinds.TOPIC, "moved", patterns.LITERAL), ("*", operations.DESCRIBE_CONFIGS, permissions.ALLOW)),
            ((kinds.GROUP, "it's * mine", patterns.PREFIXED), ("10.0.0.1", operations.ALL, permissions.DENY)),
        )
    ]
    for future in cluster_admin.client.create_acls(bindings).values():
        future.result(TIMEOUT_S)
    before = listed(gate, ODD)
    commands = subprocess.run(
        ["awk", "-f", str(SCRIPT)], input=before, check=False, capture_output=True, text=True
    )
    assert commands.returncode == 0, commands.stderr
    any_of_his = admin.AclBindingFilter(
        kinds.ANY, None, patterns.ANY, ODD, None, operations.ANY, permissions.ANY
    )
    for future in cluster_admin.client.delete_acls([any_of_his]).values():
        future.result(TIMEOUT_S)
    assert "permissionType" not in listed(gate, ODD)

    tool = shlex.join(gate.tools("admin").command("kafka-acls"))
    made = subprocess.run(
        ["bash", "-euc", f'kafka_acls() {{ {tool} "$@"; }}\n{commands.stdout}'],
        env={**os.environ, "KAFKA_ACLS": "kafka_acls"},
        check=False,
        capture_output=True,
        text=True,
    )

    assert made.returncode == 0, made.stdout + made.stderr
    assert len(commands.stdout.splitlines()) == 2
    assert sorted(listed(gate, ODD).splitlines()) == sorted(before.splitlines())
