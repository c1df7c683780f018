"""What is prepared on this machine for local sessions: Spark's packages, and an archive of Java's classes.

Most of what a short job costs is the start of its JVM, which resolves packages, and reads and verifies twenty
thousand classes. `penstock audit prepare` (prepare.py) does both once. Its files are in a cache directory.
Without them a session starts more slowly, and does the same. Starts no JVM.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pyspark

_JARS, _CLASSES = "packages.json", "classes.jsa"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
CLASS_PATH = "spark.driver.extraClassPath"
_OF_THE_USER = ("spark.jars", "spark.jars.packages", CLASS_PATH, JAVA_OPTIONS)
_QUIETLY = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""A JVM that cannot use an archive (another Java, other jars) reads the classes itself. It says nothing."""


def directory() -> Path:
    """Return the directory of these files. They belong to one installation of PySpark."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    installation = sha256(str(pyspark.__path__[0]).encode()).hexdigest()[:8]
    return cache / "penstock" / f"pyspark-{pyspark.__version__}-{installation}"


def settings(user_settings: Mapping[str, str], java_options: str) -> dict[str, str] | None:
    """Return the settings of Spark that use what is prepared, None if nothing is, or if the user's differ.

    `java_options` are the options that the JVM gets in any case.
    """
    jars = None if any(name in user_settings for name in _OF_THE_USER) else _jars()
    if jars is None:
        return None
    archive = directory() / _CLASSES
    uses_archive = f" -XX:SharedArchiveFile={archive} {_QUIETLY}" if archive.exists() else ""
    return class_path(jars) | {JAVA_OPTIONS: java_options + uses_archive}


def class_path(jars: Sequence[str]) -> dict[str, str]:
    """Return the setting that puts these jars on the class path of the JVM."""
    return {CLASS_PATH: os.pathsep.join(jars)} if jars else {}


def _jars() -> list[str] | None:
    try:
        jars: list[str] = json.loads((directory() / _JARS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return jars if isinstance(jars, list) and all(Path(jar).exists() for jar in jars) else None


def remember_jars(jars: Sequence[str]) -> None:
    """Write the paths of the packages, and delete the archive of earlier ones. OSError if it cannot."""
    place = directory()
    (place / _CLASSES).unlink(missing_ok=True)
    new = place / f"{_JARS}.new"
    new.write_text(json.dumps(list(jars)), encoding="utf-8")
    new.replace(place / _JARS)


@contextmanager
def alone() -> Iterator[None]:
    """Wait while another process prepares. OSError if the directory cannot be written."""
    directory().mkdir(parents=True, exist_ok=True)
    with (directory() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def forget() -> None:
    """Delete what is prepared."""
    for name in (_JARS, _CLASSES):
        (directory() / name).unlink(missing_ok=True)


def options_that_write_archive(java_options: str) -> str:
    """Return options with which a JVM writes a new archive when it ends."""
    return f"{java_options} -XX:ArchiveClassesAtExit={_new_archive()} {_QUIETLY}"


def accept_archive() -> int:
    """Put the new archive in its place, whole or not at all. Return its size in bytes."""
    new = _new_archive()
    with new.open("rb") as file:
        os.fsync(file)
    new.replace(directory() / _CLASSES)
    return (directory() / _CLASSES).stat().st_size


def _new_archive() -> Path:
    return directory() / f"{_CLASSES}.new"
