"""SASL exchanges of somebody who has no password: whatever is sent, in whatever order, nobody is let in.

All built-in mechanisms that check passwords, with both handshake versions. And what a user that exists is
answered is what one that does not is answered, byte for byte but for nonces and salts.
"""

import re
from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.config import ListenerConfig as ListenerSettings
from proxy.metadata.scram import ScramMechanism, credential_from_password
from proxy.net.logins.credentials import Credentials, PlainUsers, StoredUser, keyed_password, sasl_listener
from proxy.security.sasl.exchange import Rejected
from proxy.session.authentication import Phase, SaslListener
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.session.conversation import Conversation, frames_of
from tests.support.images import image_of
from tests.support.metadata_log import scram_record

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
SECRET = "only alice knows it"
IMAGE = image_of(
    *(
        scram_record(
            mechanism, "alice", credential_from_password(mechanism, SECRET, b"a-salt-of-26-characters--")
        )
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    )
)


class QuickUsers(PlainUsers):
    """Without the hashing of each guess, which is there for its time alone."""

    def _matches(self, password: str, stored: str) -> bool:
        return stored == keyed_password(password)


def listener(max_reauth_ms: int = 0) -> SaslListener:
    settings = ListenerSettings.model_validate(
        {
            "name": "SASL",
            "bind": "127.0.0.1:0",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": MECHANISMS,
        }
    )
    users = QuickUsers({"alice": StoredUser(keyed_password(SECRET))})
    return sasl_listener(settings, Credentials(users, lambda: IMAGE, max_reauth_ms))


LISTENER, ENDING = listener(), listener(60_000)

NAMES = st.sampled_from(["alice"] * 6 + ["nobody", "", "a=2Cb", "=", "ALICE", "al\0ice"])
WORDS = st.sampled_from(["wrong", "", "only alice knows i", SECRET + " ", "\ud7ff"])
SHORT = st.binary(max_size=40)
PLAIN_TOKENS = st.builds(
    lambda authzid, name, word: f"{authzid}\0{name}\0{word}".encode(), NAMES, NAMES, WORDS
)
FIRST_TOKENS = st.builds(
    lambda gs2, name, nonce, more: f"{gs2}n={name},r={nonce}{more}".encode(),
    st.sampled_from(["n,,", "y,,", "p=tls-unique,,", "n,a=alice,", "n,a=bob,", ""]),
    NAMES,
    st.sampled_from(["abc", "", "a,b", "x" * 500]),
    st.sampled_from(["", ",tokenauth=true", ",m=ext", ",p=x"]),
)
FINAL_TOKENS = st.builds(
    lambda binding, nonce, proof: f"c={binding},r={nonce},p={b64encode(proof).decode()}".encode(),
    st.sampled_from(["biws", "eSws", "", "!"]),
    st.sampled_from(["abc", "<the server's>", ""]),
    st.sampled_from([bytes(32), bytes(64), b"", b"p" * 32]),
)
OVERSIZED = st.sampled_from([b"x" * 4_000, b"\0alice\0" + b"x" * 3_900])
TOKENS = st.one_of(PLAIN_TOKENS, FIRST_TOKENS, FINAL_TOKENS, SHORT, OVERSIZED)
CUT = st.one_of(st.just(None), st.integers(0, 30))
STEPS = st.one_of(
    st.tuples(st.just("shake"), st.sampled_from((*MECHANISMS, "GSSAPI", "")), st.sampled_from((0, 1))),
    st.tuples(st.just("token"), TOKENS, st.sampled_from((0, 1, 2))),
    st.tuples(st.just("bare"), TOKENS, CUT),
    st.tuples(st.just("versions"), st.sampled_from((0, 3)), st.none()),
    st.tuples(st.just("other"), st.none(), st.none()),
)
PROOFS = st.sampled_from([bytes(32), bytes(64), b"p" * 32, b"p" * 64])
GUESSES = st.one_of(
    st.builds(lambda word: [f"\0alice\0{word}".encode()], WORDS),
    st.builds(
        lambda name, proof: [
            f"n,,n={name},r=abc".encode(),
            b"c=biws,r=<the server's>,p=" + b64encode(proof),
        ],
        NAMES,
        PROOFS,
    ),
)
"""Tokens that are right in all but what has to be known."""
GOOD_ORDER = st.builds(
    lambda mechanism, bare, tokens: [
        ("shake", mechanism, 0 if bare else 1),
        *(("bare", token, None) if bare else ("token", token, 2) for token in tokens),
    ],
    st.sampled_from(MECHANISMS),
    st.booleans(),
    GUESSES,
)
RENEWALS = GUESSES.map(lambda tokens: [("token", token, 2) for token in tokens])
"""After a handshake."""
SEQUENCES = st.builds(
    lambda before, guess, after: [*before, *guess, *after],
    st.lists(STEPS, max_size=2),
    st.one_of(GOOD_ORDER, st.just([])),
    st.lists(STEPS, max_size=5),
)


def played(talk: Conversation, steps: list[tuple[str, object, object]]) -> None:
    """Each step, until the connection is closed; a final token takes the nonce that the server gave."""
    heard = b""
    for kind, what, how in steps:
        if talk.closed is not None:
            return
        _play(talk, kind, what, how, heard)
        heard = talk.heard_bytes() or heard


def _play(talk: Conversation, kind: str, what: object, how: object, heard: bytes) -> None:
    if kind == "shake":
        talk.asks(HANDSHAKE, int(str(how)), t.SaslHandshakeRequest(mechanism=str(what)))
    elif kind == "versions":
        talk.asks(ApiKey.API_VERSIONS, int(str(what)), t.ApiVersionsRequest())
    elif kind == "other":
        talk.asks(ApiKey.METADATA, 12, t.MetadataRequest(topics=[]))
    else:
        assert isinstance(what, bytes)
        nonce = re.search(rb"r=([\x21-\x2b\x2d-\x7e]+)", heard)
        token = what.replace(b"<the server's>", nonce[1] if nonce else b"")
        if kind == "token":
            talk.asks(AUTHENTICATE, int(str(how)), t.SaslAuthenticateRequest(auth_bytes=token))
        else:
            cut = how if isinstance(how, int) else len(token)
            talk.sends(cut.to_bytes(4, "big") + token)


@pytest.mark.spec("R9", "R6")
@settings(max_examples=300)
@given(st.one_of(GOOD_ORDER, SEQUENCES))
def test_nothing_that_a_stranger_sends_lets_it_in(steps: list[tuple[str, object, object]]) -> None:
    talk = Conversation("WRITE TOPIC orders", sasl_listener=LISTENER)

    played(talk, steps)

    assert talk.session.authentication.phase is not Phase.COMPLETE
    assert talk.told("authentication") == []
    assert (talk.forwarded_bytes(), talk.controller) == (b"", [])
    assert SECRET not in repr(talk.events)


@pytest.mark.spec("R5", "R6", "R9")
@given(st.sampled_from(MECHANISMS), st.one_of(SEQUENCES, RENEWALS))
def test_nothing_that_a_client_sends_without_its_password_renews_its_session(
    mechanism: str, steps: list[tuple[str, object, object]]
) -> None:
    talk = Conversation("WRITE TOPIC orders", sasl_listener=ENDING)
    talk.shakes_hands("PLAIN")
    assert talk.authenticates(f"\0alice\0{SECRET}".encode()).error_code == 0
    talk.passes(1_000)
    ends_at_ms = talk.session.authentication.expires_at_ms

    talk.asks(HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism=mechanism))
    talk.heard_bytes()
    played(talk, steps)

    assert talk.told("reauthentication") == []
    assert talk.session.authentication.expires_at_ms == ends_at_ms
    assert talk.forwarded_bytes() == b""


def told(name: str, mechanism: str, version: int, tokens: list[bytes]) -> tuple[list[bytes], str | None]:
    """What a client hears, without nonces and salts, and how its connection ends."""
    talk = Conversation(sasl_listener=LISTENER)
    talk.asks(HANDSHAKE, version, t.SaslHandshakeRequest(mechanism=mechanism))
    heard = talk.heard_bytes()
    for token in tokens:
        if talk.closed is None:
            nonce = re.search(rb"r=([\x21-\x2b\x2d-\x7e]+)", heard)
            named = token.replace(b"alice", name.encode()).replace(
                b"<the server's>", nonce[1] if nonce else b""
            )
            if version:
                talk.asks(AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=named))
            else:
                talk.sends(len(named).to_bytes(4, "big") + named)
            heard += talk.heard_bytes()
    shapes = [re.sub(rb"(r=[^,]*?|s=)[A-Za-z0-9_/+=-]{20,}", rb"\1*", frame) for frame in frames_of(heard)]
    return shapes, talk.close_reason


@pytest.mark.spec("R9")
@given(
    st.sampled_from(MECHANISMS),
    st.sampled_from((0, 1)),
    st.one_of(
        GUESSES, st.lists(st.one_of(PLAIN_TOKENS, FIRST_TOKENS, FINAL_TOKENS, SHORT), min_size=1, max_size=3)
    ),
)
def test_who_exists_is_not_told(mechanism: str, version: int, tokens: list[bytes]) -> None:
    # Of one length, so that lengths may be compared too.
    assert told("alice", mechanism, version, tokens) == told("ecila", mechanism, version, tokens)


@pytest.mark.spec("R9")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_whole_exchange_with_a_wrong_password_does_not_tell_who_exists(mechanism: str) -> None:
    """The random ones seldom get this far."""
    tokens = [b"\0alice\0wrong"]
    if mechanism != "PLAIN":
        proof = b64encode(bytes(32 if mechanism.endswith("256") else 64))
        tokens = [b"n,,n=alice,r=abc", b"c=biws,r=<the server's>,p=" + proof]

    known, unknown = (told(name, mechanism, 1, tokens) for name in ("alice", "ecila"))

    assert known == unknown
    assert len(known[0]) == 1 + len(tokens)


@pytest.mark.spec("R9")
@given(st.lists(TOKENS, min_size=1, max_size=4), st.sampled_from(MECHANISMS))
def test_an_exchange_that_is_over_stays_over(tokens: list[bytes], mechanism: str) -> None:
    exchange = LISTENER.new_exchange(mechanism)
    outcomes = [exchange.respond(token, 0) for token in tokens]
    last = next((index for index, outcome in enumerate(outcomes) if isinstance(outcome, Rejected)), None)

    if last is not None:
        assert all(isinstance(outcome, Rejected) for outcome in outcomes[last:])
