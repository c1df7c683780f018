"""A short chaos run, as `make chaos MINUTES=10` is a long one: what was told is in the tables, once."""

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.lab.chaos.ingesting import FIRST_WRITE, LATE_S, Ingesting
from tests.lab.chaos.killing import Killing
from tests.lab.chaos.running import run_chaos
from tests.lab.chaos.table import told_by
from tests.support.spark_session import LEAVES_A_SOCKET

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.long, LEAVES_A_SOCKET]

IN_TURN = ("proxy", "controller", "broker", "proxy")


def _each_once(killing: Killing, ingesting: Ingesting) -> None:
    killing.in_turn(IN_TURN)
    ingesting.wait(LATE_S)


@pytest.mark.spec("D1", "D2", "D3", "D4", "D5", "E5", "E12")
def test_whatever_is_killed_the_tables_hold_what_clients_were_told_and_processes_counted(
    kafka_libs: Path, spark: SparkSession, tmp_path: Path
) -> None:
    outcome = run_chaos(tmp_path, kafka_libs, _each_once, fates=[FIRST_WRITE], read=partial(told_by, spark))

    assert outcome.faults == []
    assert outcome.done == list(IN_TURN)
    assert sum(outcome.ingests_killed.values()) == 1
    assert "before its first batch" not in outcome.ingests_killed
    ledger = outcome.ledger
    assert min(len(ledger.changed), len(ledger.denied), ledger.produced, ledger.consumed) > 0
