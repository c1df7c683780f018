"""What all tests share: real Kafka and Penstock processes as fixtures (tests.support), and who runs what.

`make test` runs five parts side by side (pytest-xdist), for much of the time is waiting for processes. A
file is never divided, so that its fixtures are made once.
"""

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer  # type: ignore[import-untyped]  # xdist has no types
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

from proxy.net.runtime.garbage_collector import importing
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


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Python's garbage collector looks at no object of the collection: it would take a quarter of its time.

    Nor does it look at them while tests run: 20,000 tests and their modules are some million objects.
    """
    with importing():
        collected = yield
    gc.set_threshold(20_000, 10, 10)  # Of what tests make, most is gone before the collector comes.
    return collected


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
    warm; each with a file of interop a broker, a controller and a proxy, which run until its end; each with a
    file of net a broker. Two JVMs occupy two cores: no third worker is given a file of Spark.
    """

    def _reschedule(self, node: WorkerController) -> None:
        only_spark = all(file.startswith(SPARK) for file in self.workqueue)
        if only_spark and SPARK in self._owned() and node.gateway.id not in OWN[SPARK]:
            node.shutdown()
        else:
            super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        owned = self._owned()
        own = tuple(directory for directory in owned if node.gateway.id in OWN[directory])
        best = min(
            self.workqueue,
            key=lambda file: (not file.startswith(own), file.startswith(owned), file.startswith(SPARK)),
        )
        self.workqueue.move_to_end(best, last=False)
        super()._assign_work_unit(node)

    def _owned(self) -> tuple[str, ...]:
        """The directories of OWN whose workers are there: there may be fewer workers than in a landing."""
        alive = {node.gateway.id for node in self.nodes}
        return tuple(directory for directory, workers in OWN.items() if alive.intersection(workers))


SPARK = "tests/spark/"
OWN = {
    SPARK: ("gw0", "gw1"),
    "tests/interop/": ("gw2", "gw3"),
    "tests/lab/": ("gw4",),
    "tests/net/": ("gw4",),
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FewStacks:
    return FewStacks(config, log)
