"""Builds the program of franz-go in tests/lab/clients/go: the scenarios' driver, and a steady client."""

import shutil
import subprocess
from pathlib import Path

from tests.lab.cluster.errors import SetupError

_SOURCES = Path(__file__).resolve().parent / "go"


def franz_go(directory: Path) -> Path:
    """The program, in that directory. SetupError without Go, or where its modules cannot be fetched."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise SetupError("no `go` in PATH: the client of franz-go cannot be built")
    fetched = subprocess.run(
        [go, "mod", "download"], cwd=_SOURCES, check=False, capture_output=True, text=True
    )
    if fetched.returncode != 0:
        raise SetupError(f"the modules of franz-go cannot be fetched: {fetched.stderr}")
    built = directory / "franz-go"
    subprocess.run([go, "build", "-o", str(built), "."], cwd=_SOURCES, check=True)
    return built
