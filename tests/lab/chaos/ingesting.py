"""Ingests that are killed, one after the other, at any moment of their lives.

Of as many as there is time for, a third are killed after a while that nobody can foresee, a third as soon
as they have begun a batch or have written to a table, and a third are left to come to their end, unless it
is over before. A short run names the one fate that it is about, and has it however often no broker is there.
"""

import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

from spark_audit.tables.delta import AUDIT_STREAM, METADATA_STREAM, Tables
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.process import ChildProcess

ANY_MOMENT, WHEN_IT_WRITES, NEVER = "any moment", "when it writes", "never"
FIRST_WRITE = "at its first write"
LIFE_S = 40.0
LATE_S = 1_200
"""So late an ingest may write first, on a machine that is busy with everything else."""
LOOK_S = 0.02
END_MS = 10_000
AWAY = "no Kafka broker is reachable"
"""What an ingest says while every broker is dead: it has to be begun again, and is."""


class Ingesting:
    """`killed`: how many in which phase; `ended`: came to their end; `turned_away`: found no broker alive."""

    def __init__(
        self, process: ChildProcess, tables: Path, seed: int, fates: Iterable[str] | None = None
    ) -> None:
        self.killed: Counter[str] = Counter()
        self.ended = 0
        self.turned_away = 0
        self.faults: list[str] = []
        self._process = process
        self._places = Tables(str(tables))
        self._random = Random(f"{seed}/ingest")
        self._fates = self._at_random() if fates is None else fates
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Until each fate that was named has come, or so long."""
        self._thread.join(seconds)

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def kill(self) -> None:
        """With all of its processes: its JVM must not go on writing when the next one begins."""
        with suppress(ProcessLookupError, SetupError):
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(END_MS)

    def _run(self) -> None:
        for fate in self._fates:
            while not self._over.is_set() and not self._lived(fate):
                pass

    def _lived(self, fate: str) -> bool:
        """False when it was turned away."""
        before = self._written()
        self._process.start()
        self._live(fate, before)
        if self._process.returncode is None:
            self.killed[_phase(before, self._written())] += 1
            self.kill()
        elif self._process.returncode == 0:
            self.ended += 1
        elif self._process.returncode == 2 and AWAY in self._last_words():
            self.turned_away += 1
            return False
        else:
            self.faults.append(f"an ingest ended with {self._process.returncode}: {self._last_words()}")
        return True

    def _at_random(self) -> Iterator[str]:
        while not self._over.is_set():
            yield self._random.choice((ANY_MOMENT, WHEN_IT_WRITES, NEVER))

    def _live(self, fate: str, before: Counter[str]) -> None:
        """Until it is to be killed, or has come to its end."""
        match fate:
            case "at its first write":
                self._wait(LATE_S, before, True)
            case "any moment":
                self._wait(self._random.uniform(0, LIFE_S), before, False)
            case "when it writes":
                self._wait(LIFE_S * 10, before, True)
                self._wait(self._random.choice((0, 0.1, 0.5, 2)), before, False)
            case _:
                self._wait(LIFE_S * 10, before, False)

    def _wait(self, seconds: float, before: Counter[str], until_it_writes: bool) -> None:
        for _ in range(int(seconds / LOOK_S)):
            if self._over.wait(LOOK_S) or self._process.returncode is not None:
                return
            if until_it_writes and self._written() != before:
                return

    def _written(self) -> Counter[str]:
        """How many files there are that tell of batches begun, written and done."""
        offsets = [Path(self._places.checkpoint(name)) for name in (AUDIT_STREAM, METADATA_STREAM)]
        logs = (Path(self._places.audit), Path(self._places.metadata_log))
        return Counter(
            {
                "begun": sum(_files(path / "offsets") for path in offsets),
                # Version 0 is the table made, with nothing in it.
                "written": sum(_files(path / "_delta_log", least=1) for path in logs),
                "done": sum(_files(path / "commits") for path in offsets),
            }
        )

    def _last_words(self) -> str:
        return " / ".join(self._process.log_text().strip().splitlines()[-3:])


def _files(directory: Path, least: int = 0) -> int:
    """How many that are named by a number from that one on; others are checksums and half-written ones."""
    with suppress(FileNotFoundError):
        stems = (path.name.removesuffix(".json") for path in directory.iterdir())
        return sum(stem.isdecimal() and int(stem) >= least for stem in stems)
    return 0


def _phase(before: Counter[str], after: Counter[str]) -> str:
    begun, written, done = (after[what] - before[what] for what in ("begun", "written", "done"))
    if not begun and not written:
        return "before its first batch"
    if begun > done:
        return "between the table and the checkpoint" if written >= begun else "within a batch"
    return "between batches"


def ingest_process(bootstrap: str, tables: Path, log: Path, checkout: Path) -> ChildProcess:
    command = ["ingest", "--bootstrap", bootstrap, "--tables", str(tables), "--master", "local[1]"]
    return ChildProcess(
        "ingest", [sys.executable, "-m", "spark_audit", *command], log, {"PYTHONPATH": str(checkout)}
    )
