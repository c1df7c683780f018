"""What a principal carries besides type and name counts in its own session only, until its next login.

The roles and what they may do are in tests/support/roles.py.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from proxy.metadata.acl import Operation
from proxy.quota.throttle import ClientQuotas
from proxy.security.authorizer import GuardedAuthorizer, RequestContext
from proxy.security.principal import ANONYMOUS, Principal
from proxy.security.sasl.exchange import Accepted, Challenge, Rejected
from proxy.session.authentication import Authentication, Phase, SaslListener
from proxy.session.client_state import ClientState, topic_action
from proxy.session.gate import Basis, Gate, ListenerPolicy, Peer
from proxy.session.memory import Limits
from proxy.session.session import Session
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import ADDRESSES, image_with
from tests.session.conversation import Conversation, Quotas, fetch, fetched, produce, produced, sasl
from tests.support.roles import MAKERS, ByRole, WithConstructor

pytestmark = pytest.mark.spec("A10")

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH
Maker = Callable[[str, Sequence[str]], Principal]
each_class = pytest.mark.parametrize("make", MAKERS)


def gate_by_role() -> Gate:
    guarded = GuardedAuthorizer(ByRole())
    guarded.configure({})
    return Gate(Basis(guarded, image_with()), ClientQuotas(Quotas()), Limits(1 << 20, 1 << 16, 1 << 12))


def conversation(
    principal_of: Callable[[str, Principal], Any], listener: SaslListener | None = None
) -> Conversation:
    """A client of a listener with this principal builder."""
    listener = listener or sasl(60_000)
    talk = Conversation(sasl_listener=listener, gate=gate_by_role())
    talk.gate.versions = Conversation().gate.versions
    authentication = Authentication(listener, ANONYMOUS, principal_of, "10.0.0.1")
    peer = Peer("c0ffee", "10.0.0.1", bytes([10, 0, 0, 1]))
    talk.listener = ListenerPolicy("SASL", listener, addresses=ADDRESSES)
    talk.session = Session(talk.gate, talk.listener, peer, authentication)
    return talk


class Directory:
    """Where a principal builder looks up the roles of a user."""

    def __init__(self, make: Maker, *roles: str) -> None:
        self.make, self.roles = make, roles

    def principal_of(self, _mechanism: str, found: Principal) -> Principal:
        return self.make(found.name, self.roles)


def is_allowed(talk: Conversation) -> bool:
    """Whether a Produce request of the client reaches the broker."""
    talk.asks(PRODUCE, 9, produce("orders"))
    if not talk.forwarded():
        response = talk.heard(PRODUCE, 9).responses[0].partition_responses[0]
        assert response.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return False
    talk.answers(PRODUCE, 9, produced("orders"))
    talk.heard(PRODUCE, 9)
    return True


@each_class
def test_principals_are_equal_by_type_and_name_of_whatever_class(make: Maker) -> None:
    one, other = make("alice", ["writer"]), make("alice", [])

    assert one == other
    assert one == Principal("User", "alice", token_authenticated=True)
    assert Principal("User", "alice") == one
    assert len({one, other, Principal("User", "alice")}) == 1
    assert one != make("bob", ["writer"])
    assert one != Principal("Group", "alice")
    assert str(one) == "User:alice"


@each_class
@pytest.mark.parametrize("first", [["writer"], []])
def test_a_connection_has_the_decisions_of_its_own_roles(make: Maker, first: list[str]) -> None:
    gate = gate_by_role()

    def decides(roles: Sequence[str]) -> list[bool]:
        context = RequestContext(make("alice", roles), "10.0.0.1", "SASL", "app", image=gate.image)
        client = ClientState(b"", context, gate.basis, None)
        actions = [topic_action(Operation.WRITE, "orders"), topic_action(Operation.READ, "orders")]
        return [made.allowed for made in client.decide(actions)]

    expected = {(): [False, False], ("writer",): [True, False], ("reader",): [False, True]}
    for roles in (first, ["writer"], [], ["reader"]):
        assert decides(roles) == expected[tuple(roles)]


@each_class
def test_a_connection_with_fewer_roles_is_denied_what_another_one_of_its_user_does(make: Maker) -> None:
    directory = Directory(make, "writer")
    with_role = conversation(directory.principal_of)
    with_role.logs_in()
    assert is_allowed(with_role)

    directory.roles = ()
    without = conversation(directory.principal_of)
    without.gate.basis = with_role.gate.basis
    without.logs_in()

    assert not is_allowed(without)
    assert is_allowed(with_role)


@each_class
def test_roles_change_with_a_reauthentication(make: Maker) -> None:
    directory = Directory(make, "writer")
    talk = conversation(directory.principal_of)
    talk.logs_in()
    assert is_allowed(talk)

    for roles in ((), ("writer",), ("reader",)):
        directory.roles = roles
        talk.passes(2_000)
        assert talk.logs_in().error_code == ErrorCode.NONE
        assert is_allowed(talk) == ("writer" in roles)

    assert [event.principal for event in talk.told("reauthentication")] == ["User:alice"] * 3
    assert talk.closed is None


def test_a_principal_that_changes_in_place_is_decided_on_again_after_a_reauthentication() -> None:
    principal = WithConstructor("alice", ["writer"])
    talk = conversation(lambda _mechanism, _found: principal)
    talk.logs_in()
    assert is_allowed(talk)

    principal.roles = ()
    talk.passes(2_000)
    talk.logs_in()

    assert not is_allowed(talk)


@each_class
def test_a_fetch_session_does_not_outlive_the_roles_it_was_opened_with(make: Maker) -> None:
    directory = Directory(make, "reader")
    talk = conversation(directory.principal_of)
    talk.logs_in()
    talk.asks(FETCH, 12, fetch("orders", session_epoch=0))
    talk.answers(FETCH, 12, fetched("orders", session_id=77))
    talk.heard(FETCH, 12)
    talk.forwarded()

    directory.roles = ()
    talk.passes(2_000)
    talk.logs_in()
    talk.asks(FETCH, 12, fetch(session_id=77, session_epoch=1))

    assert talk.forwarded() == []
    assert talk.heard(FETCH, 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@each_class
def test_another_name_is_still_another_principal(make: Maker) -> None:
    talk = conversation(Directory(make, "writer").principal_of)
    talk.logs_in("alice")
    talk.passes(2_000)

    response = talk.logs_in("bob")

    assert response.error_message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    assert talk.close_reason == "authentication_failed"


def raises(error: Exception) -> Callable[..., Any]:
    def plug_in(*_: Any) -> Any:
        raise error

    return plug_in


@pytest.mark.parametrize(
    ("principal_of", "reason"),
    [
        (raises(KeyError("alice")), "principal builder: KeyError('alice')"),
        (raises(ValueError()), "principal builder: ValueError()"),
        (raises(ValueError("no such employee")), "principal builder: no such employee"),
        (lambda *_: None, "principal builder: NoneType is no principal"),
        (lambda *_: "User:alice", "principal builder: str is no principal"),
        (lambda *_: Principal("User", None), "type or name is no text: 'User', None"),  # type: ignore[arg-type]
        (lambda *_: Principal("", "alice"), "which is empty or contains a colon"),
        (lambda *_: Principal("User:admin", "x"), "which is empty or contains a colon"),
        (lambda *_: object.__new__(WithConstructor), "has no attribute 'principal_type'"),
    ],
)
@pytest.mark.parametrize("again", [False, True])
def test_what_a_builder_does_wrong_is_a_failed_login_with_a_record(
    principal_of: Callable[[str, Principal], Any], reason: str, again: bool
) -> None:
    builds = [principal_of]
    if again:
        builds.insert(0, Directory(WithConstructor, "writer").principal_of)
    talk = conversation(lambda mechanism, found: builds.pop(0)(mechanism, found))
    if again:
        talk.logs_in()
        talk.passes(2_000)

    response = talk.logs_in()

    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    (event,) = talk.told("reauthentication_failed" if again else "authentication_failed")
    assert reason in (event.message or "")
    assert talk.close_reason == "authentication_failed"


@pytest.mark.parametrize(
    "outcome",
    [
        None,
        "alice",
        Accepted("User:alice", b""),  # type: ignore[arg-type]
        Accepted(Principal("User", b"alice"), b""),  # type: ignore[arg-type]
        Accepted(Principal("User", "alice"), "token"),  # type: ignore[arg-type]
        Accepted(Principal("User", "alice"), b"", "tomorrow"),  # type: ignore[arg-type]
        Challenge("token"),  # type: ignore[arg-type]
        Rejected(None, "no"),  # type: ignore[arg-type]
    ],
)
def test_what_a_mechanism_returns_wrong_is_a_failed_login_with_a_record(outcome: Any) -> None:
    class Careless:
        def respond(self, token: bytes, now_ms: int) -> Any:
            return outcome

    listener = SaslListener("SASL", ("X-OWN",), lambda _mechanism: 0, lambda _mechanism: Careless())
    talk = conversation(lambda _mechanism, found: found, listener)

    response = talk.logs_in(mechanism="X-OWN")

    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    (event,) = talk.told("authentication_failed")
    assert "mechanism X-OWN: " in (event.message or "")


def test_a_mechanism_that_makes_no_exchange_has_its_error_reported_as_that_of_a_check() -> None:
    listener = SaslListener("SASL", ("X-OWN",), lambda _mechanism: 0, raises(KeyError("key tab")))
    authentication = Authentication(listener)
    authentication.handshake(1, t.SaslHandshakeRequest(mechanism="X-OWN"), 0)

    step = authentication.authenticate(1, t.SaslAuthenticateRequest(auth_bytes=b"x"), 0)

    assert step.check is not None
    with pytest.raises(KeyError, match="key tab"):
        step.check.work()
    failed = authentication.verified(Rejected("", "the check of the credentials failed"), 0)
    assert (failed.close, authentication.phase) == (True, Phase.FAILED)


def test_a_credential_that_a_mechanism_cannot_say_is_valid_is_not_valid() -> None:
    class Careless:
        def respond(self, token: bytes, now_ms: int) -> Accepted:
            return Accepted(Principal("User", "alice"), b"", still_valid=valid.pop())

    def is_valid() -> bool:
        return next(answers)

    answers = iter([True])
    valid = [is_valid, raises(KeyError("store"))]
    listener = SaslListener("SASL", ("X-OWN",), lambda _mechanism: 0, lambda _mechanism: Careless())
    failing = conversation(lambda _mechanism, found: found, listener)
    failing.logs_in(mechanism="X-OWN")
    talk = conversation(lambda _mechanism, found: found, listener)
    talk.logs_in(mechanism="X-OWN")

    talk.carry_out(talk.session.end_if_revoked())

    assert "KeyError('store')" in (failing.told("authentication_failed")[0].message or "")
    assert "StopIteration()" in (talk.told("session_revoked")[0].message or "")
    assert talk.close_reason == "session_revoked"


@each_class
def test_a_login_by_token_stays_one_whatever_the_builder_makes_of_it(make: Maker) -> None:
    authentication = Authentication(
        SaslListener(
            "SASL",
            ("TOKEN",),
            lambda _mechanism: 0,
            lambda _mechanism: _Token(),
        ),
        ANONYMOUS,
        Directory(make, "writer").principal_of,
    )
    authentication.handshake(1, t.SaslHandshakeRequest(mechanism="TOKEN"), 0)
    authentication.authenticate(1, t.SaslAuthenticateRequest(auth_bytes=b""), 0)

    principal: Any = authentication.principal
    assert (str(principal), principal.token_authenticated) == ("User:alice", True)
    assert list(principal.roles) == ["writer"]


class _Token:
    def respond(self, token: bytes, now_ms: int) -> Accepted:
        return Accepted(Principal("User", "alice", token_authenticated=True), b"")
