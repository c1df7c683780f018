"""What all tests share: real Kafka and Penstock processes as fixtures (tests.support), and who runs what.

`make test` runs three parts side by side (pytest-xdist), for much of the time is waiting for processes. A
file is never divided, so that its fixtures are made once.
"""

from pathlib import Path

import pytest
from hypothesis import settings

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first: whoever is done early then still finds small ones to take."""
    items.sort(key=lambda item: item.path.relative_to(HERE).parts[0] != "spark")
