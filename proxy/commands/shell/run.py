"""The command `penstock shell`: ls, cat, find or tree on one image of a log.

proxy.__main__ runs it. Results go to standard output, errors and notes about the log to standard error.
"""

import argparse
import json
import sys

from proxy.commands.shell.source import LogError, UsageError, find
from proxy.commands.shell.walk import NothingThere, answer, answer_json
from proxy.config import ConfigError
from proxy.metadata.tree import tree_of
from proxy.net.files.tls import TlsError

EXIT_NOTHING, EXIT_USAGE, EXIT_LOG = 1, 2, 3


def run_shell(arguments: argparse.Namespace) -> int:
    """Return the exit code. 0: success; 1: nothing found; 2: invalid arguments; 3: unreadable log."""
    try:
        found = find(arguments.log, arguments.config, arguments.offset, unsigned=arguments.unsigned)
    except (ConfigError, UsageError, TlsError) as error:
        return _failed(error, EXIT_USAGE)
    except LogError as error:
        return _failed(error, EXIT_LOG)
    except TimeoutError:
        return _failed(f"no response in time from the log that --log {arguments.log} names", EXIT_LOG)
    for note in found.notes:
        sys.stderr.write(f"penstock shell: note: {note}\n")
    question = tree_of(found.image), arguments.action, arguments.path, arguments.pattern
    try:
        if arguments.json:
            found_json = answer_json(*question)
            lines = [json.dumps({"offset": found.image.offset} | found_json, ensure_ascii=False)]
        else:
            lines = answer(*question)
    except NothingThere as error:
        return _failed(error, EXIT_NOTHING)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


def _failed(error: object, exit_code: int) -> int:
    sys.stderr.write(f"penstock shell: {error}\n")
    return exit_code
