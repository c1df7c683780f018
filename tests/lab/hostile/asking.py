"""Reads the slices of a process that measures its event loop (`slices`), by its process id."""

import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.hostile.slices import TAKE

TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Longest:
    """The callback that held the loop longest, and the longest turn of many callbacks."""

    ms: float = 0.0
    name: str = "nothing"
    turn_ms: float = 0.0
    cyclic: int = 0
    """Objects that only the garbage collector could free."""


def take(directory: Path, pid: int) -> Longest:
    """What was measured since the last `take`; one that still runs counts as far as it has come."""
    told = _told(directory / f"{pid}.sock")
    slices: list[dict[str, Any]] = [*told["longest"], *([told["running"]] if told["running"] else [])]
    longest = max([{"ms": 0.0, "name": "nothing"}, *slices], key=lambda each: float(each["ms"]))
    return Longest(longest["ms"], longest["name"], told["longest_turn_ms"], told["cyclic"])


def measured(directory: Path) -> list[int]:
    """The process ids of all that have measured here, whether they still run or not."""
    return sorted(int(path.stem) for path in directory.glob("*.sock"))


def _told(path: Path) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(TIMEOUT_S)
        asking.connect(str(path))
        asking.sendall(TAKE)
        parts = []
        while part := asking.recv(65_536):
            parts.append(part)
    told: dict[str, Any] = json.loads(b"".join(parts))
    return told
