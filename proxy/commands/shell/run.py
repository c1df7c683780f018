"""The command `penstock shell`: ls, cat, find or tree on one image of a log.

proxy.__main__ runs it. Results go to standard output, errors and notes about the log to standard error.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from proxy.commands.shell.source import TOPIC, LogError, UsageError, find
from proxy.commands.shell.walk import NothingThere, answer, answer_json
from proxy.config import ConfigError
from proxy.metadata.tree import tree_of
from proxy.net.files.tls import TlsError

EXIT_NOTHING, EXIT_USAGE, EXIT_LOG = 1, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The arguments of the command line."""

    command: str
    log: str = TOPIC
    config: Path | None = None
    offset: int | None = None
    path: str = "/"
    pattern: str | None = None
    as_json: bool = False
    unsigned: bool = False


def run_shell(question: Question) -> int:
    """Returns the exit code. 0: success; 1: nothing found; 2: invalid arguments; 3: unreadable log."""
    try:
        found = find(question.log, question.config, question.offset, unsigned=question.unsigned)
    except (ConfigError, UsageError, TlsError) as error:
        return _failed(error, EXIT_USAGE)
    except LogError as error:
        return _failed(error, EXIT_LOG)
    except TimeoutError:
        return _failed(f"no response in time from the log that --log {question.log} names", EXIT_LOG)
    for note in found.notes:
        sys.stderr.write(f"penstock shell: note: {note}\n")
    root = tree_of(found.image)
    try:
        if question.as_json:
            found_json = answer_json(root, question.command, question.path, question.pattern)
            lines = [json.dumps({"offset": found.image.offset} | found_json, ensure_ascii=False)]
        else:
            lines = answer(root, question.command, question.path, question.pattern)
    except NothingThere as error:
        return _failed(error, EXIT_NOTHING)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


def _failed(error: object, exit_code: int) -> int:
    sys.stderr.write(f"penstock shell: {error}\n")
    return exit_code
