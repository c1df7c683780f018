"""Counts over time into bars."""

from datetime import UTC, datetime

import pytest

from spark_audit.report import page, plots

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

    first, second = plot.columns
    assert plot.names == ["Produce", "Fetch"]
    assert first.pieces == [plots.Piece(60.0, 140.0, 0), plots.Piece(0.0, 60.0, 1)]
    assert second.pieces == [plots.Piece(100.0, 100.0, 0)]
    assert first.x + first.width < plots.WIDTH / 2 < second.x
    assert first.title == "from 1970-01-01 00:00:00\nProduce: 70\nFetch: 30\ntotal: 100"


def test_small_series_are_folded_into_others() -> None:
    counts = {0: {f"Api{number}": 100 - number for number in range(9)}}

    plot = plots.stacked(counts, 1_000, 0, 0)

    assert plot.names == ["Api0", "Api1", "Api2", "Api3", "Api4", plots.OTHERS]
    assert "others: 374\n" in plot.columns[0].title


def test_a_single_request_is_visible_beside_a_million() -> None:
    plot = plots.stacked({0: {"Fetch": 1_000_000, "Produce": 1}, 1_000: {"Produce": 1}}, 1_000, 0, 1_999)

    for column in plot.columns:
        assert all(piece.height >= plots.LEAST_HEIGHT for piece in column.pieces)
        assert all(0 <= piece.y <= plots.HEIGHT - piece.height for piece in column.pieces)


@pytest.mark.parametrize(
    ("amounts_ms", "unit"),
    [
        ([], ("Milliseconds", 1)),
        ([40, 1_900], ("Milliseconds", 1)),
        ([40, 2_000], ("Seconds", 1_000)),
        ([7_200_000], ("Hours", 3_600_000)),
    ],
)
def test_throttling_is_plotted_in_the_unit_of_its_highest_column(
    amounts_ms: list[int], unit: tuple[str, int]
) -> None:
    counts = {number: {"a:b": amount_ms} for number, amount_ms in enumerate(amounts_ms)}

    assert page.unit(counts) == unit


def test_what_spark_has_folded_comes_last_however_large() -> None:
    plot = plots.stacked({0: {"others": 900, "Fetch": 1}}, 1_000, 0, 0)

    assert plot.names == ["Fetch", plots.OTHERS]


def test_series_of_a_given_order_keep_their_colours() -> None:
    plot = plots.stacked({0: {"failed": 3}}, 1_000, 0, 0, order=("logged in", "failed"))

    assert plot.names == ("logged in", "failed")
    assert [piece.series for piece in plot.columns[0].pieces] == [1]


def test_nothing_is_drawn_where_nothing_happened() -> None:
    plot = plots.stacked({}, 1_000, 0, 0)

    assert (list(plot.names), list(plot.columns)) == ([], [])


@pytest.mark.parametrize(
    ("count", "labels"),
    [(1, ["0", "1"]), (3, ["0", "1", "2", "3", "4"]), (1_999, ["0", "500", "1k", "1.5k", "2k"])],
)
def test_the_axis_ends_at_a_round_number(count: int, labels: list[str]) -> None:
    plot = plots.stacked({0: {"x": count}}, 1_000, 0, 0)

    assert [tick.label for tick in plot.y_ticks] == labels


@pytest.mark.parametrize(
    ("first", "hours", "labels"),
    [
        ("2026-11-23T00:00", 1, ["23 Nov", "00:10", "00:20", "00:30", "00:40", "00:50"]),
        ("2026-11-23T00:20", 24, ["23 Nov", *(f"{hour:02}:00" for hour in range(3, 24, 3)), "24 Nov"]),
        ("2026-11-23T08:00", 60, ["12:00", "24 Nov", "12:00", "25 Nov", "12:00"]),
        ("2026-11-24T00:00", 90 * 24, ["23 Nov", "07 Dec", "21 Dec", "04 Jan", "18 Jan", "01 Feb", "15 Feb"]),
    ],
)
def test_the_time_axis_is_labelled_at_round_moments(first: str, hours: int, labels: list[str]) -> None:
    first_ms = int(datetime.fromisoformat(first).replace(tzinfo=UTC).timestamp() * 1000)
    last_ms = first_ms + hours * HOUR_MS - 1

    plot = plots.stacked({}, plots.bucket_for(first_ms, last_ms), first_ms, last_ms)

    assert [tick.label for tick in plot.x_ticks] == labels
    assert all(0 <= tick.at < 100 for tick in plot.x_ticks)


def test_a_clock_that_is_wrong_by_thousands_of_years_makes_no_more_columns_or_labels() -> None:
    last_ms = 253_402_300_799_999

    plot = plots.stacked({0: {"x": 1}, last_ms: {"x": 1}}, plots.bucket_for(0, last_ms), 0, last_ms)

    assert len(plot.x_ticks) <= plots.LABELS + 1
    assert all(0 <= column.x < plots.WIDTH for column in plot.columns)
