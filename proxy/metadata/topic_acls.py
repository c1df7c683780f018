"""Encodes the ACLs on exactly one topic as the value of its config `acls`, and decodes it (decision 0028).

    User:bob:READ+DESCRIBE:allow:*;User:eve:ALL:deny:10.0.0.9

Entries are type:name:operations:permission:host; the default host is `*`. `%`, `:`, `;` and blanks in a name
are written as %XX. The syntax has neither commas nor equals signs, because kafka-configs splits values there.
"""

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote, unquote

from proxy.metadata.acl import (
    OPERATIONS_ON,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    host_fault,
)
from proxy.metadata.image import MetadataImage

FORM = "type:name:OPERATION+OPERATION:allow|deny[:host]"
_OPERATIONS = {operation.name: operation for operation in (Operation.ALL, *OPERATIONS_ON[ResourceType.TOPIC])}
_PERMISSIONS = {"allow": PermissionType.ALLOW, "deny": PermissionType.DENY}
_PLAIN_IN_NAMES = "!#$&'()*+,/<=>?@[]^_`{|}~-."


class TopicAcl(NamedTuple):
    """One ACL on a topic, without the topic and without an id."""

    principal: str
    host: str
    operation: Operation
    permission_type: PermissionType


def parse_topic_acls(text: str) -> list[TopicAcl]:
    """Return the ACLs in the order of the text, without duplicates; ValueError names the invalid entry."""
    entries = [entry.strip() for entry in text.split(";")]
    found = [acl for entry in entries if entry for acl in _parsed(entry)]
    if not found:
        raise ValueError(f"it has no entry; expected {FORM}")
    return list(dict.fromkeys(found))


def topic_acls_text(acls: Iterable[TopicAcl]) -> str:
    """Return the text of ACLs. Equal sets have equal texts; DENY comes first."""
    operations: dict[tuple[str, str, str], set[Operation]] = {}
    for acl in acls:
        key = acl.permission_type.name.lower(), acl.principal, acl.host
        operations.setdefault(key, set()).add(acl.operation)
    order = sorted(operations, key=lambda key: (key[0] != "deny", key))
    return ";".join(_entry(*key, operations[key]) for key in order)


def topic_acls(image: MetadataImage, topic: str) -> list[Acl]:
    """Return the ACLs on exactly this topic: neither on prefixes of its name nor on `*`."""
    resource = image.acls.resources.get(ResourceType.TOPIC)
    pattern = None if resource is None else resource.patterns(PatternType.LITERAL).get(topic)
    # A DENY that is not understood may be here without being on exactly this topic.
    stored = () if pattern is None else (image.acls.by_id[a.id] for acls in pattern.values() for a in acls)
    wanted = ResourceType.TOPIC, topic, PatternType.LITERAL
    return [acl for acl in stored if (acl.resource_type, acl.resource_name, acl.pattern_type) == wanted]


def stripped(acl: Acl) -> TopicAcl:
    """Return an ACL of the log without its id and topic."""
    return TopicAcl(acl.principal, acl.host, acl.operation, acl.permission_type)


def _entry(permission: str, principal: str, host: str, operations: set[Operation]) -> str:
    kind, _, name = principal.partition(":")
    names = "+".join(operation.name for operation in sorted(operations))
    return f"{kind}:{quote(name, safe=_PLAIN_IN_NAMES)}:{names}:{permission}:{host}"


def _parsed(entry: str) -> list[TopicAcl]:
    parts = entry.split(":", 4)
    if len(parts) < 4:
        raise ValueError(f"{entry!r} is not {FORM}")
    kind, name, operations, permission = parts[:4]
    host = parts[4] if len(parts) == 5 else WILDCARD
    fault = "Its type is empty." if not kind else host_fault(host)
    if fault is not None:
        raise ValueError(f"{entry!r}: {fault}")
    if permission.lower() not in _PERMISSIONS:
        raise ValueError(f"{entry!r}: {permission!r} is neither allow nor deny")
    return [
        TopicAcl(f"{kind}:{unquote(name)}", host, _operation(word, entry), _PERMISSIONS[permission.lower()])
        for word in operations.split("+")
    ]


def _operation(word: str, entry: str) -> Operation:
    operation = _OPERATIONS.get(word.strip().upper())
    if operation is None:
        raise ValueError(
            f"{entry!r}: {word!r} is no operation on a topic; there are {', '.join(_OPERATIONS)}"
        )
    return operation
