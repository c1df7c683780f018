"""Prometheus' own rule parser and PromQL engine, as a program that Go builds once into the user's cache.

The source is tests/contract/alert_rules; a change there builds it anew. `evaluate` asks it what fires when,
`ranges` for the lines of expressions over scraped samples.
"""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.lab.cluster.errors import SetupError
from tests.support.go_program import GoProgram

ENGINE = GoProgram("alert-rules", "alert_rules", "Prometheus' engine")


def evaluate(program: Path, rules: Path, cases: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """`cases`: name -> series in the notation of `promtool test rules`, and the time to look at.

    Returns `errors`, what Prometheus would not load, and `firing`: case -> alerts with their labels.
    """
    question = {
        "rules": str(rules),
        "cases": [{"name": name, "series": series, "at": at} for name, (series, at) in cases.items()],
    }
    answer: dict[str, Any] = _asked(program, question)
    return answer


def ranges(
    program: Path, samples: Path, queries: Mapping[str, str], *, start_ms: int, end_ms: int, step_ms: int
) -> dict[str, list[dict[str, Any]]]:
    """Name of each query -> its lines: `labels`, and `points` of milliseconds and value.

    `samples`: a file of series as tests.lab.pictures.scraped writes them.
    """
    question = {
        "samples": str(samples),
        "queries": dict(queries),
        "start": start_ms,
        "end": end_ms,
        "step": step_ms,
    }
    answer: dict[str, list[dict[str, Any]]] = _asked(program, {"ranges": question})
    return answer


def _asked(program: Path, question: Mapping[str, Any]) -> Any:
    done = subprocess.run(
        [str(program)], input=json.dumps(question), check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise SetupError(done.stderr)
    return json.loads(done.stdout)
