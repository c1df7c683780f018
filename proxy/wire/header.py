"""Frames, and the headers of requests and responses.

A frame is a four-byte length, then as many bytes. Only channels use `FrameDecoder`, for responses; the
request path splits frames in place. Headers are written by hand instead of generated, because every frame
passes here; tests compare them with the codecs of the RequestHeader and ResponseHeader schemas.
"""

import struct
from typing import NamedTuple

from proxy.wire.api_keys import ApiKey
from proxy.wire.codecs import is_flexible
from proxy.wire.errors import Malformed, OtherProtocol, WireError
from proxy.wire.primitives import Buffer, read_unknown_tags
from proxy.wire.protocols import in_place_of_a_response

_LENGTH = struct.Struct(">i")

_REQUEST_START = struct.Struct(">hhih")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_LENGTH_AND_CORRELATION_ID = struct.Struct(">ii")
_API_VERSIONS = int(ApiKey.API_VERSIONS)
_EMPTY_TAG_SECTION = b"\x00"
_FAULTS = (struct.error, IndexError, ValueError)


class FrameDecoder:
    """Collects bytes until frames are complete. It cannot be used after a WireError."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()

    def feed(self, data: Buffer) -> list[bytes]:
        """Return the frames that `data` completes, in order, without length prefix.

        WireError for a bad length.
        """
        self._buffer += data
        frames = []
        position = 0
        while (stop := self._frame_end(position)) is not None:
            frames.append(bytes(self._buffer[position + _LENGTH.size : stop]))
            position = stop
        del self._buffer[:position]
        return frames

    def _frame_end(self, position: int) -> int | None:
        if len(self._buffer) - position < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer, position)
        # The limit is checked before the body arrives: a peer that has not authenticated may fill one small
        # buffer only.
        if not 0 <= length <= self._max_frame_bytes:
            other = in_place_of_a_response(self._buffer[position : position + _LENGTH.size])
            if other is not None:
                raise OtherProtocol(other)
            raise WireError(f"frame of {length} bytes, limit {self._max_frame_bytes}")
        stop: int = position + _LENGTH.size + length
        return stop if stop <= len(self._buffer) else None


class RequestHeader(NamedTuple):
    """The fields of a request header. `body_offset` counts from the start of the buffer."""

    # A tuple, because one is made for every request: a frozen dataclass costs half a microsecond more.

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def decode_request_header(buffer: Buffer, offset: int = 0) -> RequestHeader:
    """Return the header at `offset`, the position of its API key. Tagged fields are skipped.

    WireError if it is malformed. Headers with unknown API keys are returned too, so that the caller can name
    what it rejects; whether tagged fields follow the client id is then unknown, and `body_offset` is before
    them.
    """
    try:
        api_key, version, correlation_id, client_id_bytes = _REQUEST_START.unpack_from(buffer, offset)
        position = offset + _REQUEST_START.size
        client_id = None
        if client_id_bytes != -1:
            client_id, position = _client_id(buffer, position, client_id_bytes)
        if is_flexible(api_key, version):
            position = _after_tags(buffer, position)
    except _FAULTS as fault:
        raise WireError(f"request header: {_reason(fault, buffer)}") from None
    return RequestHeader(api_key, version, correlation_id, client_id, position)


def decode_client_id(raw_id: bytes) -> str | None:
    """Return the client id of a header from its length and its bytes. WireError if they are no client id."""
    try:
        (size_bytes,) = _INT16.unpack_from(raw_id)
        return None if size_bytes == -1 else _client_id(raw_id, _INT16.size, size_bytes)[0]
    except _FAULTS as fault:
        raise WireError(f"request header: {_reason(fault, raw_id)}") from None


def _client_id(buffer: Buffer, position: int, size_bytes: int) -> tuple[str, int]:
    stop = position + size_bytes
    if size_bytes < 0 or stop > len(buffer):
        raise Malformed(f"a client id of {size_bytes} bytes, {len(buffer) - position} left")
    try:
        # The client id has a two-byte length in flexible headers too: an old broker must be able to read it.
        return str(buffer[position:stop], "utf-8"), stop
    except UnicodeDecodeError:
        raise Malformed("the client id is not UTF-8") from None


def _after_tags(buffer: Buffer, position: int) -> int:
    return position + 1 if buffer[position] == 0 else read_unknown_tags(buffer, position)[1]


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, body: bytes
) -> bytes:
    """Return a whole frame with length prefix and header. WireError if the client id is too long."""
    tags = _EMPTY_TAG_SECTION if is_flexible(api_key, version) else b""
    try:
        encoded = b"" if client_id is None else client_id.encode()
        length = -1 if client_id is None else len(encoded)
        start = _REQUEST_START.pack(api_key, version, correlation_id, length)
    except (struct.error, UnicodeEncodeError) as fault:
        raise WireError(f"request header: {fault}") from None
    size = len(start) + len(encoded) + len(tags) + len(body)
    return b"".join((_INT32.pack(size), start, encoded, tags, body))


def encode_response(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """Return a whole frame with length prefix and header."""
    tags = _EMPTY_TAG_SECTION if _has_response_tags(api_key, version) else b""
    start = _LENGTH_AND_CORRELATION_ID.pack(_INT32.size + len(tags) + len(body), correlation_id)
    return b"".join((start, tags, body))


def response_body_offset(api_key: int, version: int) -> int:
    """Return where the body starts, from the correlation id on, if the header has no tagged fields."""
    return _INT32.size + _has_response_tags(api_key, version)


def decode_response_header(api_key: int, version: int, buffer: Buffer, offset: int = 0) -> tuple[int, int]:
    """Return correlation id and body offset of a frame without length prefix. WireError if malformed."""
    try:
        (correlation_id,) = _INT32.unpack_from(buffer, offset)
        position = offset + _INT32.size
        if _has_response_tags(api_key, version):
            position = _after_tags(buffer, position)
    except _FAULTS as fault:
        raise WireError(f"response header: {_reason(fault, buffer)}") from None
    return correlation_id, position


def _reason(fault: Exception, buffer: Buffer) -> str:
    return str(fault) if isinstance(fault, Malformed) else f"the bytes end here, after {len(buffer)}"


def _has_response_tags(api_key: int, version: int) -> bool:
    # A client that requests ApiVersions does not know the broker's versions yet: this header never changes.
    return api_key != _API_VERSIONS and is_flexible(api_key, version)
