"""The command `penstock shell`: one command, or an interactive session, on one image of a log.

proxy.__main__ runs it. Results go to standard output, errors and notes about the log to standard error.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from proxy.config import ConfigError
from proxy.metadata.tree import tree_of
from proxy.net.files.tls import TlsError
from proxy.shell.prompt import Prompt
from proxy.shell.source import TOPIC, Found, LogError, UsageError, find
from proxy.shell.walk import NothingThere, answer, answer_json

EXIT_NOTHING, EXIT_USAGE, EXIT_LOG = 1, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The arguments of the command line. Without `command` the shell is interactive."""

    log: str = TOPIC
    config: Path | None = None
    offset: int | None = None
    command: str | None = None
    path: str = "/"
    pattern: str | None = None
    as_json: bool = False


def run_shell(question: Question) -> int:
    """Returns the exit code. 0: success; 1: nothing found; 2: invalid arguments; 3: unreadable log."""
    try:
        found = find(question.log, question.config, question.offset)
    except (ConfigError, UsageError, TlsError) as error:
        return _failed(error, EXIT_USAGE)
    except LogError as error:
        return _failed(error, EXIT_LOG)
    except TimeoutError:
        return _failed(f"no response in time from the log that --log {question.log} names", EXIT_LOG)
    for note in found.notes:
        sys.stderr.write(f"penstock shell: note: {note}\n")
    return _session(found, question.as_json) if question.command is None else _once(found, question)


def _once(found: Found, question: Question) -> int:
    root, command = tree_of(found.image), question.command or ""
    try:
        if question.as_json:
            found_json = answer_json(root, command, question.path, question.pattern)
            lines = [json.dumps({"offset": found.image.offset} | found_json, ensure_ascii=False)]
        else:
            lines = answer(root, command, question.path, question.pattern)
    except NothingThere as error:
        return _failed(error, EXIT_NOTHING)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


def _session(found: Found, as_json: bool) -> int:
    root = tree_of(found.image)
    prompt = Prompt(root, found.image.offset, as_json=as_json, stdin=sys.stdin, stdout=sys.stdout)
    try:
        prompt.cmdloop()
    except KeyboardInterrupt:
        sys.stdout.write("\n")
    return prompt.exit_code


def _failed(error: object, exit_code: int) -> int:
    sys.stderr.write(f"penstock shell: {error}\n")
    return exit_code
