"""The hash chain's links as Spark expressions: SHA-256, or HMAC-SHA256 with a key (RFC 2104).

Spark has no HMAC. It is two rounds of SHA-256 with the padded key. Knows no tables.
"""

from hashlib import sha256

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_audit import schema as S

PLAIN, KEYED = "sha256", "hmac-sha256"
"""Values of `audit.chain` in the settings of a process."""
_BLOCK_BYTES = 64


def digest(text: Column, key: bytes | None) -> Column:
    """Returns the 32 bytes of the hash, null for null."""
    message = text.cast("binary")
    if key is None:
        return F.unhex(F.sha2(message, 256))
    inner = F.unhex(F.sha2(F.concat(_pad(key, 0x36), message), 256))
    return F.unhex(F.sha2(F.concat(_pad(key, 0x5C), inner), 256))


def seed(key: bytes | None) -> Column:
    """Returns the link before the first record of a boot, in hex."""
    return hexadecimal(digest(F.concat_ws("/", S.PROXY_ID, S.BOOT_ID), key))


def hexadecimal(link: Column) -> Column:
    """Returns the link as the line has it."""
    return F.lower(F.hex(link))


def _pad(key: bytes, byte: int) -> Column:
    short = sha256(key).digest() if len(key) > _BLOCK_BYTES else key
    return F.lit(bytes(octet ^ byte for octet in short.ljust(_BLOCK_BYTES, b"\0")))
