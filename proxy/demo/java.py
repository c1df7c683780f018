"""The Java that runs Kafka: where it is, and whether it is new enough."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from proxy.demo.errors import SetupError

OLDEST_JAVA = 17


@functools.cache
def java() -> str:
    """The path of the `java` program; SetupError when there is none, or only one before Java 17."""
    program = _find()
    version = _major_version(program)
    if version < OLDEST_JAVA:
        raise SetupError(f"Kafka needs Java {OLDEST_JAVA} or later, {program} is Java {version}")
    return program


def _find() -> str:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found is None:
        raise SetupError(f"Kafka needs Java {OLDEST_JAVA} or later: no `java` in JAVA_HOME or PATH")
    return found


def _major_version(program: str) -> int:
    told = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(\d+)', told.stderr)
    if match is None:
        raise SetupError(f"`{program} -version` did not tell a version: {told.stderr.strip()!r}")
    return int(match.group(1))
