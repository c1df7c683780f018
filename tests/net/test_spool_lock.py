"""One process at a time on a spool directory: who comes second does not start, and says who is there."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.net.audit.spool import Spool
from proxy.net.audit.spool_lock import Holder, SpoolLocked, lock_spool, locked_by_another
from proxy.net.runtime.listening import listening_ports
from proxy.net.telemetry.status_files import RELOAD_FILE, RESTART_FILE
from tests.lab.cluster.node import penstock
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.process import ChildProcess
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.spec("D3", "O5")]

STATUS_FILES = (RELOAD_FILE, RESTART_FILE)
PLAIN = [{"name": "PLAIN", "bind": "127.0.0.1:0", "security.protocol": "PLAINTEXT"}]


def proxy_file(directory: Path, proxy_id: str, **changes: Any) -> Path:
    document = {
        "proxy.id": proxy_id,
        "listeners": PLAIN,
        "upstream": {"bootstrap": "127.0.0.1:1"},
        "controller": {"endpoints": ["127.0.0.1:1"]},
        "audit": {"spool.dir": "spool"},
        "http": {"bind": free_addresses(1)[0]},
    }
    file = directory / f"{proxy_id}.yaml"
    file.write_text(yaml.safe_dump(document | changes), encoding="utf-8")
    return file


def controller_file(directory: Path, controller_id: str) -> Path:
    document = {
        "controller.id": controller_id,
        "listener": {"name": "CONTROLLER", "bind": free_addresses(1)[0], "security.protocol": "PLAINTEXT"},
        "broker": {"bootstrap": "127.0.0.1:1"},
        "authorizer": {"class.name": ""},
        "audit": {"spool.dir": "spool"},
    }
    file = directory / f"{controller_id}.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return file


FILES: dict[str, Callable[[Path, str], Path]] = {"proxy": proxy_file, "controller": controller_file}


class Processes:
    """What a test starts; all of it is ended with the test."""

    def __init__(self, directory: Path, ending: ExitStack) -> None:
        self.directory = directory
        self._ending = ending

    def start(self, command: str, file: Path) -> ChildProcess:
        process = penstock(command, file.stem, file, self.directory)
        self._ending.enter_context(process)
        return process

    def holds(self, process: ChildProcess) -> None:
        spool = self.directory / "spool"
        until(lambda: any(spool.glob("*.spool")) and f" {process.pid} " in (locked_by_another(spool) or ""))


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with ExitStack() as ending:
        yield Processes(tmp_path, ending)


def ends_with(process: ChildProcess, code: int) -> str:
    until(lambda: process.returncode is not None)
    assert process.returncode == code, process.log_text()
    return process.log_text()


def names(processes: Processes) -> list[str]:
    """In the spool directory; the first process writes the status of its reloads a little later."""
    found = {path.name for path in (processes.directory / "spool").iterdir()}
    return sorted(name for name in found if not name.startswith(STATUS_FILES))


@pytest.mark.parametrize(
    ("first", "second"),
    [("proxy", "proxy"), ("controller", "controller"), ("proxy", "controller")],
)
def test_a_second_process_on_a_spool_does_not_start(processes: Processes, first: str, second: str) -> None:
    holder = processes.start(first, FILES[first](processes.directory, "one"))
    processes.holds(holder)
    before = names(processes)

    told = ends_with(processes.start(second, FILES[second](processes.directory, "two")), 2)

    assert f"is in use by {first} one (pid {holder.pid} on host " in told
    assert ", boot " in told
    assert "give each an audit.spool.dir of its own" in told
    # It has touched nothing.
    assert names(processes) == before
    assert holder.returncode is None


def test_neither_a_proxy_nor_a_group_of_workers_starts_on_the_spools_of_workers(processes: Processes) -> None:
    group = processes.start("proxy", proxy_file(processes.directory, "group", workers=2))
    directory = processes.directory / "spool"
    until(lambda: any((directory / "worker-1").glob("*.spool")) and any(directory.glob("*.spool")))

    other = proxy_file(processes.directory, "other", workers=2)
    alone = proxy_file(processes.directory, "alone")
    inside = proxy_file(processes.directory, "inside", audit={"spool.dir": "spool/worker-1"})

    holder = f"is in use by supervisor group (pid {group.pid} on host "
    assert holder in ends_with(processes.start("proxy", other), 2)
    assert holder in ends_with(processes.start("proxy", alone), 2)
    assert "worker-1 is in use by proxy group.w1 (pid " in ends_with(processes.start("proxy", inside), 2)


def test_a_killed_process_leaves_no_lock(processes: Processes) -> None:
    file = proxy_file(processes.directory, "one")
    killed = processes.start("proxy", file)
    processes.holds(killed)
    os.kill(killed.pid, signal.SIGKILL)
    ends_with(killed, -signal.SIGKILL)

    again = processes.start("proxy", proxy_file(processes.directory, "two"))

    processes.holds(again)


def penstock_check(file: Path) -> str:
    """What check prints besides ok."""
    command = [sys.executable, "-m", "proxy", "check", "-c", str(file)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout) == (0, f"{file}: ok\n"), checked.stderr
    return checked.stderr


def test_check_warns_of_a_spool_that_another_process_has(processes: Processes) -> None:
    file = proxy_file(processes.directory, "one", authorizer={"class.name": ""})
    holder = processes.start("proxy", file)
    processes.holds(holder)

    other = proxy_file(processes.directory, "two", authorizer={"class.name": ""})
    said = penstock_check(other)

    assert f"warning: {other}: audit.spool.dir: " in said
    assert f"is in use by proxy one (pid {holder.pid} on host " in said


@pytest.mark.spec("O5")
@pytest.mark.parametrize("workers", [1, 2])
def test_check_beside_a_running_proxy_notes_that_it_runs(processes: Processes, workers: int) -> None:
    # Its listeners open only when it has reached a broker; the HTTP port is open before.
    (address,) = free_addresses(1)
    port = int(address.rpartition(":")[2])
    changes: dict[str, Any] = {"http": {"bind": address}, "authorizer": {"class.name": ""}}
    file = proxy_file(processes.directory, "one", workers=workers, **changes)
    holder = processes.start("proxy", file)
    processes.holds(holder)
    until(lambda: port in listening_ports(holder.pid))

    said = penstock_check(file)

    role = "proxy" if workers == 1 else "supervisor"
    assert f"note: {file}: in use by the running {role} one (pid {holder.pid} on host " in said
    assert "cannot listen" not in said
    assert "audit.spool.dir" not in said

    with socket.create_server(("127.0.0.1", 0)) as taken:
        other = {"http": {"bind": f"127.0.0.1:{taken.getsockname()[1]}"}}
        file = proxy_file(processes.directory, "one", workers=workers, **changes | other)
        told = f"cannot listen on 127.0.0.1:{taken.getsockname()[1]}: the port is in use"
        assert told in penstock_check(file)


def test_the_workers_of_a_supervisor_that_was_killed_are_waited_for(tmp_path: Path) -> None:
    holder = Holder(role="supervisor", proxy_id="p", boot_id=None, pid=os.getpid(), host=os.uname().nodename)
    assert not holder.has_ended()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    gone = Holder(role="supervisor", proxy_id="p", boot_id=None, pid=ended.pid, host=os.uname().nodename)
    assert gone.has_ended()
    elsewhere = Holder(role="supervisor", proxy_id="p", boot_id=None, pid=ended.pid, host="elsewhere")
    assert not elsewhere.has_ended()  # Nobody here can tell.

    lock = lock_spool(tmp_path, gone)
    with pytest.raises(SpoolLocked) as raised:
        lock_spool(tmp_path, holder)
    assert raised.value.holder == gone
    lock.close()
    lock_spool(tmp_path, holder).close()


def test_a_lock_file_that_says_nothing_still_locks(tmp_path: Path) -> None:
    lock = lock_spool(tmp_path, Holder.this_process("proxy", "p", "boot"))
    (tmp_path / "lock").write_text("{torn")

    with pytest.raises(SpoolLocked, match="is in use by another process"):
        lock_spool(tmp_path, Holder.this_process("proxy", "q", "boot"))
    lock.close()


def test_a_lock_file_that_is_removed_is_locked_again(tmp_path: Path) -> None:
    directory, holder = tmp_path / "spool", Holder.this_process("proxy", "p", "boot")
    lock = lock_spool(directory, holder)
    spool = Spool(directory, 1 << 20, lock)
    (directory / "lock").unlink()

    spool.watch()
    with pytest.raises(SpoolLocked, match="is in use by proxy p"):
        lock_spool(directory, holder)
    shutil.rmtree(directory)
    spool.watch()
    with pytest.raises(SpoolLocked, match="is in use by proxy p"):
        lock_spool(directory, holder)

    (directory / "lock").unlink()
    faster = lock_spool(directory, Holder.this_process("proxy", "faster", "boot"))
    with pytest.raises(SpoolLocked, match="is in use by proxy faster"):
        spool.watch()
    faster.close()
    spool.watch()
    spool.close()
    lock.close()
