"""Spark reads the audit topic and the metadata log into tables, reconciles the two and writes the report.

Kafka gives its own metadata log to no consumer: where it is followed, only the trail is looked through.
"""

import json
import sys
from pathlib import Path

from proxy.demo import trail
from proxy.demo.run import run
from proxy.demo.stage import NotShown, Stage, last_lines

TIMEOUT_MS = 300_000


def report_of(directory: Path) -> Path:
    return directory / "report" / "report.html"


def reconcile(stage: Stage) -> str:
    stack = stage.stack
    log = stack.logs / "spark.log"
    arguments = ["--bootstrap", stack.broker.plaintext, "--tables", str(stack.directory / "tables")]
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
    judged = sum(summary["decisions"].values())
    return (
        f"{summary['records']} audit records and {summary['metadata_records']} of the metadata log,"
        f" {judged} decisions evaluated again, no findings"
    )


def look_through(stage: Stage) -> str:
    """Without a log that Spark could compare it with: the trail by itself, record after record."""
    facts = trail.everything(stage.stack.broker.plaintext)
    seen: dict[tuple[str, str], list[int]] = {}
    for fact in facts:
        seen.setdefault((fact["proxy_id"], fact["boot_id"]), []).append(fact["sequence"])
    for (proxy_id, _), numbers in seen.items():
        if sorted(set(numbers)) != list(range(min(numbers), max(numbers) + 1)):
            raise NotShown(f"the sequence of {proxy_id} has gaps: {sorted(set(numbers))}")
    modes = {fact["settings"]["controller.mode"] for fact in facts if fact["event"] == "started"}
    if modes != {"kraft"}:
        raise NotShown(f"the proxies say that they run with the controllers {sorted(modes)}")
    changes = sum(fact["event"] == "forwarded" for fact in facts)
    return f"{len(facts)} audit records without a gap, {changes} of requests that Kafka's controller took"
