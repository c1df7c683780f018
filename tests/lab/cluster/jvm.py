"""The command line of a Java program of Kafka's: class path, heap, where it logs, its archive of classes."""

import os
from collections.abc import Sequence
from pathlib import Path

from tests.lab.cluster.java import java, java_build

# Tools live for a second or two and brokers for minutes, on few cores: what the second compiler would gain
# comes too late.
FIRST_COMPILER = ("-XX:TieredStopAtLevel=1",)
SHORT_LIVED = (*FIRST_COMPILER, "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m")
_LOGGING = (
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
    # Of Kafka before 4.0.
    f"-Dlog4j.configuration=file:{Path(__file__).with_name('log4j.properties')}",
)
# What it does not like about an archive a Java tells on standard output, among the tool's own lines.
_QUIET = ("-Xlog:cds=off", "-Xlog:class+path=off")


def command(
    libs: Path,
    main_class: str,
    arguments: Sequence[str],
    flags: Sequence[str],
    level: str,
    classes: Path | None = None,
) -> list[str]:
    """`level`: what is logged, to standard error (WARN for tools, INFO for a broker).

    `classes`: a directory with classes of one's own.
    """
    logging = [*_LOGGING, f"-Dpenstock.log.level={level}"]
    paths = [class_path(libs), *([] if classes is None else [str(classes)])]
    return [
        java(),
        *flags,
        *_from_archive(libs),
        *logging,
        "-cp",
        os.pathsep.join(paths),
        main_class,
        *arguments,
    ]


def class_path(libs: Path) -> str:
    """In one order: an archive of classes fits the class path that it was made with, and longer ones."""
    return os.pathsep.join(str(jar) for jar in sorted(libs.glob("*.jar")))


def archive(libs: Path) -> Path:
    """Where the classes of these jars are kept as this build of Java has read them (class_archive)."""
    return libs / f"classes-{java_build()}.jsa"


def _from_archive(libs: Path) -> list[str]:
    kept = archive(libs)
    return [f"-XX:SharedArchiveFile={kept}", *_QUIET] if kept.exists() else []
