"""One chaos run: a stack under load, kills, the end, and what the tables hold then."""

import json
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from proxy.demo import probe
from proxy.demo.errors import SetupError
from proxy.demo.run import run
from proxy.demo.stack import Stack, StackSettings
from tests.chaos.judging import faults
from tests.chaos.killing import Killing
from tests.chaos.load import Ledger, load
from tests.support.cluster_admin import ClusterAdmin

SETTLE_S = 60
READ_MS = 600_000


@dataclass(frozen=True, slots=True)
class Outcome:
    faults: list[str]
    ledger: Ledger
    kills: list[str]
    records: int


def run_chaos(directory: Path, libs: Path, kill: Callable[[Killing], None], seed: int = 1) -> Outcome:
    """`kill` does the damage, while clients are at work."""
    stack = Stack(StackSettings(directory=directory, libs=libs))
    ledger, tables = Ledger(), directory / "tables"
    try:
        stack.start()
        stack.create_users("alice", "bob")
        killing = Killing(stack, ledger, tables, seed)
        with load(stack, ClusterAdmin(stack), ledger):
            kill(killing)
        _settle(stack, killing)
        stack.proxy.stop()
        stack.controller.stop()
        document = _tables(stack, tables)
    finally:
        stack.stop()
    told = {"ledger": asdict(ledger), "counters": [asdict(boot) for boot in killing.boots]}
    (directory / "told.json").write_text(json.dumps(told), encoding="utf-8")
    found = faults(document, ledger, killing.boots)
    return Outcome(found, ledger, killing.done, len(document["audit"]))


def _settle(stack: Stack, killing: Killing) -> None:
    """Until both processes have shipped what they have; their last counters."""
    for _ in range(SETTLE_S * 2):
        counters = killing.read_counters()
        controller = probe.series(stack.wiring.controller_http)["penstock_audit_unshipped_records"]
        if not counters.unshipped and not controller:
            return
        threading.Event().wait(0.5)  # What other processes do has no event.
    raise SetupError(
        f"not shipped: {counters.unshipped} records of the proxy, {controller:.0f} of the controller"
    )


def _tables(stack: Stack, tables: Path) -> dict[str, Any]:
    out = tables.parent / "table.json"
    command = [sys.executable, "-m", "tests.chaos.table", stack.broker.plaintext, str(tables), str(out)]
    done = run(command, timeout_ms=READ_MS, directory=stack.checkout)
    if done.returncode != 0:
        raise SetupError(done.stdout + done.stderr)
    document: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return document
