"""The Java that runs Kafka: where it is, and whether it is new enough."""

import functools
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.lab.cluster.errors import SetupError

OLDEST_JAVA = 17


@functools.cache
def java() -> str:
    """The path of the `java` program; SetupError when there is none, or only one before Java 17."""
    program = _find()
    version = _major_version(program)
    if version < OLDEST_JAVA:
        raise SetupError(f"Kafka needs Java {OLDEST_JAVA} or later, {program} is Java {version}")
    return program


@functools.cache
def java_build() -> str:
    """Twelve hex digits that no other build of Java has."""
    return hashlib.sha256(_told(java()).encode()).hexdigest()[:12]


def _find() -> str:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found is None:
        raise SetupError(f"Kafka needs Java {OLDEST_JAVA} or later: no `java` in JAVA_HOME or PATH")
    return found


def _major_version(program: str) -> int:
    told = _told(program)
    match = re.search(r'version "(\d+)', told)
    if match is None:
        raise SetupError(f"`{program} -version` did not tell a version: {told.strip()!r}")
    return int(match.group(1))


def _told(program: str) -> str:
    return subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
