"""Where else audit tables are stored: an HDFS of one NameNode and one DataNode, and an S3 server (moto).

HDFS runs from Hadoop's own jars: most are among pyspark's, the servers are fetched. Both listen on loopback.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]  # boto3 has no types
import pyspark

from tests.lab.cluster import kafka
from tests.lab.cluster.java import java
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.process import ChildProcess

TIMEOUT_MS = 120_000
HADOOP_VERSION = "3.5.0"
_SPARKS_OWN = ("hadoop-client-*.jar", "jcl-over-slf4j-*.jar", "slf4j-api-*.jar", "log4j-*.jar")
_LOG4J = """\
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
"""


@dataclass(frozen=True, slots=True)
class Hdfs:
    uri: str
    command: tuple[str, ...]
    """Runs a class of Hadoop with the configuration of this HDFS."""

    def delete(self, path: str) -> None:
        shell = [*self.command, "org.apache.hadoop.fs.FsShell", "-rm", "-skipTrash", path]
        subprocess.run(shell, check=True, capture_output=True)


@dataclass(frozen=True, slots=True)
class S3:
    url: str
    client: Any
    """Of boto3."""


@contextmanager
def hdfs(directory: Path) -> Iterator[Hdfs]:
    """Run an HDFS with its files in `directory`."""
    address = free_addresses(1)[0]
    uri = f"hdfs://{address}"
    conf = directory / "conf"
    conf.mkdir(parents=True)
    (conf / "log4j2.properties").write_text(_LOG4J, encoding="utf-8")
    _write_site(conf / "core-site.xml", {"fs.defaultFS": uri, "hadoop.tmp.dir": str(directory / "tmp")})
    _write_site(
        conf / "hdfs-site.xml",
        {
            "dfs.namenode.name.dir": str(directory / "name"),
            "dfs.datanode.data.dir": str(directory / "data"),
            "dfs.replication": "1",
            "dfs.namenode.http-address": "127.0.0.1:0",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
        },
    )
    own = Path(pyspark.__path__[0]) / "jars"
    fetched = kafka.libs(HADOOP_VERSION, what="hdfs").glob("*.jar")
    jars = [*fetched, *(jar for pattern in _SPARKS_OWN for jar in own.glob(pattern))]
    command = (java(), "-Xmx256m", "-cp", os.pathsep.join(map(str, [conf, *jars])))
    name_node = [*command, "org.apache.hadoop.hdfs.server.namenode.NameNode"]
    data_node = [*command, "org.apache.hadoop.hdfs.server.datanode.DataNode"]
    subprocess.run([*name_node, "-format", "-nonInteractive"], check=True, capture_output=True)
    with ChildProcess("NameNode", name_node, directory / "name.log") as names:
        _wait_for(names, r"RPC up at")
        with ChildProcess("DataNode", data_node, directory / "data.log"):
            # It can be written to as soon as the NameNode knows a place.
            _wait_for(names, r"Adding new storage ID")
            yield Hdfs(uri, command)


@contextmanager
def s3(directory: Path, bucket: str) -> Iterator[S3]:
    """Run an S3 server with one bucket, in memory. It accepts every signature."""
    host, port = free_addresses(1)[0].split(":")
    command = [str(Path(sys.executable).with_name("moto_server")), "-H", host, "-p", port]
    with ChildProcess("S3 server", command, directory / "s3.log") as server:
        _wait_for(server, r"Running on")
        url = f"http://{host}:{port}"
        of_anyone = {"aws_access_key_id": "any", "aws_secret_access_key": "any", "region_name": "us-east-1"}
        store = S3(url, boto3.client("s3", endpoint_url=url, **of_anyone))
        store.client.create_bucket(Bucket=bucket)
        yield store


def _write_site(path: Path, properties: dict[str, str]) -> None:
    lines = [
        f"<property><name>{name}</name><value>{text}</value></property>" for name, text in properties.items()
    ]
    path.write_text("\n".join(["<configuration>", *lines, "</configuration>"]), encoding="utf-8")


def _wait_for(process: ChildProcess, pattern: str) -> None:
    process.wait_until(lambda: re.search(pattern, process.log_text()) is not None, TIMEOUT_MS)
