"""Names as quota-ids show them: Java's URL encoding, with Kafka's two exceptions."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.metadata.quota_entity import sanitize

pytestmark = pytest.mark.spec("Q5")


@pytest.mark.parametrize(
    ("name", "sanitized"),
    [
        ("", ""),
        ("alice", "alice"),
        ("ANONYMOUS", "ANONYMOUS"),
        ("a-b_c.d", "a-b_c.d"),
        ("*", "%2A"),
        ("a b", "a%20b"),
        ("a+b", "a%2Bb"),
        ("a~b", "a%7Eb"),
        ("100%", "100%25"),
        ("<default>", "%3Cdefault%3E"),
        (
            "CN=Some characters !@#$%&*()_-+=';:,/~",
            "CN%3DSome%20characters%20%21%40%23%24%25%26%2A%28%29_-%2B%3D%27%3B%3A%2C%2F%7E",
        ),
        ("käse", "k%C3%A4se"),
        ("😀", "%F0%9F%98%80"),
        ("\x00\n", "%00%0A"),
        ("\ud800", "%3F"),
    ],
)
def test_a_name_is_encoded_as_kafkas_sanitizer_does(name: str, sanitized: str) -> None:
    assert sanitize(name) == sanitized


@given(st.text())
def test_a_sanitised_name_is_plain_ascii_and_gives_the_name_back(name: str) -> None:
    sanitized = sanitize(name)

    assert set(sanitized) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.%")
    assert unquote(sanitized, errors="strict") == name
