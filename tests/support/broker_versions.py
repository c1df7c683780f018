"""Writes the versions of each API that brokers of each release speak, from the schemas in Kafka's jars.

    python -m tests.support.broker_versions [VERSION]

It reads the jar kafka-clients of each release in spark_audit/what_if/broker_versions.json, and of VERSION if
it is given. `make schemas` passes the release that Penstock follows. An API has the name that its key has in
the newest release, as in the trail. An unstable version is not spoken. Before 4.0, an API counts whether
brokers with ZooKeeper or with KRaft have it.

The jars come from Maven Central through Ivy and stay in the cache. They are read, not run, so they have no
list of hashes: a jar with another content is a difference that a test reports.
"""

import json
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.lab.cluster import ivy
from tests.lab.cluster.kafka import cache_directory, parts
from tests.support.import_schemas import definition

TABLE = Path(__file__).parents[2] / "spark_audit" / "what_if" / "broker_versions.json"
Spans = dict[str, list[int] | None]
_BROKERS = {"zkBroker", "broker"}


def written(releases: Iterable[str]) -> str:
    """Return the text of the table of these releases, the oldest first. SetupError without a jar."""
    requests = {release: _requests(_jar(release)) for release in sorted(releases, key=parts)}
    names = {key: name for of_release in requests.values() for key, (name, _) in of_release.items()}
    before: Spans = {}
    lines = []
    for release, of_release in requests.items():
        spans: Spans = {names[key]: span for key, (_, span) in sorted(of_release.items())}
        gone = dict.fromkeys(sorted(before.keys() - spans.keys()))
        changes = {api: span for api, span in (spans | gone).items() if before.get(api) != span}
        lines.append(f" {json.dumps(release)}: {{\n{_rows(changes)}\n }}")
        before = spans
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rows(changes: Mapping[str, list[int] | None]) -> str:
    return ",\n".join(f"  {json.dumps(api)}: {json.dumps(span)}" for api, span in changes.items())


def _requests(jar: Path) -> dict[int, tuple[str, list[int]]]:
    """Return API key -> the API's name, and its first and last version."""
    with zipfile.ZipFile(jar) as archive:
        texts = [
            archive.read(name).decode()
            for name in archive.namelist()
            if name.startswith("common/message/") and name.endswith("Request.json")
        ]
    found = {}
    for message in map(definition, texts):
        first, _, last = message["validVersions"].partition("-")
        if first != "none" and not _BROKERS.isdisjoint(message["listeners"]):
            span = [int(first), int(last or first) - bool(message.get("latestVersionUnstable"))]
            if span[0] <= span[1]:
                found[message["apiKey"]] = message["name"].removesuffix("Request"), span
    return found


def _jar(release: str) -> Path:
    folder = cache_directory() / "kafka-clients"
    path = folder / f"kafka-clients-{release}.jar"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            into = Path(work) / "jars"
            ivy.retrieve(
                [("org.apache.kafka", "kafka-clients", release)], into, Path(work), lambda count: None
            )
            (into / path.name).rename(path)
    return path


def main(arguments: Sequence[str]) -> int:
    TABLE.write_text(written(json.loads(TABLE.read_text()).keys() | set(arguments)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
