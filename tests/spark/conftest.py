"""What is due before and after each test here, besides the session itself (tests.support.spark_session)."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

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
def broker(kafka_libs: Path, tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own, which may be killed."""
    own = Broker(kafka_libs, BrokerSettings(directory=tmp_path / "broker"))
    with own.running():
        yield own


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.running(browser.require()) as running:
        yield running
