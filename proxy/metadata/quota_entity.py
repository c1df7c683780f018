"""Whom a quota is for, and the filter that DescribeClientQuotas carries.

Names are raw here, as in Kafka's ClientQuotaRecord; only `path` is sanitised. Which of several
entities governs a request is proxy.quota.precedence.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final

from proxy.metadata.sanitizer import sanitize
from proxy.wire.error_codes import ErrorCode

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"


class Default(Enum):
    """Its own type, not the string "<default>": a client may well call itself that."""

    DEFAULT = "<default>"


DEFAULT: Final = Default.DEFAULT

Name = str | Default | None
"""A name, the default of that kind, or None: the entity has no such part."""

_DIRECTORIES = ((USER, "users"), (CLIENT_ID, "clients"), (IP, "ips"))


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """Whom a limit is set for: a user, a client-id, both, or an ip, each by name or as the default."""

    user: Name = None
    client_id: Name = None
    ip: Name = None

    @classmethod
    def of(cls, parts: Iterable[tuple[str, str | None]]) -> "QuotaEntity":
        """From (entity type, name) pairs as the wire has them, a null name being the default.

        ValueError for a type that is none of user, client-id, ip, or comes twice, or if there is none.
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
        """Entity type -> name as the wire has them, a null name being the default."""
        named = ((USER, self.user), (CLIENT_ID, self.client_id), (IP, self.ip))
        return {kind: None if name is DEFAULT else str(name) for kind, name in named if name is not None}

    @property
    def path(self) -> str:
        """ "users/<user>/clients/<client>" with sanitised names and `<default>`, as KIP-55 writes it."""
        parts = self.parts
        return "/".join(
            f"{directory}/{_node(parts[kind])}" for kind, directory in _DIRECTORIES if kind in parts
        )


def _node(name: str | None) -> str:
    # No sanitised name contains "<", so a user called "<default>" cannot pass for the default.
    return str(DEFAULT.value) if name is None else sanitize(name)


class MatchType(IntEnum):
    """How one component of a DescribeClientQuotas filter matches."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2
    """Kafka's "specified": the entity has such a part, whatever its name."""


class QuotaFilterError(ValueError):
    """A filter that Kafka refuses; `error_code` is what the client is told."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """Which entities a DescribeClientQuotas means.

    `exact` holds the types that must have that name (None: the default); `present` those that must
    be there under any name; `strict` refuses entities with further parts.
    """

    exact: tuple[tuple[str, str | None], ...]
    present: tuple[str, ...]
    strict: bool

    @classmethod
    def of(cls, components: Iterable[tuple[str, int, str | None]], strict: bool) -> "QuotaFilter":
        """From (entity type, match type, match) as the request has them; QuotaFilterError as Kafka's."""
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
