"""What all tests share: real Kafka and Penstock processes as fixtures (tests.support), and who runs what.

`make test` runs five parts side by side (pytest-xdist), for much of the time is waiting for processes. A
file is never divided, so that its fixtures are made once.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer  # type: ignore[import-untyped]  # xdist has no types
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

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
ENDING = ("contract", "property", "session", "unit")
"""Parts with many short tests, which fill what the others leave."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, those of short tests last."""
    items.sort(key=lambda item: _place(item.path))


def _place(path: Path) -> int:
    if path.name in LONGEST:
        return LONGEST.index(path.name)
    return len(LONGEST) + (path.relative_to(HERE).parts[0] in ENDING)


class FewStacks(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives files of OWN to their workers first, and to the others only when nothing else is left.

    Each worker with a file of Spark starts a JVM, which takes half a minute of CPU time until its plans are
    warm; each with a file of interop a broker, a controller and a proxy, which run until its end.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        own = tuple(directory for directory, workers in OWN.items() if node.gateway.id in workers)
        free = [file for file in self.workqueue if not file.startswith(tuple(OWN))]
        best = [*(file for file in self.workqueue if file.startswith(own)), *free, *self.workqueue]
        self.workqueue.move_to_end(best[0], last=False)
        super()._assign_work_unit(node)


OWN = {"tests/spark/": ("gw0", "gw1"), "tests/interop/": ("gw2", "gw3")}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FewStacks:
    return FewStacks(config, log)
