"""Encodes principals in Envelopes (KIP-590), by the class in `principal.serde.class`.

The proxy encodes and the controller decodes, so both have to name the same class. Kafka's serde is the
default; principals with additional state (a class derived from Principal) need one that encodes it.
"""

from typing import Protocol, runtime_checkable

from proxy.security.plugin import plugin
from proxy.security.principal import Principal, deserialize, from_plugin, serialize

SERDE_CLASS = "principal.serde.class"


@runtime_checkable
class PrincipalSerde(Protocol):
    """The class is instantiated without arguments. An exception rejects the request."""

    def serialize(self, principal: Principal) -> bytes:
        """Return the bytes for the controller."""
        ...

    def deserialize(self, raw: bytes) -> Principal:
        """Return the principal of these bytes; any exception if they are invalid."""
        ...


class DefaultPrincipalSerde:
    """Kafka's serde, with the groups of the session: see proxy.security.principal."""

    def serialize(self, principal: Principal) -> bytes:
        return serialize(principal)

    def deserialize(self, raw: bytes) -> Principal:
        return deserialize(raw)


class GuardedSerde:
    """A serde whose failures are always ValueError, whatever it raised or returned."""

    def __init__(self, serde: PrincipalSerde) -> None:
        self.serde = serde

    def serialize(self, principal: Principal) -> bytes:
        try:
            raw = self.serde.serialize(principal)
        except Exception as error:
            raise ValueError(f"{SERDE_CLASS}: {principal} cannot be written: {error!r}") from error
        if not isinstance(raw, bytes):
            raise ValueError(f"{SERDE_CLASS}: {principal} became {type(raw).__name__}, not bytes")
        return raw

    def deserialize(self, raw: bytes) -> Principal:
        try:
            return from_plugin(lambda: self.serde.deserialize(raw))
        except ValueError as error:
            raise ValueError(f"{SERDE_CLASS}: {error}") from error


def load_principal_serde(dotted_path: str | None) -> PrincipalSerde:
    """Load the serde; ValueError names the key if the class is missing or is no serde. "" is an error."""
    if not dotted_path:
        raise ValueError(
            f"{SERDE_CLASS}: empty, and without a class no principal can be sent to the controller"
        )
    # mypy considers a protocol that is checked at run time to be an abstract class.
    return GuardedSerde(plugin(SERDE_CLASS, dotted_path, PrincipalSerde, "a principal serde"))  # type: ignore[type-abstract]


DEFAULT_SERDE_CLASS = "proxy.security.principal_serde.DefaultPrincipalSerde"
DEFAULT_SERDE: PrincipalSerde = GuardedSerde(DefaultPrincipalSerde())
