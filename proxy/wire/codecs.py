"""Decodes and encodes the body of a message in one version.

    codec = codecs.request(header.api_key, header.api_version)
    message, end = codec.decode(frame, header.body_offset)

If the message is known beforehand, `codecs.of(types.CreateAclsRequest, 3)` returns the same codec, and type
checkers know what it decodes. Codecs are generated from the schema on first use, and cached.

A projection (`raw=("topics.partitions",)`) leaves fields undecoded: such a field is a memoryview of its bytes
with the length prefix, which is checked but not built, and which encode writes back unchanged. A tagged field
that is absent is None.
"""

from collections.abc import Callable
from functools import cache, cached_property, lru_cache
from typing import Any, Generic, Protocol, TypeVar

from proxy.wire import catalog
from proxy.wire.decoder import write_decoder
from proxy.wire.encoder import write_encoder
from proxy.wire.errors import Malformed, WireError
from proxy.wire.message import Message, classes_of
from proxy.wire.primitives import Buffer
from proxy.wire.schema import MessageSchema, Struct
from proxy.wire.source import Source

MessageType = TypeVar("MessageType", bound=Message)
Decoded = TypeVar("Decoded", bound=Message, covariant=True)


class Decode(Protocol[Decoded]):
    """`decode(buffer, offset) -> (message, end)`."""

    def __call__(self, buffer: Buffer, offset: int = 0) -> tuple[Decoded, int]: ...


class Codec(Generic[MessageType]):
    """Decodes and encodes the body of one message in one version (and projection)."""

    def __init__(self, schema: MessageSchema, version: int, raw: tuple[str, ...] = ()) -> None:
        self._schema = schema
        self._raw = raw
        self.name = schema.name
        self.version = version

    @cached_property
    def decode(self) -> Decode[MessageType]:
        """`decode(buffer, offset=0) -> (message, end)`. WireError for malformed bytes.

        Fields of type bytes and records are views of the buffer, everything else is copied. Bytes after `end`
        are ignored.
        """
        source, compiled = write_decoder(self._schema, self.version, self._raw, classes_of(self._schema.name))

        def explain(fault: Exception, size_bytes: int) -> WireError:
            reason = str(fault)
            if isinstance(fault, UnicodeDecodeError):
                reason = f"not UTF-8 at byte {fault.start} of {len(fault.object)}"
            elif not isinstance(fault, Malformed):
                reason = f"the bytes end here, after {size_bytes}"
            return self._error(source, fault, reason)

        decode: Decode[MessageType] = compiled(explain)
        return decode

    @cached_property
    def encode(self) -> Callable[[MessageType], bytes]:
        """`encode(message) -> bytes`. WireError if the message does not fit the version."""
        source, compiled = write_encoder(self._schema, self.version, self._raw)

        def explain(fault: Exception) -> WireError:
            return self._error(source, fault, str(fault))

        encode: Callable[[MessageType], bytes] = compiled(explain)
        return encode

    def decode_exactly(self, buffer: Buffer) -> MessageType:
        """Return the message that fills the buffer; WireError for trailing bytes."""
        message, end = self.decode(buffer)
        if end != len(buffer):
            raise WireError(f"{self}: {len(buffer) - end} bytes after the end at byte {end}")
        return message

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"

    def _error(self, source: Source, fault: Exception, reason: str) -> WireError:
        field = source.field_at(fault.__traceback__)
        return WireError(f"{self}: {field}: {reason}" if field else f"{self}: {reason}")


AnyCodec = Codec[Any]
"""The codec of a message that is known only by its API key: the decoded message has type Any."""


def of(message: type[MessageType], version: int) -> Codec[MessageType]:
    """Return the codec of a class: `codecs.of(types.FetchRequest, 12)`. WireError for an unknown version."""
    return data(message.__name__, version)


@cache
def request(api_key: int, version: int, raw: tuple[str, ...] = ()) -> AnyCodec:
    """Return the codec of a request.

    WireError for a key without a live API or an unknown version; ValueError for an unknown raw field.
    """
    return _codec(catalog.request(api_key), version, raw)


@cache
def response(api_key: int, version: int, raw: tuple[str, ...] = ()) -> AnyCodec:
    """Return the codec of a response; errors as in `request`."""
    return _codec(catalog.response(api_key), version, raw)


@cache
def record(api_key: int, version: int) -> AnyCodec:
    """Return the codec of a metadata record, without its frame. WireError for an unknown key or version."""
    return _codec(catalog.record(api_key), version, ())


@cache
def data(name: str, version: int) -> AnyCodec:
    """Return the codec of other data, such as DefaultPrincipalData.

    WireError for an unknown name or version.
    """
    return _codec(catalog.by_name(name), version, ())


@cache
def _codec(schema: MessageSchema, version: int, raw: tuple[str, ...]) -> AnyCodec:
    if version not in schema.versions:
        raise WireError(f"{schema.name} has versions {schema.versions}, not {version}")
    for path in raw:
        _check_path(schema, path)
    return Codec(schema, version, raw)


def _check_path(schema: MessageSchema, path: str) -> None:
    struct: Struct | None = schema.root
    for attribute in path.split("."):
        fields = {f.attribute: f for f in struct.fields} if struct is not None else {}
        if attribute not in fields:
            raise ValueError(f"{schema.name} has no field {path}")
        struct = fields[attribute].struct


@cache
def request_versions(api_key: int, unstable: bool = False) -> range:
    """Return the versions that Kafka offers; WireError for a key without a live API.

    `unstable` includes a version that Kafka has not released.
    """
    schema = catalog.request(api_key)
    offered = schema.versions.range
    return offered[:-1] if schema.latest_version_unstable and not unstable else offered


@lru_cache(maxsize=1_024)  # Clients choose the numbers.
def is_flexible(api_key: int, version: int) -> bool:
    """Whether requests and responses of this version are flexible; False for unknown APIs."""
    first = catalog.first_flexible_versions().get(api_key)
    return first is not None and version >= first


@cache
def live_api_keys() -> tuple[int, ...]:
    """Return the keys of all APIs with at least one version, in order."""
    return catalog.live_api_keys()
