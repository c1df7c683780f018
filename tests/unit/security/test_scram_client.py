"""SCRAM as a client: what it says, and which servers it does not believe."""

from base64 import b64encode

import pytest

from proxy.metadata.scram import ScramMechanism, credential_from_password
from proxy.security.sasl import client as sasl_client
from proxy.security.sasl.client import ScramClient
from proxy.security.sasl.exchange import Accepted, AuthenticationError, Challenge
from proxy.security.sasl.scram import ScramExchange

SHA_256 = ScramMechanism.SCRAM_SHA_256
SALT = b64encode(b"salt").decode()

# RFC 7677, section 3.
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def client() -> ScramClient:
    return ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")


@pytest.mark.spec("R10")
def test_the_conversation_of_the_rfc_goes_word_for_word() -> None:
    asking = client()

    assert asking.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert asking.respond(SERVER_FIRST) == CLIENT_FINAL
    assert not asking.done
    assert asking.respond(SERVER_FINAL) is None
    assert asking.done


@pytest.mark.spec("R10")
@pytest.mark.parametrize(
    ("server_first", "fault"),
    [
        (b"", "nonce"),
        (f"r=other,s={SALT},i=4096".encode(), "nonce"),
        (f"r=rOprNGfwEbeRWgbNEkqO,s={SALT},i=4096".encode(), "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=,i=4096", "0 bytes of salt"),
        (f"r=rOprNGfwEbeRWgbNEkqOx,s={SALT},i=4095".encode(), "4095 iterations"),
        (f"r=rOprNGfwEbeRWgbNEkqOx,s={SALT},i=0".encode(), "0 iterations"),
        (f"r=rOprNGfwEbeRWgbNEkqOx,s={SALT},i=-4096".encode(), "0 iterations"),
        (f"r=rOprNGfwEbeRWgbNEkqOx,s={SALT},i=2000000000".encode(), "2000000000 iterations"),
        (f"r=rOprNGfwEbeRWgbNEkqOx,s={SALT}".encode(), "0 iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=a,i=4096", "malformed"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=\xff,i=4096", "malformed"),
    ],
)
def test_a_first_answer_that_is_unsafe_to_go_on_from_is_refused(server_first: bytes, fault: str) -> None:
    with pytest.raises(AuthenticationError, match=fault):
        client().respond(server_first)


@pytest.mark.spec("R10")
@pytest.mark.parametrize(
    ("server_final", "fault"),
    [
        (b"", "signature"),
        (b"v=", "signature"),
        (SERVER_FINAL.replace(b"6rri", b"6rrj"), "signature"),
        (b"e=other-error", "other-error"),
        (b"v=a", "malformed"),
    ],
)
def test_a_server_that_does_not_know_the_credential_is_not_believed(server_final: bytes, fault: str) -> None:
    asking = client()
    asking.respond(SERVER_FIRST)

    with pytest.raises(AuthenticationError, match=fault):
        asking.respond(server_final)
    assert not asking.done


@pytest.mark.spec("R10")
def test_a_server_that_knows_only_the_stored_key_is_not_believed() -> None:
    real = credential_from_password(SHA_256, "geheim", b"salt")
    stolen = credential_from_password(SHA_256, "geheim", b"salt").__class__(
        real.salt, real.stored_key, bytes(32), real.iterations
    )
    served = ScramExchange(SHA_256, {"alice": stolen}.get, "s", b"secret")
    asking = ScramClient(SHA_256, "alice", "geheim", "nonce")
    challenge = served.respond(asking.first(), 0)
    assert isinstance(challenge, Challenge)
    accepted = served.respond(asking.respond(challenge.token) or b"", 0)
    assert isinstance(accepted, Accepted)

    with pytest.raises(AuthenticationError, match="does not know the credential"):
        asking.respond(accepted.token)


@pytest.mark.spec("R10")
def test_a_server_that_goes_on_after_the_end_is_refused() -> None:
    asking = client()
    asking.respond(SERVER_FIRST)
    asking.respond(SERVER_FINAL)

    with pytest.raises(AuthenticationError, match="after the end"):
        asking.respond(SERVER_FIRST)


@pytest.mark.spec("R9")
@pytest.mark.parametrize(
    ("name", "mechanism"),
    [
        ("SCRAM-SHA-256", ScramMechanism.SCRAM_SHA_256),
        ("SCRAM-SHA-512", ScramMechanism.SCRAM_SHA_512),
        ("SCRAM-SHA-1", ScramMechanism.UNKNOWN),
        ("UNKNOWN", ScramMechanism.UNKNOWN),
        ("scram-sha-256", ScramMechanism.UNKNOWN),
    ],
)
def test_a_mechanism_is_found_by_its_sasl_name(name: str, mechanism: ScramMechanism) -> None:
    assert ScramMechanism.named(name) is mechanism


@pytest.mark.spec("R9", "S1")
def test_mechanisms_have_kafkas_numbers_and_others_are_unknown() -> None:
    assert [(m.name, int(m)) for m in ScramMechanism] == [
        ("UNKNOWN", 0),
        ("SCRAM_SHA_256", 1),
        ("SCRAM_SHA_512", 2),
    ]
    assert ScramMechanism(3) is ScramMechanism.UNKNOWN
    with pytest.raises(ValueError, match="no hash"):
        _ = ScramMechanism.UNKNOWN.hash_name


@pytest.mark.spec("R10", "O8")
def test_a_password_is_hashed_once_for_the_same_salt_and_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sasl_client, "_salted_passwords", {})
    monkeypatch.setattr(sasl_client, "MAX_SALTED_PASSWORDS", 1)
    other_salt = SERVER_FIRST.replace(b"W22Z", b"W33Z")
    first, second = client(), client()

    assert first.takes_long(SERVER_FIRST)
    first.respond(SERVER_FIRST)

    # What is left of the exchange takes no time, and neither does another one by the same salt.
    assert not first.takes_long(SERVER_FINAL)
    assert not second.takes_long(SERVER_FIRST)
    assert second.takes_long(other_salt)
    second.respond(other_salt)
    assert client().takes_long(SERVER_FIRST)  # Its place was taken.


@pytest.mark.spec("R10", "O8")
@pytest.mark.parametrize("challenge", [b"", b"\xff", b"s=a,i=4096", b"i=" + b"9" * 5_000])
def test_what_cannot_be_read_is_left_to_the_response(challenge: bytes) -> None:
    client().takes_long(challenge)

    with pytest.raises(AuthenticationError):
        client().respond(challenge)
