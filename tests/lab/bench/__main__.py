"""`make bench`: measure, print the table, write build/bench.json. With --bootstrap: a cluster of your own."""

import argparse
import resource
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median

from tests.lab.bench import capacity, load, own_cluster, results, templates
from tests.lab.bench.results import Measured
from tests.lab.bench.stage import PARTITIONS, SMALL_TOPIC, Target, targets
from tests.lab.bench.workloads import QUICK, Cost, Sizes, Workloads

BUILD = Path(__file__).resolve().parents[3] / "build"
_NAMES = (
    *("idle", "connect", "connect_and_produce", "connect_plain", "connect_scram", "connect_tls_scram"),
    *("connect_mtls", "storm", "small_requests", "group_members", "latency", "latency_beside_bulk"),
    *("produce", "consume", "produce_tls", "consume_tls"),
)

_PROXY_TAKES = 9_000
"""Idle connections; its limit of all connections is 10,000."""
_OTHER_FILES = 1_500
"""Of the broker, besides those of the idle connections."""


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter, and less exact")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=_NAMES, default=_NAMES, metavar="WORKLOAD")
    own = parser.add_argument_group("a cluster of your own (docs/performance.md#on-your-own-cluster)")
    own.add_argument("--bootstrap", action="append", metavar="HOST:PORT", help="repeatable: broker and proxy")
    own.add_argument("--metrics", action="append", metavar="URL", help="of the process at each --bootstrap")
    own.add_argument("--client-config", type=Path, metavar="FILE", help="librdkafka's settings for the login")
    arguments = parser.parse_args(argv)
    if arguments.bootstrap or arguments.metrics or arguments.client_config:
        return _own_cluster(parser, arguments)
    files = _allow_many_files()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        sizes = sizes_for(arguments.quick, arguments.rounds, files)
        measured = _measure(Path(directory), sizes, arguments.rounds, arguments.only)
    results.write(BUILD / "bench.json", measured)
    sys.stdout.write("\n" + results.table(measured) + "\n" + capacity.table(capacity.of_proxy(measured)))
    return 0


def _own_cluster(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    if not arguments.bootstrap or arguments.only is not _NAMES:
        parser.error("--metrics and --client-config need --bootstrap, which measures without --only")
    urls = arguments.metrics or [None] * len(arguments.bootstrap)
    if len(urls) != len(arguments.bootstrap):
        parser.error("--metrics: name one URL for each --bootstrap, in the same order, or none")
    client = own_cluster.client_settings(arguments.client_config)
    places = [
        own_cluster.Place(bootstrap, client, url)
        for bootstrap, url in zip(arguments.bootstrap, urls, strict=True)
    ]
    sizes = QUICK if arguments.quick else Sizes()
    measured = own_cluster.measure(places, arguments.rounds, sizes.bulk_bytes // 1024, sizes.connects)
    sys.stdout.write(results.table(measured))
    for place in places:
        if units := capacity.table(capacity.of_proxy(measured, place.bootstrap)):
            sys.stdout.write(f"\n{place.bootstrap}\n{units}")
    return 0


def _measure(directory: Path, sizes: Sizes, rounds: int, names: Sequence[str]) -> list[Measured]:
    generator = load.LoadGenerator(load.compiled(BUILD), templates.write(directory, SMALL_TOPIC, PARTITIONS))
    measured = []
    with targets(directory / "stack", _report) as found:
        # Each workload once for nothing much: code is compiled, caches are filled, pages are touched.
        for name in names:
            with ExitStack() as held:
                workload = Workloads(generator, _brief(sizes), held).all[name]
                for target in found:
                    workload(target)
        for name in names:
            with ExitStack() as held:
                workload = Workloads(generator, sizes, held).all[name]
                _report(f"{name}: {rounds} rounds")
                measured += _rounds(name, workload, found, rounds)
    return measured


def sizes_for(quick: bool, rounds: int, files: int) -> Sizes:
    """The idle connections of all rounds stay open: the broker has those of all three targets."""
    sizes = QUICK if quick else Sizes()
    held = min(_PROXY_TAKES, (files - _OTHER_FILES) // 3)
    return replace(sizes, idle_connections=min(sizes.idle_connections, held // rounds))


def _brief(sizes: Sizes) -> Sizes:
    return Sizes(
        seconds=0.3,
        warm_s=0.3,
        bulk_bytes=sizes.bulk_bytes // 8,
        idle_connections=100,
        connects=200,
        logins=40,
        storm=100,
        members=8,
    )


def _rounds(
    name: str, workload: Callable[[Target], Cost], found: Sequence[Target], rounds: int
) -> list[Measured]:
    """Targets take turns, so that what else the machine does falls on all of them."""
    costs: dict[str, list[Cost]] = {target.name: [] for target in found}
    for _ in range(rounds):
        for target in found:
            costs[target.name].append(workload(target))
    direct = median(cost.rate for cost in costs["direct"])
    return [
        Measured(
            workload=name,
            target=target,
            figure=figure,
            values=[value for cost in each if (value := cost.values[figure]) is not None],
            relative_speed=median(cost.rate for cost in each) / direct,
        )
        for figure in costs["direct"][0].values
        for target, each in costs.items()
    ]


def _allow_many_files() -> int:
    """Return how many files a process may open now.

    Inherited by broker, relay and proxy: an idle connection takes two files in each of the last two.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
