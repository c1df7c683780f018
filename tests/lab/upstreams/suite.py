"""Which releases are tested, and which tests are the core.

A run of pytest for each release and setting; its JUnit file says how each test went.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.lab.cluster import kafka
from tests.lab.cluster.release import Release

NEW_TOOLS, OLD_TOOLS = kafka.KAFKA_VERSION, "2.8.2"
"""The tools and the Java clients that are tested before every release."""
RELEASES = tuple(
    map(
        Release.of,
        (
            "2.8.2-zookeeper",
            "3.3.2",
            "3.6.2",
            "3.9.2-zookeeper",
            "3.9.2",
            "4.0.2",
            "4.1.2",
            "4.2.1",
            "4.3.1",
            kafka.KAFKA_VERSION,
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Outcome:
    row: str
    test: str
    result: str
    """`passed`, `failed`, or `skipped`."""
    why: str


@dataclass(frozen=True, slots=True)
class Part:
    """Tests that are run in one process."""

    rows: tuple[tuple[str, str], ...]
    """A row of the table, and what is in the ids of its tests."""
    tests: tuple[str, ...]
    environment: dict[str, str]


def _clients(version: str) -> Part:
    """The tools and the Java client of a release."""
    minor = version.rpartition(".")[0]
    return Part(
        rows=((f"Kafka's tools of {minor}", "test_kafka_tools"), (f"Java client {minor}", "[java-")),
        tests=(
            "tests/interop/test_kafka_tools.py",
            "tests/lab/clients/test_clients.py",
            "-k",
            "test_kafka_tools or java",
        ),
        environment={"PENSTOCK_CLIENTS": "proxy", "PENSTOCK_TOOLS": version},
    )


PARTS = {
    "new": _clients(NEW_TOOLS),
    "core": Part(
        rows=(
            ("APIs and versions offered", "test_every_api"),
            ("librdkafka", "[librdkafka-"),
            ("rights and topics that change under clients", "test_live_changes"),
            ("topics that clients create; owners", "test_auto_creation"),
            ("topics that clients create; owners", "test_topic_owner"),
            ("quotas", "test_live_quotas"),
            ("quotas", "test_quota_types"),
            ("delegation tokens of Penstock", "test_delegation_tokens"),
            ("share groups and Streams groups", "test_share_groups"),
            ("`upstream.identity: user`", "test_upstream_identity"),
            ("three brokers with three proxies", "test_three_brokers"),
            ("`controller.mode: kraft`", "test_kraft_mode"),
        ),
        tests=(
            "tests/interop/test_every_api.py",
            "tests/lab/clients/test_clients.py",
            "tests/interop/test_live_changes.py",
            "tests/interop/test_auto_creation.py",
            "tests/interop/test_topic_owner.py",
            "tests/interop/test_live_quotas.py",
            "tests/interop/test_quota_types.py",
            "tests/interop/test_delegation_tokens.py",
            "tests/interop/test_share_groups.py",
            "tests/interop/test_upstream_identity.py",
            "tests/interop/test_three_brokers.py",
            "tests/interop/test_kraft_mode.py",
            "-k",
            "not (java- or kafka-python- or aiokafka- or franz-go-)",
        ),
        environment={"PENSTOCK_CLIENTS": "proxy"},
    ),
    "old": _clients(OLD_TOOLS),
}
"""By name: the tools and the Java client of KAFKA_VERSION, those of 2.8, and everything else."""


def run(release: Release, directory: Path, parts: Iterable[str] = PARTS) -> Iterator[Outcome]:
    """Run the core in front of brokers of that release; pytest's own output goes to standard output."""
    for name in parts:
        part, report = PARTS[name], directory / f"{release}-{name}.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-rs", f"--junitxml={report}", *part.tests],
            check=False,
            env={
                **os.environ,
                **part.environment,
                "PENSTOCK_REQUIRE_KAFKA": "1",
                "PENSTOCK_KAFKA": str(release),
            },
        )
        yield from _outcomes(part, report)


def _outcomes(part: Part, report: Path) -> Iterator[Outcome]:
    for case in ElementTree.parse(report).iter("testcase"):
        test = f"{case.get('classname')}::{case.get('name')}"
        found = [row for row, in_id in part.rows if in_id in test]
        if len(found) != 1:
            raise ValueError(f"{test} belongs to the rows {found}, not to one")
        skipped = case.find("skipped")
        if skipped is not None:
            yield Outcome(found[0], test, "skipped", skipped.get("message", ""))
        else:
            failed = any(case.find(tag) is not None for tag in ("failure", "error"))
            yield Outcome(found[0], test, "failed" if failed else "passed", "")
