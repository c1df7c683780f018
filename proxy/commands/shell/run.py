"""The command `penstock shell`: one command, or an interactive session, on one image of a log.

proxy.__main__ runs it. Results go to standard output, errors and notes about the log to standard error. A
session has ls, cat, find, tree, cd, pwd and exit, with completion on a terminal. It reads standard input. If
that is a pipe there is no prompt. Its exit code is 1 if any line failed.
"""

import cmd
import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from proxy.commands.shell.source import TOPIC, Found, LogError, UsageError, find
from proxy.commands.shell.walk import NothingThere, answer, answer_json, completions
from proxy.config import ConfigError
from proxy.metadata.tree import TreeNode, parts, tree_of
from proxy.net.files.tls import TlsError

INTRO = "The metadata log as paths. Commands: ls, cat, find, tree, cd, pwd, exit, help."


class Prompt(cmd.Cmd):
    """An interactive session over one image."""

    def __init__(
        self, root: TreeNode, offset: int, *, as_json: bool, stdin: IO[str], stdout: IO[str]
    ) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self._root, self._offset, self._as_json = root, offset, as_json
        self._directory: tuple[str, ...] = ()
        self.exit_code = 0
        self._is_terminal = stdin.isatty()
        self.use_rawinput = self._is_terminal
        self._name_directory()
        if self._is_terminal:
            self.intro = f"{INTRO} Offset {offset}."
            _complete_paths()

    def do_ls(self, line: str) -> None:
        """ls [PATH]: list the names below a path."""
        self._answer("ls", line, 1)

    def do_cat(self, line: str) -> None:
        """cat PATH: print the value at a path, as JSON."""
        self._answer("cat", line, 1)

    def do_find(self, line: str) -> None:
        """find [PATH [PATTERN]]: list paths below a path; PATTERN matches the last name or a whole path."""
        self._answer("find", line, 2)

    def do_tree(self, line: str) -> None:
        """tree [PATH]: print all names below a path, indented."""
        self._answer("tree", line, 1)

    def do_cd(self, line: str) -> None:
        """cd [PATH]: change the directory that paths are relative to."""
        path = self._absolute(line.strip())
        node = self._root.below(path)
        if node is None or node.names() is None:
            self._fail(f"not a directory: {line.strip()}")
            return
        self._directory = path
        self._name_directory()

    def do_pwd(self, _line: str) -> None:
        """pwd: print the current directory."""
        self._say("/" + "/".join(self._directory))

    def do_exit(self, _line: str) -> bool:
        """exit: end the session."""
        return True

    do_quit = do_exit

    def do_EOF(self, _line: str) -> bool:
        """The end of input."""
        if self._is_terminal:
            self._say("")
        return True

    def emptyline(self) -> bool:
        return False

    def default(self, line: str) -> None:
        self._fail(f"unknown command: {line.split()[0]}; help lists the commands")

    def completedefault(self, text: str, *_ignored: object) -> list[str]:
        return completions(self._root, self._directory, text)

    def _answer(self, command: str, line: str, most: int) -> None:
        try:
            words = shlex.split(line)
            if len(words) > most:
                self._fail(f"{command}: too many arguments: {len(words)}, expected at most {most}")
                return
            path = "/" + "/".join(self._absolute(words[0] if words else ""))
            pattern = words[1] if len(words) > 1 else None
            self._print(command, path, pattern)
        except (NothingThere, ValueError) as error:
            self._fail(str(error))

    def _print(self, command: str, path: str, pattern: str | None) -> None:
        if self._as_json:
            found = {"offset": self._offset} | answer_json(self._root, command, path, pattern)
            self._say(json.dumps(found, ensure_ascii=False))
            return
        for each in answer(self._root, command, path, pattern):
            self._say(each)

    def _absolute(self, path: str) -> tuple[str, ...]:
        steps: list[str] = [] if path.startswith("/") else list(self._directory)
        for part in parts(path):
            if part == "..":
                steps = steps[:-1]
            elif part != ".":
                steps.append(part)
        return tuple(steps)

    def _name_directory(self) -> None:
        self.prompt = f"penstock:/{'/'.join(self._directory)}> " if self._is_terminal else ""

    def _say(self, line: str) -> None:
        self.stdout.write(line + "\n")

    def _fail(self, message: str) -> None:
        sys.stderr.write(f"penstock shell: {message}\n")
        self.exit_code = 1


def _complete_paths() -> None:
    """Makes readline complete whole paths, whose names contain dashes, percent signs and angle brackets."""
    try:
        import readline
    except ImportError:
        return
    readline.set_completer_delims(" \t\n")


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
