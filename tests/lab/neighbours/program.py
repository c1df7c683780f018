"""A Java program of this directory, compiled and started as a user of the cluster."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.lab.cluster import jvm
from tests.lab.cluster.java import java
from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.users import Entrance, User, java_properties

_SOURCES = Path(__file__).with_name("java")
_FLAGS = (*jvm.FIRST_COMPILER, "-XX:+UseSerialGC", "-Xmx512m")


@contextmanager
def program(
    name: str,
    libs: Path,
    directory: Path,
    login: tuple[User, Entrance],
    settings: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
) -> Iterator[ChildProcess]:
    """The class of that name: its last argument is a .properties file with the settings and the login."""
    user, entrance = login
    file = directory / f"{name}.properties"
    own = {"bootstrap.servers": entrance.bootstrap, **(settings or {})}
    lines = [f"{key}={value}" for key, value in own.items()]
    file.write_text("\n".join([*lines, java_properties(user, entrance)]), encoding="utf-8")
    compiler = [str(Path(java()).resolve().with_name("javac")), "-nowarn", "-cp", jvm.class_path(libs)]
    subprocess.run([*compiler, "-d", str(directory), str(_SOURCES / f"{name}.java")], check=True)
    command = jvm.command(libs, name, [*arguments, str(file)], _FLAGS, "WARN", directory)
    process = ChildProcess(f"the program {name}", command, directory / f"{name}.log")
    try:
        process.start()
        yield process
    finally:
        process.stop()
