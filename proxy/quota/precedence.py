"""Which quota governs a client, and who shares its bucket (KIP-55, in Kafka's order).

And which quotas hold for all proxies together (SPEC Q13): quota.scope, quota.scope.by.quota and
quota.scope.by.entity. Kafka's quota keys are fixed, so the scope cannot be part of the metadata log.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from proxy.metadata.acl import GROUP
from proxy.metadata.image import QuotasImage
from proxy.metadata.quota_entity import DEFAULT, Name, QuotaEntity, sanitize, short_name

Scope: TypeAlias = Literal["proxy", "cluster"]

OTHERS = "<others>"
"""The client tag of the bucket that client ids share for which there is no room."""


@dataclass(frozen=True, slots=True)
class Governing:
    """The limit that applies, and the tags of its bucket.

    `entity` is None if the static default of the proxy applies. `user_tag` is sanitized, with the group if
    the quota is one of a group; `client_tag` is the client-id, shortened if it is long. A tag is "" if the
    bucket is shared by all its values.
    """

    limit: float
    entity: QuotaEntity | None
    user_tag: str
    client_tag: str

    @property
    def is_of_chosen_name(self) -> bool:
        """Whether each client id gets a bucket, and clients choose it: the quota names none."""
        return bool(self.client_tag) and (self.entity is None or self.entity.client_id is DEFAULT)

    def of_others(self) -> "Governing":
        """Return the same limit for one bucket of all client ids for which there is no room."""
        return replace(self, client_tag=OTHERS)

    @property
    def quota_id(self) -> str:
        """ "user2:clientA", "user2:" or ":clientA", as in logs, audit records and metrics."""
        return f"{self.user_tag}:{self.client_tag}"


def candidates(user: str, client_id: str, groups: Collection[str]) -> Iterator[list[QuotaEntity]]:
    """Yield the entities of each level, in order of precedence: Kafka's, and the groups before the default.

    The governing entity is not the quota-id: a default user quota still gives each user its own bucket.
    """
    # Kafka has no quota of a client id, nor a default, for a client without one.
    clients: tuple[Name, ...] = (client_id, DEFAULT) if client_id else ()
    # A principal without a name, as of a certificate without a subject, is no user to Kafka: not even a
    # default applies to it. All such clients share the buckets of their client ids.
    levels: tuple[Iterable[Name], ...] = ([user], [GROUP + name for name in groups], [DEFAULT])
    for users in levels if user else ():
        for client in (*clients, None):
            yield [QuotaEntity(user=each, client_id=client) for each in users]
    for client in clients:
        yield [QuotaEntity(client_id=client)]


def governing(
    quotas: QuotasImage,
    user: str | None,
    client_id: str | None,
    key: str,
    static_default: float | None = None,
    groups: Collection[str] = (),
) -> Governing | None:
    """Return the limit on `key` ("producer_byte_rate") for this client, or None.

    `user` is the raw principal name (None: ANONYMOUS). `static_default` is quota.producer.default or
    quota.consumer.default: one bucket for each client-id, over all users. Each key is resolved by itself. A
    client without client-id has the empty one. `groups` are those of the session, in order: of several with a
    limit at one level the highest limit governs, of equal ones the first.
    """
    user, client_id = "ANONYMOUS" if user is None else user, client_id or ""
    for entities in candidates(user, client_id, groups):
        limits = {entity: limit for entity in entities if (limit := quotas.limit(entity, key)) is not None}
        if limits:
            entity = max(limits, key=limits.__getitem__)
            client_tag = "" if entity.client_id is None else short_name(client_id)
            return Governing(limits[entity], entity, _user_tag(user, entity), client_tag)
    return None if static_default is None else Governing(static_default, None, "", short_name(client_id))


def _user_tag(user: str, entity: QuotaEntity) -> str:
    """Return the tag of the user's bucket. Each group that governs has one of its own: "alice@payments".

    Two sessions of one user may have other groups: each is limited by those of its own login.
    """
    if entity.user is None:
        return ""
    if entity.user in (user, DEFAULT):
        return sanitize(user)
    return f"{sanitize(user)}@{sanitize(str(entity.user).removeprefix(GROUP))}"


def defaults_without_own(quotas: QuotasImage, users: Collection[str], key: str) -> list[QuotaEntity]:
    """Return the default quotas on `key` that govern these users; none if a user has a quota of its own.

    `users` are the names that one client may have, such as a proxy at a broker.
    """
    own = (QuotaEntity(user=user, client_id=client) for user in users for client in (None, DEFAULT))
    if any(quotas.limit(entity, key) is not None for entity in own):
        return []
    return [entity for entity in _DEFAULTS if quotas.limit(entity, key) is not None]


_DEFAULTS = (
    QuotaEntity(user=DEFAULT, client_id=DEFAULT),
    QuotaEntity(user=DEFAULT),
    QuotaEntity(client_id=DEFAULT),
)


@dataclass(frozen=True, slots=True)
class Scopes:
    """The scope of each quota."""

    default: Scope = "proxy"
    by_quota: Mapping[str, Scope] = field(default_factory=dict)
    """By quota key; overrides the default."""
    by_entity: Mapping[str, Scope] = field(default_factory=dict)
    """By the path of the entity that governs (`QuotaEntity.path`); overrides both."""

    @property
    def any_cluster(self) -> bool:
        """Whether a quota may hold for all proxies together."""
        return "cluster" in (self.default, *self.by_quota.values(), *self.by_entity.values())

    def is_cluster(self, key: str, entity: QuotaEntity | None) -> bool:
        """Return whether the quota `key` of this entity holds for all proxies together.

        `entity`: None: the static default of the proxy governs.
        """
        scope = self.by_quota.get(key, self.default)
        if self.by_entity and entity is not None:
            scope = self.by_entity.get(entity.path, scope)
        return scope == "cluster"

    def recorded(self) -> str:
        """Return the scopes for the audit trail: the default, and what differs from it."""
        differing = sorted({**self.by_quota, **self.by_entity}.items())
        return ";".join([self.default, *(f"{name}={scope}" for name, scope in differing)])
