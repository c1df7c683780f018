"""The file of rights: YAML, an object for each ACL, quota, user and owner, one a line, in a stable order.

The password of a new user is in a file or a variable of the environment that the file names, never in it.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import yaml
from pydantic import AfterValidator, Field, model_validator

from proxy.commands.rights.changes import (
    ACLS,
    OWNERS,
    QUOTAS,
    SECTIONS,
    USERS,
    Credential,
    Key,
    Rights,
    Value,
    end_value,
    row,
)
from proxy.config.candidate import AclRow, one_of
from proxy.config.parts import ConfigError, Part, SecretFile
from proxy.config.reading import content_of, parse
from proxy.config.users import Moment
from proxy.metadata.scram import MAX_ITERATIONS, MIN_ITERATIONS
from proxy.quota.keys import KEYS
from spark_audit.proposal import ProposedAcl


def _limit(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("expected a number")
    return float(value)


class _Row(Part):
    """An object of the file."""

    @property
    def item(self) -> tuple[Key, Value]:
        raise NotImplementedError


class _Acl(AclRow, _Row):
    @property
    def item(self) -> tuple[Key, Value]:
        return ProposedAcl(*self.names), end_value(self.until)


class _Quota(_Row):
    """A name that is null is the default of its kind."""

    user: str | None = None
    client_id: Annotated[str | None, Field(alias="client-id")] = None
    ip: str | None = None
    quota: Annotated[str, one_of(KEYS)]
    limit: Annotated[object, AfterValidator(_limit)]

    @property
    def item(self) -> tuple[Key, Value]:
        names = (("client-id", "client_id"), ("ip", "ip"), ("user", "user"))
        entity = tuple((kind, getattr(self, name)) for kind, name in names if name in self.model_fields_set)
        return (entity, self.quota), _limit(self.limit)

    @model_validator(mode="after")
    def _has_an_entity(self) -> "_Quota":
        if not self.model_fields_set & {"user", "client_id", "ip"}:
            raise ValueError("write user, client-id or both, or ip; null is the default")
        return self


class _User(_Row):
    name: str
    mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
    iterations: Annotated[int, Field(ge=MIN_ITERATIONS, le=MAX_ITERATIONS)] = MIN_ITERATIONS
    until: Moment | None = None
    password_file: SecretFile | None = None
    password_env: str | None = None

    @property
    def item(self) -> tuple[Key, Value]:
        return (self.name, self.mechanism), Credential(self.iterations, end_value(self.until))

    def password(self) -> str:
        """Return the password. ConfigError without one."""
        try:
            if self.password_file is not None:
                found = self.password_file.read_text(encoding="utf-8").rstrip("\r\n")
            else:
                found = os.environ.get(self.password_env or "", "")
                found.encode()
        except UnicodeError:  # Its text has a part of the password.
            raise ConfigError(f"user {self.name}: the password is not UTF-8") from None
        if not found:
            raise ConfigError(f"user {self.name}: no password; name one with password.file or password.env")
        return found


class _Owner(_Row):
    topic: str
    owner: str

    @property
    def item(self) -> tuple[Key, Value]:
        return (self.topic,), self.owner


class _RightsFile(Part):
    kind: ClassVar[str] = "rights"
    acls: tuple[_Acl, ...] | None = None
    quotas: tuple[_Quota, ...] | None = None
    users: tuple[_User, ...] | None = None
    owners: tuple[_Owner, ...] | None = None


@dataclass(frozen=True, slots=True)
class DesiredRights:
    """What a file says. `passwords`: of each user with its mechanism; ConfigError without one."""

    rights: Rights
    passwords: Mapping[Key, Callable[[], str]]
    digest: str
    """SHA-256 of the file in hex."""


def read_rights(path: Path) -> DesiredRights:
    """Read a file. ConfigError names each invalid key, and what the file says twice."""
    content = content_of(path)
    read = parse(path, content, _RightsFile)
    listed: dict[str, Sequence[_Row] | None] = {
        ACLS: read.acls,
        QUOTAS: read.quotas,
        USERS: read.users,
        OWNERS: read.owners,
    }
    rights: dict[str, dict[Key, Value]] = {}
    for section, items in listed.items():
        if items is not None:
            rights[section] = dict(each.item for each in items)
            if len(rights[section]) < len(items):
                raise ConfigError(f"{path}: {section}: the file has {_twice(section, items)} twice")
    if not rights:
        raise ConfigError(f"{path}: the file has none of {', '.join(SECTIONS)}")
    passwords = {user.item[0]: user.password for user in read.users or ()}
    return DesiredRights(rights, passwords, hashlib.sha256(content).hexdigest())


def _twice(section: str, rows: Sequence[_Row]) -> str:
    keys = [each.item[0] for each in rows]
    again = next(each for place, each in enumerate(rows) if each.item[0] in keys[:place])
    return _flow(row(section, *again.item))


def written(rights: Rights) -> Iterator[str]:
    """Yield the lines of the file."""
    for section in SECTIONS:
        if section in rights:
            items = rights[section]
            yield f"{section}:" if items else f"{section}: []"
            for key in sorted(items, key=repr):
                yield f"- {_flow(row(section, key, items[key]))}"


def _flow(fields: Mapping[str, object]) -> str:
    # `${` would be a variable of the environment (proxy.config.document).
    escaped = {
        name: each.replace("${", "$${") if isinstance(each, str) else each for name, each in fields.items()
    }
    text = yaml.safe_dump(
        escaped, default_flow_style=True, sort_keys=False, allow_unicode=True, width=float("inf")
    )
    return text.rstrip("\n")
