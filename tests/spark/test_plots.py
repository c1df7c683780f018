"""Counts over time into bars."""

import pytest

from spark_audit.report import plots

pytestmark = pytest.mark.spec("D6")

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("span_ms", "bucket_ms"),
    [
        (0, 1_000),
        (60_000, 1_000),
        (HOUR_MS, 60_000),
        (24 * HOUR_MS, 30 * 60_000),
        (365 * 24 * HOUR_MS, 7 * 86_400_000),
    ],
)
def test_columns_stand_for_round_stretches_of_time(span_ms: int, bucket_ms: int) -> None:
    assert plots.bucket_for(0, span_ms) == bucket_ms


def test_a_column_is_stacked_from_the_largest_series_upwards() -> None:
    plot = plots.stacked({0: {"Fetch": 30, "Produce": 70}, 1_000: {"Produce": 50}}, 1_000, 0, 1_999)

    floor, middle = plots.HEIGHT - plots.BOTTOM, plots.TOP + 0.3 * (plots.HEIGHT - plots.TOP - plots.BOTTOM)
    lower, upper, second = plot.bars
    assert plot.names == ["Produce", "Fetch"]
    assert lower.y + lower.height == pytest.approx(floor)
    assert lower.y == pytest.approx(middle)
    assert upper.y == plots.TOP
    assert upper.y + upper.height == pytest.approx(lower.y)
    assert second.x > lower.x + lower.width
    assert upper.title == "1970-01-01 00:00:00  Fetch: 30"


def test_small_series_are_folded_into_others() -> None:
    counts = {0: {f"Api{number}": 100 - number for number in range(9)}}

    plot = plots.stacked(counts, 1_000, 0, 0)

    assert plot.names == ["Api0", "Api1", "Api2", "Api3", "Api4", plots.OTHERS]
    assert plot.bars[-1].title.endswith("others: 374")


def test_nothing_is_drawn_where_nothing_happened() -> None:
    plot = plots.stacked({}, 1_000, 0, 0)

    assert (list(plot.names), list(plot.bars)) == ([], [])


@pytest.mark.parametrize(
    ("count", "labels"),
    [(1, ["0", "1"]), (3, ["0", "1", "2", "3", "4"]), (1_999, ["0", "500", "1,000", "1,500", "2,000"])],
)
def test_the_axis_ends_at_a_round_number(count: int, labels: list[str]) -> None:
    plot = plots.stacked({0: {"x": count}}, 1_000, 0, 0)

    assert [tick.label for tick in plot.y_ticks] == labels
