"""`penstock hash-password`: a password -> the line of a PLAIN user in a users file.

The password is never an argument: other users of the machine could read it in the list of processes.
"""

import secrets
from getpass import getpass
from typing import TextIO

import yaml

from proxy.security.passwords import hash_password

_SALT_BYTES = 16


class NoPassword(Exception):
    """There is no usable password; the message says why."""


def password_of(source: TextIO) -> str:
    """Prompt twice, without echo, if `source` is a terminal; else read one line. NoPassword."""
    try:
        if source.isatty():
            password = getpass("Password: ")
            if getpass("Repeat the password: ") != password:
                raise NoPassword("the passwords differ; run the command again")
        else:
            password = source.readline().rstrip("\r\n")
        password.encode()
    except UnicodeError:
        raise NoPassword("the password is not UTF-8") from None
    except (EOFError, KeyboardInterrupt):
        password = ""
    if not password:
        raise NoPassword("no password; write it at the prompt, or as a line of standard input")
    return password


def line_of(name: str | None, password: str) -> str:
    """Return the user's line, in YAML; without a name only what follows it."""
    entry = {"password.hash": hash_password(password, secrets.token_bytes(_SALT_BYTES))}
    line: str = yaml.safe_dump(
        entry if name is None else {name: entry},
        default_flow_style=True if name is None else None,
        allow_unicode=True,
        width=float("inf"),
    )
    return line.rstrip("\n")
