"""The OTLP receiver of the OpenTelemetry Collector, as a program that Go builds once into the user's cache.

The source is tests/contract/otlp_receiver; a change there builds it anew. `a_collector` runs it.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.lab.cluster.ports import free_addresses
from tests.support.go_program import GoProgram

RECEIVER = GoProgram("otlp-receiver", "otlp_receiver", "the Collector's receiver")


class Collector:
    """It runs; `url` is where spans and log records are sent."""

    def __init__(self, url: str, output: IO[str]) -> None:
        self.url = url
        self._output = output

    def spans(self, count: int) -> list[dict[str, Any]]:
        """Wait until so many have come; as OTLP's JSON has them, with their resource."""
        return self._found(count, "resourceSpans", "scopeSpans", "spans")

    def log_records(self, count: int) -> list[dict[str, Any]]:
        """Wait until so many have come, likewise."""
        return self._found(count, "resourceLogs", "scopeLogs", "logRecords")

    def _found(self, count: int, resources: str, scopes: str, items: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while len(found) < count:
            line = self._output.readline()
            assert line, "the receiver has ended"
            for of_resource in json.loads(line)[resources]:
                for of_scope in of_resource[scopes]:
                    found += [{**item, "resource": of_resource["resource"]} for item in of_scope[items]]
        return found


@contextmanager
def a_collector(program: Path) -> Iterator[Collector]:
    """Listening, until the end of the block."""
    (address,) = free_addresses(1)
    with subprocess.Popen(
        [str(program), address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "listening\n"
            yield Collector(f"http://{address}", process.stdout)
        finally:
            process.stdin.close()
