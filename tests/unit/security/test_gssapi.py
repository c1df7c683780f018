"""GSSAPI, server side: tokens in, challenges, principals and rejections out, with no Kerberos."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.security.kerberos_names import LocalRules
from proxy.security.principal import Principal
from proxy.security.sasl.exchange import Accepted, Challenge, Deferred, Rejected, Settled
from proxy.security.sasl.gssapi import OFFER, GssapiExchange, GssError
from tests.support.fake_kerberos import FakeAcceptor, FakeInitiator

pytestmark = pytest.mark.spec("R9")

ALICE = Accepted(Principal("User", "alice"), b"")
OVER = Rejected("", "a token after the end of the exchange")
NOW = 1_700_000_000_000


class Login:
    """An exchange, and its checks carried out as they come."""

    def __init__(self, acceptor: FakeAcceptor | None = None, rules: str = "DEFAULT") -> None:
        acceptor, local = acceptor or FakeAcceptor(), LocalRules([rules])
        self.exchange = GssapiExchange(lambda: acceptor, lambda name: local.name(name, "ACME.ORG"))

    def send(self, token: bytes) -> Settled:
        outcome = self.exchange.respond(token, NOW)
        return outcome.work() if isinstance(outcome, Deferred) else outcome

    def offer(self, initiator: FakeInitiator) -> bytes:
        """The server's offer, after all that comes before it."""
        assert self.send(initiator.ticket()) == Challenge(b"answer")
        offered = self.send(b"")
        assert isinstance(offered, Challenge)
        return offered.token


def test_a_client_with_a_ticket_is_whom_it_names() -> None:
    login, alice = Login(), FakeInitiator()

    choice = alice.choice(login.offer(alice))

    assert login.send(choice) == ALICE
    assert login.send(choice) == OVER


def test_no_security_layer_is_offered_and_the_size_that_java_tells() -> None:
    login, alice = Login(), FakeInitiator()

    offered = login.offer(alice)

    assert alice.messages.unwrap(offered) == OFFER == bytes([1, 1, 0, 0])


def test_who_wants_no_proof_of_the_server_is_offered_at_once() -> None:
    login, alice = Login(), FakeInitiator(mutual=False)

    offered = login.send(alice.ticket())

    assert isinstance(offered, Challenge)
    assert login.send(alice.choice(offered.token)) == ALICE


def test_a_context_may_take_several_tokens() -> None:
    login, alice = Login(FakeAcceptor(legs=2)), FakeInitiator()

    assert login.send(alice.ticket(b"n1")) == Challenge(b"more")
    assert login.send(alice.ticket(b"n2")) == Challenge(b"answer")
    offered = login.send(b"")
    assert isinstance(offered, Challenge)
    assert login.send(alice.choice(offered.token)) == ALICE


def test_a_context_that_waits_and_says_nothing_is_the_end() -> None:
    class Silent(FakeAcceptor):
        def step(self, token: bytes) -> None:
            return None

    login = Login(Silent())
    expected = Rejected("", "the context expects another token, and has none to send")
    assert login.send(b"x") == expected
    assert login.send(b"x") == OVER


@pytest.mark.parametrize("wanted", ["", "alice@ACME.ORG", "alice"])
def test_a_client_may_say_who_it_is(wanted: str) -> None:
    login, alice = Login(), FakeInitiator()

    assert login.send(alice.choice(login.offer(alice), wanted=wanted)) == ALICE


@pytest.mark.parametrize(
    "wanted", ["bob@ACME.ORG", "bob", "ALICE", "alice@ACME.ORG\0", " ", "alice@OTHER.ORG"]
)
def test_a_client_may_not_be_somebody_else(wanted: str) -> None:
    login, alice = Login(), FakeInitiator()

    assert login.send(alice.choice(login.offer(alice), wanted=wanted)) == Rejected(
        "", f"'alice@ACME.ORG' asked to act as {wanted!r}"
    )


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        (b"", "a choice of 0 bytes"),
        (b"\x01\0\0", "a choice of 3 bytes"),
        (b"\0\0\0\0", "chose the security layers 0x00, offered none"),
        (b"\x02\0\0\0", "chose the security layers 0x02, offered none"),
        (b"\x04\xff\xff\xff", "chose the security layers 0x04, offered none"),
        (b"\x07\0\0\0", "chose the security layers 0x07, offered none"),
    ],
)
def test_a_client_cannot_choose_what_was_not_offered(choice: bytes, reason: str) -> None:
    login, alice = Login(), FakeInitiator()

    assert login.send(alice.choice(login.offer(alice), choice)) == Rejected("", f"'alice@ACME.ORG': {reason}")


def test_the_size_that_a_client_tells_is_nobodys_affair() -> None:
    login, alice = Login(), FakeInitiator()

    assert login.send(alice.choice(login.offer(alice), b"\x01\xff\xff\xff")) == ALICE


def test_a_ticket_for_another_key_is_refused() -> None:
    login = Login()

    assert login.send(FakeInitiator(service_key=b"another").ticket()) == Rejected("", "defective token")
    assert login.send(FakeInitiator().ticket()) == OVER


def test_a_replay_is_refused() -> None:
    seen: set[bytes] = set()
    ticket = FakeInitiator().ticket()
    Login(FakeAcceptor(seen)).send(ticket)

    assert Login(FakeAcceptor(seen)).send(ticket) == Rejected("", "request is a replay")


def test_a_service_without_a_key_any_more_refuses() -> None:
    def gone() -> FakeAcceptor:
        raise GssError("no key")

    outcome = GssapiExchange(gone, str).respond(b"x", NOW)
    assert isinstance(outcome, Deferred)
    assert outcome.work() == Rejected("", "no key")


def test_data_where_none_is_due_is_refused() -> None:
    login = Login()
    login.send(FakeInitiator().ticket())

    assert login.send(b"xyz") == Rejected("", "3 bytes where an empty token was due")
    assert login.send(b"") == OVER


def test_a_token_that_is_too_long_is_looked_at_by_nobody() -> None:
    login = Login()

    expected = Rejected("", "a token of 65537 bytes, limit 65536")
    assert login.exchange.respond(b"x" * 65_537, NOW) == expected
    assert login.send(FakeInitiator().ticket()) == OVER


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("alice@OTHER.ORG", "no rule of DEFAULT applies to 'alice@OTHER.ORG'"),
        ("a/b/c@ACME.ORG", "malformed Kerberos name: 'a/b/c@ACME.ORG'"),
        ("@ACME.ORG", "nothing is left of '@ACME.ORG' after the rule DEFAULT"),
    ],
)
def test_a_name_that_is_nobodys_is_refused(name: str, reason: str) -> None:
    login, client = Login(), FakeInitiator(name)

    assert login.send(client.choice(login.offer(client))) == Rejected("", reason)


def test_rules_say_who_a_client_is() -> None:
    login = Login(rules="RULE:[2:$1-$2@$0](.*@ACME.ORG)s/@.*///U")
    web = FakeInitiator("web/host@ACME.ORG")

    accepted = Accepted(Principal("User", "WEB-HOST"), b"")
    assert login.send(web.choice(login.offer(web), wanted="web/host@ACME.ORG")) == accepted


def test_the_choice_of_another_login_proves_nothing() -> None:
    seen: set[bytes] = set()
    mine, other = FakeInitiator(), FakeInitiator()
    first, second = Login(FakeAcceptor(seen)), Login(FakeAcceptor(seen))
    taken = mine.choice(first.offer(mine))
    assert second.send(other.ticket(b"n9")) == Challenge(b"answer")
    second.send(b"")

    assert second.send(taken) == Rejected("", "defective token")


@given(st.lists(st.binary(max_size=80), max_size=6), st.integers(0, 2))
def test_no_mangled_token_lets_anybody_in(extra: list[bytes], genuine: int) -> None:
    """`genuine`: how many of a client's own messages come before the rest."""
    login, alice = Login(), FakeInitiator()
    if genuine:
        login.send(alice.ticket())
    offered = login.send(b"") if genuine > 1 else None
    good = alice.choice(offered.token) if isinstance(offered, Challenge) else alice.ticket(b"n1")
    mangled = [good[:-1], good[1:], good + b"\0", bytes(len(good)), good[: len(good) // 2], *extra]

    for token in mangled:
        assert not isinstance(login.send(token), Accepted)


@given(st.data())
def test_a_genuine_message_out_of_its_turn_lets_nobody_in(data: st.DataObject) -> None:
    login, alice = Login(), FakeInitiator()
    ticket = alice.ticket()
    said: list[bytes] = []
    for step in data.draw(st.lists(st.sampled_from(["ticket", "empty", "again", "unwrapped"]), max_size=8)):
        token = {
            "ticket": ticket,
            "empty": b"",
            "again": said[-1] if said else b"",
            "unwrapped": b"\x01\0\0\0",
        }
        said.append(token[step])
        assert not isinstance(login.send(said[-1]), Accepted)
