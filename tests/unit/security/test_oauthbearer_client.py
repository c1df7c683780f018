"""OAUTHBEARER as the proxy logs in to its broker."""

import pytest

from proxy.security.sasl.client import OAuthBearerClient
from proxy.security.sasl.exchange import AuthenticationError

pytestmark = pytest.mark.spec("R9", "R10")


def test_the_token_is_all_that_is_sent() -> None:
    client = OAuthBearerClient("abc")

    assert client.first() == b"n,,\x01auth=Bearer abc\x01\x01"
    assert not client.done
    assert client.respond(b"") is None
    assert client.done


def test_an_error_is_acknowledged_and_never_taken_for_the_end() -> None:
    client = OAuthBearerClient("abc")

    assert client.respond(b'{"status":"invalid_token"}') == b"\x01"
    assert not client.done
    with pytest.raises(AuthenticationError, match="continued"):
        client.respond(b"")
    assert not client.done


def test_a_token_that_no_message_can_carry_is_not_sent() -> None:
    with pytest.raises(ValueError, match="bearer message"):
        OAuthBearerClient("abc\x01auth=Bearer root")
