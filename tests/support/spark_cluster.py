"""A Spark cluster on loopback: a standalone master and two workers, from pyspark's own jars.

Executors are processes of the workers: their working directory is the cluster's, their Python a bare one that
knows nothing but what Spark gives it, so that whatever a job needs it has to bring.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from tests.lab.cluster.process import ChildProcess

TIMEOUT_MS = 120_000
WORKERS = ("worker-1", "worker-2")
# For a dozen rows: little memory, few tasks, plans interpreted.
_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.executor.memory": "768m",
    "spark.cores.max": "2",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


class SparkCluster:
    """`url` is the master's."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory, self.url = directory, url

    def finished_tasks(self) -> dict[str, int]:
        """Worker -> how many tasks its executors have finished, by what they have printed."""
        logs = {name: self.directory.glob(f"{name}/app-*/*/stderr") for name in WORKERS}
        return {
            name: sum(log.read_text(encoding="utf-8").count(" Finished task ") for log in each)
            for name, each in logs.items()
        }

    def environment(self) -> Mapping[str, str]:
        """Of who submits to it: this Python and its spark-submit; no path of ours."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return inherited | _surroundings(self.directory) | {"PATH": path}


def bare_python() -> str:
    """The interpreter that the environment was made from: it has neither our packages nor pyspark."""
    return str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")


@contextmanager
def running(directory: Path) -> Iterator[SparkCluster]:
    """A master and two workers of one core each; ended with the block."""
    (directory / "conf").mkdir(parents=True)
    lines = [f"{name} {value}\n" for name, value in _SETTINGS.items()]
    (directory / "conf" / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    with ExitStack() as stack:
        master = _daemon(directory, "master", ["--port", "0"])
        stack.callback(master.stop)
        found = _said(master, r"Starting Spark master at (spark://\S+)")
        workers = []
        for name in WORKERS:
            own = ["--port", "0", "--cores", "1", "--memory", "1g", "--work-dir", str(directory / name)]
            workers.append(_daemon(directory, name, [*own, found]))
            stack.callback(workers[-1].stop)
        for worker in workers:
            _said(worker, r"(Successfully registered with master)")
        yield SparkCluster(directory, found)


def _daemon(directory: Path, name: str, arguments: list[str]) -> ChildProcess:
    role = name.partition("-")[0]
    program = f"org.apache.spark.deploy.{role}.{role.capitalize()}"
    spark_class = str(Path(pyspark.__path__[0]) / "bin" / "spark-class")
    java = [spark_class, program, "--host", "127.0.0.1", "--webui-port", "0", *arguments]
    there = ["env", "-u", "PYTHONPATH", "--chdir", str(directory)]
    surroundings = _surroundings(directory) | {"SPARK_DAEMON_MEMORY": "256m"}
    daemon = ChildProcess(f"Spark's {name}", [*there, *java], directory / f"{name}.log", surroundings)
    daemon.start()
    return daemon


def _surroundings(directory: Path) -> dict[str, str]:
    return {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(directory / "conf")}


def _said(daemon: ChildProcess, pattern: str) -> str:
    def found() -> re.Match[str] | None:
        return re.search(pattern, daemon.log_text())

    daemon.wait_until(lambda: found() is not None, TIMEOUT_MS)
    match = found()
    assert match is not None
    return match[1]
