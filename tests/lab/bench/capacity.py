"""What an operator plans with, from the figures of the proxy: millicores and memory for a unit of load."""

from collections.abc import Mapping, Sequence
from statistics import median

from tests.lab.bench.results import (
    CPU_PER_CONNECTION,
    CPU_PER_GIB,
    CPU_PER_REQUEST,
    KIB_PER_CONNECTION,
    Measured,
)

_MB_PER_GIB = (1 << 30) / 1e6
_ROWS = (
    ("consume", CPU_PER_GIB, "consumers, millicores per MB/s", 1_000 / _MB_PER_GIB),
    ("produce", CPU_PER_GIB, "producers, millicores per MB/s", 1_000 / _MB_PER_GIB),
    ("consume_tls", CPU_PER_GIB, "consumers with TLS, millicores per MB/s", 1_000 / _MB_PER_GIB),
    ("produce_tls", CPU_PER_GIB, "producers with TLS, millicores per MB/s", 1_000 / _MB_PER_GIB),
    ("small_requests", CPU_PER_REQUEST, "small requests, millicores per 1,000/s", 1.0),
    ("connect_tls_scram", CPU_PER_CONNECTION, "logins (SCRAM over TLS), millicores per 1/s", 1e-3),
    ("idle", KIB_PER_CONNECTION, "connections, MB of memory per 1,000", 1.024),
)
"""Workload, its figure, what it says for planning, and by what to multiply it."""


def of_proxy(measured: Sequence[Measured], target: str = "proxy") -> dict[str, float]:
    """Return the medians of the figures of a proxy, by workload."""
    wanted = {(workload, figure) for workload, figure, _, _ in _ROWS}
    return {
        each.workload: median(each.values)
        for each in measured
        if each.target == target and (each.workload, each.figure) in wanted
    }


def table(medians: Mapping[str, float]) -> str:
    """Return the units of load with their cost, as the rows of a Markdown table."""
    return "".join(
        f"| {words} | {medians[workload] * factor:.2g} |\n"
        for workload, _, words, factor in _ROWS
        if workload in medians
    )
