"""The short form of `make pipelines`, with a window of three seconds: several of them in a short time."""

from pathlib import Path

import pytest

from tests.lab.pipelines.cases import CASES
from tests.lab.pipelines.judging import faults, table
from tests.lab.pipelines.place import SIDES, Place
from tests.lab.pipelines.running import run

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long]

SECONDS, SAMPLES, AT_ONCE = 13, 4, 5


@pytest.mark.spec("Q14", "Q6", "Q7")
def test_pipelining_clients_get_no_more_than_at_a_broker_and_the_same_throttle_times(
    kafka_libs: Path, tmp_path: Path
) -> None:
    with Place(tmp_path, kafka_libs, SAMPLES).running(SIDES) as place:
        ran = run(place, [case for case in CASES if case.short], SECONDS, AT_ONCE)

    assert faults(ran) == [], table(ran)
