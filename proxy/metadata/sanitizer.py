"""Encodes names for paths, quota-ids and metric tags, and decodes them.

The encoding is that of Kafka's Sanitizer: Java's URL encoding, with `*` and space percent-encoded as well.
"""

import re
from urllib.parse import quote, unquote_to_bytes

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def sanitize(name: str) -> str:
    """Return `name` with all but letters, digits and `-`, `_`, `.` as the %XX of its UTF-8 bytes."""
    # Java encodes the tilde, Python's quote does not; half a surrogate pair becomes `?` in Java.
    return quote(name, safe="", errors="replace").replace("~", "%7E")


def desanitize(name: str) -> str:
    """Return the name that `sanitize` encoded; `+` is a space, as in Java's URLDecoder.

    Raises ValueError for a `%` without two hexadecimal digits.
    """
    broken = _BROKEN_ESCAPE.search(name)
    if broken is not None:
        raise ValueError(f"{name!r} has a broken escape at character {broken.start()}")
    return unquote_to_bytes(name.replace("+", " ")).decode("utf-8", errors="replace")
