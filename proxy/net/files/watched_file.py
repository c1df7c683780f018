"""One file on disk, and who wants its bytes whenever they are others: users, ACLs, certificates, keys.

`load` reads it when a process is put together, so that a broken file is a start-up error; `run` looks again
at each interval. The reader takes the bytes or raises; what it raises leaves it with what it had, is told in
a log line and counted, and those bytes are not tried again. What they mean is the reader's.
"""

import asyncio
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry, Counter

from proxy.audit import events
from proxy.audit.record import AuditEvent

INTERVAL_MS = 1_000
MAX_BYTES = 64 << 20

LOADED, FAILED = "loaded", "failed"
GUESSABLE = frozenset(("users", "http_token", "otlp_headers", "configuration"))
"""Kinds with secrets that people make up: a hash of the file, in the audit, could be guessed from."""

log = structlog.get_logger(__name__)


class FileReloads:
    """How often files were taken and refused; one for each process, shared by its files."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._total = Counter(
            "penstock_file_reloads_total",
            "Changes of a watched file that were taken (loaded) or left the last good one in force (failed)",
            ("file_kind", "outcome"),
            registry=registry,
        )
        self.record: Callable[[AuditEvent], None] = lambda _event: None
        """The audit; set once there is one."""

    def watch(self, file_kind: str) -> None:
        """Show both counts of a kind from the start, so that the first failure is an increase."""
        for outcome in (LOADED, FAILED):
            self._total.labels(file_kind, outcome)

    def tell(
        self,
        path: Path,
        file_kind: str,
        digest: bytes | None,
        error: str | None = None,
        about: Mapping[str, str] | None = None,
    ) -> None:
        """A changed file was taken, or with `error` was not; `digest`: SHA-256 of it, if it could be read.

        `about`: further settings of the audit record.
        """
        outcome = LOADED if error is None else FAILED
        self._total.labels(file_kind, outcome).inc()
        settings = {"file": str(path), "file.kind": file_kind, "outcome": outcome, **(about or {})}
        if digest is not None and file_kind not in GUESSABLE:
            settings["file.sha256"] = digest.hex()
        self.record(events.configuration_changed(settings=settings, message=error))


@dataclass(frozen=True, slots=True)
class _Mark:
    """What a look at the file's entry tells; another one means that the bytes may be others."""

    inode: tuple[int, int]
    size: int
    written_at_ns: int
    changed_at_ns: int


class WatchedFile:
    """See the module. `file_kind` ("users", "acls") names the file in the metric, `path` in log lines."""

    def __init__(
        self,
        path: Path,
        file_kind: str,
        on_change: Callable[[bytes], None],
        reloads: FileReloads,
        interval_ms: int = INTERVAL_MS,
    ) -> None:
        self.path = path
        self._file_kind = file_kind
        self._on_change = on_change
        self._reloads = reloads
        self._interval_ms = interval_ms
        self._looked_at: _Mark | None = None
        self._growing: _Mark | None = None
        self._digest: bytes | None = None
        self._told_error: str | None = None
        reloads.watch(file_kind)

    def load(self) -> None:
        """Read the file now and hand it on; what reading or the reader raises goes to the caller."""
        self._looked_at = _mark(self.path)
        content = _content(self.path)
        self._on_change(content)
        self._digest = _digest(content)

    async def run(self) -> None:
        """Look at each interval, until cancelled. Disks may be slow: reading waits in a thread."""
        while True:
            await asyncio.sleep(self._interval_ms / 1000)
            try:
                content = await asyncio.to_thread(self._changed)
            except OSError as error:
                self._unreadable(error)
            else:
                self._take(content)

    def look(self) -> None:
        """One look, and whatever follows from it."""
        try:
            content = self._changed()
        except OSError as error:
            self._unreadable(error)
        else:
            self._take(content)

    def _changed(self) -> bytes | None:
        """The bytes when the file is another than at the last look, and whole. OSError when unreadable.

        A file put in place by a rename is whole. One that is written where it lies may be half written, and
        half a file of users is a valid file of fewer users: it is left to settle until two looks agree.
        """
        mark = _mark(self.path)
        if mark == self._looked_at:
            self._growing = None
            return None
        before = self._looked_at
        if before is not None and before.inode == mark.inode and mark != self._growing:
            self._growing = mark
            return None
        content = _content(self.path)
        if _mark(self.path) != mark:
            return None
        self._looked_at, self._growing = mark, None
        return content

    def _take(self, content: bytes | None) -> None:
        if content is None:
            return
        self._told_error = None
        digest = _digest(content)
        if digest == self._digest:
            return
        self._digest = digest
        try:
            self._on_change(content)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a file, the last good one stays
            self._failed(str(error) or repr(error), digest)
            return
        self._reloads.tell(self.path, self._file_kind, digest)
        log.info("file loaded", file=str(self.path), file_kind=self._file_kind, bytes=len(content))

    def _unreadable(self, error: OSError) -> None:
        # A missing file is looked for again and again, and told once.
        if str(error) != self._told_error:
            self._told_error = str(error)
            self._failed(str(error), None)

    def _failed(self, error: str, digest: bytes | None) -> None:
        self._reloads.tell(self.path, self._file_kind, digest, error)
        log.warning(
            "file not loaded, the last good one stays in force",
            file=str(self.path),
            file_kind=self._file_kind,
            error=error,
        )


def _mark(path: Path) -> _Mark:
    # Links are followed: a volume of Kubernetes changes what a link stands for.
    told = os.stat(path)
    return _Mark((told.st_dev, told.st_ino), told.st_size, told.st_mtime_ns, told.st_ctime_ns)


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(f"{path}: more than {MAX_BYTES} bytes")
    return content


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
