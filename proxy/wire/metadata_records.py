"""Values of the metadata log to record messages, and back: KRaft's framing of them.

A value is the frame version (1), the record's api key and its version, each an unsigned varint, then the
record. Fed by the loader of the log, the controller that writes it, and the shell; knows nothing of batches
or topics.
"""

from typing import Any

from proxy.wire import codecs
from proxy.wire.errors import WireError
from proxy.wire.message import Message
from proxy.wire.primitives import Buffer, read_uvarint, write_uvarint

_FRAME_VERSION = 1


def encode_record(message: Message, version: int = 0) -> bytes:
    """The value for the log. WireError when the message is no metadata record or does not fit the version."""
    if message.api_key is None:
        raise WireError(f"{type(message).__name__} is no metadata record")
    codec = codecs.record(message.api_key, version)
    frame = (_FRAME_VERSION, message.api_key, version)
    return b"".join((*map(write_uvarint, frame), codec.encode(message)))


def record_api_key(value: Buffer) -> int:
    """The api key of the record that a value holds, without a look at the record itself."""
    return _frame(value)[0]


def decode_record(value: Buffer) -> Any:
    """The record that a value of the log holds. WireError when it is malformed, or of a kind unknown here."""
    api_key, version, position = _frame(value)
    codec = codecs.record(api_key, version)
    message, end = codec.decode(value, position)
    if end != len(value):
        raise WireError(f"{codec}: {len(value) - end} bytes behind the end at byte {end}")
    return message


def _frame(value: Buffer) -> tuple[int, int, int]:
    """Api key, version, and where the record begins."""
    frame_version, position = _frame_number(value, 0, "frame version")
    if frame_version != _FRAME_VERSION:
        raise WireError(f"metadata record with frame version {frame_version}, not {_FRAME_VERSION}")
    api_key, position = _frame_number(value, position, "api key")
    version, position = _frame_number(value, position, "version")
    return api_key, version, position


def _frame_number(value: Buffer, position: int, name: str) -> tuple[int, int]:
    try:
        return read_uvarint(value, position)
    except IndexError:
        raise WireError(f"metadata record: {name}: the bytes end here, after {len(value)}") from None
    except ValueError as fault:
        raise WireError(f"metadata record: {name}: {fault}") from None
