"""The commands of deploy/spark/README.md, as they stand there, on a Spark cluster and a Kafka broker.

What stands for the reader's own addresses is filled in. The driver is spark-submit's; executors are other
processes, with a Python that has none of our packages.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.cluster.broker import Broker
from tests.spark.readme import ROOT, a_trail, commands, filled_in, send, send_lines, topics
from tests.spark.sealed import altered, seal
from tests.support import spark_cluster
from tests.support.spark_cluster import SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("D7")]

TIMEOUT_S = 400
MARK = "of the copy on the cluster"


@dataclass(frozen=True, slots=True)
class Job:
    """Where one trail lies, and how a reader of the README would fill in its commands."""

    cluster: SparkCluster
    broker: Broker
    directory: Path

    @property
    def out(self) -> Path:
        return self.directory / "report"

    def run(self, command: str, own: dict[str, str], broker: str = "") -> subprocess.CompletedProcess[str]:
        """In a copy of the package, whose pages can be told from those of the package that we run in."""
        there = self.directory / "checkout"
        if not there.exists():
            shutil.copytree(ROOT / "spark_audit", there / "spark_audit")
            (there / "auditor.properties").write_text("security.protocol=PLAINTEXT\n")
            with (there / "spark_audit" / "report" / "templates" / "report.css").open("a") as style:
                style.write(f"/* {MARK} */\n")
        shared = {
            "broker-1:9093,broker-2:9093": f"{broker or self.broker.plaintext} {topics('cluster')}",
            "s3a://audit/penstock": str(self.directory / "tables"),
        }
        return subprocess.run(
            ["bash", "-euc", filled_in(command, own | shared)],
            cwd=there,
            env=dict(self.cluster.environment()),
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )

    def checks(self) -> list[str]:
        document = json.loads((self.out / "findings.json").read_text(encoding="utf-8"))
        return sorted(finding["check"] for finding in document["findings"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster.running(tmp_path_factory.mktemp("spark")) as running:
        yield running


@pytest.mark.long
async def test_the_commands_of_the_readme_run_on_a_cluster_and_their_exit_codes_come_through(
    cluster: SparkCluster, kafka: Broker, tmp_path: Path
) -> None:
    as_client, as_cluster = commands("On a cluster")
    trail = a_trail()
    lines = [line for process in trail.processes for line in seal(process)]
    await send(kafka.plaintext, "cluster", trail, lines)
    job = Job(cluster, kafka, tmp_path)
    here = {"spark://spark-1:7077": cluster.url, "python3.11": spark_cluster.bare_python()}

    # With nothing shipped: the decoder has to travel with the plan.
    read = job.run(as_client, here)
    assert read.returncode == 0, read.stdout + read.stderr
    assert f"audit: {len(lines)} records in 1 batches" in read.stdout
    assert f"metadata_log: {len(trail.log)} records in 1 batches" in read.stdout

    # Where YARN starts the driver there is the archive and the one file, and no checkout around it.
    await send_lines(kafka.plaintext, "cluster", [altered(lines[-2], host="10.6.6.6")])
    staged = tmp_path / "staged" / "container" / "__main__.py"
    staged.parent.mkdir(parents=True)
    shutil.copy(ROOT / "spark_audit" / "__main__.py", staged)
    there = {"yarn --deploy-mode cluster": cluster.url, "spark_audit/__main__.py": str(staged)}
    found = job.run(as_cluster, there | {"s3a://audit/report": str(job.out)})
    assert found.returncode == 1, found.stdout + found.stderr
    assert "audit: 1 records in 1 batches" in found.stdout
    assert job.checks() == ["gaps.different_copies"]
    page = (job.out / "report.html").read_text(encoding="utf-8")
    assert ("gaps.different_copies" in page, MARK in page) == (True, True)
    # The driver is no executor, and each worker had a part of the work.
    assert min(cluster.finished_tasks().values()) > 0

    failed = job.run(as_client, here, broker="127.0.0.1:1")
    assert failed.returncode == 2, failed.stdout + failed.stderr
    assert "penstock audit: no Kafka broker is reachable at 127.0.0.1:1" in failed.stdout


def test_the_python_of_the_executors_has_nothing_of_ours() -> None:
    told = subprocess.run(
        [spark_cluster.bare_python(), "-c", "import spark_audit"],
        cwd="/",
        env={},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "No module named 'spark_audit'" in told.stderr
