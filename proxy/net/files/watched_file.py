"""Watches one file on disk: users, ACLs, certificates, keys. Its reader gets the bytes whenever they change.

`load` reads the file when a process is built, so that a broken file is a start-up error. `run` checks it at
each interval. If the reader raises, it stays with what it had; the error is logged and counted, and these
bytes are not tried again.
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
from proxy.error_text import text_of

INTERVAL_MS = 1_000
MAX_BYTES = 64 << 20

LOADED, FAILED = "loaded", "failed"
GUESSABLE = frozenset(("users", "http_token", "otlp_headers", "configuration"))
"""Kinds with secrets that people choose: their hash in the audit trail would allow guessing them."""

log = structlog.get_logger(__name__)


class FileReloads:
    """Counts and records reloads of files; one for each process, shared by its files."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._total = Counter(
            "penstock_file_reloads_total",
            "Reloads of a watched file that changed; a failed one leaves the previous version in effect",
            ("file_kind", "outcome"),
            registry=registry,
        )
        self.record: Callable[[AuditEvent], None] = lambda _event: None
        """Appends to the audit trail; set when there is one."""
        self.on_loaded: Callable[[str], None] = lambda _file_kind: None
        """Called with the kind of each file that was loaded."""

    def watch(self, file_kind: str) -> None:
        """Start both counts of a kind at 0, so that the first failure is an increase."""
        for outcome in (LOADED, FAILED):
            self._total.labels(file_kind, outcome)

    def report(
        self,
        path: Path,
        file_kind: str,
        digest: bytes | None,
        error: str | None = None,
        about: Mapping[str, str] | None = None,
    ) -> None:
        """Count and record that a changed file was loaded, or with `error` was not.

        `digest`: SHA-256 of the file, if it could be read. `about`: further settings of the audit record.
        """
        outcome = LOADED if error is None else FAILED
        self._total.labels(file_kind, outcome).inc()
        settings = {"file": str(path), "file.kind": file_kind, "outcome": outcome, **(about or {})}
        if digest is not None and file_kind not in GUESSABLE:
            settings["file.sha256"] = digest.hex()
        self.record(events.configuration_changed(settings=settings, message=error))
        if error is None:
            self.on_loaded(file_kind)


@dataclass(frozen=True, slots=True)
class _Mark:
    """The state of a directory entry; if it differs, the content may have changed."""

    inode: tuple[int, int]
    size: int
    written_at_ns: int
    changed_at_ns: int


class WatchedFile:
    """Passes a file's content to `on_change` at the start and after each change."""

    def __init__(
        self,
        path: Path,
        file_kind: str,
        on_change: Callable[[bytes], None],
        reloads: FileReloads,
        interval_ms: int = INTERVAL_MS,
    ) -> None:
        """`file_kind` ("users", "acls") is the label in the metric."""
        self.path = path
        self._file_kind = file_kind
        self._on_change = on_change
        self._reloads = reloads
        self._interval_ms = interval_ms
        self._looked_at: _Mark | None = None
        self._growing: _Mark | None = None
        self._digest: bytes | None = None
        self._logged_error: str | None = None
        reloads.watch(file_kind)

    def load(self) -> None:
        """Read the file now. Errors of reading and of the reader are raised."""
        self._looked_at = _mark(self.path)
        content = _content(self.path)
        self._on_change(content)
        self._digest = _digest(content)

    async def run(self) -> None:
        """Check the file at each interval, until cancelled. A thread reads, because disks may be slow."""
        while True:
            await asyncio.sleep(self._interval_ms / 1000)
            self._apply(await asyncio.to_thread(self._found))

    def look(self) -> None:
        """Check the file once."""
        self._apply(self._found())

    def _found(self) -> bytes | OSError | None:
        """As `_changed`; the error if the file cannot be read."""
        try:
            return self._changed()
        except OSError as error:
            return error

    def _changed(self) -> bytes | None:
        """Return the content if it has changed since the last look and is complete. OSError if unreadable.

        A file put in place by a rename is complete. One that is written in place may be half written, and
        half a file of users is a valid file of fewer users: wait until two looks agree.
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

    def _apply(self, content: bytes | OSError | None) -> None:
        if content is None:
            return
        if isinstance(content, OSError):
            # The file is looked for at each interval, and the error is logged once.
            if str(content) != self._logged_error:
                self._logged_error = str(content)
                self._failed(str(content), None)
            return
        self._logged_error = None
        digest = _digest(content)
        if digest == self._digest:
            return
        self._digest = digest
        try:
            self._on_change(content)
        except Exception as error:  # noqa: BLE001 - after any error the previous version stays in effect
            self._failed(text_of(error), digest)
            return
        self._reloads.report(self.path, self._file_kind, digest)
        log.info("file loaded", file=str(self.path), file_kind=self._file_kind, bytes=len(content))

    def _failed(self, error: str, digest: bytes | None) -> None:
        self._reloads.report(self.path, self._file_kind, digest, error)
        log.warning(
            "Failed to reload file; keeping the previous version",
            file=str(self.path),
            file_kind=self._file_kind,
            error=error,
        )


def _mark(path: Path) -> _Mark:
    # Links are followed: a Kubernetes volume changes the target of a link.
    entry = os.stat(path)
    return _Mark((entry.st_dev, entry.st_ino), entry.st_size, entry.st_mtime_ns, entry.st_ctime_ns)


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(f"{path}: more than {MAX_BYTES} bytes")
    return content


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
