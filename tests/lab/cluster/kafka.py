"""Apache Kafka's jars on this machine: fetched once, checked against the list, kept in a cache.

`libs()` returns the directory; `python -m tests.lab.cluster.kafka` (`make setup`) fills the cache, with
the archive of classes, and prints the directory. With `--lock VERSION` it writes the list for another
version. The cache is `$PENSTOCK_CACHE` or `~/.cache/penstock`.
"""

import argparse
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.lab.cluster import class_archive, ivy, jar_list
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.jar_list import Jar

KAFKA_VERSION = "4.2.1"
LIST = Path(__file__).with_name(f"kafka-{KAFKA_VERSION}.lock")

_ROOTS = (("org.apache.kafka", "kafka_2.13"), ("org.apache.kafka", "kafka-tools"))
_LOG_BINDING = ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")
# Kafka Connect and the web server it brings: 46 of 93 jars, for one tool that nobody calls here.
_WITHOUT = (
    ("org.apache.kafka", "connect-(runtime|transforms|json)"),
    (
        r"(com\.fasterxml\.jackson\.jakarta\.rs|org\.glassfish.*|org\.eclipse\.jetty.*|javax.*|jakarta.*)",
        ".*",
    ),
)


def cache_directory() -> Path:
    return Path(os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock")


def libs(report: Callable[[str], None] = print) -> Path:
    """The directory of Kafka's jars, all whole; fetches them when they are not, or raises SetupError."""
    jars = jar_list.read(LIST)
    directory = cache_directory() / f"kafka-{KAFKA_VERSION}"
    directory.parent.mkdir(parents=True, exist_ok=True)
    with _alone(directory.parent / f"kafka-{KAFKA_VERSION}.lock"):
        if jar_list.faults(directory, jars):
            _fetch(directory, jars, report)
    return directory


def _fetch(directory: Path, jars: Sequence[Jar], report: Callable[[str], None]) -> None:
    report(f"fetching Apache Kafka {KAFKA_VERSION}: {len(jars)} jars, 45 MB, into {directory}")
    # Whole or not at all: the jars arrive elsewhere on the same disk and are moved here in one rename.
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=directory.parent) as name:
        work = Path(name)
        arriving = work / "jars"
        ivy.retrieve(
            [(jar.organisation, jar.name, jar.revision) for jar in jars],
            arriving,
            work,
            lambda count: (
                report(f"  {count} of {len(jars)} jars") if count % 10 == 0 or count == len(jars) else None
            ),
        )
        if faults := jar_list.faults(arriving, jars):
            raise SetupError("the fetched jars are not those of the list: " + "; ".join(faults))
        shutil.rmtree(directory, ignore_errors=True)
        arriving.rename(directory)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Two processes that fetch at once would fetch twice; the second waits and finds the jars there."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_list(version: str, into: Path) -> list[Jar]:
    """Resolve a Kafka version from its descriptors and write the list that pins it."""
    with tempfile.TemporaryDirectory() as name:
        roots = [(*root, version) for root in _ROOTS]
        resolved = ivy.resolve([*roots, _LOG_BINDING], _WITHOUT, Path(name))
        jars = [Jar(*coordinate, jar_list.sha256(path)) for coordinate, path in resolved]
    jar_list.write(into, jars)
    return jars


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.cluster.kafka", description="Fetch Apache Kafka's jars."
    )
    parser.add_argument(
        "--lock", metavar="VERSION", help="write the list of jars for this Kafka version instead"
    )
    arguments = parser.parse_args(argv)
    try:
        if arguments.lock:
            into = LIST.with_name(f"kafka-{arguments.lock}.lock")
            print(f"{into}: {len(write_list(arguments.lock, into))} jars")
        else:
            directory = libs(_tell)
            class_archive.ensure(directory, _tell)
            print(directory)
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
