"""An authenticated identity: its text in ACLs and logs, its bytes in an Envelope (KIP-590).

SASL exchanges, TLS and Envelopes make principals.
"""

import struct
from dataclasses import dataclass, field

from proxy.wire import codecs, types
from proxy.wire.errors import WireError

USER_TYPE = "User"

_VERSION = struct.Struct(">h")
_DATA_VERSION = 0


@dataclass(frozen=True, slots=True)
class Principal:
    """Two are equal if type and name are; how a client authenticated is not part of its identity."""

    principal_type: str
    name: str
    token_authenticated: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS = Principal(USER_TYPE, "ANONYMOUS")


def parse_principal(text: str) -> Principal:
    """Parse "User:alice"; the name may contain colons. ValueError without one."""
    principal_type, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"expected a principal in the form type:name, got {text!r}")
    return Principal(principal_type, name)


def serialize(principal: Principal) -> bytes:
    """Encode a principal as Kafka's default serde: a big-endian int16 version, then DefaultPrincipalData."""
    data = types.DefaultPrincipalData(
        type=principal.principal_type,
        name=principal.name,
        token_authenticated=principal.token_authenticated,
    )
    body = codecs.of(types.DefaultPrincipalData, _DATA_VERSION).encode(data)
    return _VERSION.pack(_DATA_VERSION) + body


def deserialize(raw: bytes) -> Principal:
    """Decode a principal; ValueError if the bytes are malformed or of an unknown version."""
    if len(raw) < _VERSION.size:
        raise ValueError(f"principal data of {len(raw)} bytes has no version")
    (version,) = _VERSION.unpack_from(raw)
    if version != _DATA_VERSION:
        raise ValueError(f"principal data version {version}, supported: {_DATA_VERSION}")
    try:
        codec = codecs.of(types.DefaultPrincipalData, version)
        data = codec.decode_exactly(memoryview(raw)[_VERSION.size :])
    except WireError as error:
        raise ValueError(f"malformed principal data: {error}") from error
    if ":" in data.type:
        # Its text would be that of another type: "User:a" + "b" is not User "a:b".
        raise ValueError(f"principal type {data.type!r} contains a colon")
    return Principal(data.type, data.name, data.token_authenticated)
