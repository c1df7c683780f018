"""Names into a form that is safe in paths, quota-ids and metric tags, and back.

The same text as Kafka's Sanitizer gives: Java's URL encoding, with `*` and space
percent-encoded as well. Knows nothing of users or clients.
"""

import re
from urllib.parse import quote, unquote_to_bytes

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def sanitize(name: str) -> str:
    """`name` with everything but letters, digits and `-`, `_`, `.` as %XX of its UTF-8 bytes."""
    # Java encodes the tilde, Python's quote leaves it; half a surrogate pair is `?` to Java.
    return quote(name, safe="", errors="replace").replace("~", "%7E")


def desanitize(name: str) -> str:
    """The name that `sanitize` made this from; `+` is a space, as in Java's URLDecoder.

    Raises ValueError for a `%` that two hexadecimal digits do not follow.
    """
    broken = _BROKEN_ESCAPE.search(name)
    if broken is not None:
        raise ValueError(f"{name!r} has a broken escape at character {broken.start()}")
    return unquote_to_bytes(name.replace("+", " ")).decode("utf-8", errors="replace")
