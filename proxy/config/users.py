"""The users file: the users that PLAIN knows, by name, each with a hashed password."""

import secrets
from pathlib import Path

from pydantic import model_validator

from proxy.config.parts import ExistingFile, Part, load
from proxy.security.passwords import hash_password


class PlainUser(Part):
    password_hash: str | None = None
    password_file: ExistingFile | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "PlainUser":
        if (self.password_hash is None) == (self.password_file is None):
            raise ValueError("give password.hash or password.file")
        return self


class UsersFile(Part):
    """The users that PLAIN knows."""

    users: dict[str, PlainUser]


def password_hashes(users_file: Path | None) -> dict[str, str]:
    """The users that PLAIN knows, by name; a password that a file holds is hashed here and not kept."""
    hashes = {}
    for name, user in load(users_file, UsersFile).users.items() if users_file is not None else ():
        if user.password_hash is not None:
            hashes[name] = user.password_hash
        elif user.password_file is not None:
            password = user.password_file.read_text(encoding="utf-8").rstrip("\r\n")
            hashes[name] = hash_password(password, secrets.token_bytes(16))
    return hashes
