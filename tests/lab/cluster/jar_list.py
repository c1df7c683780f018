"""A checked-in list of jars: what Maven calls each, and the SHA-256 its bytes must have.

One jar a line: organisation, name, revision, hash. `kafka` reads it, and writes a new version's.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Jar:
    organisation: str
    name: str
    revision: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.revision}.jar"


def read(path: Path) -> list[Jar]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Jar(*line.split()) for line in lines if line and not line.startswith("#")]


def write(path: Path, jars: Iterable[Jar]) -> None:
    lines = sorted(f"{jar.organisation} {jar.name} {jar.revision} {jar.sha256}" for jar in jars)
    header = (
        "# organisation name revision sha256; written by `python -m tests.lab.cluster.kafka --lock VERSION`"
    )
    path.write_text("\n".join([header, *lines, ""]), encoding="utf-8")


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def faults(directory: Path, jars: Iterable[Jar]) -> list[str]:
    """What is wrong with the jars of a directory, a sentence each; empty when all are there and whole."""
    return [fault for jar in jars if (fault := _fault(directory / jar.file_name, jar))]


def _fault(path: Path, jar: Jar) -> str | None:
    if not path.exists():
        return f"{jar.file_name} is missing"
    found = sha256(path)
    return None if found == jar.sha256 else f"{jar.file_name} has SHA-256 {found}, the list says {jar.sha256}"
