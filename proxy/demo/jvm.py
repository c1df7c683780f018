"""The command line of a Java program of Kafka's: class path, heap, where it logs."""

import os
from collections.abc import Sequence
from pathlib import Path

from proxy.demo.java import java

# The tools live for a second or two: the second compiler would cost more than it gains.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m")
_LOGGING = Path(__file__).with_name("log4j2.properties")


def command(
    libs: Path, main_class: str, arguments: Sequence[str], flags: Sequence[str], level: str
) -> list[str]:
    """`level`: what is logged, to standard error (WARN for tools, INFO for a broker)."""
    logging = [f"-Dlog4j2.configurationFile={_LOGGING}", f"-Dpenstock.log.level={level}"]
    class_path = os.pathsep.join(str(jar) for jar in sorted(libs.glob("*.jar")))
    return [java(), *flags, *logging, "-cp", class_path, main_class, *arguments]
