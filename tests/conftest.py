"""What all tests share: real Kafka and Penstock processes as fixtures (tests.support), and who runs what.

`make test` runs five parts side by side (pytest-xdist), for much of the time is waiting for processes. A
file is never divided, so that its fixtures are made once.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from proxy.net.telemetry import log_lines
from tests.lab.cluster.node import BYTECODE

# The processes that tests start: hundreds of them, which would all compile the same sources again.
os.environ |= BYTECODE
# How long an example takes is the machine's affair, and no property of what is tested.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")

pytest_plugins = [
    "tests.support.kafka_fixtures",
    "tests.support.gates",
    "tests.support.cluster_admin",
    "tests.support.spark_session",
]

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _the_log_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is called in this process must not send the lines of later tests to its own stderr."""
    monkeypatch.setattr(log_lines, "configure", lambda *_, **__: None)


LONGEST = (
    "test_chaos.py",
    "test_demo.py",
    "test_reconciliation.py",
    "test_tampering.py",
    "test_cluster.py",
    "test_ingest_kills.py",
    "test_kraft_audit.py",
    "test_trail.py",
    "test_hostile_users.py",
    "test_hostile_strangers.py",
)
"""Begun first: a worker that came to one of them last would be alone with it. Few stacks at once."""
COMPUTING, WAITING = ("spark",), ("interop", "net", "lab")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, the small ones last; between them those that compute among those that wait."""
    files = list(dict.fromkeys(item.path for item in items))
    place = {path: number for number, path in enumerate(_in_order(files))}
    items.sort(key=lambda item: place[item.path])


def _in_order(files: Sequence[Path]) -> list[Path]:
    longest = sorted(
        (path for path in files if path.name in LONGEST), key=lambda path: LONGEST.index(path.name)
    )
    left = [path for path in files if path.name not in LONGEST]
    part_of = {path: path.relative_to(HERE).parts[0] for path in left}
    woven: list[tuple[float, Path]] = []
    for parts in (COMPUTING, WAITING):
        some = [path for path in left if part_of[path] in parts]
        woven += [(number / len(some), path) for number, path in enumerate(some)]
    small = [path for path in left if part_of[path] not in COMPUTING + WAITING]
    return [*longest, *(path for _, path in sorted(woven)), *small]
