"""The two sides, started once for all tests of this directory, and the stage set on both."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.differential.running import Run
from tests.lab.side_by_side.sides import Side, both_sides


@pytest.fixture(scope="package")
def sides(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with both_sides(kafka_libs, tmp_path_factory.mktemp("differential")) as sides:
        yield sides


@pytest.fixture(scope="package")
def run(sides: tuple[Side, Side]) -> Run:
    return Run(*sides)
