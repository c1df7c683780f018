"""The service `run --continuous` as a process, and what it prints and serves."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from spark_audit.tables.delta import Tables
from tests.lab.cluster.process import ChildProcess
from tests.spark.ingesting import Source
from tests.spark.stopping import job_process

PATIENCE_MS = 300_000
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
    port = wait_for(process, r"serving /metrics, /livez and /readyz at port (\d+)")[1]
    connection = HTTPConnection("127.0.0.1", int(port), timeout=30)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def metrics(process: ChildProcess) -> Mapping[str, float]:
    """Return the series of /metrics that are ours."""
    lines = get(process, "/metrics")[1].splitlines()
    pairs = (line.rpartition(" ") for line in lines if line.startswith("penstock_"))
    return {name: float(value) for name, _, value in pairs}
