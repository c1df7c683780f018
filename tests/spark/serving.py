"""The service `run --continuous` as a process, and what it prints and serves."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_audit.tables.delta import Tables
from tests.lab.cluster import probe
from tests.lab.cluster.process import ChildProcess
from tests.spark.ingesting import Source
from tests.spark.stopping import job_process

PATIENCE_MS = 300_000
TIMEOUT_S = 30
SOON = "--interval", "0.1", "--http", "127.0.0.1:0", "--reporting-interval", "1000"


@contextmanager
def service(
    source: Source, tables: Tables, directory: Path, *more: str, **options: object
) -> Iterator[ChildProcess]:
    arguments = "--continuous", "--out", str(directory / "out"), *SOON, *more
    with job_process("run", source, tables, directory, *arguments, **options) as process:
        yield process


def wait_for(
    process: ChildProcess, pattern: str, since: int = 0, patience_ms: int = PATIENCE_MS
) -> re.Match[str]:
    """Wait until the process has printed this after so many characters, and return it."""
    process.wait_until(lambda: re.search(pattern, process.log_text()[since:]) is not None, patience_ms)
    found = re.search(pattern, process.log_text()[since:])
    assert found is not None
    return found


def get(process: ChildProcess, path: str) -> tuple[int, str]:
    return probe.get(_address(process), path, TIMEOUT_S)


def metrics(process: ChildProcess) -> dict[str, float]:
    return probe.series(_address(process), TIMEOUT_S)


def _address(process: ChildProcess) -> str:
    port = wait_for(process, r"serving /metrics, /livez and /readyz at port (\d+)")[1]
    return f"127.0.0.1:{port}"
