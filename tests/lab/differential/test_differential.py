"""A little of the differential test with every run of the tests; `make differential` runs it for long."""

from pathlib import Path

import pytest

from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from tests.lab.differential.known import KNOWN
from tests.lab.differential.planning import plan
from tests.lab.differential.running import Run

ROOT = Path(__file__).resolve().parents[3]
SEED = 20_250_704
CASES = 160
BATCH = 20

SERVED = {
    int(key): (codecs.request_versions(key)[0], codecs.request_versions(key)[-1])
    for key in ApiKey
    if codecs.request_versions(key)
}


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.spec("A7", "S7", "S8", "E3", "E13")
@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_random_requests_under_random_acls_are_answered_as_by_a_broker(run: Run, first: int) -> None:
    cases = [case for case in plan(SEED, CASES, run.served) if first <= case.number < first + BATCH]

    different = [str(result) for result in map(run.case, cases) if result.unexplained]

    assert not different, "\n".join(different)


@pytest.mark.tooling
def test_a_case_is_made_of_its_seed_and_number_alone() -> None:
    told = [
        [(str(case), list(map(str, case.steps))) for case in plan(seed, 200, SERVED)] for seed in (7, 7, 8)
    ]

    assert told[0] == told[1] != told[2]


@pytest.mark.tooling
def test_every_request_of_a_case_can_be_written_in_its_version() -> None:
    steps = [step for case in plan(11, 1_500, SERVED) for step in case.steps if step.bind is None]

    for step in steps:
        codec = codecs.request(step.api_key, step.version)
        assert codec.decode_exactly(codec.encode(step.message)) is not None
    assert len(steps) > 2_000


@pytest.mark.tooling
def test_every_known_difference_is_a_row_of_the_page() -> None:
    page = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
    cases = {line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line.startswith("| ")}
    without_examples = {case.partition(" (")[0] for case in cases}

    assert {known.row for known in KNOWN} - cases - without_examples == set()
