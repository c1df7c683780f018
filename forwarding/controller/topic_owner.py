"""The configs `owner` and `acls` of topics: who may set them, and the records they are kept as (KIP-11).

Asked by topics.py and configs.py, which cut them out of what a broker gets. Naming an owner at creation needs
ALTER on the cluster, unless creators own what they create and name themselves; later the owner may too.
ACLs need ALTER on the cluster, as CreateAcls does. Why: decision 0028.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from forwarding.controller.access import Access
from proxy.metadata.acl import Operation, PatternType, ResourceType, uuid_bytes, uuid_text
from proxy.metadata.image import MetadataImage
from proxy.metadata.topic_acls import TopicAcl, parse_topic_acls, stripped, topic_acls
from proxy.metadata.topics import ACLS, OWNER, TOPIC_CONFIG
from proxy.security.principal import ANONYMOUS, parse_principal
from proxy.security.protected import acls_in_log
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message

KEYS = (OWNER, ACLS)
MAX_OWNER_CHARACTERS = 1_000
EVERYBODY = "User:*"

Fault = tuple[ErrorCode, str]


class Named(Protocol):
    """A config of whatever request."""

    name: str


Config = TypeVar("Config", bound=Named)


@dataclass(frozen=True, slots=True)
class OwnerSettings:
    """`creator`: topic.owner.creator, whoever creates a topic owns it unless another is named."""

    creator: bool = False


NO_OWNERS = OwnerSettings()


@dataclass(frozen=True, slots=True)
class Keeping:
    """What is to be kept of one topic."""

    owner: str | None = None
    """The owner as text, "" to have none; None: as it is."""
    acls: tuple[TopicAcl, ...] | None = None
    """All ACLs on exactly this topic; None: as they are."""

    @property
    def anything(self) -> bool:
        return self.owner is not None or self.acls is not None


NOTHING = Keeping()


def at_creation(
    topic: types.CreateTopicsRequest.CreatableTopic, access: Access, settings: OwnerSettings
) -> Keeping | Fault:
    """What a topic to be created is to have; its fault when it may not, or cannot, have it."""
    values = [(config.name, config.value) for config in topic.configs if config.name in KEYS]
    if not values:
        return Keeping(_creator(access, settings))
    keeping = wanted(values, access)
    if not isinstance(keeping, Keeping):
        return keeping
    me = str(access.context.principal)
    owns_by_creating = not keeping.owner or (settings.creator and keeping.owner == me)
    if (keeping.acls is not None or not owns_by_creating) and not access.allows_cluster(Operation.ALTER):
        return _needs_alter(topic.name, keeping)
    return keeping if keeping.owner is not None else Keeping(_creator(access, settings), keeping.acls)


def owner_of(name: str, topic_id: bytes, image: MetadataImage) -> str:
    """Whose the topic of that id is, "" when nobody's: an older one of its name does not count."""
    topic = image.topics.by_name.get(name)
    return "" if topic is None or topic.id != uuid_text(topic_id) else topic.owner or ""


def later(name: str, topic_id: bytes, keeping: Keeping, access: Access, image: MetadataImage) -> Fault | None:
    """Whether they may change this of a topic that there is; ALTER_CONFIGS on it is asked for elsewhere."""
    mine = owner_of(name, topic_id, image) == str(access.context.principal)
    if keeping.acls is None and mine:
        return None
    return None if access.allows_cluster(Operation.ALTER) else _needs_alter(name, keeping)


def wanted(values: Sequence[tuple[str, str | None]], access: Access) -> Keeping | Fault:
    """What the configs ask for, as far as can be told from them alone; without a value: the default."""
    if not acls_in_log(access.authorizer):
        message = "The configured authorizer knows neither owners nor ACLs of the metadata log."
        return ErrorCode.INVALID_CONFIG, message
    asked = dict(values)
    if len(asked) < len(values):
        return ErrorCode.INVALID_CONFIG, "owner or acls is given twice."
    try:
        return Keeping(
            _owner(asked[OWNER]) if OWNER in asked else None,
            _acls(asked[ACLS]) if ACLS in asked else None,
        )
    except ValueError as error:
        return ErrorCode.INVALID_CONFIG, str(error)


def created(name: str, topic_id: bytes, keeping: Keeping, image: MetadataImage) -> list[Message]:
    """The records of a topic that was just created: what an older one of its name had is gone."""
    known = image.topics.by_name.get(name)
    old = [] if known is None or known.id == uuid_text(topic_id) else forgotten(name, image)
    return [*old, _topic(name, topic_id), _config(name, keeping.owner)] if keeping.owner else old


def reowned(name: str, topic_id: bytes, owner: str, image: MetadataImage) -> list[Message]:
    """The records after which a topic that there is belongs to `owner`, "" for nobody."""
    known = image.topics.by_name.get(name)
    same = known is not None and known.id == uuid_text(topic_id)
    records = [] if known is None or same else forgotten(name, image)
    if owner and not same:
        records.append(_topic(name, topic_id))
    has = known.owner if known is not None and same else None
    return records if (owner or None) == has else [*records, _config(name, owner or None)]


def forgotten(name: str, image: MetadataImage) -> list[Message]:
    """The records that take a topic of the image out of it, none when it is not in it."""
    topic = image.topics.by_name.get(name)
    if topic is None:
        return []
    # The config's own removal too: compaction may have taken the topic's record, and with it the name.
    removed = [] if topic.id is None else [types.RemoveTopicRecord(topic_id=uuid_bytes(topic.id))]
    return [*removed, *(_config(name, None, key) for key in topic.configs)]


def replaced_acls(
    name: str, acls: Iterable[TopicAcl], image: MetadataImage, new_id: Callable[[], bytes], *, keep: bool
) -> list[Message]:
    """The records after which these are the ACLs on exactly this topic; `keep`: with those there are."""
    there = {stripped(acl): acl for acl in topic_acls(image, name)}
    asked = list(acls)
    gone = [] if keep else [acl for key, acl in there.items() if key not in asked]
    removals = [types.RemoveAccessControlEntryRecord(id=uuid_bytes(acl.id)) for acl in gone]
    return [*removals, *(_acl(name, acl, new_id()) for acl in asked if acl not in there)]


def without(configs: Iterable[Config]) -> list[Config]:
    """What a broker is told."""
    return [config for config in configs if config.name not in KEYS]


def _creator(access: Access, settings: OwnerSettings) -> str | None:
    """Whoever creates without a login is nobody in particular, and so owns nothing."""
    principal = access.context.principal
    owns = settings.creator and principal != ANONYMOUS and acls_in_log(access.authorizer)
    return str(principal) if owns else None


def _needs_alter(name: str, keeping: Keeping) -> Fault:
    what = "set the ACLs" if keeping.acls is not None else f"make {keeping.owner or 'nobody'} the owner"
    return (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        f"Not authorized to {what} of topic {name}: that needs ALTER on the cluster.",
    )


def _owner(text: str | None) -> str:
    if text is None or not text.strip():
        return ""
    principal = parse_principal(text.strip())
    if not principal.principal_type or not principal.name or len(text) > MAX_OWNER_CHARACTERS:
        raise ValueError(
            f"Invalid value {text[:100]!r} for owner: expected a principal in the form type:name"
        )
    if str(principal) == EVERYBODY:
        raise ValueError("Invalid value for owner: everybody cannot be the owner.")
    return str(principal)


def _acls(text: str | None) -> tuple[TopicAcl, ...]:
    if text is None or not text.strip():
        return ()
    try:
        return tuple(parse_topic_acls(text))
    except ValueError as error:
        raise ValueError(f"Invalid value for acls: {error}") from error


def _topic(name: str, topic_id: bytes) -> types.TopicRecord:
    return types.TopicRecord(name=name, topic_id=topic_id)


def _config(name: str, value: str | None, key: str = OWNER) -> types.ConfigRecord:
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
