"""What an exception says, for log lines, records and messages; always something.

Exceptions of connections often have no text: event loops raise a bare ConnectionResetError for a peer that
closes during a handshake, and HTTP clients wrap such errors. With `str(error)` a line would end with a colon.
Called for all exceptions that Penstock does not raise itself.
"""

_WORDS: tuple[tuple[type[BaseException], str], ...] = (
    (TimeoutError, "timed out"),
    (ConnectionError, "the peer closed the connection"),
    (EOFError, "the data ends too early"),
    (MemoryError, "out of memory"),
)


def text_of(error: BaseException) -> str:
    """Return the text of an exception; without one, that of its cause, or the name of its class."""
    text = str(error).strip() if error.args else ""
    if isinstance(error, KeyError):
        text = repr(error)  # Its text is only the key.
    if isinstance(error, UnicodeDecodeError):
        text = f"not UTF-8 text, at byte {error.start}"  # Its text has the byte, perhaps of a password.
    if not text:
        text = next((words for kind, words in _WORDS if isinstance(error, kind)), "")
    if not text:
        cause = error.__cause__ or error.__context__
        text = type(error).__name__ if cause is None else f"{type(error).__name__}: {text_of(cause)}"
    return text
