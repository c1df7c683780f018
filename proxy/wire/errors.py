"""The one error of the wire package: bytes that are no Kafka message, or a message that has no bytes.

Raised by every module of proxy.wire, and by nothing else. It does not know whose fault it is: the caller
does, because it knows whether it was reading what a peer sent or writing what it made itself.
"""


class WireError(Exception):
    """Bytes or a message that break the protocol; the text names message, version, field and numbers.

    Catching it is enough: IndexError, struct.error and UnicodeError never leave proxy.wire. The text holds no
    value of the message, so it may be logged.
    """


class Malformed(ValueError):
    """What is wrong with a field, without its name: the codec puts message and field in front."""
