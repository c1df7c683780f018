"""The lock on a spool directory: for one process, or one supervisor and its workers.

proxy.app, forwarding and proxy.workers take it before they open a spool, and hold it until the process
ends. The kernel releases a flock with the last process that has the open file, so a killed process leaves no
stale lock. The file names its holder, for the error message of a second process.
"""

import fcntl
import json
import os
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from proxy.net.audit.spool_files import SpoolError, make_directory
from proxy.net.audit.spool_loss import identity_of

LOCK = "lock"
_MAX_HOLDER_BYTES = 4_096


class SpoolLocked(SpoolError):
    """Another process holds the directory's lock."""

    def __init__(self, directory: Path, holder: "Holder | None") -> None:
        self.holder = holder
        who = "another process" if holder is None else holder.description()
        super().__init__(
            f"audit.spool.dir: {directory} is in use by {who}; two processes on one spool destroy each "
            "other's records: give each an audit.spool.dir of its own, or stop the other one first"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that holds the lock."""

    role: str
    proxy_id: str
    boot_id: str | None
    """None for a supervisor, which writes no records."""
    pid: int
    host: str

    @classmethod
    def this_process(cls, role: str, proxy_id: str, boot_id: str | None = None) -> "Holder":
        return cls(role=role, proxy_id=proxy_id, boot_id=boot_id, pid=os.getpid(), host=socket.gethostname())

    def description(self) -> str:
        boot = "" if self.boot_id is None else f", boot {self.boot_id}"
        return f"{self.role} {self.proxy_id} (pid {self.pid} on host {self.host}{boot})"

    def has_ended(self) -> bool:
        """Return whether only processes that inherited the lock hold it: workers of a killed supervisor."""
        if self.host != socket.gethostname():
            return False
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return True
        return state.rpartition(")")[2].split()[:1] == ["Z"]


class SpoolLock:
    """The lock on one directory; not held before `take`."""

    def __init__(self, directory: Path) -> None:
        """Create the directory if it is missing. SpoolError when it cannot be used."""
        self._path = directory / LOCK
        self._holder: Holder | None = None
        try:
            make_directory(directory)
            self.file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SpoolError(f"{self._path}: {error.strerror}") from error

    def take(self, holder: Holder) -> "SpoolLock":
        """Take the lock. SpoolLocked when another process holds it."""
        try:
            # The lock belongs to the open file: a process that inherits the descriptor holds it too.
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SpoolLocked(self._path.parent, _holder(self.file)) from None
        except OSError as error:
            raise SpoolError(f"{self._path}: {error.strerror}") from error
        self._holder = holder
        # The lock is what counts: without the text an error message lacks a name.
        with suppress(OSError):
            os.ftruncate(self.file, 0)
            os.pwrite(self.file, json.dumps(asdict(holder)).encode() + b"\n", 0)
        return self

    def renew(self) -> None:
        """Take the lock again if its file was removed. SpoolLocked when another process was faster.

        The descriptor stays the same, for the processes that inherit it.
        """
        if self._holder is None or self._is_in_place():
            return
        try:
            again = SpoolLock(self._path.parent)
        except SpoolError:
            return  # The directory is gone: there is nothing to lock.
        try:
            again.take(self._holder)
            os.dup2(again.file, self.file, inheritable=False)
        finally:
            again.close()

    def close(self) -> None:
        os.close(self.file)

    def _is_in_place(self) -> bool:
        try:
            return identity_of(self._path) == identity_of(self.file)
        except OSError:
            return False


def lock_spool(directory: Path, holder: Holder) -> SpoolLock:
    """Take the lock and hold it from now on. SpoolLocked, SpoolError."""
    lock = SpoolLock(directory)
    try:
        return lock.take(holder)
    except SpoolError:
        lock.close()
        raise


def holder_of(directory: Path) -> Holder | None:
    """Return the lock's holder; None if there is none, or if it may not be read."""
    locked = _locked(directory)
    return None if locked is None else locked.holder


def last_holder(directory: Path) -> Holder | None:
    """Return the lock's holder, or its last one; None if it was never held, or if it may not be read."""
    try:
        file = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _holder(file)
    finally:
        os.close(file)


def locked_by_another(directory: Path) -> str | None:
    """Return why a process could not take the lock now; None if it could. Changes nothing."""
    locked = _locked(directory)
    return None if locked is None else str(locked)


def _locked(directory: Path) -> SpoolLocked | None:
    try:
        file = os.open(directory / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None  # It was never locked, or may not be read.
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return SpoolLocked(directory, _holder(file))
    except OSError:
        return None
    finally:
        os.close(file)
    return None


def _holder(file: int) -> Holder | None:
    try:
        return Holder(**json.loads(os.pread(file, _MAX_HOLDER_BYTES, 0)))
    except (OSError, ValueError, TypeError):
        return None
