"""What small requests cost with one and with two workers: `python -m tests.lab.bench.workers`.

The proxy is in front of null_broker.py, so that the broker takes little of the machine. CPU is that of all
processes of the proxy; the load is `small_requests`.
"""

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from tests.lab.bench import load, templates
from tests.lab.bench.__main__ import BUILD
from tests.lab.bench.process_cost import cpu_s, tree
from tests.lab.bench.stage import PARTITIONS, SMALL_TOPIC, targets
from tests.lab.bench.target import PLAIN, Target

ROUNDS, CONNECTIONS = 3, 64
WARM_S, SECONDS = 1.0, 3.0


def main() -> None:
    costs: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory, ExitStack() as held:
        requests = templates.write(Path(directory), SMALL_TOPIC, PARTITIONS)
        generator = load.LoadGenerator(load.compiled(BUILD), requests)
        proxies = {
            workers: held.enter_context(
                targets(Path(directory, str(workers)), _report, workers, before_null_broker=True)
            )[-1]
            for workers in costs
        }
        for _ in range(ROUNDS):
            for workers, proxy in proxies.items():
                costs[workers].append(_round(generator, proxy))
    rows = [_row(workers, each) for workers, each in costs.items()]
    for row in rows:
        sys.stdout.write(f"{row}\n")
    (BUILD / "workers.json").write_text(json.dumps(rows, indent=1) + "\n")


def _round(generator: load.LoadGenerator, proxy: Target) -> tuple[float, float]:
    """CPU µs of a request, and requests a second."""
    pids = tree(proxy.processes[0].pid)
    with generator.running("requests", proxy.port(PLAIN), CONNECTIONS, WARM_S, SECONDS) as running:
        running.wait_for_start()
        used_s = sum(map(cpu_s, pids))
        done = running.wait_for_end()
        used_s = sum(map(cpu_s, pids)) - used_s
    return 1e6 * used_s / done.count, done.count / done.seconds


def _row(workers: int, each: list[tuple[float, float]]) -> dict[str, Any]:
    cpu_us, rates = zip(*each, strict=True)
    return {
        "workers": workers,
        "cpu_us_per_request": {
            name: round(of(cpu_us), 2) for name, of in (("min", min), ("median", median), ("max", max))
        },
        "requests_per_s": round(median(rates)),
    }


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    main()
