"""docs/performance.md: the table of capacity is what its table of figures says."""

import re

import pytest

from tests.lab.bench.capacity import of_proxy, table
from tests.lab.bench.results import CPU_PER_GIB, CPU_PER_REQUEST, P50, Measured
from tests.lab.cluster.node import CHECKOUT

pytestmark = pytest.mark.tooling

PAGE = (CHECKOUT / "docs" / "performance.md").read_text(encoding="utf-8")
FIGURE = re.compile(r"^\| `(\w+)`, (?:KiB a|µs a|s a) \w+ \|[^|]*\|[^|]*\|[^|]*\| ([\d.]+)", re.M)


def test_the_capacity_on_the_page_is_that_of_its_figures() -> None:
    figures = PAGE.partition("\n## Figures\n")[2].partition("\n## ")[0]
    medians = {workload: float(value) for workload, value in FIGURE.findall(figures)}

    assert len(medians) > 7, "the pattern no longer finds them"
    assert table(medians) in PAGE, f"write this into docs/performance.md:\n{table(medians)}"


def test_a_core_that_moves_a_gib_in_a_second_has_1000_millicores_for_1074_mb() -> None:
    measured = [
        Measured(workload="consume", target="proxy", figure=CPU_PER_GIB, values=[9.0, 1.073741824, 0.1]),
        Measured(workload="consume", target="relay", figure=CPU_PER_GIB, values=[5.0]),
        Measured(workload="small_requests", target="proxy", figure=P50, values=[7.0]),
        Measured(workload="small_requests", target="proxy", figure=CPU_PER_REQUEST, values=[20.0]),
    ]

    assert table(of_proxy(measured)) == (
        "| consumers, millicores per MB/s | 1 |\n| small requests, millicores per 1,000/s | 20 |\n"
    )
