"""Which quota governs a client, and who shares its bucket (KIP-55, in Kafka's order).

Fed with the raw names of a session; asks a QuotasImage. Knows nothing of rates.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from proxy.metadata.image import QuotasImage
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.quota.sanitizer import sanitize


@dataclass(frozen=True, slots=True)
class Governing:
    """The limit that counts, and the tags of the bucket it is counted in.

    `entity` is None when the static default of the proxy governs. `user_tag` is sanitised,
    `client_tag` is the raw client-id; a tag is "" when the bucket is shared over it.
    """

    limit: float
    entity: QuotaEntity | None
    user_tag: str
    client_tag: str

    @property
    def quota_id(self) -> str:
        """ "user2:clientA", "user2:" or ":clientA", as logs, audit and metrics show it."""
        return f"{self.user_tag}:{self.client_tag}"


def candidates(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, bool, bool]]:
    """From the most particular to the most general: entity, bucket per user?, bucket per client-id?

    The entity that governs is not yet the quota-id: a default user quota still gives each user a
    bucket of its own.
    """
    yield QuotaEntity(user=user, client_id=client_id), True, True
    yield QuotaEntity(user=user, client_id=DEFAULT), True, True
    yield QuotaEntity(user=user), True, False
    yield QuotaEntity(user=DEFAULT, client_id=client_id), True, True
    yield QuotaEntity(user=DEFAULT, client_id=DEFAULT), True, True
    yield QuotaEntity(user=DEFAULT), True, False
    yield QuotaEntity(client_id=client_id), False, True
    yield QuotaEntity(client_id=DEFAULT), False, True


def governing(
    quotas: QuotasImage,
    user: str | None,
    client_id: str | None,
    key: str,
    static_default: float | None = None,
) -> Governing | None:
    """What limits `key` ("producer_byte_rate") for this client; None: nothing does.

    `user` is the raw principal name (None: ANONYMOUS). `static_default` is quota.producer.default or
    quota.consumer.default: one bucket per client-id, over all users. Each key is resolved on its
    own. A client that names no client-id has the empty one: it cannot slip past a default.
    """
    user, client_id = "ANONYMOUS" if user is None else user, client_id or ""
    for entity, per_user, per_client in candidates(user, client_id):
        limit = quotas.limit(entity, key)
        if limit is not None:
            return Governing(
                limit, entity, sanitize(user) if per_user else "", client_id if per_client else ""
            )
    return None if static_default is None else Governing(static_default, None, "", client_id)
