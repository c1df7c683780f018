"""A proxy that starts its own successor: SIGUSR2, `penstock restart`, and what may fail (decision 0066)."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import yaml

from proxy.app.control_plane import UnreadableLog, require_readable_log
from proxy.commands.reload_and_restart import (
    EXIT_CONFIG,
    EXIT_NO_OUTCOME,
    EXIT_NOT_RESTARTED,
    reload,
    restart,
)
from proxy.config import ProxyConfig, load
from proxy.net.audit.spool_lock import Holder, lock_spool
from proxy.net.metadata import topic_feed
from proxy.net.metadata.topic_feed import PartitionLeader
from proxy.net.runtime.service_manager import ends_successors, notify
from proxy.net.telemetry.status_files import RestartStatus
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster import probe
from tests.lab.cluster.ports import free_addresses
from tests.net.test_metadata_catch_up import Log, batch
from tests.support.edges import Client
from tests.support.fake_quorum import FakeNode
from tests.support.images import acl_record
from tests.support.lone_processes import SHOULD_NOT_TAKE_S, LoneProcess, a_lone, address_of, is_alive
from tests.support.metadata_log import values
from tests.support.signing import pem

pytestmark = [pytest.mark.spec("O4"), pytest.mark.slow]

STARTED, READY = "new process started", "new process is ready: draining"
IGNORED = "SIGUSR2 ignored: the process drains, or its successor starts"
IS_REPLACED = "a new process has read the file and replaces this one: reload it when it serves"
SERVES_ON = "not restarted: this process serves on"
TIMEOUT_MS = int(1000 * SHOULD_NOT_TAKE_S)


@pytest.fixture
def service_manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiving:
        receiving.bind(str(tmp_path / "notify"))
        receiving.settimeout(SHOULD_NOT_TAKE_S)
        yield receiving


async def restarted(file: Path) -> int:
    return await asyncio.to_thread(restart, file, None, TIMEOUT_MS)


def serving(directory: Path) -> int:
    """Process id of the proxy that serves."""
    status = RestartStatus.read(directory / "spool")
    assert status is not None
    return status.pid


async def ends(pid: int) -> None:
    async with asyncio.timeout(SHOULD_NOT_TAKE_S):
        while is_alive(pid):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def ended(lone: LoneProcess) -> int:
    async with asyncio.timeout(SHOULD_NOT_TAKE_S):
        return await lone.process.wait()


def children(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")


def files(pid: int) -> list[str]:
    """What the descriptors of a process are."""
    return [os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()]


def edit(file: Path, **changes: Any) -> None:
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    file.write_text(yaml.safe_dump(document | changes), encoding="utf-8")


async def connects_until(lone: LoneProcess, over: asyncio.Event) -> int:
    """How many clients have logged in, one after the other; a drain may end them, but none is refused."""
    count = 0
    while not over.is_set():
        client: Client | None = None
        with suppress(asyncio.IncompleteReadError, ConnectionResetError, BrokenPipeError):
            client = await lone.logs_in()
            count += 1
        if client is not None:
            client.leaves()
        await asyncio.sleep(0.005)
    return count


@pytest.mark.spec("O15")
def test_a_restart_without_a_process_is_told_as_an_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert restart(tmp_path / "none.yaml", None, TIMEOUT_MS, as_json=True) == EXIT_NOT_RESTARTED

    told = json.loads(capsys.readouterr().out)
    assert list(told) == ["exit_code", "config", "pid", "replaced_pid", "errors"]
    assert (told["exit_code"], told["pid"], len(told["errors"])) == (EXIT_NOT_RESTARTED, None, 2)


async def test_no_client_is_refused_during_two_restarts(tmp_path: Path) -> None:
    async with a_lone("proxy", tmp_path) as lone:
        over, pids = asyncio.Event(), [lone.process.pid]
        async with asyncio.TaskGroup() as tasks:
            connecting = tasks.create_task(connects_until(lone, over))
            for _ in range(2):
                assert await restarted(tmp_path / "proxy.yaml") == 0
                pids.append(serving(tmp_path))
                await lone.logs_in()
            over.set()

        assert connecting.result() > 2
        assert len(set(pids)) == 3
        assert await ended(lone) == 0
        assert [row["cut"] for row in lone.rows("drained")] == [0, 0]
        assert [row["pid"] for row in lone.rows("started")] == pids
        # The sockets belong to the last process: at its end nothing holds them.
        os.kill(pids[-1], signal.SIGTERM)
        await ends(pids[-1])
        with pytest.raises(ConnectionRefusedError):
            await lone.client()


@pytest.mark.spec("D2", "D3")
async def test_the_audit_trail_of_both_processes_has_no_hole(tmp_path: Path) -> None:
    async with a_lone("proxy", tmp_path) as lone:
        await lone.logs_in()
        assert await restarted(tmp_path / "proxy.yaml") == 0
        await lone.logs_in()
        os.kill(serving(tmp_path), signal.SIGTERM)
        await ends(serving(tmp_path))

    records = spooled(tmp_path / "spool")
    boots = list(dict.fromkeys(record["boot_id"] for record in records))
    assert len(boots) == 2
    for boot in boots:
        own = [record for record in records if record["boot_id"] == boot]
        assert [record["sequence"] for record in own] == list(
            range(own[0]["sequence"], len(own) + own[0]["sequence"])
        )
        events = [record["event"] for record in own]
        assert (events[0], events[-1], "authentication" in events) == ("started", "stopped", True)


def spooled(spool: Path) -> list[dict[str, Any]]:
    lines = [line for path in sorted(spool.glob("*.spool")) for line in path.read_bytes().split(b"\n")]
    return [json.loads(line[line.index(b"{") :])["data"] for line in lines if b"{" in line]


@pytest.mark.spec("O5", "O9")
async def test_with_a_broken_file_the_process_serves_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with a_lone("proxy", tmp_path) as lone:
        file, client = tmp_path / "proxy.yaml", await lone.logs_in()
        good = file.read_text(encoding="utf-8")
        edit(file, limits={"max.conections": 1})

        assert await restarted(file) == EXIT_NOT_RESTARTED
        assert lone.successors() == []
        lone.process.send_signal(signal.SIGUSR2)
        error = (await lone.row(SERVES_ON))["error"]
        assert "max.conections" in error
        assert error in capsys.readouterr().err

        assert (serving(tmp_path), children(lone.process.pid)) == (lone.process.pid, "")
        assert await lone.logs_in()
        assert not client.reader.at_eof()
        file.write_text(good, encoding="utf-8")
        assert await restarted(file) == 0


async def test_a_new_process_that_dies_at_its_start_is_reaped_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with a_lone("proxy", tmp_path) as lone:
        async with asyncio.TaskGroup() as tasks:
            command = tasks.create_task(restarted(tmp_path / "proxy.yaml"))
            os.kill((await lone.row(STARTED))["successor_pid"], signal.SIGKILL)

        assert command.result() == EXIT_NOT_RESTARTED
        assert "it ended with code -9 before it was ready" in capsys.readouterr().err
        assert children(lone.process.pid) == ""
        await lone.logs_in()


@pytest.mark.spec("O2", "O5")
@pytest.mark.parametrize("taken", ["listener", "the same port", "http", "spool", "no right"])
async def test_what_a_successor_could_not_open_ends_neither_the_process_nor_its_clients(
    tmp_path: Path, taken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spool, locked = tmp_path / "another", None
    async with a_lone("proxy", tmp_path) as lone:
        file, client = tmp_path / "proxy.yaml", await lone.logs_in()
        (listener,) = yaml.safe_load(file.read_text(encoding="utf-8"))["listeners"]
        with socket.create_server(("127.0.0.1", 0)) as other:
            if taken == "listener":
                edit(file, listeners=[listener, listener | {"name": "NEW", "bind": address_of(other)}])
                error = f"cannot listen on {address_of(other)}: the port is in use"
            elif taken == "the same port":
                bind = f"0.0.0.0:{lone.bind.rpartition(':')[2]}"
                edit(file, listeners=[listener | {"bind": bind, "advertised": lone.bind}])
                error = f"the running process listens at {lone.bind}: stop it and start it again"
            elif taken == "http":
                edit(file, http={"bind": address_of(other)})
                error = f"cannot listen on {address_of(other)}: the port is in use"
            elif taken == "spool":
                edit(file, audit={"spool.dir": str(spool)})
                locked = lock_spool(spool, Holder.this_process("proxy", "proxy-9"))
                error = f"{spool} is in use by proxy proxy-9"
            else:
                spool.write_text("a file", encoding="utf-8")
                edit(file, audit={"spool.dir": str(spool / "below")})
                error = f"{spool}"

            lone.process.send_signal(signal.SIGUSR2)
            assert error in (await lone.row(SERVES_ON))["error"]
            assert (
                await asyncio.to_thread(restart, file, tmp_path / "spool", TIMEOUT_MS) == EXIT_NOT_RESTARTED
            )

        assert error in capsys.readouterr().err
        assert (serving(tmp_path), children(lone.process.pid)) == (lone.process.pid, "")
        found = await asyncio.to_thread(probe.series, lone.http)
        assert found['penstock_file_reloads_total{file_kind="restart",outcome="failed"}'] >= 1
        assert await lone.logs_in()
        assert not client.reader.at_eof()
    if locked is not None:
        locked.close()


@pytest.mark.spec("S13", "O2", "O5")
async def test_a_log_that_the_new_process_cannot_read_ends_neither_the_process_nor_its_clients(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = FakeNode(), FakeNode()
    for node in (good, bad):
        node.append(acl_record(1), raw=[] if node is good else [b"\x01\x7f\x00"])
        node.commit()
    async with AsyncExitStack() as running:
        for node in (good, bad):
            await running.enter_async_context(node.listening())
        kraft = {"mode": "kraft", "endpoints": [good.address]}
        lone = await running.enter_async_context(a_lone("proxy", tmp_path, controller=kraft))
        await lone.metric("penstock_metadata_ready", lambda value: value == 1)
        file, client = tmp_path / "proxy.yaml", await lone.logs_in()
        edit(file, controller=kraft | {"endpoints": [bad.address]})

        assert await restarted(file) == EXIT_NOT_RESTARTED
        error = "the metadata log cannot be applied: in the batch that ends at offset 1: record 2 of 2"
        assert error in (await lone.row(SERVES_ON))["error"]
        assert error in capsys.readouterr().err
        assert (serving(tmp_path), children(lone.process.pid)) == (lone.process.pid, "")
        assert await lone.logs_in()
        assert not client.reader.at_eof()

        edit(file, controller=kraft)
        assert await restarted(file) == 0
        await lone.metric("penstock_metadata_ready", lambda value: value == 1)


@pytest.mark.spec("O9")
async def test_no_reload_is_lost_with_the_process_that_carried_it_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, slow = FakeNode(), FakeNode()
    for node in (good, slow):
        node.append(acl_record(1))
    good.commit()
    async with AsyncExitStack() as running:
        for node in (good, slow):
            await running.enter_async_context(node.listening())
        kraft = {"mode": "kraft", "endpoints": [good.address]}
        lone = await running.enter_async_context(a_lone("proxy", tmp_path, controller=kraft))
        await lone.metric("penstock_metadata_ready", lambda value: value == 1)
        file = tmp_path / "proxy.yaml"
        edit(file, controller=kraft | {"endpoints": [slow.address]})
        lone.process.send_signal(signal.SIGUSR2)
        await slow.broker.wait_for(ApiKey.FETCH)
        # The new process has read the file. In the one that it replaces, this would have effect until then.
        edit(file, controller=kraft, **{"connections.max.reauth.ms": 60_000})
        assert await asyncio.to_thread(reload, file, None, TIMEOUT_MS) == EXIT_CONFIG
        assert IS_REPLACED in capsys.readouterr().err

        # Nor is a signal during the drain forgotten without a word.
        client = await lone.login()
        slow.commit()
        await lone.row(READY)
        lone.process.send_signal(signal.SIGHUP)
        assert (await lone.row("configuration not reloaded: the previous one stays in effect", 2))["error"]
        client.leaves()
        await lone.row("started", 2)
        assert await asyncio.to_thread(reload, file, None, TIMEOUT_MS) == 0
        again = await lone.login()
        assert (await again.hears(ApiKey.SASL_AUTHENTICATE, 2)).session_lifetime_ms == 60_000


class Directory:
    """A check of passwords that gets no response about strangers."""

    def configure(self, settings: Mapping[str, str]) -> None:
        pass

    def is_right(self, username: str, password: str) -> bool:
        if username != "admin":
            Event().wait()
        return True


@pytest.mark.spec("R9")
@pytest.mark.parametrize("by", [signal.SIGUSR2, signal.SIGTERM])
async def test_a_check_of_a_password_that_never_ends_does_not_delay_the_end(
    tmp_path: Path, by: signal.Signals
) -> None:
    limits = {"drain.timeout.ms": 500}
    async with a_lone("proxy", tmp_path, limits=limits) as lone:
        file = tmp_path / "proxy.yaml"
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        del document["users.file"]
        document["listeners"][0]["sasl.plain.verifier.class"] = "tests.net.test_restart.Directory"
        file.write_text(yaml.safe_dump(document), encoding="utf-8")
        assert await asyncio.to_thread(reload, file, None, TIMEOUT_MS) == 0
        await lone.login("stranger")
        await lone.logs_in()

        lone.process.send_signal(by)
        assert await ended(lone) == 0
        if by == signal.SIGUSR2:
            await lone.row("started", 2)
            await lone.logs_in()


@pytest.mark.spec("O5", "S14")
async def test_a_log_that_is_not_read_in_time_is_an_error_with_its_cause(tmp_path: Path) -> None:
    node = FakeNode()
    node.append(acl_record(1))  # Not committed: its end is not known.
    (nobody,) = free_addresses(1)
    async with a_lone("proxy", tmp_path):
        file = tmp_path / "proxy.yaml"
        edit(file, controller={"mode": "kraft", "endpoints": [nobody]})
        with pytest.raises(UnreadableLog, match=r"not read within 0 s: connection refused \("):
            await require_readable_log(load(file, ProxyConfig), 0.3)
        async with node.listening():
            edit(file, controller={"mode": "kraft", "endpoints": [node.address]})
            with pytest.raises(UnreadableLog, match=r"not read within 0 s: it is being read"):
                await require_readable_log(load(file, ProxyConfig), 0.3)
            node.commit()
            await require_readable_log(load(file, ProxyConfig), SHOULD_NOT_TAKE_S)


@pytest.mark.spec("S13", "S14", "O5")
async def test_the_log_of_our_own_controller_is_read_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [batch(0, values(acl_record(1))[0])]

    @asynccontextmanager
    async def at_leader(_endpoint: Any, _topic: str) -> AsyncIterator[Any]:
        yield Log(batches), PartitionLeader(bytes(16), "localhost", 1)

    monkeypatch.setattr(topic_feed, "at_leader", at_leader)
    async with a_lone("proxy", tmp_path):
        file = tmp_path / "proxy.yaml"
        await require_readable_log(load(file, ProxyConfig))

        (tmp_path / "controllers.pub").write_text(pem("one", "role: metadata"), encoding="utf-8")
        edit(file, metadata={"public.keys.file": "controllers.pub"})
        with pytest.raises(UnreadableLog, match=r"it has no record that a controller has signed"):
            await require_readable_log(load(file, ProxyConfig), 0.5)

        edit(file, metadata={})
        batches.append(batch(1, b"\x01\x7f\x00"))
        with pytest.raises(UnreadableLog, match="at offset 1: no metadata record has the api key 127"):
            await require_readable_log(load(file, ProxyConfig))


async def test_a_second_signal_during_a_restart_starts_no_second_process(tmp_path: Path) -> None:
    async with a_lone("proxy", tmp_path) as lone:
        lone.process.send_signal(signal.SIGUSR2)
        await lone.row(STARTED)
        lone.process.send_signal(signal.SIGUSR2)
        await lone.row(IGNORED)
        await lone.row(READY)
        lone.process.send_signal(signal.SIGUSR2)
        await lone.row(IGNORED, 2)

        assert await ended(lone) == 0
        assert len(lone.successors()) == 1
        await lone.row("started", 2)
        await lone.logs_in()


@pytest.mark.parametrize("moment", [STARTED, READY])
async def test_sigterm_during_a_restart_ends_both_processes(tmp_path: Path, moment: str) -> None:
    async with a_lone("proxy", tmp_path) as lone:
        await lone.logs_in()
        lone.process.send_signal(signal.SIGUSR2)
        successor = (await lone.row(moment))["successor_pid"]

        assert await lone.stops() == 0
        assert not is_alive(successor)
        assert [row["pid"] for row in lone.rows("started")] == [lone.process.pid]
        with pytest.raises(ConnectionRefusedError):
            await lone.client()


@pytest.mark.parametrize("moment", [STARTED, READY])
async def test_a_successor_does_not_outlive_a_process_that_was_killed(tmp_path: Path, moment: str) -> None:
    async with a_lone("proxy", tmp_path) as lone:
        await lone.logs_in()
        lone.process.send_signal(signal.SIGUSR2)
        successor = (await lone.row(moment))["successor_pid"]
        lone.process.kill()

        end = await lone.row("new process ends: the one that has started it ended before its drain")
        await ends(successor)
        assert end["pid"] == successor
        assert [row["pid"] for row in lone.rows("started")] == [lone.process.pid]


async def test_a_successor_that_dies_during_the_drain_is_an_error_of_the_process(tmp_path: Path) -> None:
    async with a_lone("proxy", tmp_path) as lone:
        await lone.logs_in()
        async with asyncio.TaskGroup() as tasks:
            command = tasks.create_task(restarted(tmp_path / "proxy.yaml"))
            os.kill((await lone.row(READY))["successor_pid"], signal.SIGKILL)

        # A service manager starts the proxy again, because the code is not 0.
        assert await ended(lone) == 1
        assert command.result() == EXIT_NO_OUTCOME


async def test_a_listener_that_the_new_file_moves_is_closed_and_opened(tmp_path: Path) -> None:
    (other,) = free_addresses(1)
    async with a_lone("proxy", tmp_path) as lone:
        file = tmp_path / "proxy.yaml"
        (listener,) = yaml.safe_load(file.read_text(encoding="utf-8"))["listeners"]
        edit(file, listeners=[listener | {"bind": other}])

        assert await restarted(file) == 0
        await lone.row("listening", 2)
        with pytest.raises(ConnectionRefusedError):
            await lone.client()
        lone.bind = other
        await lone.logs_in()


async def test_sockets_that_systemd_holds_are_passed_on(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        async with a_lone("proxy", tmp_path, held=[held]) as lone:
            file = tmp_path / "proxy.yaml"
            await lone.logs_in()
            for _ in range(2):
                assert await restarted(file) == 0
                await lone.logs_in()

            # The successor knows that systemd holds the socket: a file without its listener is rejected.
            (listener,) = yaml.safe_load(file.read_text(encoding="utf-8"))["listeners"]
            edit(file, listeners=[listener | {"bind": "127.0.0.1:0"}])
            assert await restarted(file) == EXIT_NOT_RESTARTED
            error = (await lone.row(SERVES_ON))["error"]
            assert f"none has bind: {address_of(held)}" in error
            await lone.logs_in()


async def test_only_the_listed_descriptors_are_inherited(tmp_path: Path) -> None:
    async with a_lone("proxy", tmp_path) as lone:
        await lone.logs_in()
        lone.process.send_signal(signal.SIGUSR2)
        successor = (await lone.row(STARTED))["successor_pid"]
        await lone.row(READY)
        opened = files(successor)

        assert [each for each in opened if str(tmp_path / "spool") in each] == []
        # The listening socket; the HTTP port, clients and the broker's connections are not there.
        assert len([each for each in opened if each.startswith("socket:")]) == 1
        assert await ended(lone) == 0


@pytest.mark.spec("O9")
async def test_without_a_process_there_is_no_outcome(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with a_lone("proxy", tmp_path) as lone:
        assert await lone.stops() == 0

        assert await restarted(tmp_path / "proxy.yaml") == EXIT_NO_OUTCOME
        assert "no process uses" in capsys.readouterr().err


async def test_a_proxy_with_workers_serves_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with a_lone("proxy", tmp_path, workers=2) as lone:
        await lone.logs_in()
        lone.process.send_signal(signal.SIGUSR2)

        assert "workers above 1" in (await lone.row(SERVES_ON))["error"]
        assert await restarted(tmp_path / "proxy.yaml") == EXIT_NOT_RESTARTED
        assert "workers above 1 cannot start a successor" in capsys.readouterr().err
        await lone.logs_in()
        assert await lone.stops() == 0


async def test_a_successor_with_workers_does_not_start(tmp_path: Path) -> None:
    async with a_lone("proxy", tmp_path) as lone:
        await lone.logs_in()
        edit(tmp_path / "proxy.yaml", workers=2)

        assert await restarted(tmp_path / "proxy.yaml") == EXIT_NOT_RESTARTED
        assert "workers above 1" in (await lone.row(SERVES_ON))["error"]
        await lone.logs_in()


async def test_a_controller_serves_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with a_lone("controller", tmp_path) as lone:
        lone.process.send_signal(signal.SIGUSR2)
        assert await restarted(tmp_path / "controller.yaml") == EXIT_NOT_RESTARTED
        assert "is not a proxy; stop it and start it again" in capsys.readouterr().err
        await lone.logs_in()


async def test_systemd_is_told_the_new_main_process(tmp_path: Path, service_manager: socket.socket) -> None:
    environment = {"NOTIFY_SOCKET": service_manager.getsockname()}
    async with a_lone("proxy", tmp_path, environment=environment) as lone:
        assert service_manager.recv(4_096) == b"READY=1"
        assert await restarted(tmp_path / "proxy.yaml") == 0

        successor = serving(tmp_path)
        assert successor != lone.process.pid
        assert service_manager.recv(4_096) == f"MAINPID={successor}".encode()
        assert service_manager.recv(4_096) == b"READY=1"


async def test_a_process_with_which_its_successor_would_end_serves_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # As systemd starts a service without Type=notify.
    as_a_service = "-c 0; export INVOCATION_ID=1 SYSTEMD_EXEC_PID=$$"
    async with a_lone("proxy", tmp_path, ulimit=as_a_service) as lone:
        await lone.logs_in()
        assert await restarted(tmp_path / "proxy.yaml") == EXIT_NOT_RESTARTED

        assert "has no Type=notify" in capsys.readouterr().err
        assert lone.successors() == []
        await lone.logs_in()


@pytest.mark.parametrize(
    ("environment", "pid", "parent_pid", "reason"),
    [
        ({}, 4711, 1, None),
        ({"INVOCATION_ID": "a"}, 4711, 17, None),
        ({"INVOCATION_ID": "a", "SYSTEMD_EXEC_PID": "17"}, 4711, 17, None),
        ({"INVOCATION_ID": "a", "NOTIFY_SOCKET": "@a"}, 4711, 1, None),
        ({"INVOCATION_ID": "a"}, 4711, 1, "Type=notify"),
        ({"INVOCATION_ID": "a", "SYSTEMD_EXEC_PID": "4711"}, 4711, 17, "Type=notify"),
        ({"NOTIFY_SOCKET": "@a"}, 1, 0, "restart the container"),
    ],
)
def test_a_process_with_which_its_successor_would_end_is_known(
    environment: dict[str, str], pid: int, parent_pid: int, reason: str | None
) -> None:
    found = ends_successors(environment, pid, parent_pid)

    assert found is None if reason is None else found is not None and reason in found


def test_an_abstract_address_is_notified(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiving:
        receiving.bind("")  # The kernel chooses an abstract address.
        receiving.settimeout(SHOULD_NOT_TAKE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + receiving.getsockname()[1:].decode())

        notify("READY=1", "MAINPID=17")

        assert receiving.recv(4_096) == b"READY=1\nMAINPID=17"
