"""Encodes and decodes the values of the metadata log, in KRaft's framing.

A value is the frame version (1), the record's API key and its version, each an unsigned varint, then the
record.
"""

from collections.abc import Container

from proxy.wire import codecs
from proxy.wire.errors import WireError
from proxy.wire.message import Message
from proxy.wire.primitives import Buffer, read_uvarint, write_uvarint

_FRAME_VERSION = 1


def encode_record(message: Message, version: int = 0) -> bytes:
    """Return the value for the log. WireError if the message is no metadata record or does not fit."""
    if message.api_key is None:
        raise WireError(f"{type(message).__name__} is no metadata record")
    codec = codecs.record(message.api_key, version)
    frame = (_FRAME_VERSION, message.api_key, version)
    return b"".join((*map(write_uvarint, frame), codec.encode(message)))


def is_one_of(value: Buffer, api_keys: Container[int]) -> bool:
    """Whether a value holds a record of one of these API keys; the record is not decoded.

    Only for keys below 128, as all of Kafka's are: frame version and key are then one byte each.
    """
    return len(value) > 1 and value[0] == _FRAME_VERSION and value[1] in api_keys


def decode_record(value: Buffer) -> Message:
    """Return the record of a value. WireError if it is malformed, or of an unknown kind."""
    position = 0
    frame = []
    for name in ("frame version", "api key", "version"):
        number, position = _frame_number(value, position, name)
        frame.append(number)
    frame_version, api_key, version = frame
    if frame_version != _FRAME_VERSION:
        raise WireError(f"metadata record with frame version {frame_version}, not {_FRAME_VERSION}")
    codec: codecs.Codec[Message] = codecs.record(api_key, version)
    message, end = codec.decode(value, position)
    if end != len(value):
        raise WireError(f"{codec}: {len(value) - end} bytes after the end at byte {end}")
    return message


def _frame_number(value: Buffer, position: int, name: str) -> tuple[int, int]:
    try:
        return read_uvarint(value, position)
    except IndexError:
        raise WireError(f"metadata record: {name}: the bytes end here, after {len(value)}") from None
    except ValueError as fault:
        raise WireError(f"metadata record: {name}: {fault}") from None
