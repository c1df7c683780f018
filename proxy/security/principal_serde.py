"""A principal into the bytes of an Envelope and back (KIP-590), as `principal.serde.class` says.

The proxy writes what the controller reads, so both name the same class. Kafka's own is the default;
principals of a builder that have a state of their own (a class derived from Principal) need one that
keeps it.
"""

from typing import Protocol, runtime_checkable

from proxy.security.plugin import plugin
from proxy.security.principal import Principal, deserialize, serialize

SERDE_CLASS = "principal.serde.class"


@runtime_checkable
class PrincipalSerde(Protocol):
    """Made without arguments. What either raises refuses that one request."""

    def serialize(self, principal: Principal) -> bytes:
        """The bytes to be sent to the controller."""
        ...

    def deserialize(self, raw: bytes) -> Principal:
        """The principal of these bytes; any exception when they are none."""
        ...


class DefaultPrincipalSerde:
    """Kafka's: a big-endian int16 version, then DefaultPrincipalData (type, name, whether by token)."""

    def serialize(self, principal: Principal) -> bytes:
        return serialize(principal)

    def deserialize(self, raw: bytes) -> Principal:
        return deserialize(raw)


class GuardedSerde:
    """A serde that fails in one way only: ValueError, whatever it raised or gave instead."""

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
            principal = self.serde.deserialize(raw)
        except Exception as error:
            raise ValueError(f"{SERDE_CLASS}: {error or repr(error)}") from error
        if not isinstance(principal, Principal):
            raise ValueError(f"{SERDE_CLASS}: {len(raw)} bytes became {type(principal).__name__}")
        return principal


def load_principal_serde(dotted_path: str | None) -> PrincipalSerde:
    """ValueError, naming the key, when there is no such class or it is no serde; "" is no class."""
    if not dotted_path:
        raise ValueError(f"{SERDE_CLASS}: empty, and without one nobody can be named to the controller")
    # A Protocol that is looked up at run time: mypy takes it for an abstract class.
    return GuardedSerde(plugin(SERDE_CLASS, dotted_path, PrincipalSerde, "a principal serde"))  # type: ignore[type-abstract]


DEFAULT_SERDE_CLASS = "proxy.security.principal_serde.DefaultPrincipalSerde"
DEFAULT_SERDE: PrincipalSerde = GuardedSerde(DefaultPrincipalSerde())
