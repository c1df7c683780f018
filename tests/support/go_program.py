"""Builds the small Go programs that stand beside the tests, once for each state of their source."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.kafka import cache_directory


@dataclass(frozen=True)
class GoProgram:
    """`what` it is, from a folder of tests/contract, in the user's cache; a change there builds it anew."""

    name: str
    folder: str
    what: str

    @property
    def source(self) -> Path:
        return Path(__file__).resolve().parents[1] / "contract" / self.folder

    @property
    def path(self) -> Path:
        content = b"".join(path.read_bytes() for path in sorted(self.source.glob("*.*")))
        return cache_directory() / f"{self.name}-{hashlib.sha256(content).hexdigest()[:16]}"

    def installed(self) -> Path | None:
        """The program, if the cache has it as the source is now."""
        return self.path if self.path.exists() else None

    def built(self) -> Path:
        """Build it if the cache does not have it; SetupError without Go, or if it cannot be built."""
        cache_directory().mkdir(parents=True, exist_ok=True)
        # A second process waits, and finds it there.
        with (cache_directory() / f"{self.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return self.installed() or build(self.source, self.path, self.what)


def build(source: Path, program: Path, what: str) -> Path:
    """Build the package in the folder `source` as `program`. SetupError says why `what` cannot be built."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise SetupError(f"no `go` in PATH: {what} cannot be built")
    work = program.with_suffix(".new")
    done = subprocess.run(
        [go, "build", "-o", str(work), "."],
        env={**os.environ, "GOFLAGS": ""},
        cwd=source,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise SetupError(f"{what} cannot be built:\n{done.stderr}")
    return work.rename(program)
