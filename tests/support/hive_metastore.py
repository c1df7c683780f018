"""A Hive metastore service from pyspark's own jars. Its database is Derby's.

It listens at all addresses while a test runs: Hive 2.3 has no setting for that.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.lab.cluster.java import java
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.process import ChildProcess

TIMEOUT_MS = 300_000
_SITE = """\
<configuration>
<property><name>javax.jdo.option.ConnectionURL</name><value>jdbc:derby:;databaseName={}/db;create=true</value></property>
<property><name>datanucleus.schema.autoCreateAll</name><value>true</value></property>
<property><name>hive.metastore.schema.verification</name><value>false</value></property>
<property><name>hive.metastore.warehouse.dir</name><value>{}/warehouse</value></property>
<property><name>hive.async.log.enabled</name><value>false</value></property>
</configuration>
"""


@contextmanager
def metastore(directory: Path) -> Iterator[str]:
    """Run one with its files in `directory`. Yields its URI."""
    host, port = free_addresses(1)[0].split(":")
    directory.mkdir()
    (directory / "hive-site.xml").write_text(_SITE.format(directory, directory), encoding="utf-8")
    jars = Path(pyspark.__path__[0]) / "jars" / "*"
    flags = [
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-cp",
        f"{directory}{os.pathsep}{jars}",
    ]
    program = "org.apache.hadoop.hive.metastore.HiveMetaStore"
    with ChildProcess("metastore", [java(), *flags, program, "-p", port], directory / "log") as process:
        process.wait_until(lambda: _listens(host, int(port)), TIMEOUT_MS)
        yield f"thrift://{host}:{port}"


def _listens(host: str, port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex((host, port)) == 0
