"""The demo's children: started, waited for, ended by their id; and its jars: whole, or not there at all."""

import socket
import sys
from pathlib import Path

import pytest

from tests.lab.cluster import jar_list, kafka
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.jar_list import Jar
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.process import ChildProcess

pytestmark = [pytest.mark.tooling, pytest.mark.slow]

_NEVER_ENDS = "import threading; print('up', flush=True); threading.Event().wait()"
_DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + _NEVER_ENDS


def _child(tmp_path: Path, program: str) -> ChildProcess:
    return ChildProcess("the child", [sys.executable, "-c", program], tmp_path / "child.log")


def test_a_child_that_ends_before_it_is_ready_is_an_error_that_shows_the_end_of_its_log(
    tmp_path: Path,
) -> None:
    child = _child(tmp_path, "import sys; sys.exit('no disk left')")
    child.start()

    with pytest.raises(SetupError, match=r"the child ended with code 1.*\n.*no disk left"):
        child.wait_until(lambda: False, 10_000)


def test_a_child_that_is_never_ready_is_an_error_with_the_time_waited(tmp_path: Path) -> None:
    with _child(tmp_path, _NEVER_ENDS) as child, pytest.raises(SetupError, match="not ready after 100 ms"):
        child.wait_until(lambda: False, 100)


def test_a_child_that_is_deaf_to_sigterm_is_killed_and_reported(tmp_path: Path) -> None:
    child = _child(tmp_path, _DEAF)
    child.start()
    child.wait_until(lambda: "up" in child.log_text(), 10_000)

    assert not child.stop(grace_ms=100)
    assert child.returncode == -9


def test_a_child_that_is_over_is_not_started_by_a_thread_that_comes_late(tmp_path: Path) -> None:
    child = _child(tmp_path, _NEVER_ENDS)
    child.start_no_more()

    with pytest.raises(SetupError, match="the child is not started any more"):
        child.start()

    assert child.returncode is None
    assert child.stop()


def test_a_server_may_listen_where_it_was_told_to_and_nobody_else_comes_there_by_chance() -> None:
    host, _, port = free_addresses(1)[0].rpartition(":")

    with socket.create_server((host, int(port))) as server, socket.create_connection((host, int(port))):
        assert server.getsockname() == (host, int(port))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    with socket.socket() as chancer, pytest.raises(OSError, match="in use"):
        chancer.bind((host, int(port)))


def test_the_list_pins_every_jar_of_the_kafka_version_to_a_hash() -> None:
    jars = jar_list.read(kafka.list_of(kafka.KAFKA_VERSION))

    assert f"kafka_2.13-{kafka.KAFKA_VERSION}.jar" in {jar.file_name for jar in jars}
    assert all(len(jar.sha256) == 64 for jar in jars)


def test_a_missing_and_a_changed_jar_are_faults_and_a_whole_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "whole-1.jar").write_bytes(b"whole")
    (tmp_path / "changed-1.jar").write_bytes(b"changed")
    whole = jar_list.sha256(tmp_path / "whole-1.jar")
    jars = [Jar("org", name, "1", whole) for name in ("whole", "changed", "missing")]

    changed, missing = jar_list.faults(tmp_path, jars)

    assert changed.startswith("changed-1.jar has SHA-256 ")
    assert missing == "missing-1.jar is missing"


def test_a_fetch_that_fails_leaves_no_jars_behind(
    kafka_libs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    monkeypatch.setenv("PENSTOCK_MAVEN_URL", f"http://{free_addresses(1)[0]}/")

    with pytest.raises(SetupError, match="Ivy could not fetch the jars"):
        kafka.libs(report=lambda line: None)

    assert [path.name for path in tmp_path.iterdir()] == [f"kafka-{kafka.KAFKA_VERSION}.lock"]
