"""PLAIN, server side and client side."""

import pytest

from proxy.security.principal import Principal
from proxy.security.sasl.client import PlainClient
from proxy.security.sasl.exchange import Accepted, AuthenticationError, Rejected
from proxy.security.sasl.plain import PlainExchange

NOW = 1_700_000_000_000
PASSWORDS = {"alice": "geheim", "ünder": "pässwort"}


def exchange() -> PlainExchange:
    return PlainExchange(lambda username, password: PASSWORDS.get(username) == password)


@pytest.mark.spec("R9")
@pytest.mark.parametrize(
    ("token", "name"),
    [
        (b"\0alice\0geheim", "alice"),
        (b"alice\0alice\0geheim", "alice"),
        ("\0ünder\0pässwort".encode(), "ünder"),
    ],
)
def test_the_right_password_is_accepted(token: bytes, name: str) -> None:
    assert exchange().respond(token, NOW) == Accepted(Principal("User", name), b"", None)


@pytest.mark.spec("R9")
@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0geheim", "Authentication failed: Invalid username or password"),
        (b"\0Alice\0geheim", "Authentication failed: Invalid username or password"),
        (b"\0\0geheim", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            b"bob\0alice\0geheim",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"bob\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0geheim", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0geheim\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0alice\0\xff\xfe", ""),
        (b"\0alice\0" + b"x" * 65_536, ""),
    ],
)
def test_everything_else_is_rejected_with_kafkas_words(token: bytes, message: str) -> None:
    outcome = exchange().respond(token, NOW)

    assert isinstance(outcome, Rejected)
    assert outcome.message == message
    assert outcome.reason


@pytest.mark.spec("R9")
def test_the_reason_never_holds_the_password() -> None:
    outcomes = [
        exchange().respond(token, NOW)
        for token in (b"\0alice\0s3cret", b"bob\0alice\0s3cret", b"alice\0s3cret", b"\0\0s3cret")
    ]

    assert not any("s3cret" in repr(outcome) for outcome in outcomes)


@pytest.mark.spec("R6")
@pytest.mark.parametrize("first", [b"\0alice\0geheim", b"\0alice\0wrong"])
def test_an_exchange_serves_one_token_only(first: bytes) -> None:
    served = exchange()
    served.respond(first, NOW)

    assert isinstance(served.respond(b"\0alice\0geheim", NOW), Rejected)


@pytest.mark.spec("R10")
def test_the_client_is_done_with_an_empty_answer() -> None:
    client = PlainClient("alice", "geheim")
    accepted = exchange().respond(client.first(), NOW)

    assert isinstance(accepted, Accepted)
    assert (client.done, client.respond(accepted.token), client.done) == (False, None, True)


@pytest.mark.spec("R10")
def test_the_client_refuses_a_challenge() -> None:
    with pytest.raises(AuthenticationError, match="3 bytes"):
        PlainClient("alice", "geheim").respond(b"abc")


@pytest.mark.spec("R10")
@pytest.mark.parametrize(("username", "password"), [("a\0b", "c"), ("a", "b\0c")])
def test_the_client_takes_no_name_that_would_read_as_two(username: str, password: str) -> None:
    with pytest.raises(ValueError, match="NUL"):
        PlainClient(username, password)


@pytest.mark.spec("D1", "O6")
def test_a_reason_quotes_no_more_of_a_strangers_name_than_a_line_bears() -> None:
    outcome = exchange().respond(b"\0" + b"x" * 60_000 + b"\0geheim", NOW)

    assert isinstance(outcome, Rejected)
    assert len(outcome.reason) < 200
