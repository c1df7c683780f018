"""Replicas moved by one AdminClient, as by Cruise Control, with the ACLs that docs/tested-with.md lists."""

import subprocess
from pathlib import Path

import pytest

from tests.lab.cluster import jvm
from tests.lab.cluster.java import java
from tests.lab.cluster.users import User, java_properties
from tests.support.cluster_admin import ClusterAdmin, admin, done
from tests.support.three_brokers import REWRITING, ThreeBrokers, three, three_admin

__all__ = ["three", "three_admin"]

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long]

SOURCE = Path(__file__).with_name("java") / "Balance.java"
REPLICAS = [[1, 2], [2, 3], [3, 1]]


def balanced(
    three: ThreeBrokers, user: User, topic: str, libs: Path, directory: Path
) -> subprocess.CompletedProcess[str]:
    entrance = three.entrance(REWRITING, 2)
    file = directory / "balance.properties"
    login = java_properties(user, entrance)
    file.write_text(f"bootstrap.servers={entrance.bootstrap}\n{login}", encoding="utf-8")
    command = [java(), "-Xmx256m", "-cp", jvm.class_path(libs), str(SOURCE), str(file), topic]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)


@pytest.mark.spec("O11", "A7")
def test_replicas_move_and_leaders_with_them(
    three: ThreeBrokers, three_admin: ClusterAdmin, kafka_libs: Path, tmp_path: Path
) -> None:
    done(
        three_admin.client.create_topics(
            [admin.NewTopic("balanced", len(REPLICAS), replica_assignment=REPLICAS)]
        )
    )
    user = three_admin.user("cruise")
    three_admin.allow(user, "ALTER", "ALTER_CONFIGS", cluster=True)
    three_admin.allow(user, "DESCRIBE", "ALTER_CONFIGS", topic="*")

    run = balanced(three, user, "balanced", kafka_libs, tmp_path)

    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.splitlines() == ["0: [2, 3], 2", "1: [3, 1], 3", "2: [1, 2], 1"]


@pytest.mark.spec("O11", "A7")
def test_replicas_do_not_move_without_alter_on_the_cluster(
    three: ThreeBrokers, three_admin: ClusterAdmin, kafka_libs: Path, tmp_path: Path
) -> None:
    done(three_admin.client.create_topics([admin.NewTopic("stays", 1, replica_assignment=[[1, 2]])]))
    user = three_admin.user("reader")
    three_admin.allow(user, "DESCRIBE", "ALTER_CONFIGS", cluster=True)
    three_admin.allow(user, "DESCRIBE", "ALTER_CONFIGS", topic="*")

    run = balanced(three, user, "stays", kafka_libs, tmp_path)

    assert run.returncode != 0
    assert "ClusterAuthorizationException" in run.stderr
    (topic,) = three_admin.client.list_topics("stays", timeout=20).topics.values()
    assert topic.partitions[0].replicas == [1, 2]
