"""Every client plays every scenario through the proxy, and straight at a broker, and both go the same way.

A client that cannot do a thing fails at the broker too: so its faults are told apart from ours.
"""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.lab.clients.scenarios import CANNOT, NEEDS, SCENARIOS, SHORT
from tests.lab.clients.stage import DRIVERS, Run, run
from tests.lab.cluster.at_once import at_once
from tests.lab.cluster.release import Release
from tests.lab.side_by_side.guarded import GuardedBroker
from tests.support.gates import Gate

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

WANTED = os.environ.get("PENSTOCK_CLIENTS")
"""`all`: every scenario, at a broker too; `proxy`: every scenario, through the proxy only."""
PLAYED = SCENARIOS if WANTED else {name: SCENARIOS[name] for name in SHORT}

Runs = dict[str, Run]


@pytest.fixture(scope="module")
def guarded(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedBroker]:
    with GuardedBroker(kafka_libs, tmp_path_factory.mktemp("guarded")).running() as guarded:
        yield guarded


# Go takes two minutes of CPU time to build its client for the first time.
@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.long if name == "franz-go" else ()) for name in DRIVERS],
)
def runs(
    request: pytest.FixtureRequest, gate: Gate, kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Runs:
    """What the client's driver said through the proxy and, when all is played, at the broker."""
    driver = DRIVERS[request.param]
    command = driver.command(kafka_libs, tmp_path_factory.mktemp(driver.name))
    plays = {"proxy": partial(run, driver, command, gate, driver.listener, PLAYED)}
    if WANTED == "all":
        guarded = request.getfixturevalue("guarded")
        plays["broker"] = partial(run, driver, command, guarded, "SASL_PLAINTEXT", PLAYED)
    return dict(zip(plays, at_once(list(plays.values())), strict=True))


@pytest.mark.spec("A7", "E2", "E3", "O1", "R9", "S8")
@pytest.mark.parametrize("scenario", PLAYED)
def test_a_client_does_through_the_proxy_what_it_does_at_a_broker(
    request: pytest.FixtureRequest, runs: Runs, scenario: str
) -> None:
    outcomes = {place: run.outcomes[scenario] for place, run in runs.items()}
    driver = request.node.callspec.params["runs"]
    release, needed = Release.chosen(), NEEDS.get(scenario) or NEEDS.get(f"{driver} {scenario}")
    if needed is not None and not release.has(needed):
        assert "PASS" not in {o.result for o in outcomes.values()}
        pytest.skip(release.lacks(needed))
    versioned = f"{driver} {runs['proxy'].version}"
    expected = "UNSUPPORTED" if scenario in CANNOT.get(versioned, CANNOT[driver]) else "PASS"

    assert {place: o.result for place, o in outcomes.items()} == dict.fromkeys(outcomes, expected), "\n".join(
        f"{place}: {o.detail}" for place, o in outcomes.items()
    )
