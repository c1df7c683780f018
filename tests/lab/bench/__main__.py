"""`make bench`: measure, print the table, write build/bench.json. With --bootstrap: a cluster of your own."""

import argparse
import resource
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter

from tests.lab.bench import capacity, load, own_cluster, peers, results, templates
from tests.lab.bench.results import Measured
from tests.lab.bench.stage import PARTITIONS, SMALL_TOPIC, targets
from tests.lab.bench.target import Target
from tests.lab.bench.workloads import QUICK, WORKLOADS, Cost, Sizes, Workloads

BUILD = Path(__file__).resolve().parents[3] / "build"
_PROXY_TAKES = 9_000
"""Idle connections; its limit of all connections is 10,000."""
_OTHER_FILES = 1_500
"""Of the broker, besides those of the idle connections."""
_FILES_OF_SPLICE = 6
"""Of a connection: two sockets and two pipes."""
_JAVA_WARM_S = 15
"""Of each workload, before the rounds that count, for programs in Java."""


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter, and less exact")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=tuple(WORKLOADS), metavar="WORKLOAD")
    parser.add_argument("--members", type=int, help="of groups, in multiples of four")
    parser.add_argument(
        "--beside",
        nargs="+",
        type=peers.named,
        default=[],
        metavar="PEER",
        help="further targets: " + peers.WORDS,
    )
    own = parser.add_argument_group("a cluster of your own (docs/performance.md#on-your-own-cluster)")
    own.add_argument("--bootstrap", action="append", metavar="HOST:PORT", help="repeatable: broker and proxy")
    own.add_argument("--metrics", action="append", metavar="URL", help="of the process at each --bootstrap")
    own.add_argument("--client-config", type=Path, metavar="FILE", help="librdkafka's settings for the login")
    arguments = parser.parse_args(argv)
    if arguments.bootstrap or arguments.metrics or arguments.client_config:
        return _own_cluster(parser, arguments)
    files = _allow_many_files()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        beside = dict(arguments.beside)
        sizes = sizes_for(arguments.quick, arguments.rounds, files, beside)
        sizes = replace(sizes, members=arguments.members or sizes.members)
        measured = _measure(Path(directory), sizes, arguments.rounds, arguments.only, beside)
    results.write(BUILD / "bench.json", measured)
    sys.stdout.write("\n" + results.table(measured) + "\n" + capacity.table(capacity.of_proxy(measured)))
    return 0


def _own_cluster(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    if not arguments.bootstrap or len(arguments.only) < len(WORKLOADS) or arguments.beside:
        parser.error(
            "--metrics and --client-config need --bootstrap, which measures without --only and --beside"
        )
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


def _measure(
    directory: Path, sizes: Sizes, rounds: int, names: Sequence[str], beside: Mapping[str, Path | None]
) -> list[Measured]:
    generator = load.LoadGenerator(load.compiled(BUILD), templates.write(directory, SMALL_TOPIC, PARTITIONS))
    measured = []
    with targets(directory / "stack", _report, beside=beside) as found:
        for name in names:
            for target in _having(found, name):
                _warm_up(name, generator, sizes, target)
        for name in names:
            with ExitStack() as held:
                workloads = Workloads(generator, sizes, held)
                _report(f"{name}: {rounds} rounds")
                measured += _rounds(name, workloads, _having(found, name), rounds)
    return measured


def _warm_up(name: str, generator: load.LoadGenerator, sizes: Sizes, target: Target) -> None:
    """Run it for nothing much: caches are filled, pages are touched. Java has time to compile."""
    until_s = perf_counter() + (_JAVA_WARM_S if target.java else 0)
    _report(f"{name}: warming up {target.name}")
    while True:
        with ExitStack() as held:
            _run(name, Workloads(generator, sizes if target.java else _brief(sizes), held), target)
        if perf_counter() >= until_s:
            return


def _having(found: Sequence[Target], name: str) -> list[Target]:
    """Return the targets with the listener of that workload."""
    return [target for target in found if WORKLOADS[name][0] in target.addresses]


def _run(name: str, workloads: Workloads, target: Target) -> Cost:
    listener, run = WORKLOADS[name]
    return run(workloads, listener, target)


def sizes_for(quick: bool, rounds: int, files: int, beside: Collection[str] = ()) -> Sizes:
    """The idle connections of all rounds stay open: the broker has those of all targets."""
    sizes = QUICK if quick else Sizes()
    of_one = max(3 + len(beside), _FILES_OF_SPLICE if "splice" in beside else 0)
    held = min(_PROXY_TAKES, (files - _OTHER_FILES) // of_one)
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


def _rounds(name: str, workloads: Workloads, found: Sequence[Target], rounds: int) -> list[Measured]:
    """Targets take turns, so that what else the machine does falls on all of them."""
    costs: dict[str, list[Cost]] = {target.name: [] for target in found}
    for _ in range(rounds):
        for target in found:
            costs[target.name].append(_run(name, workloads, target))
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
