"""A proxy of several workers, as processes: started, killed, replaced, ended."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import yaml

from proxy.config import ProxyConfig, load
from proxy.net.runtime.clock import now_ms
from proxy.workers import supervisor as supervision
from proxy.workers.spools import left_over
from tests.lab.cluster import probe
from tests.lab.cluster.node import CHECKOUT, penstock
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.process import ChildProcess
from tests.net.test_workers_front import SlowWorker
from tests.support.set_clock import set_own_clock_by

pytestmark = [pytest.mark.slow, pytest.mark.spec("O2", "O4", "D3")]

DEADLINE_MS = 60_000
_BETWEEN_LOOKS = Event()


class Proxy:
    """Its broker does not answer: the workers live, and are never ready."""

    def __init__(self, directory: Path, **changes: Any) -> None:
        self.http = free_addresses(1)[0]
        self.directory = directory
        document = {
            "proxy.id": "proxy-1",
            "workers": 2,
            "listeners": [{"name": "PLAIN", "bind": "127.0.0.1:0", "security.protocol": "PLAINTEXT"}],
            "upstream": {"bootstrap": "127.0.0.1:1"},
            "controller": {"endpoints": ["127.0.0.1:1"]},
            "audit": {"spool.dir": "spool"},
            "http": {"bind": self.http},
            **changes,
        }
        file = directory / "proxy.yaml"
        file.write_text(yaml.safe_dump(document), encoding="utf-8")
        self.process: ChildProcess = penstock("proxy", "workers", file, directory)

    def page(self, path: str) -> Any:
        return json.loads(probe.get(self.http, path)[1])

    def pids(self) -> dict[int, int]:
        """Of the workers that have said something to the supervisor."""
        try:
            running = self.page("/workers")["running"]
        except OSError:
            return {}
        return {row["worker"]: row["pid"] for row in running if row["not_ready"] != "starting"}

    def both_run(self) -> dict[int, int]:
        until(lambda: len(self.pids()) == 2, "two workers", self)
        return self.pids()


def until(holds: Callable[[], bool], what: str, proxy: Proxy) -> None:
    since_ms = now_ms()
    while not holds():
        assert now_ms() - since_ms < DEADLINE_MS, f"not {what}: {proxy.process.log_text()[-3000:]}"
        _BETWEEN_LOOKS.wait(0.05)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@contextmanager
def running(directory: Path, **changes: Any) -> Iterator[Proxy]:
    proxy = Proxy(directory, **changes)
    with proxy.process:
        yield proxy


def test_a_worker_that_is_killed_is_replaced_and_nothing_it_told_is_lost(tmp_path: Path) -> None:
    with running(tmp_path) as proxy:
        before = proxy.both_run()
        counted = told_without_a_broker(proxy)
        os.kill(before[1], signal.SIGKILL)
        until(lambda: proxy.pids().get(1) not in (None, before[1]), "another worker 1", proxy)
        after = probe.series(proxy.http)

        assert proxy.pids()[0] == before[0]
        assert proxy.page("/workers")["restarts"] == 1
        assert after["penstock_worker_restarts_total"] == 1.0
        # Each of the three has written that it has started.
        started = 'penstock_audit_records_total{event="started"}'
        assert (counted[started], after[started]) == (2.0, 3.0)
        falling = [name for name, value in counted.items() if "_total" in name and after[name] < value]
        assert falling == []
        assert proxy.process.stop(DEADLINE_MS)
        assert proxy.process.returncode == 0
    assert not any(map(alive, before.values()))
    assert told_by_spools(tmp_path / "spool") == [
        ("proxy-1.w0", "started", 0),
        ("proxy-1.w0", "stopped", 1),
        ("proxy-1.w1", "started", 0),
        ("proxy-1.w1", "started", 0),
        ("proxy-1.w1", "stopped", 1),
    ]
    assert [path.name for path in left_over(tmp_path / "spool", 1)] == ["worker-1"]
    assert left_over(tmp_path / "spool", 2) == []


def told_without_a_broker(proxy: Proxy) -> dict[str, float]:
    """The metrics of workers that are there, and not ready."""
    status, text = probe.get(proxy.http, "/readyz")
    assert status == 503
    assert text.startswith(
        "not ready: 0 of 2 workers are ready\nnot ready: the metadata log is not loaded: connection refused ("
    )
    assert probe.get(proxy.http, "/livez") == (200, "alive\n")
    assert proxy.page("/quotas")["workers"] == 2
    series = probe.series(proxy.http)
    assert series['penstock_workers{state="not_ready"}'] == 2.0
    assert series["penstock_metadata_ready"] == 0.0
    return series


def told_by_spools(directory: Path) -> list[tuple[str, str, int]]:
    """Who has written what, as which of its records."""
    files = [*sorted(directory.glob("*.spool")), *sorted((directory / "worker-1").glob("*.spool"))]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    records = [json.loads(line.split(" ", 2)[2])["data"] for line in lines]
    return [(record["proxy_id"], record["event"], record["sequence"]) for record in records]


def test_workers_whose_supervisor_is_killed_end_by_themselves(tmp_path: Path) -> None:
    with running(tmp_path) as proxy:
        pids = proxy.both_run()
        proxy.process.kill()
        until(lambda: not any(map(alive, pids.values())), "the end of the workers", proxy)


def test_a_worker_that_cannot_start_as_configured_ends_the_proxy_with_code_2(tmp_path: Path) -> None:
    with running(tmp_path, authorizer={"class.name": "no.such.Authorizer"}) as proxy:
        assert proxy.process.wait(DEADLINE_MS) == 2


def test_an_address_that_is_taken_ends_the_proxy_with_code_2(tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        bind = f"127.0.0.1:{server.getsockname()[1]}"
        listener = {"name": "PLAIN", "bind": bind, "security.protocol": "PLAINTEXT"}
        proxy = stack.enter_context(running(tmp_path, listeners=[listener]))

        assert proxy.process.wait(DEADLINE_MS) == 2
    assert f"cannot listen on {bind}: the port is in use" in proxy.process.log_text()


async def test_a_clock_that_is_set_forward_ends_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Proxy(tmp_path)
    file, worker = tmp_path / "proxy.yaml", SlowWorker()
    supervisor = supervision.Supervisor(file, file.read_bytes(), load(file, ProxyConfig), lambda _: [])
    supervisor._front.children[0] = worker
    killed: list[SlowWorker] = []
    monkeypatch.setattr(SlowWorker, "kill", killed.append)
    await supervisor._front._ask_ready()
    # As after a machine was suspended: the next response is late.
    set_own_clock_by(3_600, monkeypatch)
    supervisor._end_silent()
    supervisor._held.close()

    assert killed == []


async def test_a_worker_that_does_not_answer_is_killed_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "SILENT_MS", 3_000)
    monkeypatch.setattr(supervision, "POLL_MS", 100)
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    proxy = Proxy(tmp_path)
    file = tmp_path / "proxy.yaml"
    supervisor = supervision.Supervisor(file, file.read_bytes(), load(file, ProxyConfig), lambda _: [])
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(supervisor.run())
        before = await asyncio.to_thread(proxy.both_run)
        os.kill(before[1], signal.SIGSTOP)
        await asyncio.to_thread(
            until, lambda: proxy.pids().get(1) not in (None, before[1]), "another worker 1", proxy
        )
        supervisor._end(0)
        assert await running == 0

    assert not any(map(alive, before.values()))
