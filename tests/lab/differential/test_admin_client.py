"""Every method of Kafka's Admin in Java, at a broker and through Penstock: both do the same."""

import subprocess
from functools import partial
from pathlib import Path

import pytest

from proxy.metadata.acl import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType
from tests.lab.cluster.at_once import at_once
from tests.lab.cluster.java import java
from tests.lab.cluster.release import Feature, Release
from tests.lab.differential import staging
from tests.lab.differential.naming import Names
from tests.lab.differential.rights import Rule, marker
from tests.lab.differential.running import Run
from tests.lab.side_by_side.sides import ADMIN, Side

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long]

METHODS = Path(__file__).parent / "java" / "AdminMethods.java"
NUMBER = 1_000_000
"""Of no case."""
NETWORK, OTHER_NETWORK = "127.0.0.0/8", "10.0.0.0/8"


def rule(
    operation: Operation, kind: ResourceType, name: str, host: str = NETWORK, allow: bool = True
) -> Rule:
    permission = PermissionType.ALLOW if allow else PermissionType.DENY
    return Rule(permission, "User:alice", operation, kind, PatternType.LITERAL, name, host)


TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
SOME = [
    rule(Operation.DESCRIBE, CLUSTER, CLUSTER_NAME),
    rule(Operation.ALTER_CONFIGS, CLUSTER, CLUSTER_NAME),
    rule(Operation.ALL, TOPIC, "*"),
    rule(Operation.ALL, TOPIC, "x-gamma", allow=False),
    rule(Operation.ALL, TOPIC, "t-alpha", OTHER_NETWORK, allow=False),
    rule(Operation.ALL, GROUP, "adm-group"),
    rule(Operation.ALL, GROUP, "h-group", OTHER_NETWORK),
    rule(Operation.ALL, ResourceType.TRANSACTIONAL_ID, "adm-tx"),
]
RIGHTS = {
    "a super user": (ADMIN, []),
    "no rights": ("alice", []),
    "some rights from a network": ("alice", SOME),
}


def played(side: Side, libs: Path, user: str) -> dict[str, str]:
    """What each method returned there: its name, then the rest of its line."""
    command = [
        java(),
        "-Dorg.apache.logging.log4j.level=OFF",
        "-cp",
        f"{libs}/*",
        str(METHODS),
        side.address,
        user,
        side.passwords[user],
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return dict(line.split("\t") for line in done.stdout.splitlines())


@pytest.fixture
def rights(run: Run, request: pytest.FixtureRequest) -> str:
    user, rules = RIGHTS[request.param]
    for side in run.sides:
        staging.put_in_force(side, rules, marker(Names(NUMBER)))
    return user


@pytest.mark.spec("A7", "E2", "E3", "S7", "S8", "S12")
@pytest.mark.parametrize("rights", RIGHTS, indirect=True)
def test_each_method_of_admin_does_through_the_proxy_what_it_does_at_a_broker(
    run: Run, kafka_libs: Path, rights: str
) -> None:
    release = Release.chosen()
    if not release.has(Feature.NETWORKS):
        pytest.skip(release.lacks(Feature.NETWORKS))

    broker, proxy = at_once([partial(played, side, kafka_libs, rights) for side in run.sides])

    assert len(broker) > 70
    assert proxy == broker
