"""One soak: the stack under varied load for a while, ingests in between, and no finding at the end."""

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.lab.bench.process_cost import resident_kib
from tests.lab.chaos.counted import Counted
from tests.lab.chaos.judging import of_a_calm_time
from tests.lab.chaos.running import read_tables
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.run import run
from tests.lab.soak import place as P
from tests.lab.soak.admins import ADMINISTRATION
from tests.lab.soak.clients import DATA
from tests.lab.soak.place import Place, a_place
from tests.lab.soak.processes import Processes
from tests.lab.soak.refused import REFUSED
from tests.lab.soak.seen import missing
from tests.lab.soak.working import Work, Working

INGEST_MS = 900_000
SETTLE_S = 90
PAUSE_S = 1.0


@dataclass(slots=True)
class Outcome:
    faults: list[str] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)
    """Records in the table, by event."""
    readings: int = 0
    counted: int = 0
    """Requests of the client that is compared to the byte."""
    restarts: int = 0
    ingests: int = 0


def soak(directory: Path, libs: Path, minutes: float, seed: int, say: Callable[[str], None]) -> Outcome:
    """`say` hears what is done, as it is done."""
    tables, counted = directory / "tables", Counted()
    outcome = Outcome()
    with a_place(directory, libs, seed) as place:
        processes = Processes(place)
        working = Working(place, [*DATA, *ADMINISTRATION, *REFUSED, _counting(counted)])
        working.start()
        processes.watch.start()
        _disturb(place, processes, tables, minutes, outcome, say)
        working.end()
        processes.watch.settle(SETTLE_S)
        processes.watch.stop()
        outcome.faults += [*working.faults, *processes.watch.faults, *processes.watch.dropped]
        outcome.faults += _reconciled(place, tables, say)
        document = read_tables(place.stack, place.stack.broker.plaintext, str(tables))
    told = {"asked": [asdict(one) for one in counted.asked]}
    told["readings"] = [asdict(reading) for reading in processes.watch.readings]
    (directory / "told.json").write_text(json.dumps(told), encoding="utf-8")
    outcome.events = dict(Counter(row["event"] for row in document["audit"]))
    outcome.readings = len(told["readings"])
    outcome.counted = len(counted.asked)
    watch = processes.watch
    outcome.faults += [f"there was no {what}" for what in missing(document["audit"])]
    outcome.faults += of_a_calm_time(document, watch.readings, watch.starts, "proxy-1", counted.asked)
    return outcome


def _counting(counted: Counted) -> Work:
    def count(place: Place, over: threading.Event) -> None:
        counted.work(place.first.endpoint(place.stack.users["counted"]), P.COUNTED, over, PAUSE_S)

    return count


def _disturb(
    place: Place,
    processes: Processes,
    tables: Path,
    minutes: float,
    outcome: Outcome,
    say: Callable[[str], None],
) -> None:
    """At each tenth of the time one process is started anew, or what is there is ingested."""
    first, second = processes.proxies
    acts = [second, None, processes.controller, first, None, second, processes.controller, None, first]
    for act in acts:
        threading.Event().wait(minutes * 6)
        say(_memory(processes))
        if act is None:
            say(_ingest(place, tables))
            outcome.ingests += 1
        else:
            act.restart()
            outcome.restarts += 1
            say(f"{act.name} started anew")
    threading.Event().wait(minutes * 6)
    say(_memory(processes))


def _memory(processes: Processes) -> str:
    all_of_them = (*processes.proxies, processes.controller)
    return "resident: " + ", ".join(
        f"{each.name} {resident_kib(each.process.pid)} KiB" for each in all_of_them
    )


def _ingest(place: Place, tables: Path) -> str:
    done = _spark(place, "ingest", tables)
    if done.returncode != 0:
        raise SetupError(done.stdout + done.stderr)
    return str(done.stdout).strip()


def _reconciled(place: Place, tables: Path, say: Callable[[str], None]) -> Iterator[str]:
    """What an operator would run at the end of the day, and its exit code."""
    done = _spark(place, "run", tables, "--out", str(tables.parent / "report"))
    say(done.stdout.strip())
    if done.returncode != 0:
        yield f"`penstock audit run` ended with {done.returncode}: {done.stderr[-2000:]}"


def _spark(place: Place, command: str, tables: Path, *more: str) -> Any:
    where = ["--bootstrap", place.stack.broker.plaintext, "--tables", str(tables), "--master", "local[1]"]
    return run(
        [sys.executable, "-m", "spark_audit", command, *where, *more],
        timeout_ms=INGEST_MS,
        directory=place.stack.checkout,
    )
