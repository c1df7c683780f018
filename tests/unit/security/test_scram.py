"""SCRAM, server side: the RFCs' own example, what is refused, and that unknown users look like known ones."""

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections import Counter

import pytest

from proxy.metadata.scram import (
    ScramCredential,
    ScramMechanism,
    credential_from_password,
    credential_from_salted_password,
    salted_password,
)
from proxy.security.principal import Principal
from proxy.security.sasl.client import ScramClient
from proxy.security.sasl.exchange import Accepted, Challenge, Deferred, Rejected
from proxy.security.sasl.scram import ScramExchange, Usual

NOW = 1_700_000_000_000
NOBODY: dict[str, ScramCredential] = {}
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
BOTH = pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])

# RFC 7677, section 3.
RFC_CREDENTIAL = credential_from_password(SHA_256, "pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
RFC_CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
RFC_SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
RFC_SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
RFC_CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
RFC_SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def rfc_exchange(username: str = "user") -> ScramExchange:
    return ScramExchange(SHA_256, {username: RFC_CREDENTIAL}.get, RFC_SERVER_NONCE, b"secret")


def exchange(
    mechanism: ScramMechanism = SHA_256,
    username: str = "alice",
    password: str = "geheim",
    server_nonce: str = "servernonce",
) -> ScramExchange:
    credential = credential_from_password(mechanism, password, b"salt of alice")
    return ScramExchange(mechanism, {username: credential}.get, server_nonce, b"secret")


def log_in(served: ScramExchange, client: ScramClient) -> Accepted | Rejected:
    """Drive both sides to the end."""
    outcome = served.respond(client.first(), NOW)
    while isinstance(outcome, Challenge):
        answer = client.respond(outcome.token)
        assert answer is not None
        outcome = served.respond(answer, NOW)
    assert not isinstance(outcome, Deferred)
    if isinstance(outcome, Accepted):
        assert client.respond(outcome.token) is None
    return outcome


@pytest.mark.spec("R9")
def test_the_conversation_of_the_rfc_goes_word_for_word() -> None:
    served = rfc_exchange()

    assert served.respond(RFC_CLIENT_FIRST, NOW) == Challenge(RFC_SERVER_FIRST)
    assert served.respond(RFC_CLIENT_FINAL, NOW) == Accepted(Principal("User", "user"), RFC_SERVER_FINAL)


@pytest.mark.spec("R9")
def test_a_credential_is_what_rfc_5802_makes_of_the_salted_password() -> None:
    salted = salted_password(SHA_256, "pencil", RFC_CREDENTIAL.salt, 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")

    made = credential_from_salted_password(SHA_256, RFC_CREDENTIAL.salt, salted, 4096)

    assert made == RFC_CREDENTIAL
    assert made.stored_key == hashlib.sha256(client_key).digest()
    assert made.server_key == hmac.digest(salted, b"Server Key", "sha256")


@BOTH
@pytest.mark.spec("R9")
@pytest.mark.parametrize("username", ["alice", "a,b=c", "=2C", "=", ",", "CN=a, O=b", "jürgen"])
def test_client_and_server_agree_on_every_name_and_mechanism(
    mechanism: ScramMechanism, username: str
) -> None:
    outcome = log_in(exchange(mechanism, username), ScramClient(mechanism, username, "geheim", "nonce"))

    assert isinstance(outcome, Accepted)
    assert outcome.principal == Principal("User", username)


@BOTH
@pytest.mark.spec("R9")
def test_a_wrong_password_is_rejected(mechanism: ScramMechanism) -> None:
    outcome = log_in(exchange(mechanism), ScramClient(mechanism, "alice", "falsch", "nonce"))

    assert outcome == Rejected("", "'alice': wrong proof")


@pytest.mark.spec("R9")
def test_an_unknown_user_is_answered_and_rejected_like_a_known_one() -> None:
    served = exchange()

    known = served.respond(b"n,,n=alice,r=nonce", NOW)
    unknown = exchange().respond(b"n,,n=mallory,r=nonce", NOW)
    outcome = log_in(exchange(), ScramClient(SHA_256, "mallory", "geheim", "nonce"))

    assert isinstance(known, Challenge)
    assert isinstance(unknown, Challenge)
    assert outcome == Rejected("", "'mallory': no such credential")
    assert _shape(unknown.token) == _shape(known.token)


def _shape(server_first: bytes) -> tuple[str, int]:
    """What of the answer does not depend on the salt itself."""
    nonce, _, iterations = server_first.decode().split(",")
    return nonce, int(iterations.removeprefix("i="))


@pytest.mark.spec("R9")
def test_an_unknown_user_has_the_same_salt_each_time_and_another_than_others() -> None:
    first, again, other = (
        exchange().respond(f"n,,n={name},r=nonce".encode(), NOW) for name in ("m", "m", "n")
    )
    elsewhere = ScramExchange(SHA_256, NOBODY.get, "servernonce", b"another secret").respond(
        b"n,,n=m,r=nonce", NOW
    )

    assert first == again
    assert len({first, other, elsewhere}) == 3


@pytest.mark.spec("R9")
def test_the_salt_of_an_unknown_user_looks_like_one_that_kafkas_tools_make() -> None:
    """These have 130 bits, to the base of 36: one of 26 characters each time would be recognised."""

    def salt_of(name: str, salt_bytes: int = 0) -> bytes:
        served = ScramExchange(SHA_512, NOBODY.get, "s", b"secret", usual=Usual(8192, salt_bytes))
        outcome = served.respond(f"n,,n={name},r=nonce".encode(), NOW)
        assert isinstance(outcome, Challenge)
        _, salt, iterations = outcome.token.decode().split(",")
        assert iterations == "i=8192"
        return b64decode(salt.removeprefix("s="))

    salts = [salt_of(f"m{number}") for number in range(1_000)]

    assert max(int(salt, 36) for salt in salts).bit_length() == 130
    assert all(salt.isalnum() and salt.lower() == salt for salt in salts)
    lengths = Counter(map(len, salts))
    assert 0.35 < lengths[26] / 1_000 < 0.47
    assert 0.50 < lengths[25] / 1_000 < 0.62
    assert len(salt_of("m", 20)) == 20


@pytest.mark.spec("R9")
def test_a_proof_made_for_the_invented_salt_does_not_let_an_unknown_user_in() -> None:
    # The attacker can compute everything but the stored key, so even the dummy's own key must not help.
    served = exchange()
    challenge = served.respond(b"n,,n=mallory,r=nonce", NOW)
    assert isinstance(challenge, Challenge)
    dummy_key = hmac.digest(b"secret", b"mallory", "sha256")
    unproven = "c=biws,r=nonceservernonce"
    auth_message = f"n=mallory,r=nonce,{challenge.token.decode()},{unproven}".encode()
    signature = hmac.digest(dummy_key, auth_message, "sha256")

    outcome = served.respond(f"{unproven},p={b64encode(signature).decode()}".encode(), NOW)

    assert isinstance(outcome, Rejected)


@pytest.mark.spec("R9")
def test_a_credential_of_too_few_iterations_lets_nobody_in_and_does_not_show() -> None:
    weak = credential_from_password(SHA_256, "geheim", b"salt", 4095)
    served = ScramExchange(SHA_256, {"alice": weak}.get, "s", b"secret")

    outcome = log_in(served, ScramClient(SHA_256, "alice", "geheim", "nonce"))

    assert outcome == Rejected("", "'alice': its credential has too few iterations")


FIRST_FAULTS = [
    b"",
    b"n",
    b"n,,",
    b"n,,n=user",
    b"n,,r=nonce,n=user",
    b"n,,n=,r=nonce",
    b"n,,n=user,r=",
    b"n,,n=us=er,r=nonce",
    b"n,,n=us=2cer,r=nonce",
    b"n,,n=us\0er,r=nonce",
    b"n,,n=user,r=non ce",
    b"n,,n=user,r=n\xc3\xb6nce",
    b"n,,m=ext,n=user,r=nonce",
    b"p=tls-unique,,n=user,r=nonce",
    b"x,,n=user,r=nonce",
    b"n,user,n=user,r=nonce",
    b"n,a=,n=user,r=nonce",
    b"n,,n=user,r=nonce,ext",
    b"n,,n=user,r=nonce,",
    b"n,,n=user,r=nonce\n",
    b"N,,n=user,r=nonce",
    b"n,,n=\xff,r=nonce",
    RFC_CLIENT_FINAL,
    b"n,,n=user,r=" + b"x" * 65_536,
]


@pytest.mark.spec("R9")
@pytest.mark.parametrize("message", FIRST_FAULTS)
def test_a_first_message_that_is_none_is_rejected(message: bytes) -> None:
    outcome = rfc_exchange().respond(message, NOW)

    assert isinstance(outcome, Rejected)
    assert outcome.message == ""


FINAL = RFC_CLIENT_FINAL
NONCE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


@pytest.mark.spec("R9")
@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "malformed"),
        (RFC_CLIENT_FIRST, "malformed"),
        (FINAL.replace(b",p=", b",q="), "malformed"),
        (FINAL.split(b",p=")[0], "malformed"),
        (FINAL + b",x=y", "malformed"),
        (FINAL + b",p=AAAA", "malformed"),
        (FINAL[:-1], "malformed"),
        (FINAL.replace(b"c=biws,", b""), "malformed"),
        (FINAL.replace(NONCE, b"r=rOprNGfwEbeRWgbNEkqO"), "nonce"),
        (FINAL.replace(NONCE, NONCE + b"x"), "nonce"),
        (FINAL.replace(NONCE, b"r=x" + NONCE[2:]), "nonce"),
        (FINAL.replace(b"c=biws", b"c=eSws"), "channel binding"),
        (FINAL.replace(b"c=biws", b"c="), "channel binding"),
        (FINAL.replace(b"p=dHzb", b"p=dHzc"), "wrong proof"),
        (FINAL.split(b",p=")[0] + b",p=", "wrong proof"),
        (FINAL.split(b",p=")[0] + b",p=" + b64encode(bytes(31)), "wrong proof"),
        (FINAL.split(b",p=")[0] + b",p=" + b64encode(bytes(64)), "wrong proof"),
        (FINAL.replace(b",p=", b",x=y,p="), "wrong proof"),
    ],
)
def test_a_final_message_that_proves_nothing_is_rejected(message: bytes, reason: str) -> None:
    served = rfc_exchange()
    served.respond(RFC_CLIENT_FIRST, NOW)

    outcome = served.respond(message, NOW)

    assert isinstance(outcome, Rejected)
    assert reason in outcome.reason
    assert outcome.message == ""


# As kcat 1.7.1 with librdkafka 2.0.2 sends it: its own nonce, and then the whole nonce of server-first.
KCAT_FIRST = b"n,,n=alice,r=`9_61<c5rLnOrTj]N>~ZmzP;CEbm;9Oz"
KCAT_SERVER_NONCE = "x1DyCX61U7qPmqlnrWN7S-ijpNMQ9pWE"
KCAT_FINAL = (
    b"c=biws,r=`9_61<c5rLnOrTj]N>~ZmzP;CEbm;9Oz`9_61<c5rLnOrTj]N>~ZmzP;CEbm;9Oz"
    b"x1DyCX61U7qPmqlnrWN7S-ijpNMQ9pWE,"
    b"p=GX9/2vSTb6dyEHFhIC/ZfauHK+XR4SQ4zLdpbzKzWKGIBghy5MiFGoiw+inXVtqykz2Ozr31hORYm6DIUg0Umg=="
)


def kcat_exchange(*, checks_nonce: bool, server_nonce: str = KCAT_SERVER_NONCE) -> ScramExchange:
    credential = credential_from_password(SHA_512, "geheim", b"salt of alice")
    users = {"alice": credential}
    return ScramExchange(SHA_512, users.get, server_nonce, b"secret", checks_nonce=checks_nonce)


@pytest.mark.spec("R9", "O2")
def test_an_old_librdkafka_logs_in_where_the_nonce_is_not_checked_and_is_named_where_it_is() -> None:
    lax, strict = kcat_exchange(checks_nonce=False), kcat_exchange(checks_nonce=True)
    for served in (lax, strict):
        served.respond(KCAT_FIRST, NOW)

    accepted, rejected = lax.respond(KCAT_FINAL, NOW), strict.respond(KCAT_FINAL, NOW)

    assert isinstance(accepted, Accepted)
    assert accepted.principal == Principal("User", "alice")
    assert isinstance(rejected, Rejected)
    assert rejected.reason.startswith("'alice': the nonce of the client-final message is not the server's")
    assert "librdkafka before 2.6.1" in rejected.reason
    assert "sasl.scram.nonce.check: lax" in rejected.reason


@pytest.mark.spec("R9")
@pytest.mark.parametrize("nonce", ["nonce", "foo", "nonceservernonce", "nonceservernoncex"])
def test_where_the_nonce_is_not_checked_any_is_taken_and_the_proof_still_covers_the_servers(
    nonce: str,
) -> None:
    def final(server_nonce: str, password: str) -> bytes:
        """What a client sends that got this nonce of a server, and whose own message has `nonce`."""
        salted = salted_password(SHA_512, password, b"salt of alice", 4096)
        client_key = hmac.digest(salted, b"Client Key", "sha512")
        unproven = f"c=biws,r={nonce}"
        salt = b64encode(b"salt of alice").decode()
        message = f"n=alice,r=nonce,r=nonce{server_nonce},s={salt},i=4096,{unproven}".encode()
        signature = hmac.digest(hashlib.sha512(client_key).digest(), message, "sha512")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{unproven},p={b64encode(proof).decode()}".encode()

    def outcome(message: bytes) -> object:
        served = kcat_exchange(checks_nonce=False, server_nonce="servernonce")
        served.respond(b"n,,n=alice,r=nonce", NOW)
        return served.respond(message, NOW)

    assert isinstance(outcome(final("servernonce", "geheim")), Accepted)
    replayed, guessed = outcome(final("of another login", "geheim")), outcome(final("servernonce", "falsch"))
    assert replayed == guessed == Rejected("", "'alice': wrong proof")


@pytest.mark.spec("R6")
def test_after_its_end_an_exchange_takes_nothing_more() -> None:
    failed, complete = rfc_exchange(), rfc_exchange()
    failed.respond(b"nonsense", NOW)
    for message in (RFC_CLIENT_FIRST, RFC_CLIENT_FINAL):
        complete.respond(message, NOW)

    for served in (failed, complete):
        outcome = served.respond(RFC_CLIENT_FIRST, NOW)
        assert outcome == Rejected("", "a token after the end of the exchange")


@pytest.mark.spec("R9")
def test_a_final_message_replayed_to_another_exchange_is_rejected() -> None:
    served = ScramExchange(SHA_256, {"user": RFC_CREDENTIAL}.get, "another nonce"[:7], b"secret")
    served.respond(RFC_CLIENT_FIRST, NOW)

    assert isinstance(served.respond(RFC_CLIENT_FINAL, NOW), Rejected)


@pytest.mark.spec("R9")
def test_an_authorization_id_has_to_be_the_user_name() -> None:
    same = rfc_exchange("a,b").respond(b"n,a=a=2Cb,n=a=2Cb,r=nonce", NOW)
    other = rfc_exchange().respond(b"n,a=root,n=user,r=nonce", NOW)

    assert isinstance(same, Challenge)
    assert isinstance(other, Rejected)
    assert "different from username" in other.message


@pytest.mark.spec("R9")
@pytest.mark.parametrize(
    ("gs2_header", "extensions"),
    [
        *((header, "") for header in ("n,,", "y,,", "n,a=alice,", "y,a=alice,")),
        *(("n,,", extensions) for extensions in (",ext=1", ",tokenauth=false", ",a=b,c=d=e")),
    ],
)
def test_no_channel_binding_and_other_extensions_are_accepted(gs2_header: str, extensions: str) -> None:
    served = exchange()
    bare = f"n=alice,r=nonce{extensions}"
    challenge = served.respond(f"{gs2_header}{bare}".encode(), NOW)
    assert isinstance(challenge, Challenge)
    unproven = f"c={b64encode(gs2_header.encode()).decode()},r=nonceservernonce"
    proof = _proof(challenge.token, f"{bare},{challenge.token.decode()},{unproven}")

    assert isinstance(served.respond(f"{unproven},p={proof}".encode(), NOW), Accepted)


def _proof(server_first: bytes, auth_message: str) -> str:
    salt = b64decode(server_first.decode().split(",")[1].removeprefix("s="))
    salted = hashlib.pbkdf2_hmac("sha256", b"geheim", salt, 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    stored_key = hashlib.sha256(client_key).digest()
    signature = hmac.digest(stored_key, auth_message.encode(), "sha256")
    return b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()


@pytest.mark.spec("R9")
def test_where_there_are_no_delegation_tokens_none_logs_in() -> None:
    outcome = log_in(exchange(), ScramClient(SHA_256, "alice", "geheim", "nonce", token_auth=True))

    assert outcome == Rejected("", "'alice': no such delegation token")


@pytest.mark.spec("R9")
def test_neither_credentials_nor_reasons_show_secrets() -> None:
    outcome = log_in(exchange(), ScramClient(SHA_256, "alice", "falsch", "nonce"))

    assert "falsch" not in repr(outcome)
    assert repr(RFC_CREDENTIAL) == "ScramCredential(iterations=4096, until_ms=None)"
