"""What a command prints: proxy.__main__ calls `printed` around each command that does not serve.

A failure of standard output is no OSError here, because a command would take that for a failure of its own
work: `apply` would say that nothing was changed. The results of `export` and of `audit` may be long, and are
written as they come.
"""

import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from typing import TextIO

from proxy.error_text import text_of

EXIT_FAILED, EXIT_NOT_PRINTED, EXIT_INTERRUPTED = 2, 120, 130
"""An error that no command expects; and codes that no command gives its outcome: not all was printed (as from
Python itself), and Ctrl-C (as in a shell)."""


class NotPrinted(Exception):
    """Standard output does not take what a command prints; the message says why."""


class _Output:
    """Standard output. NotPrinted if it fails."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        try:
            return self._file.write(text)
        except UnicodeEncodeError as error:
            raise NotPrinted(
                f"its encoding is {error.encoding}, which lacks {text[error.start : error.end]!a};"
                " set LC_ALL=C.UTF-8"
            ) from error
        except OSError as error:
            raise NotPrinted(error.strerror) from error

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError as error:
            raise NotPrinted(error.strerror) from error


def printed(name: str, command: Callable[[], int]) -> int:
    """Run a command and return its exit code. Whatever goes wrong is one sentence on standard error."""
    if sys.stdout is None:  # Closed when the process was started.
        return command()
    output = _Output(sys.stdout)
    try:
        with redirect_stdout(output):
            try:
                return command()
            finally:
                output.flush()
    except NotPrinted as error:
        # What is left in the buffer would fail once more when the interpreter ends.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error.__cause__, BrokenPipeError):  # The reader, such as head, has enough.
            _say(name, f"not all was printed: standard output: {error}")
        return EXIT_NOT_PRINTED
    except KeyboardInterrupt as error:
        _say(name, ": ".join(("interrupted", *map(str, error.args))))
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - exit code 1 would be an outcome, such as differences
        _say(name, f"unexpected {type(error).__name__}: {' '.join(text_of(error).split())}")
        return EXIT_FAILED


def _say(name: str, text: str) -> None:
    sys.stderr.write(f"penstock {name}: {text}\n")
