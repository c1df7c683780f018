"""What is said of an exception, whether it has a text or not."""

import asyncio
import ssl

import pytest

from proxy.error_text import text_of


class Wrapped(Exception):
    """As HTTP clients wrap the errors of a connection."""


def wrapped(error: BaseException, text: str = "") -> Wrapped:
    made = Wrapped(text)
    made.__cause__ = error
    return made


@pytest.mark.spec("O2")
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "[Errno 111] Connection refused"),
        (ValueError(" no such thing\n"), "no such thing"),
        (ConnectionResetError(), "the peer closed the connection"),
        (BrokenPipeError(), "the peer closed the connection"),
        (ssl.SSLEOFError(), "SSLEOFError"),
        (TimeoutError(), "timed out"),
        (EOFError(), "the data ends too early"),
        (asyncio.IncompleteReadError(b"ab", 4), "2 bytes read on a total of 4 expected bytes"),
        (KeyError("name"), "KeyError('name')"),
        (UnicodeDecodeError("utf-8", b"secret\xfe", 6, 7, "invalid"), "not UTF-8 text, at byte 6"),
        (Wrapped(), "Wrapped"),
        (wrapped(ConnectionResetError()), "Wrapped: the peer closed the connection"),
        (wrapped(ConnectionResetError(), "said"), "said"),
        (wrapped(wrapped(TimeoutError())), "Wrapped: Wrapped: timed out"),
    ],
)
def test_every_exception_says_something(error: BaseException, text: str) -> None:
    assert text_of(error) == text
