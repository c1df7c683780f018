"""Spark reads the audit topic and the metadata log into tables, reconciles the two and writes the report.

Kafka gives its own metadata log to no consumer: where that is followed, it is read from a broker's directory.
"""

import json
import sys
from pathlib import Path

from tests.lab.cluster.run import run
from tests.lab.demo.stage import NotShown, Stage, last_lines

TIMEOUT_MS = 600_000


def report_of(directory: Path) -> Path:
    return directory / "report" / "report.html"


def reconcile(stage: Stage) -> str:
    stack = stage.stack
    log = stack.logs / "spark.log"
    arguments = ["--bootstrap", stack.broker.plaintext, "--tables", str(stack.directory / "tables")]
    if stack.kraft:
        arguments += ["--kraft-log-dir", str(stack.broker.metadata_log)]
    else:
        # Each proxy has them.
        arguments += ["--public-keys", str(next(stack.directory.glob("*/controllers.pub")))]
    out = report_of(stack.directory).parent
    command = [sys.executable, "-m", "spark_audit", "run", *arguments, "--out", str(out)]
    done = run(command, timeout_ms=TIMEOUT_MS, directory=stack.checkout)
    log.write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode not in (0, 1):
        raise NotShown(
            f"Spark ended with code {done.returncode}: {last_lines(done.stdout + done.stderr)} ({log})"
        )
    document = json.loads((out / "findings.json").read_text(encoding="utf-8"))
    findings, summary = document["findings"], document["summary"]
    if findings:
        first = findings[0]
        raise NotShown(
            f"{len(findings)} findings, the first: {first['check']}: {first['explanation']} ({out})"
        )
    if not stack.kraft and not summary["signatures"].startswith("verified"):
        raise NotShown(f"the metadata log is {summary['signatures']} ({out})")
    judged = sum(summary["decisions"].values())
    return (
        f"{summary['records']} audit records and {summary['metadata_records']} of the metadata log,"
        f" {judged} decisions evaluated again, no findings"
    )
