"""`make mutants` itself: which tests run a line, which mutants a seed chooses, what becomes of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.mutants import making
from tests.lab.mutants.covering import statement_lines

pytestmark = pytest.mark.tooling

PRECEDENCE = "proxy/quota/precedence.py"

SOURCE = """\
def limit(
    rate,
):
    if (
        rate > 1
        and rate < 9
    ):
        return min(
            rate,
            5,
        )
    return 0
"""


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        pytest.param(6, range(4, 8), id="the condition of an if, without its body"),
        pytest.param(10, range(8, 12), id="an argument on a line of its own"),
        pytest.param(12, range(12, 13), id="one line"),
        pytest.param(2, range(1, 13), id="a parameter: all lines of the function"),
    ],
)
def test_the_tests_of_a_line_are_those_of_its_statement(line: int, lines: range) -> None:
    assert statement_lines(SOURCE, line) == lines


def test_a_seed_chooses_the_same_mutants_each_time() -> None:
    files = making.files(["quota"])[:4]

    count, chosen = making.sample(files, 3, seed=7)

    assert len(chosen) == 3 < count
    assert making.sample(files, 3, seed=7) == (count, chosen)
    assert making.sample(files, 3, seed=8) != (count, chosen)
    assert [making.mutant(each.path, each.number) for each in chosen] == chosen
    for each in chosen:
        old, new = (line for line in each.change if line[0] in "-+")
        assert (old[0], new[0]) == ("-", "+")
        assert old[1:] in Path(each.path).read_text()


@pytest.mark.long
@pytest.mark.parametrize(
    ("tests", "survive"),
    [
        pytest.param("tests/unit/quota/test_precedence.py", False, id="its tests"),
        pytest.param("tests/unit/quota/test_rate.py", True, id="tests of something else"),
    ],
)
def test_a_mutant_is_caught_by_a_test_that_fails(tmp_path: Path, tests: str, survive: bool) -> None:
    names = [each.name for each in making.sample([PRECEDENCE], 2, seed=1)[1]]

    # A process of its own: here the product may be imported already.
    command = [sys.executable, "-m", "tests.lab.mutants", "--processes", "1", "--directory", str(tmp_path)]
    ended = subprocess.run([*command, "--only", *names, "--tests", tests], capture_output=True, check=False)

    assert ended.returncode == int(survive), ended.stdout + ended.stderr
    found = json.loads((tmp_path / "mutants.json").read_text())
    assert (found["sample"], found["caught"]) == (2, 0 if survive else 2)
    assert [each["name"] for each in found["survivors"]] == (names if survive else [])
