"""The load generator, run as a child process; programs in C are compiled when first needed."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.lab.cluster.errors import SetupError

_HERE = Path(__file__).parent
_TIMEOUT_S = 60

PRODUCE, API_VERSIONS = "produce", "api_versions"


@dataclass(frozen=True, slots=True)
class Done:
    """What the load generator did."""

    count: int
    seconds: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    most_ms: float


class LoadGenerator:
    def __init__(self, program: Path, requests: Mapping[str, Sequence[Path]]) -> None:
        """`requests`: the files of each kind."""
        self._program = program
        self.requests = requests

    @contextmanager
    def running(self, mode: str, port: int, *numbers: float, request: str = PRODUCE) -> Iterator["Run"]:
        """One run in that mode; ended, if it has not ended by itself, when the block is left."""
        words = [mode, port, *numbers, *self.requests[request]]
        command = [str(self._program), *map(str, words)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                yield Run(process.stdout)
                process.stdin.close()
                process.wait(_TIMEOUT_S)
            finally:
                process.kill()


@dataclass(frozen=True, slots=True)
class Run:
    output: IO[bytes]

    def wait_for_start(self) -> None:
        """Return when the warm-up is over."""
        if self.output.readline() != b"START\n":
            raise SetupError("the load generator ended before it began to measure")

    def wait_for_end(self) -> Done:
        line = self.output.readline()
        if not line:
            raise SetupError("the load generator failed; what it said is above")
        return Done(**json.loads(line))


def compiled(build: Path, name: str = "loadgen") -> Path:
    """The program in `build`, made of the file of that name here; SetupError without a C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise SetupError(f"`make bench` needs gcc for {name}.c")
    program = build / name
    build.mkdir(parents=True, exist_ok=True)
    subprocess.run([compiler, "-O2", "-o", str(program), str(_HERE / f"{name}.c")], check=True)
    return program
