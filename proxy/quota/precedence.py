"""Which quota governs a client, and who shares its bucket (KIP-55, in Kafka's order)."""

from collections.abc import Iterator
from dataclasses import dataclass

from proxy.metadata.image import QuotasImage
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity, sanitize


@dataclass(frozen=True, slots=True)
class Governing:
    """The limit that applies, and the tags of its bucket.

    `entity` is None if the static default of the proxy applies. `user_tag` is sanitized, `client_tag` is the
    raw client-id; a tag is "" if the bucket is shared by all its values.
    """

    limit: float
    entity: QuotaEntity | None
    user_tag: str
    client_tag: str

    @property
    def quota_id(self) -> str:
        """ "user2:clientA", "user2:" or ":clientA", as in logs, audit records and metrics."""
        return f"{self.user_tag}:{self.client_tag}"


def candidates(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, bool, bool]]:
    """Yield the entities in order of precedence: entity, a bucket for each user?, for each client-id?

    The governing entity is not the quota-id: a default user quota still gives each user its own bucket.
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
    """Return the limit on `key` ("producer_byte_rate") for this client, or None.

    `user` is the raw principal name (None: ANONYMOUS). `static_default` is quota.producer.default or
    quota.consumer.default: one bucket for each client-id, over all users. Each key is resolved by itself. A
    client without client-id has the empty one, so that it cannot evade a default.
    """
    user, client_id = "ANONYMOUS" if user is None else user, client_id or ""
    for entity, per_user, per_client in candidates(user, client_id):
        limit = quotas.limit(entity, key)
        if limit is not None:
            return Governing(
                limit, entity, sanitize(user) if per_user else "", client_id if per_client else ""
            )
    return None if static_default is None else Governing(static_default, None, "", client_id)
