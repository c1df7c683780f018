"""Applies records of the metadata log to an image, in log order.

Controller, proxy and snapshots use the same replay. A record is a wire message; the loader tracks offsets.
Only what the records change is copied: adding one ACL to 100,000 takes a few dozen µs. The last record of an
ACL counts; intermediate states are never visible, because the new image replaces the old one at once. A
config may precede its topic (as in snapshots), and in a compacted log it may outlive it until the record that
removes it; neither makes an owner.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import nsmallest
from types import MappingProxyType
from typing import Any, TypeVar

from proxy.metadata.acl import (
    GROUP,
    Acl,
    PatternType,
    PermissionType,
    ResourceType,
    end_of_tags,
    uuid_text,
)
from proxy.metadata.acls_image import AclsImage, Entry, PatternAcls, ResourceAcls, Subject
from proxy.metadata.image import (
    TOPIC_CONFIG,
    DelegationToken,
    MetadataImage,
    NotUnderstood,
    QuotasImage,
    ScramImage,
    TokensImage,
    Topic,
    TopicsImage,
)
from proxy.metadata.networks import length_of, network_text
from proxy.metadata.quota_entity import QuotaEntity
from proxy.metadata.scram import ScramCredential, ScramMechanism
from proxy.metadata.sharded_map import ShardedMap
from proxy.metadata.sorted_names import Pair, SortedNames
from proxy.metadata.state_digest import Sum, element
from proxy.wire import catalog, types
from proxy.wire.message import Message


class MetadataError(Exception):
    """A record is corrupt, unknown or contradicts the image; the message names record and offset.

    A follower of the log stops: to continue without a record could mean to continue without a DENY.
    """


def acl_from_record(record: types.AccessControlEntryRecord) -> Acl:
    """Return the ACL of a record; a number of a later version is UNKNOWN in it."""
    numbers = (record.resource_type, record.pattern_type, record.operation, record.permission_type)
    acl = Acl.of_numbers(uuid_text(bytes(record.id)), record, record.pattern_type)
    return acl if acl.numbers == numbers else replace(acl, later_numbers=numbers)


class AclsDelta:
    """Changes to `image`; `compacted`: the log may have lost the records of removed ACLs."""

    def __init__(self, image: AclsImage, *, compacted: bool) -> None:
        self._image = image
        self._compacted = compacted
        self._changes: dict[str, Acl | None] = {}
        self.networks = image.networks
        """Whether networks are in effect after these changes."""

    def add(self, acl: Acl) -> None:
        self._changes[acl.id] = acl

    def remove(self, acl_id: str) -> None:
        """Remove an ACL. MetadataError if it is unknown, unless compaction may explain that."""
        known = self._changes.get(acl_id) if acl_id in self._changes else self._image.by_id.get(acl_id)
        if known is None and not self._compacted:
            raise MetadataError(f"RemoveAccessControlEntryRecord for the unknown ACL {acl_id}")
        self._changes[acl_id] = None

    def apply(self, total: Sum | None = None) -> AclsImage:
        before, networks = self._image, self.networks
        changes = {i: acl for i, acl in self._changes.items() if acl != before.by_id.get(i)}
        if not changes and networks == before.networks:
            return before
        if total is not None:
            total.change(_of_acl, before.by_id, changes)
        removed = [before.by_id[i] for i in changes if i in before.by_id]
        added = [acl for acl in changes.values() if acl is not None]
        if networks != before.networks:
            others = [acl for acl in before.of_networks() if acl.id not in changes]
            removed, added = removed + others, added + [acl for acl in others if before.in_effect(acl)]
        gone = [acl for acl in removed if not before.in_effect(acl)]
        removed = [acl for acl in removed if before.in_effect(acl)]
        ended = before.ended.updated(_ends(gone), [])
        return replace(
            _indexed(before, networks, removed, added), by_id=before.by_id.updated(changes), ended=ended
        )

    def of_networks(self) -> Iterator[Acl]:
        """Yield the ACLs whose host may be a network, after the changes so far."""
        unchanged = (acl for acl in self._image.of_networks() if acl.id not in self._changes)
        changed = (acl for acl in self._changes.values() if acl is not None and "/" in acl.host)
        yield from (*unchanged, *changed)


STEP_ENDS = 25
"""The number of ACLs that one call ends: a few milliseconds."""


def without_ended(image: MetadataImage, now_ms: int) -> MetadataImage:
    """Return the image with STEP_ENDS less of the ACLs that end at `now_ms` or before; itself if none does.

    They lose their effect and are still in the log: `by_id` and the digest do not change.
    """
    acls = image.acls
    due = acls.due(acls.ends, now_ms, STEP_ENDS)
    if not due:
        return image
    ended = acls.ended.updated([], _ends(due))
    return replace(image, acls=replace(_indexed(acls, acls.networks, due, []), ended=ended))


def _indexed(before: AclsImage, networks: bool, removed: list[Acl], added: list[Acl]) -> AclsImage:
    """Return the image of the same log in which decisions read `added` and no longer `removed`."""
    ends = before.ends.updated(_ends(removed), _ends(added))
    removed = [acl.enforced(before.networks) for acl in removed]
    added = [acl.enforced(networks) for acl in added]
    outdated, current = _by_type(removed), _by_type(added)
    # As long as networks are not in effect, an ALLOW for one is for no client.
    were, are = removed if before.networks else [], added if networks else []
    counts, lengths = _changed_networks(before, were, are)
    resources = dict(before.resources)
    for resource_type in {*outdated, *current}:
        resources[resource_type] = _changed_resource(
            resources.get(resource_type, ResourceAcls()),
            outdated.get(resource_type, []),
            current.get(resource_type, []),
        )
    remaining = {kind: acls for kind, acls in resources.items() if acls.acls_of_subject}
    in_order = tuple(sorted(lengths, reverse=True))
    gone, new = (_groups(acl.principal for acl in acls) for acls in (removed, added))
    groups = _recounted(before.acls_of_group, gone, new)
    numbers = networks, counts, in_order, lengths
    return AclsImage(before.by_id, MappingProxyType(remaining), *numbers, ends, before.ended, groups)


def _ends(acls: Iterable[Acl]) -> list[Pair]:
    return [acl.end for acl in acls if acl.end is not None]


def _by_type(acls: Iterable[Acl]) -> dict[ResourceType, list[Acl]]:
    """Return ACLs as decisions read them, by the type of the resources that they are on."""
    found: dict[ResourceType, list[Acl]] = {}
    for acl in acls:
        on_all = acl.resource_type is ResourceType.ANY
        for resource_type in _RESOURCE_TYPES if on_all else (acl.resource_type,):
            found.setdefault(resource_type, []).append(acl)
    return found


def _changed_networks(
    image: AclsImage, removed: Iterable[Acl], added: Iterable[Acl]
) -> tuple[ShardedMap[str, int], MappingProxyType[tuple[int, int], int]]:
    """Return the number of ACLs of each network, and the number of networks of each length."""
    before, gone, new = image.acls_of_network, _networks(removed), _networks(added)
    if not gone and not new:
        return before, image.networks_of_length
    counts = _recounted(before, gone, new)
    lengths = dict(image.networks_of_length)
    for name in {*gone, *new}:
        length = length_of(name)
        lengths[length] = lengths.get(length, 0) + (name in counts) - (name in before)
    return counts, MappingProxyType({length: count for length, count in lengths.items() if count})


def _networks(acls: Iterable[Acl]) -> list[str]:
    return [acl.host for acl in acls if "/" in acl.host and network_text(acl.host) == acl.host]


def _groups(principals: Iterable[str]) -> list[str]:
    return [name.removeprefix(GROUP) for name in principals if name.startswith(GROUP)]


def _subjects(acls: Iterable[Acl]) -> list[Subject]:
    return [(acl.principal, acl.host) for acl in acls]


K = TypeVar("K")


def _recounted(counts: ShardedMap[K, int], gone: Iterable[K], new: Iterable[K]) -> ShardedMap[K, int]:
    """Return how many ACLs or quotas each key has after these changes; a key without one has no count."""
    touched = Counter(new)
    touched.subtract(gone)
    return counts.updated(
        {key: (counts.get(key) or 0) + step or None for key, step in touched.items() if step}
    )


_RESOURCE_TYPES = tuple(kind for kind in ResourceType if kind > ResourceType.ANY)


def _changed_resource(resource: ResourceAcls, outdated: list[Acl], current: list[Acl]) -> ResourceAcls:
    literal = _changed_patterns(resource.literal, *_of_pattern(PatternType.LITERAL, outdated, current))
    prefixed = _changed_patterns(resource.prefixed, *_of_pattern(PatternType.PREFIXED, outdated, current))
    lengths = _changed_lengths(resource, prefixed, {acl.resource_name for acl in (*outdated, *current)})
    return ResourceAcls(
        literal=literal,
        prefixed=prefixed,
        prefix_lengths=tuple(sorted(lengths)),
        prefixes_of_length=MappingProxyType(lengths),
        acls_of_subject=_recounted(resource.acls_of_subject, _subjects(outdated), _subjects(current)),
        names=_changed_names(resource.names, outdated, current),
    )


def _of_pattern(
    pattern_type: PatternType, outdated: Iterable[Acl], current: Iterable[Acl]
) -> tuple[list[Acl], list[Acl]]:
    return (
        [acl for acl in outdated if acl.pattern_type == pattern_type],
        [acl for acl in current if acl.pattern_type == pattern_type],
    )


def _changed_patterns(
    patterns: ShardedMap[str, PatternAcls], outdated: list[Acl], current: list[Acl]
) -> ShardedMap[str, PatternAcls]:
    touched: dict[str, dict[Subject, dict[str, Acl]]] = {}
    for acls, stays in ((outdated, False), (current, True)):
        for acl in acls:
            subjects, subject = touched.setdefault(acl.resource_name, {}), (acl.principal, acl.host)
            if subject not in subjects:
                pattern = patterns.get(acl.resource_name)
                before = () if pattern is None else pattern.get(subject) or ()
                subjects[subject] = {other.id: other for other in before}
            if stays:
                subjects[subject][acl.id] = acl
            else:
                subjects[subject].pop(acl.id, None)
    return patterns.updated(
        {name: _changed_pattern(patterns.get(name), subjects) for name, subjects in touched.items()}
    )


def _changed_pattern(
    pattern: PatternAcls | None, subjects: dict[Subject, dict[str, Acl]]
) -> PatternAcls | None:
    changed = (PatternAcls() if pattern is None else pattern).updated(
        {subject: tuple(sorted(acls.values(), key=_deny_first)) or None for subject, acls in subjects.items()}
    )
    return changed or None


def _changed_names(
    names: ShardedMap[Entry, SortedNames], outdated: list[Acl], current: list[Acl]
) -> ShardedMap[Entry, SortedNames]:
    touched: dict[Entry, tuple[list[Pair], list[Pair]]] = {}
    for acls, place in ((outdated, 0), (current, 1)):
        for acl in acls:
            allows = acl.permission_type == PermissionType.ALLOW
            entry = (acl.principal, acl.host, acl.operation, acl.pattern_type, allows)
            touched.setdefault(entry, ([], []))[place].append((acl.resource_name, acl.id))
    changes: dict[Entry, SortedNames | None] = {}
    for entry, (removed, added) in touched.items():
        changes[entry] = (names.get(entry) or SortedNames.EMPTY).updated(removed, added) or None
    return names.updated(changes)


def _changed_lengths(
    resource: ResourceAcls, prefixed: ShardedMap[str, PatternAcls], names: set[str]
) -> dict[int, int]:
    """Return the number of prefixed patterns of each length, without lengths that no longer occur."""
    lengths = dict(resource.prefixes_of_length)
    for name in names:
        change = (name in prefixed) - (name in resource.prefixed)
        if change:
            lengths[len(name)] = lengths.get(len(name), 0) + change
    return {length: count for length, count in lengths.items() if count}


def _deny_first(acl: Acl) -> tuple[bool, int, str]:
    # The order depends on the set, not on its history: equal sets make equal images.
    return (acl.permission_type == PermissionType.ALLOW, acl.operation, acl.id)


def credential_from_record(record: types.UserScramCredentialRecord) -> ScramCredential:
    """Return the credential of a record."""
    secrets = bytes(record.salt), bytes(record.stored_key), bytes(record.server_key)
    return ScramCredential(*secrets, record.iterations, end_of_tags(record.unknown_tags))


def token_from_record(record: types.DelegationTokenRecord) -> DelegationToken:
    """Return the token of a record; MetadataError if one of its principals is malformed."""
    for principal in (record.owner, record.requester, *record.renewers):
        if ":" not in principal:
            raise MetadataError(f"DelegationTokenRecord: {principal!r} is not a principal")
    return DelegationToken(
        token_id=record.token_id,
        owner=record.owner,
        requester=record.requester,
        renewers=tuple(record.renewers),
        issue_timestamp_ms=record.issue_timestamp,
        max_timestamp_ms=record.max_timestamp,
        expiry_timestamp_ms=record.expiration_timestamp,
    )


class TopicsDelta:
    """Changes to `image`."""

    def __init__(self, image: TopicsImage) -> None:
        self._image = image
        self._topics: dict[str, Topic | None] = {}
        self._names: dict[str, str | None] = {}

    def set_topic(self, record: types.TopicRecord) -> None:
        """Apply a TopicRecord. A new id means a new topic, which inherits nothing."""
        topic_id = uuid_text(bytes(record.topic_id))
        known = self._topic(record.name)
        if known is not None and known.id is not None and known.id != topic_id:
            self._names[known.id] = None
            known = None
        self._topics[record.name] = replace(known or Topic(record.name), id=topic_id)
        self._names[topic_id] = record.name

    def set_partition(self, record: types.PartitionRecord) -> None:
        """Apply a PartitionRecord: partitions are numbered from 0, and never removed from a topic."""
        topic = self._of_id(record)
        if topic is not None:
            count = max(topic.partitions, record.partition_id + 1)
            self._topics[topic.name] = replace(topic, partitions=count)

    def set_config(self, record: types.ConfigRecord) -> None:
        """Apply a ConfigRecord of a topic; without a value the config is reset to its default."""
        if record.resource_type != TOPIC_CONFIG:
            return
        topic = self._topic(record.resource_name) or Topic(record.resource_name)
        configs = dict(topic.configs)
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value
        has_content = topic.id is not None or configs
        changed = replace(topic, configs=MappingProxyType(configs)) if has_content else None
        self._topics[record.resource_name] = changed

    def remove_topic(self, record: types.RemoveTopicRecord) -> None:
        """Apply a RemoveTopicRecord. An unknown topic was compacted away before."""
        topic = self._of_id(record)
        if topic is not None:
            self._topics[topic.name] = None
            self._names[uuid_text(bytes(record.topic_id))] = None

    def apply(self, total: Sum) -> TopicsImage:
        before = self._image.by_name
        changes = {name: topic for name, topic in self._topics.items() if topic != before.get(name)}
        if not changes:
            return self._image
        total.change(_of_topic, before, changes)
        return TopicsImage(
            before.updated(changes), self._image.names_by_id.updated(self._names), self._owned(changes)
        )

    def _owned(self, changes: dict[str, Topic | None]) -> ShardedMap[str, SortedNames]:
        touched: dict[str, tuple[list[Pair], list[Pair]]] = {}
        for name, topic in changes.items():
            before = self._image.by_name.get(name)
            if before is not None and topic is not None and before.same_owner(topic):
                continue
            for state, place in ((before, 0), (topic, 1)):
                if state is not None and state.owner is not None and state.id is not None:
                    touched.setdefault(state.owner, ([], []))[place].append((name, state.id))
        owned: dict[str, SortedNames | None] = {}
        for owner, (removed, added) in touched.items():
            names = self._image.owned_by(owner).updated(removed, added)
            owned[owner] = names if names else None
        return self._image.owned.updated(owned)

    def _topic(self, name: str) -> Topic | None:
        return self._topics[name] if name in self._topics else self._image.by_name.get(name)

    def _of_id(self, record: types.PartitionRecord | types.RemoveTopicRecord) -> Topic | None:
        topic_id = uuid_text(bytes(record.topic_id))
        known = self._names[topic_id] if topic_id in self._names else self._image.names_by_id.get(topic_id)
        return None if known is None else self._topic(known)


IGNORED_RECORDS = frozenset(
    {
        "BrokerRegistrationChangeRecord",
        "ClearElrRecord",
        "FenceBrokerRecord",
        "NoOpRecord",
        "PartitionChangeRecord",
        "ProducerIdsRecord",
        "RegisterBrokerRecord",
        "RegisterControllerRecord",
        "UnfenceBrokerRecord",
        "UnregisterBrokerRecord",
        "UnregisterControllerRecord",
        "ZkMigrationStateRecord",
    }
)
"""Kafka's own records that change nothing in an image. A record that is neither here nor in the table below
stops the replay: an unknown record may be a restriction that would not be enforced."""

IGNORED_API_KEYS = frozenset(map(catalog.record_key, IGNORED_RECORDS))
"""The same by API key, to skip them without decoding."""

TOPIC_API_KEYS = frozenset(
    map(catalog.record_key, ("ConfigRecord", "PartitionRecord", "RemoveTopicRecord", "TopicRecord"))
)
"""Records of topics: no decision depends on those in Kafka's own log."""


METADATA_VERSION = "metadata.version"
FIRST_WITH_NETWORKS = 32
"""4.4-IV1, from which on a network may be the host of an ACL (KIP-1276)."""
FEATURES = {
    METADATA_VERSION: 33,
    "kraft.version": 1,
    "transaction.version": 2,
    "group.version": 1,
    "eligible.leader.replicas.version": 1,
    "share.version": 2,
    "streams.version": 1,
}
"""Feature -> the highest level of Kafka 4.4, whose records are known."""


class MetadataDelta:
    """The changes of a run of records to `image`; `apply` returns the next image.

    `compacted`: the log retains only the last record of a key, so it may hold the removal of something that
    was never added. KRaft's own log is not compacted: pass False.
    """

    def __init__(self, image: MetadataImage, *, compacted: bool = True) -> None:
        self._image = image
        self._acls = AclsDelta(image.acls, compacted=compacted)
        self._limits: dict[QuotaEntity, dict[str, float]] = {}
        self._credentials: dict[tuple[ScramMechanism, str], ScramCredential | None] = {}
        self._tokens: dict[str, DelegationToken | None] = {}
        self._topics = TopicsDelta(image.topics)
        self._not_understood: dict[str, NotUnderstood | None] = {}
        self._offset = -1

    def replay(self, message: Message, offset: int = -1) -> None:
        """Apply one record; MetadataError if its kind is unknown or it contradicts the image.

        `offset`: of the record, for reports about it.
        """
        self._offset = offset
        kind = type(message).__name__
        replay = _REPLAYS.get(kind)
        if replay is not None:
            replay(self, message)
        elif kind not in IGNORED_RECORDS:
            raise MetadataError(f"{kind} is an unknown record type")

    def apply(self, offset: int) -> MetadataImage:
        """Return the image after all records so far, the last of which has this offset."""
        total = Sum(self._image.total)
        return MetadataImage(
            offset,
            self._acls.apply(total),
            self._applied_quotas(total),
            self._applied_scram(total),
            self._applied_tokens(total),
            self._topics.apply(total),
            self._applied_not_understood(),
            total.total,
        )

    @property
    def touched_quotas(self) -> Collection[QuotaEntity]:
        """The entities of the quota records, in log order, without duplicates."""
        return self._limits.keys()

    def _add_acl(self, record: types.AccessControlEntryRecord) -> None:
        acl = acl_from_record(record)
        self._acls.add(acl)
        self._note_acl(acl)

    def _note_acl(self, acl: Acl) -> None:
        faults = acl.faults(self._acls.networks)
        what = f"ACL {acl.id}: {'; '.join(faults)}" if faults else None
        self._note(acl.id, "AccessControlEntryRecord", what)

    def _remove_acl(self, record: types.RemoveAccessControlEntryRecord) -> None:
        acl_id = uuid_text(bytes(record.id))
        self._acls.remove(acl_id)
        self._note(acl_id, "", None)

    def _set_feature(self, record: types.FeatureLevelRecord) -> None:
        known, level = FEATURES.get(record.name), record.feature_level
        what = f"{record.name} {level}, known: {'none' if known is None else known}"
        is_known = level == 0 or (known is not None and level <= known)
        self._note(f"feature {record.name}", "FeatureLevelRecord", None if is_known else what)
        if record.name == METADATA_VERSION:
            networks = level >= FIRST_WITH_NETWORKS
            if networks != self._acls.networks:
                self._acls.networks = networks
                for acl in self._acls.of_networks():
                    self._note_acl(acl)

    def _note(self, key: str, record: str, what: str | None) -> None:
        self._not_understood[key] = None if what is None else NotUnderstood(self._offset, record, what)

    def _change_quota(self, record: types.ClientQuotaRecord) -> None:
        try:
            entity = QuotaEntity.of((part.entity_type, part.entity_name) for part in record.entity)
        except ValueError as error:
            raise MetadataError(f"ClientQuotaRecord: {error}") from error
        if entity not in self._limits:
            self._limits[entity] = dict(self._image.quotas.limits.get(entity) or {})
        if record.remove:
            self._limits[entity].pop(record.key, None)
        elif math.isfinite(record.value):
            self._limits[entity][record.key] = record.value
        else:
            raise MetadataError(f"ClientQuotaRecord for {entity.path}: {record.key} is {record.value}")

    def _add_credential(self, record: types.UserScramCredentialRecord) -> None:
        self.set_credential(*_credential_key(record), credential_from_record(record))

    def set_credential(self, mechanism: ScramMechanism, user: str, credential: ScramCredential) -> None:
        self._credentials[mechanism, user] = credential

    def _remove_credential(self, record: types.RemoveUserScramCredentialRecord) -> None:
        self._credentials[_credential_key(record)] = None

    def _set_token(self, record: types.DelegationTokenRecord) -> None:
        self._tokens[record.token_id] = token_from_record(record)

    def _remove_token(self, record: types.RemoveDelegationTokenRecord) -> None:
        self._tokens[record.token_id] = None

    def _applied_quotas(self, total: Sum) -> QuotasImage:
        before = self._image.quotas.limits
        changes: dict[QuotaEntity, Mapping[str, float] | None] = {
            entity: MappingProxyType(limits) if limits else None
            for entity, limits in self._limits.items()
            if limits != (before.get(entity) or {})
        }
        total.change(_of_limits, before, changes)
        if not changes:
            return self._image.quotas
        groups = _recounted(
            self._image.quotas.entities_of_group,
            _groups(str(entity.user) for entity in changes if entity in before),
            _groups(str(entity.user) for entity, limits in changes.items() if limits),
        )
        return QuotasImage(before.updated(changes), groups)

    def _applied_not_understood(self) -> ShardedMap[str, NotUnderstood]:
        before = self._image.not_understood
        changes = {key: value for key, value in self._not_understood.items() if value != before.get(key)}
        return before.updated(changes) if changes else before

    def _applied_scram(self, total: Sum) -> ScramImage:
        before = self._image.scram.credentials
        changes = {key: value for key, value in self._credentials.items() if value != before.get(key)}
        total.change(of_credential, before, changes)
        if not changes:
            return self._image.scram
        credentials, first = before.updated(changes), self._image.scram.first
        # All are looked through only when one of the first is removed.
        added = {key for key, value in changes.items() if value is not None}
        known = added.union(first) if all(key in credentials for key in first) else credentials
        return ScramImage(credentials, tuple(nsmallest(2, known)))

    def _applied_tokens(self, total: Sum) -> TokensImage:
        before = self._image.tokens.by_id
        changes = {key: value for key, value in self._tokens.items() if value != before.get(key)}
        total.change(_of_token, before, changes)
        return TokensImage(before.updated(changes)) if changes else self._image.tokens


# Functions, not bound methods: a delta is free at once after its last use.
_REPLAYS: Mapping[str, Callable[[MetadataDelta, Any], None]] = {
    "AccessControlEntryRecord": MetadataDelta._add_acl,
    "RemoveAccessControlEntryRecord": MetadataDelta._remove_acl,
    "ClientQuotaRecord": MetadataDelta._change_quota,
    "UserScramCredentialRecord": MetadataDelta._add_credential,
    "RemoveUserScramCredentialRecord": MetadataDelta._remove_credential,
    "DelegationTokenRecord": MetadataDelta._set_token,
    "RemoveDelegationTokenRecord": MetadataDelta._remove_token,
    "TopicRecord": lambda delta, record: delta._topics.set_topic(record),
    "PartitionRecord": lambda delta, record: delta._topics.set_partition(record),
    "ConfigRecord": lambda delta, record: delta._topics.set_config(record),
    "RemoveTopicRecord": lambda delta, record: delta._topics.remove_topic(record),
    "FeatureLevelRecord": MetadataDelta._set_feature,
}


def _credential_key(
    record: types.UserScramCredentialRecord | types.RemoveUserScramCredentialRecord,
) -> tuple[ScramMechanism, str]:
    mechanism = ScramMechanism(record.mechanism)
    if mechanism is ScramMechanism.UNKNOWN:
        raise MetadataError(f"{type(record).__name__} with SCRAM mechanism {record.mechanism}")
    return mechanism, record.name


def _of_acl(_id: str, acl: Acl) -> bytes:
    # Without an end the element is that of releases that know of none.
    end = () if acl.until_ms is None else (acl.until_ms,)
    return element("acl", acl.id, acl.resource_name, acl.principal, acl.host, *acl.numbers, *end)


def _of_limits(entity: QuotaEntity, limits: Mapping[str, float]) -> bytes:
    return element("quota", entity.path, sorted(limits.items()))


def of_credential(key: tuple[ScramMechanism, str], credential: ScramCredential) -> bytes:
    """The element of a SCRAM credential."""
    mechanism, user = key
    end = () if credential.until_ms is None else (credential.until_ms,)
    return element("scram", int(mechanism), user, credential.iterations, credential.fingerprint.hex(), *end)


def _of_token(_id: str, token: DelegationToken) -> bytes:
    return element(
        "token",
        token.token_id,
        token.owner,
        token.requester,
        list(token.renewers),
        token.issue_timestamp_ms,
        token.max_timestamp_ms,
        token.expiry_timestamp_ms,
    )


def _of_topic(name: str, topic: Topic) -> bytes:
    return element("topic", name, topic.id, topic.partitions, sorted(topic.configs.items()))
