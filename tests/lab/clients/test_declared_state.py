"""Tools that keep a cluster as a file says see the same through the proxy as straight at a broker.

They read what they have written, and write again what differs: a difference is a change that never ends. One
driver runs Terraform's Kafka provider, without Terraform; the other sends the requests of Strimzi's user
operator (by Admin). Both write down what comes back: plans, errors and states.
"""

import re
from functools import partial
from pathlib import Path

import pytest

from tests.lab.clients.stage import DECLARED, run
from tests.lab.cluster.at_once import at_once
from tests.lab.side_by_side.guarded import GuardedBroker
from tests.support.gates import Gate

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long]

SCENARIOS = {
    "terraform": ("terraform-topic", "terraform-acl", "terraform-quota", "terraform-scram"),
    "user-operator": ("user-operator",),
}


@pytest.mark.spec("O11", "Q8", "S8", "E2", "E3")
@pytest.mark.parametrize("tool", SCENARIOS)
def test_a_tool_sees_what_it_sees_at_a_broker(
    gate: Gate, kafka_libs: Path, tmp_path: Path, tool: str
) -> None:
    driver = DECLARED[tool]
    command = driver.command(kafka_libs, tmp_path)
    scenarios = {name: {"does": name} for name in SCENARIOS[tool]}
    with GuardedBroker(kafka_libs, tmp_path / "guarded").running() as guarded:
        at_broker, at_proxy = at_once(
            [
                partial(run, driver, command, guarded, "SASL_PLAINTEXT", scenarios),
                partial(run, driver, command, gate, driver.listener, scenarios),
            ]
        )

    for outcome in (*at_broker.outcomes.values(), *at_proxy.outcomes.values()):
        assert outcome.result == "PASS", outcome.detail
    seen, expected = (
        {
            # Penstock's message names the limit too.
            name: [
                re.sub("(Too (few|many) iterations): .*", r"\1", line) for line in outcome.detail.splitlines()
            ]
            for name, outcome in each.outcomes.items()
        }
        for each in (at_proxy, at_broker)
    )
    assert seen == expected
    assert [name for name in scenarios if len(expected[name]) < 5] == []
