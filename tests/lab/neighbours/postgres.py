"""A PostgreSQL server on loopback whose log can be decoded, for connectors that read it."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.process import ChildProcess

USER, DATABASE = "postgres", "postgres"
_ACCOUNT = "postgres"
"""Of Debian's package: the server does not run as root."""
_START_TIMEOUT_MS = 30_000
_STOP_TIMEOUT_MS = 15_000


def _program(name: str) -> str:
    """Skip the test if PostgreSQL is not installed."""
    # Debian's package has the programs of each release in a directory of its own.
    directories = [*Path("/usr/lib/postgresql").glob("*/bin"), *os.get_exec_path()]
    found = shutil.which(name, path=os.pathsep.join(map(str, directories)))
    if found is None:
        pytest.skip(f"PostgreSQL is not installed: there is no program {name} (Debian's package postgresql)")
    return found


@dataclass(frozen=True, slots=True)
class Postgres:
    port: int
    _command: tuple[str, ...]

    def run(self, sql: str) -> None:
        """CalledProcessError if the server rejects it."""
        subprocess.run([*self._command, "-c", sql], check=True, capture_output=True, timeout=30)

    def answers(self) -> bool:
        return (
            subprocess.run([*self._command, "-c", "SELECT 1"], capture_output=True, check=False).returncode
            == 0
        )


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A new server, which accepts every local user without a password."""
    initdb, server, psql = _program("initdb"), _program("postgres"), _program("psql")
    (address,) = free_addresses(1)
    host, _, port = address.rpartition(":")
    as_root = os.geteuid() == 0
    account = ["setpriv", f"--reuid={_ACCOUNT}", f"--regid={_ACCOUNT}", "--clear-groups"] if as_root else []
    # Not below the directory of the test, which only root could enter then.
    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        if as_root:
            shutil.chown(name, _ACCOUNT, _ACCOUNT)
        data = f"{name}/data"
        subprocess.run(
            [*account, initdb, "-D", data, "-U", USER, "--auth=trust", "--no-sync"],
            check=True,
            capture_output=True,
            timeout=60,
        )
        settings = {
            "listen_addresses": host,
            "port": port,
            "unix_socket_directories": name,
            "wal_level": "logical",
            "fsync": "off",
        }
        options = [f"--{setting}={value}" for setting, value in settings.items()]
        process = ChildProcess("PostgreSQL", [*account, server, "-D", data, *options], Path(name) / "log")
        database = Postgres(int(port), (psql, "-h", host, "-p", port, "-U", USER, "-d", DATABASE, "-qX"))
        try:
            process.start()
            process.wait_until(database.answers, _START_TIMEOUT_MS)
            yield database
        finally:
            # It waits for its clients on SIGTERM, and ends their sessions on SIGINT.
            process.signal(signal.SIGINT)
            process.wait(_STOP_TIMEOUT_MS)
            process.stop()
