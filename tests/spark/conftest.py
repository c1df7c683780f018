"""What is due before and after each test here, besides the session itself (tests.support.spark_session)."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_audit import jobs
from spark_audit.tables import plans
from tests.lab.cluster.broker import Broker, BrokerSettings
from tests.support import browser
from tests.support.browser import Browser
from tests.support.spark_session import LEAVES_A_SOCKET

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(LEAVES_A_SOCKET)


@pytest.fixture(autouse=True)
def _nothing_kept(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each plan is compared with everything that is cached: leftovers make later tests slow."""
    yield
    if "spark" in request.fixturenames:
        request.getfixturevalue("spark").catalog.clearCache()


@pytest.fixture
def not_held(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As a trail of more than 8 MiB: a smaller one is read once, whole, and then in memory."""
    monkeypatch.setattr(jobs, "adapt_plans", lambda *_: None)
    wanted = {plans.HELD: "false", **plans.FOR_SMALL_TRAILS}
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    yield
    for name, earlier in before.items():
        if earlier is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, earlier)


@pytest.fixture
def broker(kafka_libs: Path, tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own, which may be killed."""
    own = Broker(kafka_libs, BrokerSettings(directory=tmp_path / "broker"))
    with own.running():
        yield own


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.running(browser.require()) as running:
        yield running
