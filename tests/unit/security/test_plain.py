"""PLAIN, server side and client side."""

import pytest

from proxy.security.principal import Principal
from proxy.security.sasl.client import PlainClient
from proxy.security.sasl.exchange import Accepted, AuthenticationError, Deferred, Outcome, Rejected
from proxy.security.sasl.plain import PlainExchange, Verified

NOW = 1_700_000_000_000
PASSWORDS = {"alice": "geheim", "ünder": "pässwort"}


class Passwords:
    """A verifier that knows `PASSWORDS`; `quick`: without work."""

    def __init__(self, quick: bool = False) -> None:
        self.quick = quick
        self.holds = True

    hashes = True

    def remembered(self, username: str, password: str) -> Verified | None:
        return self.verify(username, password) if self.quick else None

    def verify(self, username: str, password: str) -> Verified | None:
        return Verified(lambda: self.holds) if PASSWORDS.get(username) == password else None


def exchange(verifier: Passwords | None = None) -> PlainExchange:
    return PlainExchange(verifier or Passwords())


def outcome_of(token: bytes, quick: bool = False) -> Outcome:
    outcome = exchange(Passwords(quick)).respond(token, NOW)
    return outcome.work() if isinstance(outcome, Deferred) else outcome


@pytest.mark.spec("R9")
@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(
    ("token", "name"),
    [
        (b"\0alice\0geheim", "alice"),
        (b"alice\0alice\0geheim", "alice"),
        ("\0ünder\0pässwort".encode(), "ünder"),
    ],
)
def test_the_right_password_is_accepted(token: bytes, name: str, quick: bool) -> None:
    outcome = outcome_of(token, quick)

    assert isinstance(outcome, Accepted)
    assert (outcome.principal, outcome.token, outcome.expires_at_ms) == (Principal("User", name), b"", None)


@pytest.mark.spec("R9")
@pytest.mark.parametrize("token", [b"\0alice\0geheim", b"\0alice\0wrong", b"bob\0alice\0geheim", b"\0bob\0x"])
def test_a_check_that_takes_long_is_left_for_elsewhere_whoever_asks(token: bytes) -> None:
    assert isinstance(exchange().respond(token, NOW), Deferred)


@pytest.mark.spec("R10")
@pytest.mark.parametrize("quick", [True, False])
def test_what_was_accepted_can_be_taken_back_where_the_verifier_says_so(quick: bool) -> None:
    verifier = Passwords(quick)
    outcome = exchange(verifier).respond(b"\0alice\0geheim", NOW)
    accepted = outcome.work() if isinstance(outcome, Deferred) else outcome

    assert isinstance(accepted, Accepted)
    assert accepted.still_valid is not None
    assert accepted.still_valid()
    verifier.holds = False
    assert not accepted.still_valid()


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
        (b"\0alice\0\xff\xfe", "Authentication failed: Invalid username or password"),
        (b"\xff", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice\0" + b"x" * 65_536, "Authentication failed: Invalid username or password"),
    ],
)
def test_everything_else_is_rejected_with_kafkas_words(token: bytes, message: str) -> None:
    outcome = outcome_of(token)

    assert isinstance(outcome, Rejected)
    assert outcome.message == message
    assert outcome.reason


@pytest.mark.spec("R9")
def test_the_reason_never_holds_the_password() -> None:
    outcomes = [
        outcome_of(token)
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
    accepted = outcome_of(client.first())

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
    outcome = outcome_of(b"\0" + b"x" * 60_000 + b"\0geheim")

    assert isinstance(outcome, Rejected)
    assert len(outcome.reason) < 200
