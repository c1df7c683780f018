"""A disk that fails, hangs, is slow or is watched, under one real process: disk_faults.c is preloaded.

disk = DiskFaults(tmp_path, spool_directory)
subprocess.Popen(..., env={**os.environ, **disk.environment})
disk.rules("write hang 0")
until(lambda: disk.told_of("write hang"))
disk.rules()
"""

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_name("disk_faults.c")


class DiskFaults:
    """What is done to calls on files below a directory, by one process and its children."""

    def __init__(self, directory: Path, under: Path, *, traced: bool = False) -> None:
        """`directory`: for our own files. Skips the test where there is no C compiler."""
        self._rules = directory / "disk.rules"
        self._told = directory / "disk.told"
        self.trace = directory / "disk.trace"
        self.rules()
        self.environment = {
            "LD_PRELOAD": str(library(_SOURCE)),
            "DISK_FAULTS_UNDER": str(under),
            "DISK_FAULTS_RULES": str(self._rules),
            "DISK_FAULTS_TOLD": str(self._told),
        } | ({"DISK_FAULTS_TRACE": str(self.trace)} if traced else {})

    def rules(self, *lines: str) -> None:
        """From now on these, such as `fsync fail 5`, and no others."""
        temporary = self._rules.with_suffix(".new")
        temporary.write_text("".join(f"{line}\n" for line in lines))
        temporary.replace(self._rules)

    def told_of(self, fault: str) -> int:
        """How often a call met a fault, such as `write hang`."""
        return self._told.read_text().splitlines().count(fault) if self._told.exists() else 0


@cache
def library(source: Path) -> Path:
    """Compile a file of C for LD_PRELOAD. Skips the test where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        if os.environ.get("PENSTOCK_REQUIRE_KAFKA") == "1":
            raise AssertionError(f"{source.name} needs a C compiler")
        pytest.skip(f"{source.name} needs a C compiler")
    compiled = Path(tempfile.mkdtemp(prefix="penstock-preload-")) / f"{source.stem}.so"
    flags = ["-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", str(compiled), str(source), "-ldl", "-lpthread"], check=True)
    return compiled
