"""Signs what the active controller writes to the metadata log (SPEC S14, proxy.metadata.signatures).

A log without any signature is begun: its whole state is written again, signed, which is one NoOpRecord if it
is empty. A log that has records is begun only with `metadata.unsigned: report`, because then they are in
effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from forwarding.controller.acls import acl_record
from forwarding.controller.scram import credential_record
from forwarding.controller.tokens import token_record
from forwarding.controller.topic_owner import config_record, topic_record
from proxy.metadata.acl import uuid_bytes
from proxy.metadata.delta import MetadataDelta
from proxy.metadata.image import MetadataImage, Topic
from proxy.metadata.quota_entity import QuotaEntity
from proxy.metadata.signatures import LogVerifier
from proxy.metadata.signing_keys import SigningKey
from proxy.wire import types
from proxy.wire.message import Message


class LogSigner:
    """Makes the signatures of one controller's transactions."""

    def __init__(self, key: SigningKey, topic: str, verifier: LogVerifier) -> None:
        """`verifier`: of the same process. It knows the number of the last transaction."""
        self._key = key
        self._topic = topic
        self._verifier = verifier

    @property
    def has_to_begin(self) -> bool:
        """Whether the log has no signed record yet."""
        return not self._verifier.number

    def sign(
        self, records: Iterable[Message], entries: Sequence[tuple[bytes, bytes]], image: MetadataImage
    ) -> list[bytes]:
        """Return the signatures of a transaction's records, of which `entries` has the keys and values.

        `image`: the state before the transaction.
        """
        delta = MetadataDelta(image)
        for record in records:
            delta.replay(record)
        digest, number = delta.apply(image.offset).digest, self._verifier.number + 1
        return [self._key.sign(self._topic, number, digest, key, value) for key, value in entries]


def state_records(image: MetadataImage) -> Iterator[Message]:
    """Yield records that make this state of an empty log."""
    yield types.NoOpRecord()
    yield from map(acl_record, image.acls.by_id.values())
    for entity, limits in image.quotas.limits.items():
        yield from _quotas(entity, limits)
    for (mechanism, user), credential in image.scram.credentials.items():
        yield credential_record(mechanism, user, credential)
    yield from map(token_record, image.tokens.by_id.values())
    for topic in image.topics.by_name.values():
        yield from _topic(topic)


def _quotas(entity: QuotaEntity, limits: Mapping[str, float]) -> Iterator[Message]:
    part = types.ClientQuotaRecord.EntityData
    parts = [part(entity_type=kind, entity_name=name) for kind, name in entity.parts.items()]
    for key, value in limits.items():
        yield types.ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)


def _topic(topic: Topic) -> Iterator[Message]:
    if topic.id is not None:
        yield topic_record(topic.name, uuid_bytes(topic.id))
    for name, value in topic.configs.items():
        yield config_record(topic.name, value, name)
