"""The rights of a cluster, and what differs between two sets of them."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from proxy.metadata.acl import end_text
from proxy.metadata.quota_entity import IP, QuotaEntity
from spark_audit.least_privilege.commands import acl_command, quota_command, user_command
from spark_audit.proposal import OPERATIONS, ProposedAcl
from spark_audit.proposal import acl_command as parsed_command

ACLS, QUOTAS, USERS, OWNERS = SECTIONS = ("acls", "quotas", "users", "owners")

Key = tuple[Any, ...]
"""A ProposedAcl; entity and key of a quota; name and mechanism of a SCRAM user; or the name of a topic."""
NO_END = 0
"""An end is in ms since the epoch."""


class Credential(NamedTuple):
    """What a cluster says of a SCRAM credential."""

    iterations: int
    until_ms: int = NO_END


Value = int | float | str | Credential
"""The end of the ACL; limit; of a user its credential; or the owner of the topic."""
Rights = Mapping[str, Mapping[Key, Value]]
"""By section. A section that is missing is unknown, or not managed by the file."""


class RightChange(NamedTuple):
    """`old` is None if it is created, `new` if it is deleted."""

    section: str
    key: Key
    old: Value | None
    new: Value | None

    def __str__(self) -> str:
        sign = "+" if self.old is None else "-" if self.new is None else "~"
        values = [_value(self.section, value) for value in (self.old, self.new) if value is not None]
        text = f"{sign} {_subject(self.section, self.key)}"
        is_plain = self.section == ACLS and values == [_value(ACLS, NO_END)]
        return text if is_plain else f"{text}: {' -> '.join(values)}"


def differences(old: Rights, new: Rights) -> list[RightChange]:
    """Return what has to change in `old` in the sections of `new`, in a stable order."""
    return [
        RightChange(section, key, old[section].get(key), new[section].get(key))
        for section in SECTIONS
        if section in new
        for key in sorted({*old[section], *new[section]}, key=repr)
        if old[section].get(key) != new[section].get(key)
    ]


def end_value(until_ms: int | None) -> int:
    """Return an end as a value. That of a zero time, 1970, has passed, and is not none."""
    return NO_END if until_ms is None else max(until_ms, NO_END + 1)


def has_ended(value: Value, moment_ms: int) -> bool:
    """Return whether an ACL with this end, or a credential, has no effect any more."""
    return NO_END < end_of(value) <= moment_ms


def end_of(value: Value | None) -> int:
    """Return the end of an ACL or a credential; NO_END of what is deleted."""
    return value.until_ms if isinstance(value, Credential) else int(value or NO_END)


def limit_of(value: Value) -> float:
    """Return the limit of a quota."""
    assert isinstance(value, int | float)
    return float(value)


def _subject(section: str, key: Key) -> str:
    if section == ACLS:
        return str(ProposedAcl(*key))
    if section == QUOTAS:
        return f"{key[1]} of {QuotaEntity.of(key[0]).path}"
    return f"user {key[0]} {key[1]}" if section == USERS else f"owner of {key[0]}"


def _value(section: str, value: Value) -> str:
    if section == ACLS:
        return f"until {end_text(end_of(value) or None)}"
    if isinstance(value, Credential):
        end = "" if value.until_ms == NO_END else f" until {end_text(value.until_ms)}"
        return f"{value.iterations} iterations{end}"
    return value if isinstance(value, str) else f"{value:.15g}"


def row(section: str, key: Key, value: Value) -> dict[str, object]:
    """Return the object that the file has for it; what is the default is left out."""
    if isinstance(value, Credential):
        fields = {"name": key[0], "mechanism": key[1], "iterations": value.iterations}
        return fields if value.until_ms == NO_END else fields | {"until": end_text(value.until_ms)}
    if section == OWNERS:
        return {"topic": key[0], "owner": value}
    if section == QUOTAS:
        limit = limit_of(value)
        limit = int(limit) if limit.is_integer() else limit
        return {**dict(key[0]), "quota": key[1], "limit": limit}
    acl = ProposedAcl(*key)
    fields = {
        "resource.type": acl.resource_type,
        "resource.name": acl.resource_name,
        "pattern.type": acl.pattern_type if acl.pattern_type != "LITERAL" else None,
        "principal": acl.principal,
        "host": acl.host if acl.host != "*" else None,
        "operation": acl.operation,
        "permission.type": acl.permission_type if acl.permission_type != "ALLOW" else None,
        "until": end_text(end_of(value)) if value != NO_END else None,
    }
    return {name: field for name, field in fields.items() if field is not None}


def fault(change: RightChange) -> str | None:
    """Return why a cluster would not understand what the change creates; None if it would."""
    if change.section != ACLS or change.new is None:
        return None
    acl = ProposedAcl(*change.key)
    try:
        if acl.operation not in OPERATIONS:
            raise ValueError(f"{acl.operation.title()} is no operation of an ACL")
        words = shlex.split(acl_command("add", acl, end_of(change.new) or None))
        understood = parsed_command(words[words.index("--add") :]).added
    except ValueError as error:
        return f"{acl}: {error}"
    return None if understood == [acl] else f"{acl}: no ACL can have this resource"


def commands(changes: Sequence[RightChange]) -> Iterator[str]:
    """Yield the commands that do it. Those of users are comments, since they need the password."""
    for section, key, _, new in changes:
        if section == ACLS:
            acl = ProposedAcl(*key)
            if acl.operation in OPERATIONS:
                action = "remove" if new is None else "add"
                yield acl_command(action, acl, end_of(new) or None)
            else:
                yield f"# no command can name this ACL: {acl}"
        elif section == QUOTAS:
            yield quota_command(key[0], key[1], None if new is None else limit_of(new))
        elif section == USERS and new is None:
            yield f"# {user_command(*key)}"
        elif isinstance(new, Credential):
            config = f"{key[1]}=[iterations={new.iterations},password=...]"
            words = "--alter", "--add-config", config, "--entity-type", "users", "--entity-name", key[0]
            end = "" if new.until_ms == NO_END else f"; sets no end ({end_text(new.until_ms)})"
            yield f"# {shlex.join(('kafka-configs', *words))}{end}"
        else:
            owner = ("--delete-config", "owner") if new is None else ("--add-config", f"owner={new}")
            words = "--alter", *owner, "--entity-type", "topics", "--entity-name", key[0]
            yield shlex.join(("kafka-configs", *words))


def proposal(changes: Sequence[RightChange]) -> Iterator[str]:
    """Yield the same as a proposal for what-if, which has ACLs and quotas of users and client ids."""
    for change in changes:
        known = change.section == ACLS or (change.section == QUOTAS and IP not in dict(change.key[0]))
        for line in commands([change]):
            yield line if known or line.startswith("#") else f"# {line}"
