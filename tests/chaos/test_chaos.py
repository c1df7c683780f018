"""A short chaos run, as `make chaos MINUTES=10` is a long one: what was told is in the tables, once."""

from pathlib import Path

import pytest

from tests.chaos.running import run_chaos

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.mark.spec("D3", "D4", "D5")
def test_whatever_is_killed_the_tables_hold_what_clients_were_told_and_processes_counted(
    kafka_libs: Path, tmp_path: Path
) -> None:
    outcome = run_chaos(
        tmp_path, kafka_libs, lambda killing: killing.in_turn(("proxy", "controller", "broker", "proxy"))
    )

    assert outcome.faults == []
    ledger = outcome.ledger
    assert min(len(ledger.changed), len(ledger.denied), ledger.produced, ledger.consumed) > 0
