"""Sessions that end by a sweep: idle past their end, or their credential taken back; logins that are held."""

import pytest

from proxy.security.backoff import BackoffSettings, LoginBackoff
from proxy.security.sasl.exchange import Exchange, Rejected
from proxy.security.sasl.plain import PlainExchange, Verified
from proxy.session.authentication import SaslListener
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.conversation import PASSWORDS, Conversation, plain_token, produce, produced, sasl

MINUTE_MS = 60_000
AUTHENTICATE = ApiKey.SASL_AUTHENTICATE


class Users:
    """A verifier whose users can be taken away."""

    hashes = True

    def __init__(self) -> None:
        self.passwords = dict(PASSWORDS)

    def remembered(self, username: str, password: str) -> Verified | None:
        return self.verify(username, password)

    def verify(self, username: str, password: str) -> Verified | None:
        if self.passwords.get(username) != password:
            return None
        return Verified(lambda: self.passwords.get(username) == password)


def with_users(users: Users, max_reauth_ms: int = 0, backoff: LoginBackoff | None = None) -> Conversation:
    def exchange(_mechanism: str) -> Exchange:
        return PlainExchange(users)

    listener = SaslListener("SASL", ("PLAIN",), lambda _: max_reauth_ms, exchange, backoff)
    return Conversation("WRITE TOPIC orders", sasl_listener=listener)


def swept(talk: Conversation) -> None:
    talk.carry_out(talk.session.end_if_expired(talk.now_ms))


def asked_to_prove(talk: Conversation) -> None:
    talk.carry_out(talk.session.end_if_revoked())


@pytest.mark.spec("R3")
def test_a_sweep_ends_a_session_that_is_idle_past_its_end() -> None:
    talk = Conversation(sasl_listener=sasl(MINUTE_MS))
    talk.logs_in()
    talk.passes(MINUTE_MS - 1)
    swept(talk)
    assert talk.closed is None

    talk.passes(1)
    swept(talk)

    assert talk.close_reason == "session_expired_idle"
    (event,) = talk.told("session_expired_idle")
    assert (event.principal, event.mechanism) == ("User:alice", "PLAIN")


@pytest.mark.spec("R3", "R8")
@pytest.mark.parametrize("busy", ["in flight", "again", "no end"])
def test_a_sweep_leaves_those_alone_that_are_busy_or_have_no_end(busy: str) -> None:
    talk = Conversation("WRITE TOPIC orders", sasl_listener=sasl(0 if busy == "no end" else MINUTE_MS))
    talk.logs_in()
    if busy == "in flight":
        talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    talk.passes(2 * MINUTE_MS)
    if busy == "again":
        talk.shakes_hands()

    swept(talk)

    assert (talk.closed, talk.told("session_expired_idle")) == (None, [])
    if busy == "in flight":
        talk.answers(ApiKey.PRODUCE, 9, produced("orders"))
        swept(talk)
        assert talk.close_reason == "session_expired_idle"


@pytest.mark.spec("R10")
@pytest.mark.parametrize("in_flight", [False, True])
@pytest.mark.parametrize("change", ["removed", "changed"])
def test_a_session_whose_credential_was_taken_back_ends_at_once(change: str, in_flight: bool) -> None:
    users = Users()
    talk = with_users(users)
    talk.logs_in()
    asked_to_prove(talk)
    assert talk.closed is None
    if in_flight:
        talk.asks(ApiKey.PRODUCE, 9, produce("orders"))

    if change == "removed":
        del users.passwords["alice"]
    else:
        users.passwords["alice"] = "another"
    asked_to_prove(talk)

    assert talk.close_reason == "session_revoked"
    (event,) = talk.told("session_revoked")
    assert (event.principal, event.mechanism) == ("User:alice", "PLAIN")
    asked_to_prove(talk)
    assert len(talk.told("session_revoked")) == 1


@pytest.mark.spec("R10")
def test_a_session_that_cannot_be_taken_back_is_left_alone() -> None:
    talk = Conversation(sasl_listener=sasl())
    talk.logs_in()
    stranger = Conversation(sasl_listener=sasl())

    asked_to_prove(talk)
    asked_to_prove(stranger)

    assert (talk.closed, stranger.closed) == (None, None)


@pytest.mark.spec("R10")
def test_without_revocation_a_session_ends_with_its_next_login() -> None:
    users = Users()
    talk = with_users(users, MINUTE_MS)
    talk.logs_in()
    del users.passwords["alice"]
    talk.passes(MINUTE_MS - 1)
    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    talk.answers(ApiKey.PRODUCE, 9, produced("orders"))
    talk.heard_bytes()
    assert talk.closed is None

    response = talk.logs_in()

    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert talk.close_reason == "authentication_failed"


@pytest.mark.spec("R10")
def test_a_login_with_the_new_credential_makes_the_session_good_again() -> None:
    users = Users()
    talk = with_users(users, MINUTE_MS)
    talk.logs_in()
    users.passwords["alice"] = "another"
    talk.shakes_hands()
    talk.authenticates(plain_token("alice", "another"))

    asked_to_prove(talk)

    assert talk.closed is None


@pytest.mark.spec("R6")
@pytest.mark.parametrize("password", ["a-secret", "wrong"])
def test_after_many_failures_the_answer_is_held_right_or_wrong(password: str) -> None:
    backoff = LoginBackoff(BackoffSettings(failures=2, initial_ms=300))
    for _ in range(2):
        wrong = with_users(Users(), backoff=backoff)
        wrong.shakes_hands()
        assert wrong.authenticates(plain_token("alice", "wrong")).error_code != ErrorCode.NONE
    talk = with_users(Users(), backoff=backoff)
    talk.holds_checks = True
    talk.shakes_hands()
    token = plain_token("alice", password)

    talk.asks(AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=token))

    if password == "wrong":
        talk.is_verified()  # The check itself, which the right one has no need of.
    (held,) = talk.checks
    assert (held.check.delay_ms, talk.heard_bytes(), talk.events) == (300, b"", [])
    talk.passes(300)
    talk.is_verified()
    right = password == "a-secret"
    assert (talk.heard(AUTHENTICATE, 2).error_code == ErrorCode.NONE) is right
    (event,) = talk.told("authentication" if right else "authentication_failed")
    assert event.throttle_time_ms == 300
    assert talk.checks == []


@pytest.mark.spec("R6")
def test_failures_of_the_form_count_for_the_address() -> None:
    backoff = LoginBackoff(BackoffSettings(failures=1))
    talk = with_users(Users(), backoff=backoff)
    talk.shakes_hands()
    talk.authenticates(b"nonsense")

    assert backoff.delay_ms("10.0.0.1", None, talk.now_ms) == 100
    assert backoff.delay_ms("10.0.0.2", "alice", talk.now_ms) == 0


class Unreachable:
    """A mechanism whose other party does not answer."""

    def respond(self, token: bytes, now_ms: int) -> Rejected:
        return Rejected("", "nobody there", has_response=False)


def unreachable(_mechanism: str) -> Exchange:
    return Unreachable()


@pytest.mark.spec("R6")
def test_a_fault_that_is_not_the_clients_does_not_count() -> None:
    backoff = LoginBackoff(BackoffSettings(failures=1))
    talk = Conversation(sasl_listener=SaslListener("SASL", ("PLAIN",), lambda _: 0, unreachable, backoff))
    talk.shakes_hands()
    talk.asks(AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=plain_token("alice")))

    assert (talk.heard_bytes(), backoff.delay_ms("10.0.0.1", "alice", talk.now_ms)) == (b"", 0)
