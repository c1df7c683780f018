"""A Hive metastore service from pyspark's own jars. Its database is Derby's.

Hive 2.3 listens at all addresses and has no setting for that, so LoopbackMetastore.java opens the socket.
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
<property><name>javax.jdo.option.ConnectionURL</name><value>jdbc:derby:;databaseName={0}/db;create=true</value></property>
<property><name>datanucleus.schema.autoCreateAll</name><value>true</value></property>
<property><name>hive.metastore.schema.verification</name><value>false</value></property>
<property><name>hive.metastore.warehouse.dir</name><value>{0}/warehouse</value></property>
<property><name>hive.async.log.enabled</name><value>false</value></property>
</configuration>
"""


class Metastore:
    """`warehouse` is the location of its schema `default`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        (directory / "hive-site.xml").write_text(_SITE.format(directory), encoding="utf-8")
        self._host, port = free_addresses(1)[0].split(":")
        self._port = int(port)
        self.uri = f"thrift://{self._host}:{port}"
        self.warehouse = directory / "warehouse"
        jars = Path(pyspark.__path__[0]) / "jars" / "*"
        flags = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        flags += ["-cp", f"{directory}{os.pathsep}{jars}"]
        program = str(Path(__file__).with_name("LoopbackMetastore.java"))
        self.process = ChildProcess("metastore", [java(), *flags, program, port], directory / "log")

    def start(self) -> None:
        """Also again, after `process.kill()`."""
        self.process.start()
        self.process.wait_until(self._listens, TIMEOUT_MS)

    def _listens(self) -> bool:
        with socket.socket() as connection:
            return connection.connect_ex((self._host, self._port)) == 0


@contextmanager
def metastore(directory: Path) -> Iterator[Metastore]:
    """Run one with its files in `directory`."""
    service = Metastore(directory)
    try:
        service.start()
        yield service
    finally:
        service.process.stop()
