"""The audit jobs on the older releases of Spark, each in an environment of its own, before a real broker."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.cluster.broker import Broker
from tests.spark.readme import ROOT, a_trail, send
from tests.spark.sealed import altered, seal
from tests.support.other_spark import python_with
from tests.support.siem_events import faults

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.spec("D16"),
]

OLDER = ("4.0.5", "4.1.4")
TIMEOUT_S = 400
QUESTIONS = """
import sys
import pyspark
from spark_audit.session import open_session
from spark_audit.tables.names import located
from spark_audit.views import statements
spark = open_session("local[2]")
for statement in statements(sys.argv[1], sys.argv[2], None):
    spark.sql(statement)
spark.sql("USE penstock")
print(spark.version)
print([row[0] for row in spark.sql("SELECT DISTINCT principal FROM denials").collect()])
print(sorted(row[0] for row in spark.sql("SELECT kind FROM policy_at(6)").collect()))
"""


def said(python: str | Path, *arguments: str, cwd: Path) -> tuple[int, str]:
    """The exit code of a Python program, and what it has printed."""
    done = subprocess.run(
        [python, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("version", OLDER)
async def test_the_jobs_run_on_an_older_spark_and_the_newest_one_reads_their_tables(
    version: str, kafka: Broker, tmp_path: Path
) -> None:
    python, trail = await asyncio.to_thread(python_with, version), a_trail()
    lines = [line for process in trail.processes for line in seal(process)]
    lines.append(altered(lines[-2], host="10.6.6.6"))
    await send(kafka.plaintext, version, trail, lines)
    tables, out = str(tmp_path / "tables"), str(tmp_path / "out")

    async def audit(*arguments: str, by: str | Path = python) -> tuple[int, str]:
        command = ("-m", "spark_audit", *arguments, "--tables", tables)
        return await asyncio.to_thread(said, by, *command, cwd=tmp_path)

    topics = ("--audit-topic", f"{version}-audit", "--metadata-topic", f"{version}-metadata")
    code, text = await audit("run", "--bootstrap", kafka.plaintext, *topics, "--out", out)
    assert (code, f"audit: {len(lines)} records in 1 batches" in text) == (1, True), text
    document = json.loads((tmp_path / "out" / "findings.json").read_text(encoding="utf-8"))
    assert [finding["check"] for finding in document["findings"]] == ["gaps.different_copies"]
    assert "gaps.different_copies" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")

    exported = tmp_path / "exported"
    code, text = await audit("export", "--as", "ocsf", "--position", "position", "--out", str(exported))
    assert code == 0, text
    texts = [path.read_text(encoding="utf-8") for path in exported.glob("part-*")]
    documents = [json.loads(line) for each in texts for line in each.splitlines()]
    assert len(documents) == len(lines)
    assert [fault for each in documents for fault in faults("ocsf", each)] == []

    asked = await asyncio.to_thread(said, python, "-c", QUESTIONS, tables, out, cwd=tmp_path)
    assert asked[0] == 0, asked[1]
    assert asked[1].splitlines()[:3] == [version, "['User:mallory']", "['ACL', 'QUOTA']"]
    for by in (python, sys.executable):
        code, text = await audit("verify", by=by)
        assert (code, "differences: 0" in text) == (0, True), text
