"""Apache Kafka's jars on this machine: fetched once, checked against the list, kept in a cache.

`libs()` returns the directory; `python -m tests.lab.cluster.kafka` (`make setup`) fills the cache, with
the archive of classes, and prints the directory. `libs(VERSION)` fetches any version that has a list, when
it is first needed, `connect_libs()` Kafka Connect, MirrorMaker and Streams; with `what` the jars of another
program, a key of `_ROOTS`, or of the servers of `hdfs`, whose list is written by hand. `--lock VERSION`
writes the list for another version, with `--of` that of another program. The cache is `$PENSTOCK_CACHE` or
`~/.cache/penstock`.
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

KAFKA_VERSION = "4.4.0"
CONNECT_VERSION = "4.2.0"
"""Some jars of Connect's 4.2.1 are not in Maven Central."""

_ROOTS = {
    "kafka": (("org.apache.kafka", "kafka_2.13"), ("org.apache.kafka", "kafka-tools")),
    "connect": tuple(
        ("org.apache.kafka", name)
        for name in ("connect-runtime", "connect-mirror", "connect-file", "kafka-streams")
    ),
    "spring": (("org.springframework.kafka", "spring-kafka"),),
    "flink": (("org.apache.flink", "flink-connector-kafka"),),
    "debezium": (("io.debezium", "debezium-connector-postgres"),),
}
"""What a list is of -> the modules whose version it has."""
_BESIDE = {
    "flink": (
        ("org.apache.flink", "flink-clients", "2.2.0"),
        ("org.apache.flink", "flink-connector-base", "2.2.0"),
    )
}
"""What runs them, if they leave it to their user."""
_LOG4J_2 = (("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),)
# Brokers before 4.0 call classes of Log4j 1, which is not among their own dependencies.
_LOG4J_1 = (("ch.qos.reload4j", "reload4j", "1.2.26"), ("org.slf4j", "slf4j-reload4j", "1.7.36"))
_WITHOUT = (
    # Replaced by reload4j.
    ("log4j", "log4j"),
    ("org.slf4j", "slf4j-log4j12"),
    # Kafka Connect and the web server it brings: 46 of 93 jars, for one tool that nobody calls here.
    ("org.apache.kafka", "connect-(runtime|transforms|json)"),
    (
        r"(com\.fasterxml\.jackson\.jakarta\.rs|org\.glassfish.*|org\.eclipse\.jetty.*|javax.*|jakarta.*)",
        ".*",
    ),
)


def cache_directory() -> Path:
    return Path(os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock")


def parts(version: str) -> list[int]:
    """Return the numbers of a version, by which versions are compared."""
    return [int(part) for part in version.split(".")]


def list_of(version: str, what: str = "kafka") -> Path:
    """Where the list of jars of that version of Kafka is, or would be."""
    return Path(__file__).with_name(f"{what}-{version}.lock")


def libs(version: str = KAFKA_VERSION, report: Callable[[str], None] = print, what: str = "kafka") -> Path:
    """The directory of Kafka's jars, all whole; fetches them when they are not, or raises SetupError."""
    jars = jar_list.read(list_of(version, what))
    directory = cache_directory() / f"{what}-{version}"
    directory.parent.mkdir(parents=True, exist_ok=True)
    with _alone(directory.parent / f"{what}-{version}.lock"):
        if jar_list.faults(directory, jars):
            _fetch(directory, jars, report)
    return directory


def connect_libs() -> Path:
    """The directory of the jars of Kafka Connect, MirrorMaker and Streams; as `libs`."""
    return libs(CONNECT_VERSION, what="connect")


def _fetch(directory: Path, jars: Sequence[Jar], report: Callable[[str], None]) -> None:
    report(f"fetching Apache {directory.name}: {len(jars)} jars, some 50 MB, into {directory}")
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


def write_list(version: str, into: Path, what: str = "kafka") -> list[Jar]:
    """Resolve a Kafka version from its descriptors and write the list that pins it."""
    with tempfile.TemporaryDirectory() as name:
        roots = [*((*root, version) for root in _ROOTS[what]), *_BESIDE.get(what, ())]
        logging = _LOG4J_1 if what == "kafka" and version < "4" else _LOG4J_2
        resolved = ivy.resolve([*roots, *logging], _WITHOUT if what == "kafka" else (), Path(name))
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
    parser.add_argument("--of", choices=_ROOTS, default="kafka", help="with --lock: what the list is of")
    arguments = parser.parse_args(argv)
    try:
        if arguments.lock:
            into = list_of(arguments.lock, arguments.of)
            print(f"{into}: {len(write_list(arguments.lock, into, arguments.of))} jars")
        else:
            directory = libs(report=_tell)
            class_archive.ensure(directory, _tell)
            print(directory)
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
