"""Applies records of the metadata log to an image, in log order.

Controller, proxy and snapshots use the same replay. A record is a wire message; the loader tracks offsets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from proxy.metadata.acl import uuid_text
from proxy.metadata.acls_delta import AclsDelta, acl_from_record
from proxy.metadata.errors import MetadataError
from proxy.metadata.image import MetadataImage, QuotasImage, ScramImage, TokensImage
from proxy.metadata.quota_entity import QuotaEntity
from proxy.metadata.scram import ScramCredential, ScramMechanism
from proxy.metadata.tokens import DelegationToken, token_from_record
from proxy.metadata.topics_delta import TopicsDelta
from proxy.wire import catalog, types
from proxy.wire.message import Message

__all__ = ["IGNORED_API_KEYS", "IGNORED_RECORDS", "TOPIC_API_KEYS", "MetadataDelta", "MetadataError"]

IGNORED_RECORDS = frozenset(
    {
        "BrokerRegistrationChangeRecord",
        "ClearElrRecord",
        "FeatureLevelRecord",
        "FenceBrokerRecord",
        "NoOpRecord",
        "PartitionChangeRecord",
        "ProducerIdsRecord",
        "RegisterBrokerRecord",
        "RegisterControllerRecord",
        "UnfenceBrokerRecord",
        "UnregisterBrokerRecord",
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
        self._replays: Mapping[str, Callable[[Any], None]] = {
            "AccessControlEntryRecord": self._add_acl,
            "RemoveAccessControlEntryRecord": self._remove_acl,
            "ClientQuotaRecord": self._change_quota,
            "UserScramCredentialRecord": self._add_credential,
            "RemoveUserScramCredentialRecord": self._remove_credential,
            "DelegationTokenRecord": self._set_token,
            "RemoveDelegationTokenRecord": self._remove_token,
            "TopicRecord": self._topics.set_topic,
            "PartitionRecord": self._topics.set_partition,
            "ConfigRecord": self._topics.set_config,
            "RemoveTopicRecord": self._topics.remove_topic,
        }

    def replay(self, message: Message) -> None:
        """Apply one record; MetadataError if its kind is unknown or it contradicts the image."""
        kind = type(message).__name__
        replay = self._replays.get(kind)
        if replay is not None:
            replay(message)
        elif kind not in IGNORED_RECORDS:
            raise MetadataError(f"{kind} is an unknown record type")

    def apply(self, offset: int) -> MetadataImage:
        """Return the image after all records so far, the last of which has this offset."""
        return MetadataImage(
            offset,
            self._acls.apply(),
            self._applied_quotas(),
            self._applied_scram(),
            self._applied_tokens(),
            self._topics.apply(),
        )

    @property
    def touched_quotas(self) -> Collection[QuotaEntity]:
        """The entities of the quota records, in log order, without duplicates."""
        return self._limits.keys()

    def _add_acl(self, record: types.AccessControlEntryRecord) -> None:
        self._acls.add(acl_from_record(record))

    def _remove_acl(self, record: types.RemoveAccessControlEntryRecord) -> None:
        self._acls.remove(uuid_text(bytes(record.id)))

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
        self._credentials[_credential_key(record)] = ScramCredential(
            salt=bytes(record.salt),
            stored_key=bytes(record.stored_key),
            server_key=bytes(record.server_key),
            iterations=record.iterations,
        )

    def _remove_credential(self, record: types.RemoveUserScramCredentialRecord) -> None:
        self._credentials[_credential_key(record)] = None

    def _set_token(self, record: types.DelegationTokenRecord) -> None:
        self._tokens[record.token_id] = token_from_record(record)

    def _remove_token(self, record: types.RemoveDelegationTokenRecord) -> None:
        self._tokens[record.token_id] = None

    def _applied_quotas(self) -> QuotasImage:
        before = self._image.quotas.limits
        changes = {
            entity: MappingProxyType(limits) if limits else None
            for entity, limits in self._limits.items()
            if limits != (before.get(entity) or {})
        }
        return QuotasImage(before.updated(changes)) if changes else self._image.quotas

    def _applied_scram(self) -> ScramImage:
        before = self._image.scram.credentials
        changes = {key: value for key, value in self._credentials.items() if value != before.get(key)}
        return ScramImage(before.updated(changes)) if changes else self._image.scram

    def _applied_tokens(self) -> TokensImage:
        before = self._image.tokens.by_id
        changes = {key: value for key, value in self._tokens.items() if value != before.get(key)}
        return TokensImage(before.updated(changes)) if changes else self._image.tokens


def _credential_key(
    record: types.UserScramCredentialRecord | types.RemoveUserScramCredentialRecord,
) -> tuple[ScramMechanism, str]:
    mechanism = ScramMechanism(record.mechanism)
    if mechanism is ScramMechanism.UNKNOWN:
        raise MetadataError(f"{type(record).__name__} with SCRAM mechanism {record.mechanism}")
    return mechanism, record.name
