"""Audit tables in HDFS and in S3-compatible storage: the commands of deploy/spark/README.md, run."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.cluster.broker import Broker
from tests.spark.readme import ROOT, a_trail, commands, filled_in, send, send_lines, topics
from tests.spark.sealed import altered, seal
from tests.support import spark_cluster, storage

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.spec("D7", "D9"),
]
TIMEOUT_S = 900
Run = Callable[[str], subprocess.CompletedProcess[str]]


def runner(directory: Path, environment: dict[str, str]) -> Run:
    """Run a line of the shell where `penstock` and `auditor.properties` are."""
    (directory / "auditor.properties").write_text("security.protocol=PLAINTEXT\n")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def run(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euc", line],
            cwd=directory,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)} | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )

    return run


async def a_day_of_work(run: Run, command: str, kafka: Broker, test: str, delete: Callable[[], None]) -> None:
    """Two runs, of which the second finds an altered copy; then one of their files is deleted, and missed."""
    verify = re.sub(r"--out \S+", "", re.sub(r"(audit|__main__.py) run", r"\1 verify", command))
    trail = a_trail()
    lines = [line for process in trail.processes for line in seal(process)]
    await send(kafka.plaintext, test, trail, lines)

    first = run(command)
    assert first.returncode == 0, first.stdout + first.stderr
    assert f"audit: {len(lines)} records in 1 batches" in first.stdout
    assert f"metadata_log: {len(trail.log)} records in 1 batches" in first.stdout

    await send_lines(kafka.plaintext, test, [altered(lines[-2], host="10.6.6.6")])
    second = run(command)
    assert second.returncode == 1, second.stdout + second.stderr
    assert "audit: 1 records in 1 batches" in second.stdout

    verified = run(verify)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    delete()
    missed = run(verify)
    assert missed.returncode == 1, missed.stdout + missed.stderr
    assert "findings.json is gone" in missed.stdout + missed.stderr


async def test_tables_in_hdfs(kafka: Broker, tmp_path: Path) -> None:
    with storage.hdfs(tmp_path / "hdfs") as hdfs:
        (command,) = commands("In HDFS")
        own = {
            "broker-1:9093,broker-2:9093": f"{kafka.plaintext} {topics('hdfs')}",
            "hdfs://namenode:8020": hdfs.uri,
        }

        await a_day_of_work(
            runner(tmp_path, {}),
            filled_in(command, own),
            kafka,
            "hdfs",
            lambda: hdfs.delete("/audit/report/findings.json"),
        )


async def test_tables_in_hdfs_of_a_job_on_a_spark_cluster(kafka: Broker, tmp_path: Path) -> None:
    with storage.hdfs(tmp_path / "hdfs") as hdfs, spark_cluster.running(tmp_path / "spark") as cluster:
        command = commands("On a cluster")[0].replace("__main__.py ingest", "__main__.py run")
        own = {
            "broker-1:9093,broker-2:9093": f"{kafka.plaintext} {topics('cluster-hdfs')}",
            "s3a://audit/penstock": f"{hdfs.uri}/audit/penstock --out {hdfs.uri}/audit/report",
            "spark://spark-1:7077": cluster.url,
            "python3.11": spark_cluster.bare_python(),
            "spark_audit/__main__.py run": f"{ROOT}/spark_audit/__main__.py run",
        }
        filled = filled_in(command, own)

        await a_day_of_work(
            runner(tmp_path, dict(cluster.environment())),
            filled,
            kafka,
            "cluster-hdfs",
            lambda: hdfs.delete("/audit/report/findings.json"),
        )


async def test_tables_in_s3(kafka: Broker, tmp_path: Path) -> None:
    with storage.s3(tmp_path, "audit") as s3:
        (command,) = commands("In S3-compatible storage")
        own = {
            "broker-1:9093,broker-2:9093": f"{kafka.plaintext} {topics('s3')}",
            "https://s3.example.com": s3.url,
        }

        await a_day_of_work(
            runner(tmp_path, {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}),
            filled_in(command, own),
            kafka,
            "s3",
            lambda: s3.client.delete_object(Bucket="audit", Key="report/findings.json"),
        )
