"""The entity that a quota is set for, and the filter of DescribeClientQuotas.

Names are raw, as in Kafka's ClientQuotaRecord; only `path` is sanitized. Kafka's Sanitizer encodes names in
paths, quota-ids and metric tags: Java's URL encoding, with `*` and space percent-encoded as well.
proxy.quota.precedence decides which of several entities governs a request.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from hashlib import sha256
from typing import Final, Protocol, TypeVar
from urllib.parse import quote

from proxy.wire.error_codes import ErrorCode


def sanitize(name: str) -> str:
    """Return `name` with all but letters, digits and `-`, `_`, `.` as the %XX of its UTF-8 bytes."""
    # Java encodes the tilde, Python's quote does not; half a surrogate pair becomes `?` in Java.
    return quote(name, safe="", errors="replace").replace("~", "%7E")


MAX_NAME_CHARACTERS = 255
"""Of names that clients choose, where they are stored: Kafka accepts client ids of 32,767 bytes."""
_HASH_CHARACTERS = 32


def short_name(name: str) -> str:
    """Return the name; of a long one, its beginning, `~` and a hash of all of it.

    What is stored for a name is bounded, and different names stay different. Quota-ids, audit records and
    metrics have client ids like this. The short name of a short name is the same one.
    spark_audit.policy.quota_limits computes it too.
    """
    if len(name) <= MAX_NAME_CHARACTERS:
        return name
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
    return f"{name[: MAX_NAME_CHARACTERS - 1 - _HASH_CHARACTERS]}~{digest}"


USER = "user"
CLIENT_ID = "client-id"
IP = "ip"


class Default(Enum):
    """A type of its own instead of the string "<default>", which a client may use as its id."""

    DEFAULT = "<default>"


DEFAULT: Final = Default.DEFAULT

Name = str | Default | None
"""A name, the default of that kind, or None: the entity has no such part."""

_DIRECTORIES = ((USER, "users"), (CLIENT_ID, "clients"), (IP, "ips"))


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """A user, a client-id, both, or an ip, each by name or as the default."""

    user: Name = None
    client_id: Name = None
    ip: Name = None

    @classmethod
    def of(cls, parts: Iterable[tuple[str, str | None]]) -> "QuotaEntity":
        """Return the entity of (entity type, name) pairs, where the name None is the default.

        ValueError for an unknown type, a type that occurs twice, or no type.
        """
        names: dict[str, Name] = {}
        for entity_type, name in parts:
            if entity_type not in (USER, CLIENT_ID, IP):
                raise ValueError(f"unknown quota entity type {entity_type!r}")
            if entity_type in names:
                raise ValueError(f"quota entity type {entity_type!r} appears twice")
            names[entity_type] = DEFAULT if name is None else name
        if not names:
            raise ValueError("a quota entity without any part")
        return cls(names.get(USER), names.get(CLIENT_ID), names.get(IP))

    @property
    def parts(self) -> dict[str, str | None]:
        """Entity type -> name as on the wire, where None is the default."""
        named = ((USER, self.user), (CLIENT_ID, self.client_id), (IP, self.ip))
        return {kind: None if name is DEFAULT else str(name) for kind, name in named if name is not None}

    @property
    def path(self) -> str:
        """ "users/<user>/clients/<client>" with sanitized names and `<default>`, as in KIP-55."""
        parts = self.parts
        return "/".join(
            f"{directory}/{_node(parts[kind])}" for kind, directory in _DIRECTORIES if kind in parts
        )


def _node(name: str | None) -> str:
    # No sanitized name contains "<", so a user named "<default>" is not the default.
    return str(DEFAULT.value) if name is None else sanitize(name)


class EntityPart(Protocol):
    """A part of an entity in a request or response."""

    entity_type: str
    entity_name: str | None


Part = TypeVar("Part", bound=EntityPart)


def last_of_each_type(parts: Sequence[Part]) -> list[Part]:
    """Return the parts that count: as in Kafka's map, the last one of each type."""
    return list({part.entity_type: part for part in parts}.values())


class MatchType(IntEnum):
    """How one component of a DescribeClientQuotas filter matches."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2
    """Kafka's "specified": the entity has such a part, whatever its name."""


class QuotaFilterError(ValueError):
    """A filter that Kafka rejects with `error_code`."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """The filter of a DescribeClientQuotas request.

    `exact` has the types with the name that they must have (None: the default), `present` those that may have
    any name. `strict` excludes entities with further parts.
    """

    exact: tuple[tuple[str, str | None], ...]
    present: tuple[str, ...]
    strict: bool

    @classmethod
    def of(cls, components: Iterable[tuple[str, int, str | None]], strict: bool) -> "QuotaFilter":
        """Return the filter of (entity type, match type, match) components; QuotaFilterError as in Kafka."""
        exact: dict[str, str | None] = {}
        present: dict[str, None] = {}
        for entity_type, match_type, match in components:
            _check_component(entity_type, match_type, match)
            if entity_type in exact or entity_type in present:
                raise _invalid(f"Entity type {entity_type} cannot appear more than once in the filter.")
            if match_type == MatchType.ANY:
                present[entity_type] = None
            else:
                exact[entity_type] = match
        kinds = {*exact, *present}
        if IP in kinds and len(kinds) > 1:
            raise _invalid("An ip component cannot be combined with a user or client-id component.")
        return cls(tuple(exact.items()), tuple(present), strict)

    def matches(self, entity: QuotaEntity) -> bool:
        parts = entity.parts
        if self.strict and len(parts) != len(self.exact) + len(self.present):
            return False
        return all(kind in parts and parts[kind] == name for kind, name in self.exact) and all(
            kind in parts for kind in self.present
        )


def _check_component(entity_type: str, match_type: int, match: str | None) -> None:
    if not entity_type:
        raise _invalid("Invalid empty entity type.")
    if entity_type not in (USER, CLIENT_ID, IP):
        raise QuotaFilterError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {entity_type}")
    if match_type not in (MatchType.EXACT, MatchType.DEFAULT, MatchType.ANY):
        raise _invalid(f"Unknown match type {match_type}")
    if match_type == MatchType.EXACT and match is None:
        raise _invalid("An exact match needs a match string, and it is null.")
    if match_type != MatchType.EXACT and match is not None:
        raise _invalid(f"Match type {match_type} takes no match string, and it is {match!r}.")


def _invalid(message: str) -> QuotaFilterError:
    return QuotaFilterError(ErrorCode.INVALID_REQUEST, message)
