"""What `make bench-spark` tells of its laps; no Spark needed."""

import pytest

from tests.lab.bench.audit.figures import Lap, Measured, rows, table

pytestmark = pytest.mark.tooling


def a_size(records: int, wall_s: float, cpu_s: float) -> Measured:
    lap = Lap(wall_s, cpu_s)
    return Measured(records=records, decisions=records // 2, reconciled=lap, decided=lap)


def test_growth_is_the_cost_of_a_record_over_that_at_the_size_before_whatever_order_they_were_run_in() -> (
    None
):
    large, small = rows([a_size(5_000, 100.0, 110.0), a_size(1_000, 10.0, 20.0)])[::-1]

    assert small["growth"] is None
    assert large["growth"] == {
        "over_records": 1_000,
        "reconciled_wall": 2.0,
        "reconciled_cpu": 1.1,
        "decisions_wall": 2.0,
        "decisions_cpu": 1.1,
        "reconciled_cpu_us_per_record_more": 22_500.0,
    }


def test_rates_are_told_by_the_clock_and_by_cpu() -> None:
    [row] = rows([a_size(1_000, 10.0, 20.0)])

    assert row["reconciled"] == {"wall_s": 10.0, "cpu_s": 20.0, "records_per_s": 100, "records_per_cpu_s": 50}
    assert row["decisions_alone"]["decisions_per_s"] == 50
    assert (row["made"], row["one_day"]) == (None, None)


def test_the_table_marks_what_is_not_linear() -> None:
    _, first, second = table(rows([a_size(1_000, 10.0, 20.0), a_size(5_000, 100.0, 110.0)])).splitlines()

    assert first.split() == ["1,000", "100", "50", "50", "25", "-", "-"]
    assert second.split() == ["5,000", "50", "45", "25", "23", "2.00", "!", "1.10"]
