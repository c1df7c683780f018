"""Helm on this machine: built once from its Go module, kept in the user's cache.

`helm()` gives the program; `python -m tests.support.helm` builds it and prints where it is. Go checks what it
fetches against its checksum database. The cache is that of Kafka's jars (tests/lab/cluster/kafka.py).
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.kafka import cache_directory

HELM_VERSION = "v3.22.0"
_MODULE = "helm.sh/helm/v3/cmd/helm"


def installed() -> Path | None:
    """The program, if the cache has it."""
    program = cache_directory() / f"helm-{HELM_VERSION}" / "helm"
    return program if program.exists() else None


def helm() -> Path:
    """The program, built if the cache does not have it; SetupError without Go, or if it cannot be built."""
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    # A second process waits, and finds it there.
    with (cache / f"helm-{HELM_VERSION}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return installed() or _build(cache)


def _build(cache: Path) -> Path:
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise SetupError("no `go` in PATH: helm cannot be built")
    with tempfile.TemporaryDirectory(prefix="building-", dir=cache) as work:
        done = subprocess.run(
            [go, "install", f"{_MODULE}@{HELM_VERSION}"],
            env={**os.environ, "GOBIN": work, "GOFLAGS": ""},
            cwd=work,
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise SetupError(f"helm cannot be built:\n{done.stderr}")
        program = cache / f"helm-{HELM_VERSION}" / "helm"
        program.parent.mkdir(exist_ok=True)
        return (Path(work) / "helm").rename(program)


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{helm()}\n")
    except SetupError as error:
        sys.exit(str(error))
