"""The exceptions of the wire package: bytes that are no Kafka message, or a message that cannot be encoded.

They do not state who is at fault: the caller knows whether it was decoding a peer's bytes or encoding its own
message.
"""


class WireError(Exception):
    """Bytes or a message that violate the protocol; the text names message, version, field and numbers.

    It is the only exception that leaves proxy.wire: not IndexError, struct.error or UnicodeError. The text
    has no value of the message, so it may be logged.
    """


class Malformed(ValueError):
    """A field is malformed; the codec adds the names of message and field."""


class OtherProtocol(WireError):
    """The peer speaks another protocol than Kafka's; the text names it and the remedy."""


class TooManyElements(WireError):
    """The arrays of a message have more elements than its receiver decodes at once (proxy.wire.work)."""
