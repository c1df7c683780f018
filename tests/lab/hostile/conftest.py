"""The place of the short form: one broker and one controller for the attacks of a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.hostile.place import a_place
from tests.lab.hostile.running import Stands


@pytest.fixture(scope="module")
def stands(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stands]:
    with a_place(tmp_path_factory.mktemp("hostile"), kafka_libs) as place:
        stands = Stands(place)
        try:
            yield stands
        finally:
            assert stands.close() == [], "a proxy did not end by itself"
