"""deploy/acls.awk: what kafka-acls lists becomes commands that add the same ACLs elsewhere."""

import shlex
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.spec("O1")

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "acls.awk"
# As Kafka 4.2.1 prints them; ~ is a blank.
LISTED = """\
Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=or, name=ders, patternType=LITERAL)`:~
 \t(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)
\t(principal=User:CN=o'brien, OU=data, host=10.0.0.1, operation=DESCRIBE_CONFIGS, permissionType=DENY)
\t(principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW)~

Current ACLs for resource `ResourcePattern(resourceType=GROUP, name=$(x) *, patternType=PREFIXED)`:~
 \t(principal=User:*, host=*, operation=ALL, permissionType=ALLOW)

Current ACLs for resource `ResourcePattern(resourceType=CLUSTER, name=kafka-cluster, patternType=LITERAL)`:~
 \t(principal=User:proxy-1, host=*, operation=CLUSTER_ACTION, permissionType=ALLOW)

""".replace("~", " ")


def commands(listed: str, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["awk", *options, "-f", str(SCRIPT)], input=listed, check=False, capture_output=True, text=True
    )


def test_acls_become_one_command_for_each_resource_principal_and_host() -> None:
    done = commands(LISTED)

    assert done.returncode == 0, done.stderr
    assert [" ".join(shlex.split(line)) for line in done.stdout.splitlines()] == [
        "$KAFKA_ACLS --add --topic or, name=ders --allow-principal User:alice --allow-host *"
        " --operation Read --operation Write",
        "$KAFKA_ACLS --add --topic or, name=ders --deny-principal User:CN=o'brien, OU=data"
        " --deny-host 10.0.0.1 --operation DescribeConfigs",
        "$KAFKA_ACLS --add --group $(x) * --resource-pattern-type prefixed"
        " --allow-principal User:* --allow-host * --operation All",
        "$KAFKA_ACLS --add --cluster --allow-principal User:proxy-1 --allow-host * --operation ClusterAction",
    ]


def test_two_lists_can_be_compared_whatever_the_order_of_their_operations() -> None:
    lines = LISTED.splitlines(keepends=True)
    lines[1], lines[3] = lines[3], lines[1]

    one, other = (commands(text, "-v", "single=1").stdout.splitlines() for text in (LISTED, "".join(lines)))

    assert sorted(one) == sorted(other)
    assert len(one) == 5


@pytest.mark.parametrize(
    "line",
    [
        "Error while executing ACL command: timed out",
        "\t(principal=User:eve, host=*, operation=READ, permissionType=MAYBE)",
        "Current ACLs for resource `ResourcePattern(resourceType=MOON, name=a, patternType=LITERAL)`: ",
    ],
)
def test_a_line_that_cannot_be_read_is_an_error(line: str) -> None:
    done = commands(f"{LISTED}{line}\n")

    assert done.returncode == 1
    assert "cannot be parsed" in done.stderr
