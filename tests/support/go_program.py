"""Builds the small Go programs that stand beside the tests, once for each state of their source."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.lab.cluster.errors import SetupError


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
