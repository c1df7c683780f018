"""docs/tampering.md is what a run finds: some of its cells in the short form, all of them in the long one."""

import random

import pytest
from pyspark.sql import SparkSession

from tests.lab.tampering import matrix, page, sampling
from tests.lab.tampering.topics import Cell, variants
from tests.support.spark_session import LEAVES_A_SOCKET

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D8"), LEAVES_A_SOCKET]
SAMPLE = 40


def known() -> dict[Cell, str]:
    return page.read(page.PAGE.read_text(encoding="utf-8"))


@pytest.mark.long
def test_some_cells_of_the_page_are_as_found(spark: SparkSession) -> None:
    every = variants()
    cells = random.Random(20).sample(sorted({variant.cell for variant in every}), SAMPLE)
    chosen = [variant for variant in every if variant.cell in cells]

    found = page.collected(matrix.of_topics(spark, chosen))

    on_page = known()
    assert page.texts_of(found) == {cell: on_page[cell] for cell in cells}


def test_each_cell_is_found_or_has_a_reason_and_each_reason_is_used() -> None:
    texts = set(known().values())

    assert all(text.startswith("`") or "](#reasons)" in text for text in texts)
    for letter in page.WORDS["reasons"]:
        assert any(f"[{letter}](#reasons)" in text for text in texts), letter
    assert {variant.cell for variant in variants()} <= known().keys()


def test_the_page_is_what_it_would_be_written_as() -> None:
    """What is added to it by hand is in words.toml, or the next run would remove it."""
    text = page.PAGE.read_text(encoding="utf-8")

    assert page.write(page.read(text)) == text


@pytest.mark.long
def test_random_edits_are_judged_as_the_page_says(spark: SparkSession) -> None:
    assert sampling.missed(spark, sampling.template(), 7, range(150), known()) == []


@pytest.mark.long
@pytest.mark.parametrize("part", matrix.PARTS)
def test_a_part_of_the_page_is_as_a_run_finds_it(spark: SparkSession, part: str) -> None:
    found = page.texts_of(page.collected(matrix.judged_parts(spark, [part], lambda line: None)))

    places = {cell.place for cell in found}
    assert (
        page.differences({cell: text for cell, text in known().items() if cell.place in places}, found) == []
    )
