"""The man page, made from the parsers of the command line.

    .venv/bin/python -m tests.support.man_page

writes docs/penstock.1 anew, after a change of a command or an option. A wheel installs it in share/man/man1.
It has what the parsers say, not the layout of their help, which differs between releases of Python.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from proxy.commands.acl import USAGE
from proxy.commands.arguments import CONFIG_VARIABLE, command_line

PAGE = Path(__file__).resolve().parents[2] / "docs" / "penstock.1"


def man_page() -> str:
    """Return the page in the macros of man(7)."""
    parser = command_line()
    lines = [
        ".TH PENSTOCK 1",
        ".SH NAME",
        f"penstock \\- {_text(parser.description)}",
        ".SH SYNOPSIS",
        ".B penstock\n.I COMMAND\n[\n.I OPTIONS\n]",
        ".SH COMMANDS",
        *_commands(parser),
        ".SH ENVIRONMENT",
        f".TP\n.B {CONFIG_VARIABLE}",
        _text("the configuration file of commands that have --config and are run without it"),
    ]
    return "\n".join(lines) + "\n"


def _commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        helps = {choice.dest: choice.help for choice in action._choices_actions}
        for name, command in action.choices.items():
            yield f".SS {_text(command.prog)}"
            yield _text(command.description or helps.get(name))
            if name == "acl":
                yield f".nf\n{_text(USAGE)}\n.fi"
            yield from _options(command)
            yield from _commands(command)
            if command.epilog:
                yield f".PP\n{_text(command.epilog)}"


def _options(command: argparse.ArgumentParser) -> Iterator[str]:
    for action in command._actions:
        hidden = action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction)
        if hidden or isinstance(action, argparse._HelpAction):
            continue
        named = action.metavar or (action.choices and "|".join(map(str, action.choices))) or action.dest
        value = "" if action.nargs == 0 else f" {named}"
        yield f".TP\n.B {_text((', '.join(action.option_strings) + value).strip())}"
        yield _text(action.help)


def _text(text: str | None) -> str:
    """Return text of which groff takes nothing for a request."""
    escaped = (text or "").replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", escaped, flags=re.MULTILINE)


if __name__ == "__main__":
    PAGE.write_text(man_page(), encoding="utf-8")
