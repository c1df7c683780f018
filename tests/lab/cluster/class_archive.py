"""Kafka's classes as this build of Java has read and verified them: an archive beside the jars (JEP 310).

Half of what one of Kafka's tools costs, and a third of a broker's start, is reading classes. So they are
listed once, while a broker and the tools that people use most do a little work, and kept in a file that
`jvm` names to every Java. It is never needed: where it cannot be made, everything is as slow as it was.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from tests.lab.cluster import jvm
from tests.lab.cluster.at_once import at_once
from tests.lab.cluster.broker import Broker, BrokerSettings
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.java import java
from tests.lab.cluster.tools import KafkaTools

_TOPIC = "classes"
_PLAYED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("kafka-acls", "--list"), ""),
    (("kafka-configs", "--describe", "--entity-type", "users"), ""),
    (("kafka-console-producer", "--topic", _TOPIC), "one\ntwo\n"),
    (("kafka-console-consumer", "--topic", _TOPIC, "--from-beginning", "--max-messages", "1"), ""),
)
"""A tool with its arguments, and what it is given to read. What they answer is of no interest."""
_TOOL_TIMEOUT_MS = 60_000
_DUMP_TIMEOUT_S = 300


def ensure(libs: Path, report: Callable[[str], None]) -> None:
    """Make the archive where there is none for this Java; what keeps it from being made is reported."""
    if jvm.archive(libs).exists():
        return
    report("recording Kafka's classes, so that its tools start in half the time")
    with tempfile.TemporaryDirectory(prefix="classes-", dir=libs.parent) as name:
        try:
            _make(libs, Path(name))
        except (SetupError, OSError, subprocess.SubprocessError) as error:
            report(f"  not done, they start as slowly as always: {error}")


def _make(libs: Path, work: Path) -> None:
    listed, made = work / "all.classes", work / "made.jsa"
    _play(libs, work)
    listed.write_text("".join(f"{line}\n" for line in _merged(work.glob("*.list"))), encoding="utf-8")
    flags = ["-Xshare:dump", "-XX:+UseSerialGC", "-Xlog:cds=error", "-Xlog:cds+dynamic=error"]
    paths = [
        f"-XX:SharedClassListFile={listed}",
        f"-XX:SharedArchiveFile={made}",
        "-cp",
        jvm.class_path(libs),
    ]
    command = [java(), *flags, *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_DUMP_TIMEOUT_S)
    if done.returncode != 0 or not made.exists():
        raise SetupError(f"java -Xshare:dump ended with code {done.returncode}: {done.stdout[-500:]}")
    # Whole or not at all: a Java that is given half of one dies.
    with made.open("rb") as file:
        os.fsync(file)
    os.replace(made, jvm.archive(libs))


def _play(libs: Path, work: Path) -> None:
    broker = Broker(libs, BrokerSettings(directory=work / "broker", flags=[_lists(work / "broker.list")]))
    broker.start()
    try:
        tools = KafkaTools(libs, broker.plaintext)
        # Alone, for the others need the topic.
        _run(tools, work, ("kafka-topics", "--create", "--topic", _TOPIC), "")
        at_once([partial(_run, tools, work, tool, stdin) for tool, stdin in _PLAYED])
    finally:
        broker.stop()


def _run(tools: KafkaTools, work: Path, tool: tuple[str, ...], stdin: str) -> None:
    program, *arguments = tools.command(*tool)
    command = [program, _lists(work / f"{tool[0]}.list"), *arguments]
    subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, timeout=_TOOL_TIMEOUT_MS / 1000
    )


def _lists(into: Path) -> str:
    return f"-XX:DumpLoadedClassList={into}"


def _merged(lists: Iterable[Path]) -> list[str]:
    """Each class once, in the order of loading: one may stand only behind its super class."""
    lines = (line for path in sorted(lists) for line in path.read_text(encoding="utf-8").splitlines())
    return list(dict.fromkeys(line for line in lines if not line.startswith("#")))
