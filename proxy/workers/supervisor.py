"""The parent of the workers: it starts them, replaces those that die, and serves HTTP for all of them.

proxy.app runs it if `workers` is more than 1. It handles no bytes of clients, so few faults can end it.
If it ends, the workers drain and end, and the service manager starts the proxy again. HeldPorts reserves the
addresses of the listeners while workers start and end: Linux gives connections only to listening sockets, so
its sockets get none. No other process can bind the port meanwhile, and if the configuration has port 0, all
workers get the same port.
"""

import asyncio
import json
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from time import process_time

import structlog
from prometheus_client import disable_created_metrics

from proxy.config import ConfigError, ListenerConfig, ProxyConfig, effects, load, split_host_port
from proxy.config.reloading import ConfigFile
from proxy.error_text import text_of
from proxy.frame import Frame
from proxy.net.audit.spool_files import SpoolError
from proxy.net.audit.spool_lock import Holder, SpoolLock, SpoolLocked
from proxy.net.runtime.clock import monotonic_ms, now_ms, set_within
from proxy.net.runtime.listening import CannotListen, bound_sockets
from proxy.net.runtime.operator_signals import HANGUP, RESTART
from proxy.net.runtime.service_manager import notify
from proxy.net.telemetry import log_lines
from proxy.workers.child import Child, WorkerInheritance
from proxy.workers.control import RELOAD
from proxy.workers.front import Front
from proxy.workers.seat import give
from proxy.workers.segment import Segment, anonymous_file, layout


class HeldPorts:
    """Holds one socket for each listener."""

    def __init__(self, listeners: Iterable[ListenerConfig]) -> None:
        """CannotListen names an address that cannot be bound."""
        self._sockets: dict[str, socket.socket] = {}
        for listener in listeners:
            host, port = split_host_port(listener.bind)
            try:
                self._sockets[listener.name] = next(bound_sockets(host, port, reuse_port=True))
            except CannotListen:
                self.close()
                raise

    @property
    def numbers(self) -> dict[str, int]:
        """Name of each listener -> its port."""
        return {name: int(held.getsockname()[1]) for name, held in self._sockets.items()}

    def close(self) -> None:
        for held in self._sockets.values():
            held.close()


EXIT_FAULT, EXIT_CONFIG = 1, 2
BACKOFF_MS = (100, 30_000)
LIVED_LONG_MS = 60_000
"""Who lived so long is replaced at once, whatever was before."""
POLL_MS, POLL_SHARE = 3_000, 20
"""How often counters are looked at: what a killed worker had counted since then is not in the sum."""
SILENT_MS = 60_000
"""How long a worker may say nothing once it has answered."""
LOCK_PAUSE_MS = 200
RELOAD_MS = 60_000
"""How long workers have to put a new configuration into effect."""
ENDING_MS = 15_000
"""What a worker may take beyond drain.timeout.ms to deliver its audit trail and end."""
RELAY_S = 0.2
AT_ONCE_MS = 10_000
"""The time that a worker has to end after a second signal."""

log = structlog.get_logger(__name__)


class Supervisor:
    """The group of one proxy."""

    def __init__(
        self, path: Path, content: bytes, config: ProxyConfig, check: Callable[[Path], Sequence[str]]
    ) -> None:
        """`content`: of the configuration file, which `config` was made of. `check`: what is wrong with it.

        CannotListen: an address is taken. SpoolError: the audit spool cannot be used.
        """
        self._held = HeldPorts(config.listeners)
        self._segment = Segment.create(layout(config))
        self._lock = SpoolLock(config.audit.spool_dir)
        self._given = WorkerInheritance(
            path, _file_of(content), self._segment.file, self._lock.file, self._held.numbers
        )
        # The workers have no HTTP port: its certificate is this process's alone.
        self._frame = Frame(config)
        self._front = Front(config.workers, self._segment.connections, self._frame.registry)
        self._frame.serve_http(config.http, self._front.server)
        file = ConfigFile.checked_by(check, path, ProxyConfig)
        self._frame.reload_from(
            file, effects.of(ProxyConfig) | effects.HELD_PORTS, self._reconfigure, config.audit.spool_dir
        )
        self._draining = self._frame.stop.draining
        self._exit_code = 0

    async def run(self) -> int:
        """Until SIGTERM or SIGINT, and all workers have drained; the exit code. SpoolLocked."""
        self._frame.install_signals()
        if not await self._locked():
            return 0
        await self._frame.http.open()
        notify("READY=1")
        RESTART.on_signal(partial(asyncio.get_running_loop().call_soon_threadsafe, _cannot_restart))
        log.info("supervisor started", workers=self._frame.config.workers, ports=self._given.ports)
        async with asyncio.TaskGroup() as tasks:
            upkeep = [tasks.create_task(part) for part in (self._poll(), *self._frame.background())]
            workers = [tasks.create_task(self._keep(number)) for number in range(self._frame.config.workers)]
            await asyncio.gather(*workers)
            HANGUP.on_signal(None)
            RESTART.on_signal(None)
            for task in upkeep:
                task.cancel()
        await self._frame.http.close()
        self._held.close()
        log.info("supervisor stopped")
        return self._exit_code

    async def _locked(self) -> bool:
        """Take the lock on the spools for all workers; False if the supervisor has to end before that.

        SpoolLocked if another process holds it. Wait for the workers of a supervisor that was killed.
        """
        logged = False
        while not self._draining.is_set():
            try:
                self._lock.take(Holder.this_process("supervisor", self._frame.config.proxy_id))
            except SpoolLocked as locked:
                if locked.holder is None or not locked.holder.has_ended():
                    raise
                if not logged:
                    log.warning("waiting for the workers of a supervisor that has ended", error=str(locked))
                logged = True
                await set_within(self._draining, LOCK_PAUSE_MS)
            else:
                return True
        return False

    async def _keep(self, number: int) -> None:
        """Run one worker after the other, until the drain."""
        wait_ms, first = BACKOFF_MS[0], True
        while not self._draining.is_set():
            begun_ms = monotonic_ms()
            code = await self._one(number)
            self._segment.forget(number)
            if self._draining.is_set():
                break
            if code == EXIT_CONFIG and first:
                log.error("worker cannot start with this configuration", worker=number)
                self._end(EXIT_CONFIG)
                break
            first = False
            wait_ms = BACKOFF_MS[0] if monotonic_ms() - begun_ms >= LIVED_LONG_MS else wait_ms
            log.error("worker ended, starting another", worker=number, exit_code=code, wait_ms=wait_ms)
            self._front.restarts += 1
            await set_within(self._draining, wait_ms)
            wait_ms = min(wait_ms * 2, BACKOFF_MS[1])

    async def _one(self, number: int) -> int:
        """Run one worker, and return its exit code."""
        try:
            child = await Child.start(number, self._given, now_ms())
        except OSError as error:
            log.error("cannot create a process for a worker", worker=number, error=text_of(error))
            return EXIT_FAULT
        log.info("worker started", worker=number, worker_pid=child.pid)
        self._front.children[number] = child
        async with asyncio.TaskGroup() as tasks:
            ending = tasks.create_task(self._drain(child))
            code = await child.run()
            ending.cancel()
        del self._front.children[number]
        self._front.exposition.died(number, now_ms())
        return code

    async def _reconfigure(self, config: ProxyConfig) -> None:
        """Apply a configuration in every worker, later ones included. ConfigError names one that fails."""
        http = await asyncio.to_thread(self._frame.prepare_http, config.http)
        await self._frame.apply_http(config.http, http)
        give(self._given.config, config)
        self._frame.config = config
        log_lines.set_level(config.log.level)
        children = list(self._front.children.values())
        answers = await asyncio.gather(*(child.asker.ask(RELOAD, RELOAD_MS) for child in children))
        failed = []
        for child, answer in zip(children, answers, strict=True):
            if answer is None:
                # If it has ended, its successor reads the new configuration.
                log.warning("worker has not confirmed a reload", worker=child.number)
            elif error := json.loads(answer)["error"]:
                failed.append(f"worker {child.number}: {error}")
        if failed:
            raise ConfigError("; ".join(failed))

    async def _drain(self, child: Child) -> None:
        await self._draining.wait()
        child.drain()
        try:
            async with asyncio.timeout((self._frame.config.limits.drain_timeout_ms + ENDING_MS) / 1000):
                await self._frame.stop.at_once.wait()
                # The worker got its first signal later, and ignores one that follows too soon.
                await asyncio.sleep(RELAY_S)
                child.drain()
                await asyncio.sleep(AT_ONCE_MS / 1000)
        except TimeoutError:
            pass
        log.error("worker did not end in time, killed", worker=child.number)
        child.kill()
        self._exit_code = EXIT_FAULT

    async def _poll(self) -> None:
        while True:
            before_s = process_time()
            await self._front.ask_all()
            self._end_silent()
            self._renew_lock()
            # With thousands of series this takes long; it must not use all of the supervisor's time.
            await asyncio.sleep(max(POLL_MS / 1000, POLL_SHARE * (process_time() - before_s)))

    def _end_silent(self) -> None:
        """Kill workers that do not respond: their clients can then connect to another one."""
        for child in self._front.children.values():
            silent_ms = monotonic_ms() - child.heard_ms
            if child.heard_ms and silent_ms > SILENT_MS:
                log.error("worker does not respond, killed", worker=child.number, silent_ms=silent_ms)
                child.kill()

    def _renew_lock(self) -> None:
        try:
            self._lock.renew()
        except SpoolError as error:
            log.error("lost the lock on the audit spools", error=str(error))

    def _end(self, exit_code: int) -> None:
        self._exit_code = exit_code
        self._draining.set()


def _cannot_restart() -> None:
    log.error(
        "not restarted: this process serves on",
        error="a proxy with workers above 1 cannot start a successor; stop it and start it again",
    )


def _file_of(content: bytes) -> int:
    file = anonymous_file("penstock-configuration")
    os.pwrite(file, content, 0)
    return file


def run_supervisor(path: Path, check: Callable[[Path], Sequence[str]]) -> int:
    """Run a proxy of several workers. Return 0 after a drain, 1 after a fault, 2 if it cannot start.

    ConfigError if the file is invalid, SpoolError if the audit spool cannot be used.
    """
    config = load(path, ProxyConfig)
    disable_created_metrics()  # type: ignore[no-untyped-call]
    try:
        supervisor = Supervisor(path, path.read_bytes(), config, check)
        return asyncio.run(supervisor.run())
    except SpoolError:
        raise
    except OSError as error:
        log.error("proxy cannot start", error=text_of(error))
        return EXIT_CONFIG if isinstance(error, CannotListen) else EXIT_FAULT
    except Exception:
        log.exception("unexpected error in the supervisor")
    return EXIT_FAULT
