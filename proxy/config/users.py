"""The users file: the users of PLAIN, by name, each with a hashed password. It is reloaded when it changes.

Runs in the TaskGroup of a process, and watches the files that `password.file` names too.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BeforeValidator, model_validator

from proxy.config.parts import ConfigError, Listed, Part, SecretFile, checked_by
from proxy.config.reading import parse
from proxy.error_text import text_of
from proxy.net.files.watched_file import INTERVAL_MS, FileReloads, WatchedFile
from proxy.net.logins.credentials import PlainUsers, StoredUser, keyed_password
from proxy.security.passwords import check_hash
from proxy.security.principal import group_names

FILE_KIND = "users"


def _moment_ms(value: object) -> int:
    """Read a time, which YAML may have read already."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError("expected a time with its zone, such as 2027-01-31T18:00Z")
    return round(moment.timestamp() * 1000)


Moment = Annotated[int, BeforeValidator(_moment_ms)]
"""In ms since the epoch; in the file an ISO time with its zone."""


class PlainUser(Part):
    """A user of PLAIN: the hash of its password, or a file with the password; its groups, and its end."""

    password_hash: Annotated[str, checked_by(check_hash)] | None = None
    password_file: SecretFile | None = None
    groups: Annotated[tuple[str, ...], Listed, AfterValidator(group_names)] = ()
    until: Moment | None = None
    """When it can no longer log in and its sessions end."""

    @model_validator(mode="after")
    def _one_of_both(self) -> "PlainUser":
        if (self.password_hash is None) == (self.password_file is None):
            raise ValueError("write either password.hash or password.file")
        return self


class UsersFile(Part):
    """The whole users file."""

    kind: ClassVar[str] = "users"
    users: dict[str, PlainUser]


class WatchedUsers:
    """The users in the last valid version of a file; PLAIN looks them up in `known`."""

    def __init__(
        self,
        path: Path | None,
        reloads: FileReloads,
        on_change: Callable[[], None] = lambda: None,
        interval_ms: int = INTERVAL_MS,
    ) -> None:
        """`path` None: no users. `on_change` is called after a change. ConfigError names what is invalid."""
        self.known = PlainUsers({})
        self._reloads = reloads
        self._on_change: Callable[[], None] | None = None
        self._interval_ms = interval_ms
        self._users: dict[str, PlainUser] = {}
        self._passwords: dict[Path, str] = {}
        self._secrets: dict[Path, WatchedFile] = {}
        self._other_secrets = asyncio.Event()
        self._files = [] if path is None else [self._watched(path, partial(self._read, path))]
        for file in self._files:
            _load(file)
        self._on_change = on_change

    def take_over(self, known: PlainUsers) -> None:
        """Fill `known`, which PLAIN already uses, with the users of this file instead of another one's."""
        self.known = known
        self._renew()

    async def run(self) -> None:
        """Watch the files until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for file in self._files:
                tasks.create_task(file.run())
            while True:
                self._other_secrets.clear()
                watches = [tasks.create_task(secret.run()) for secret in self._secrets.values()]
                await self._other_secrets.wait()
                for watch in watches:
                    watch.cancel()

    def _watched(self, path: Path, read: Callable[[bytes], None]) -> WatchedFile:
        return WatchedFile(path, FILE_KIND, read, self._reloads, self._interval_ms)

    def _read(self, path: Path, content: bytes) -> None:
        """Read the changed users file; an exception changes nothing."""
        users = parse(path, content, UsersFile).users
        paths = [user.password_file for user in users.values() if user.password_file is not None]
        secrets = {path: self._secrets.get(path) or self._secret(path) for path in paths}
        self._users, self._secrets = users, secrets
        self._other_secrets.set()
        self._renew()

    def _secret(self, path: Path) -> WatchedFile:
        file = self._watched(path, partial(self._read_secret, path))
        _load(file)
        return file

    def _read_secret(self, path: Path, content: bytes) -> None:
        password = content.decode().rstrip("\r\n")
        if not password:
            raise ValueError("the file is empty; write a password into it")
        self._passwords[path] = keyed_password(password)
        if path in self._secrets:
            self._renew()

    def _renew(self) -> None:
        self.known.replace({name: self._stored(user) for name, user in self._users.items()})
        if self._on_change is not None:
            self._on_change()

    def _stored(self, user: PlainUser) -> StoredUser:
        if user.password_file is not None:
            return StoredUser(self._passwords[user.password_file], user.groups, user.until)
        assert user.password_hash is not None
        return StoredUser(user.password_hash, user.groups, user.until)


def _load(file: WatchedFile) -> None:
    try:
        file.load()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file.path}: {text_of(error)}") from error
