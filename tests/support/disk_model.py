"""What a disk may hold after a process was killed or the machine went down, at any point of what it did.

A trace of tests.support.disk_faults in; directories to try out. After a kill all that was done is there, of
the write under way any part of it. After a power loss names are there as of the last fsync of their
directory, and of what was named, renamed and removed since then any beginning (a journal keeps that order);
of bytes that no fsync has carried to the disk there may be none, some, all, or zeros in their place.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Files = dict[str, bytes]
"""Path -> what is in it."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was done; `data` of a rename is its new name."""

    op: str
    path: str
    number: int
    data: bytes


def read_trace(trace: Path) -> list[Change]:
    raw, position, changes = trace.read_bytes(), 0, []

    def word() -> bytes:
        nonlocal position
        end = raw.index(b" ", position)
        found, position = raw[position:end], end + 1
        return found

    def piece(size: int) -> bytes:
        nonlocal position
        found, position = raw[position : position + size], position + size + 1
        return found

    while position < len(raw):
        op = word().decode()
        path, number = piece(int(word())).decode(), int(word())
        changes.append(Change(op, path, number, piece(int(word()))))
    return changes


@dataclass(slots=True)
class _File:
    data: bytearray = field(default_factory=bytearray)
    safe: bytes = b""
    """What was there at its last fsync."""
    lost: list[tuple[int, int]] = field(default_factory=list)
    """What the kernel could not write, and holds for written: from, to."""

    def synced(self) -> None:
        data = bytearray(self.data)
        for begin, end in self.lost:
            data[begin:end] = bytes(end - begin)
        self.safe = bytes(data)

    def not_synced(self) -> None:
        self.lost.append((len(self.safe), len(self.data)))

    def written_again(self, begin: int, end: int) -> None:
        """To be written once more, so the next fsync tells the truth about it."""
        self.lost = [(a, b) for a, b in self.lost if not (begin <= a and b <= end)]

    def after_power_loss(self) -> Iterator[bytes]:
        data, size = self.safe + bytes(self.data[len(self.safe) :]), len(self.safe)
        yield data
        for part in sorted({0, 1, (len(data) - size) // 2, len(data) - size - 1}):
            yield data[: size + max(part, 0)]
        yield data[:size] + bytes(len(data) - size)


class Disk:
    """Changes are `done` one after the other."""

    def __init__(self) -> None:
        self._names: dict[str, _File] = {}
        self._safe_names: dict[str, _File] = {}
        self._pending: list[Change] = []
        self._made: dict[int, _File] = {}

    def done(self, change: Change) -> None:
        if change.op in ("create", "rename", "unlink"):
            if change.op == "create":
                self._made[id(change)] = _File()
            self._pending.append(change)
            self._rename(self._names, change)
        elif change.op == "fsync" and change.path not in self._names:
            self._safe_names, self._pending = dict(self._names), []
        elif change.op == "fsync":
            self._names[change.path].synced()
        elif change.op == "fsync-failed":
            self._names[change.path].not_synced()
        elif change.op != "mkdir":
            self._write(self._names[change.path], change)

    def after_kill(self) -> Files:
        return {path: bytes(file.data) for path, file in self._names.items()}

    def after_power_loss(self) -> Iterator[Files]:
        for count in range(len(self._pending) + 1):
            names = dict(self._safe_names)
            for change in self._pending[:count]:
                self._rename(names, change)
            # The same is done to all files: what is told apart here are the lines of one of them.
            states = {path: list(file.after_power_loss()) for path, file in names.items()}
            for turn in range(max(map(len, states.values()), default=1)):
                yield {path: found[turn % len(found)] for path, found in states.items()}

    def _rename(self, names: dict[str, _File], change: Change) -> None:
        if change.op == "create":
            names[change.path] = self._made[id(change)]
        elif change.op == "rename" and change.path in names:
            names[change.data.decode()] = names.pop(change.path)
        elif change.op == "unlink":
            names.pop(change.path, None)

    @staticmethod
    def _write(file: _File, change: Change) -> None:
        if change.op == "write":
            file.data += change.data
        elif change.op == "pwrite":
            end = change.number + len(change.data)
            file.data[change.number : end] = change.data
            file.written_again(change.number, end)
        elif change.op == "truncate":
            del file.data[change.number :]
        else:
            raise ValueError(f"{change.op} is not in the model")
