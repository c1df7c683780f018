"""The topic configs `owner` and `acls`: who may set them, and the records that store them (KIP-11).

topics.py and configs.py remove them from what a broker gets. To name an owner at creation needs ALTER on the
cluster, unless creators own their topics and name themselves; later the owner may name another. To set ACLs
needs ALTER on the cluster, as CreateAcls does. Decision 0028 gives the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from forwarding.controller.authorization import ForwardedAuthorization
from proxy.metadata.acl import Operation, PatternType, ResourceType, uuid_bytes, uuid_text
from proxy.metadata.image import ACLS, OWNER, TOPIC_CONFIG, MetadataImage
from proxy.metadata.topic_acls import TopicAcl, parse_topic_acls, stripped, topic_acls
from proxy.security.principal import ANONYMOUS, parse_principal
from proxy.security.protected import acls_in_log
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message

TOPIC_CONFIGS = (OWNER, ACLS)
MAX_OWNER_CHARACTERS = 1_000
ALL_USERS = "User:*"

Fault = tuple[ErrorCode, str]


class NamedConfig(Protocol):
    """A config of any request."""

    name: str


Config = TypeVar("Config", bound=NamedConfig)


@dataclass(frozen=True, slots=True)
class OwnerAndAcls:
    """The requested owner and ACLs of one topic."""

    owner: str | None = None
    """The owner as text, "" for none; None: unchanged."""
    acls: tuple[TopicAcl, ...] | None = None
    """All ACLs on exactly this topic; None: unchanged."""

    @property
    def is_any(self) -> bool:
        return self.owner is not None or self.acls is not None


UNCHANGED = OwnerAndAcls()


def creation_change(
    topic: types.CreateTopicsRequest.CreatableTopic,
    authorization: ForwardedAuthorization,
    creators_own: bool,
) -> OwnerAndAcls | Fault:
    """Return the owner and ACLs of a topic to be created, or why they are rejected."""
    values = [(config.name, config.value) for config in topic.configs if config.name in TOPIC_CONFIGS]
    if not values:
        return OwnerAndAcls(_owner_by_creation(authorization, creators_own))
    if values == [(OWNER, "")] and not acls_in_log(authorization.authorizer):
        return UNCHANGED  # Created for a Metadata request: it has no owner under such an authorizer anyway.
    changes = parse_configs(values, authorization)
    if not isinstance(changes, OwnerAndAcls):
        return changes
    me = str(authorization.context.principal)
    owns_by_creating = not changes.owner or (creators_own and changes.owner == me)
    if (changes.acls is not None or not owns_by_creating) and not authorization.allows_cluster(
        Operation.ALTER
    ):
        return _needs_alter(topic.name, changes)
    return (
        changes
        if changes.owner is not None
        else OwnerAndAcls(_owner_by_creation(authorization, creators_own), changes.acls)
    )


def owner_of(name: str, topic_id: bytes, image: MetadataImage) -> str:
    """Return the owner of the topic with that id, "" for none. An older topic of its name does not count."""
    topic = image.topics.by_name.get(name)
    return "" if topic is None or topic.id != uuid_text(topic_id) else topic.owner or ""


def authorization_fault(
    name: str,
    topic_id: bytes,
    changes: OwnerAndAcls,
    authorization: ForwardedAuthorization,
    image: MetadataImage,
) -> Fault | None:
    """Return why the principal may not make this change, or None. Callers check ALTER_CONFIGS."""
    is_owner = owner_of(name, topic_id, image) == str(authorization.context.principal)
    if changes.acls is None and is_owner:
        return None
    return None if authorization.allows_cluster(Operation.ALTER) else _needs_alter(name, changes)


def parse_configs(
    values: Sequence[tuple[str, str | None]], authorization: ForwardedAuthorization
) -> OwnerAndAcls | Fault:
    """Return what the configs request, or why their values are invalid. None stands for the default value."""
    if not acls_in_log(authorization.authorizer):
        message = "The configured authorizer knows neither owners nor ACLs of the metadata log."
        return ErrorCode.INVALID_CONFIG, message
    requested = dict(values)
    if len(requested) < len(values):
        return ErrorCode.INVALID_CONFIG, "owner or acls is given twice."
    try:
        return OwnerAndAcls(
            _owner(requested[OWNER]) if OWNER in requested else None,
            _acls(requested[ACLS]) if ACLS in requested else None,
        )
    except ValueError as error:
        return ErrorCode.INVALID_CONFIG, str(error)


def creation_records(
    name: str, topic_id: bytes, changes: OwnerAndAcls, image: MetadataImage
) -> list[Message]:
    """Return the records of a topic that was just created; they remove an older topic of the same name."""
    known = image.topics.by_name.get(name)
    old = [] if known is None or known.id == uuid_text(topic_id) else removal_records(name, image)
    return [*old, topic_record(name, topic_id), config_record(name, changes.owner)] if changes.owner else old


def owner_records(name: str, topic_id: bytes, owner: str, image: MetadataImage) -> list[Message]:
    """Return the records that change the owner of an existing topic; "" removes the owner."""
    known = image.topics.by_name.get(name)
    same = known is not None and known.id == uuid_text(topic_id)
    records = [] if known is None or same else removal_records(name, image)
    if owner and not same:
        records.append(topic_record(name, topic_id))
    has = known.owner if known is not None and same else None
    return records if (owner or None) == has else [*records, config_record(name, owner or None)]


def removal_records(name: str, image: MetadataImage) -> list[Message]:
    """Return the records that remove a topic from the image; none if it is not in it."""
    topic = image.topics.by_name.get(name)
    if topic is None:
        return []
    # The config is removed too: compaction may have removed the topic's record, and the name with it.
    removed = [] if topic.id is None else [types.RemoveTopicRecord(topic_id=uuid_bytes(topic.id))]
    return [*removed, *(config_record(name, None, key) for key in topic.configs)]


def acl_records(
    name: str,
    acls: Iterable[TopicAcl],
    image: MetadataImage,
    new_id: Callable[[], bytes],
    *,
    keep_existing: bool,
) -> list[Message]:
    """Return the records that set the ACLs on exactly this topic."""
    existing = {stripped(acl): acl for acl in topic_acls(image, name)}
    requested = list(acls)
    replaced = [] if keep_existing else [acl for key, acl in existing.items() if key not in requested]
    removals = [types.RemoveAccessControlEntryRecord(id=uuid_bytes(acl.id)) for acl in replaced]
    return [*removals, *(_acl(name, acl, new_id()) for acl in requested if acl not in existing)]


def broker_configs(configs: Iterable[Config]) -> list[Config]:
    """Return the configs that are sent to a broker."""
    return [config for config in configs if config.name not in TOPIC_CONFIGS]


def _owner_by_creation(authorization: ForwardedAuthorization, creators_own: bool) -> str | None:
    """Return the creator as owner if creators own their topics. An anonymous client owns nothing."""
    principal = authorization.context.principal
    owns = creators_own and principal != ANONYMOUS and acls_in_log(authorization.authorizer)
    return str(principal) if owns else None


def _needs_alter(name: str, changes: OwnerAndAcls) -> Fault:
    what = f"make {changes.owner} the owner" if changes.owner else "remove the owner"
    if changes.acls is not None:
        what = "set the ACLs"
    return (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        f"Not authorized to {what} of topic {name}: that needs ALTER on the cluster.",
    )


def _owner(text: str | None) -> str:
    if text is None or not text.strip():
        return ""
    principal = parse_principal(text.strip())
    if not principal.principal_type or len(text) > MAX_OWNER_CHARACTERS:
        raise ValueError(
            f"Invalid value {text[:100]!r} for owner: expected a principal in the form type:name"
        )
    if str(principal) == ALL_USERS:
        raise ValueError("Invalid value for owner: everybody cannot be the owner.")
    return str(principal)


def _acls(text: str | None) -> tuple[TopicAcl, ...]:
    if text is None or not text.strip():
        return ()
    try:
        return tuple(parse_topic_acls(text))
    except ValueError as error:
        raise ValueError(f"Invalid value for acls: {error}") from error


def topic_record(name: str, topic_id: bytes) -> types.TopicRecord:
    """Return the record that makes a topic known."""
    return types.TopicRecord(name=name, topic_id=topic_id)


def config_record(name: str, value: str | None, key: str = OWNER) -> types.ConfigRecord:
    """Return the record that sets a config of a topic; the value None resets it."""
    return types.ConfigRecord(resource_type=TOPIC_CONFIG, resource_name=name, name=key, value=value)


def _acl(name: str, acl: TopicAcl, acl_id: bytes) -> types.AccessControlEntryRecord:
    return types.AccessControlEntryRecord(
        id=acl_id,
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        pattern_type=PatternType.LITERAL,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )
