"""What the session is set up with, as seen by what is asked of its JVM."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_audit import __main__ as command_line
from spark_audit import session

ROOT = Path(__file__).resolve().parents[2]


class Unprintable(Py4JError):  # type: ignore[misc]  # py4j has no types
    """As an exception of the JVM, whose message Python asks the JVM for."""

    def __str__(self) -> str:
        raise Py4JNetworkError("the JVM is gone")


LOOKUP = "r\n"
"""What a command of Py4J begins with that looks for a class, or for a member of one."""


@pytest.mark.spark
@pytest.mark.tooling
def test_a_function_that_was_used_once_is_not_looked_up_again(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway: Any = spark.sparkContext._gateway
    client = gateway._gateway_client
    send, sent = client.send_command, list[str]()

    def told(command: str, *arguments: Any, **named: Any) -> Any:
        sent.append(command)
        return send(command, *arguments, **named)

    monkeypatch.setattr(client, "send_command", told)

    F.concat(F.col("a"), F.lit("b"))
    asked = len(sent)
    F.concat(F.col("a"), F.lit("b"))

    again = sent[asked:]
    assert len(again) > 3
    assert [command for command in again if command.startswith(LOOKUP)] == []


@pytest.mark.spec("D15")
@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (FileNotFoundError(2, "No usable temporary directory found"), "No usable temporary directory found"),
        (Py4JError(""), "Py4JError"),
        (Unprintable(), "Py4JNetworkError: the JVM is gone"),
    ],
    ids=["no temporary directory", "without a message", "JVM gone"],
)
def test_whatever_fails_is_exit_code_2_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failure: Exception, reason: str
) -> None:
    """Exit code 1, as of a Python program that ends with a traceback, would say that there are findings."""

    def fails() -> None:
        raise failure

    monkeypatch.setattr(session, "new_log", fails)

    assert command_line.main(["verify", "--tables", "none"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert (line.startswith("penstock audit: "), reason in line) == (True, True)


@pytest.mark.spec("O5")
def test_what_spark_prints_is_in_a_file_that_a_failure_names(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spark_audit", "verify", "--tables", str(tmp_path / "tables")]
    environment = os.environ | {"JAVA_HOME": str(tmp_path / "nowhere"), "TMPDIR": str(tmp_path)}

    ended = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)

    [line] = ended.stderr.splitlines()
    [log] = tmp_path.glob("penstock-audit-*.log")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert line.startswith("penstock audit: ")
    assert line.endswith(f" (more in {log})")
    assert "nowhere/bin/java" in log.read_text(encoding="utf-8")
