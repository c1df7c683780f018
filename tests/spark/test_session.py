"""What the session is set up with, as seen by what is asked of its JVM."""

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

pytestmark = [pytest.mark.spark, pytest.mark.tooling]

LOOKUP = "r\n"
"""What a command of Py4J begins with that looks for a class, or for a member of one."""


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
