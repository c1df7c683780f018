"""The commands that add and remove ACLs, set quotas and delete users, as a proposal has them. Pure text."""

import shlex

from spark_audit.proposal import OPERATIONS, Entity, ProposedAcl, moment_text

_FLAGS = {
    "TOPIC": "--topic",
    "GROUP": "--group",
    "TRANSACTIONAL_ID": "--transactional-id",
    "DELEGATION_TOKEN": "--delegation-token",
    "USER": "--user-principal",
}
_ENTITIES = {"user": "users", "client-id": "clients", "ip": "ips"}


def acl_command(action: str, acl: ProposedAcl, until_ms: int | None = None) -> str:
    """Return the kafka-acls line that adds or removes exactly this ACL. `action` is `add` or `remove`.

    One that ends is added with `penstock acl`.
    """
    permission = acl.permission_type.lower()
    program = ["kafka-acls"] if until_ms is None else ["penstock", "acl"]
    words = [*program, f"--{action}", f"--{permission}-principal", acl.principal]
    if acl.host != "*":
        words += [f"--{permission}-host", acl.host]
    words += ["--operation", OPERATIONS[acl.operation]]
    flag = _FLAGS.get(acl.resource_type)
    words += ["--cluster"] if flag is None else _option(flag, acl.resource_name)
    if acl.pattern_type != "LITERAL":
        words += ["--resource-pattern-type", acl.pattern_type.lower()]
    if until_ms is not None:
        words += ["--until", moment_text(until_ms)]
    return shlex.join(words)


def quota_command(entity: Entity, key: str, limit: float | None) -> str:
    """Return the kafka-configs line that sets this quota, or removes it if `limit` is None."""
    config = ["--delete-config", key] if limit is None else ["--add-config", f"{key}={limit:.15g}"]
    return shlex.join(["kafka-configs", "--alter", *config, *_entity_words(entity)])


def user_command(name: str, mechanism: str) -> str:
    """Return the kafka-configs line that deletes a user's SCRAM credential."""
    words = ["kafka-configs", "--alter", "--delete-config", mechanism, *_entity_words((("user", name),))]
    return shlex.join(words)


def _entity_words(entity: Entity) -> list[str]:
    words: list[str] = []
    for kind, name in entity:
        words += ["--entity-type", _ENTITIES[kind]]
        words += ["--entity-default"] if name is None else _option("--entity-name", name)
    return words


def _option(flag: str, value: str) -> list[str]:
    # A value that begins with a hyphen would be taken for an option.
    return [f"{flag}={value}"] if value.startswith("-") else [flag, value]
