"""Logins with delegation tokens over SCRAM: as whom, until when, and what nobody learns of them."""

import hmac
from base64 import b64decode, b64encode

import pytest

from proxy.metadata.image import DelegationToken, TokensImage
from proxy.metadata.scram import ScramCredential, ScramMechanism, credential_from_password, salted_password
from proxy.metadata.sharded_map import ShardedMap
from proxy.security.delegation_tokens import TokenLogins, TokenSecret
from proxy.security.principal import Principal
from proxy.security.sasl.client import ScramClient
from proxy.security.sasl.exchange import Accepted, Challenge, Deferred, Rejected
from proxy.security.sasl.scram import ScramExchange
from tests.support.metadata_log import token

NOW = 1_700_000_000_000
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
BOTH = pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
SECRET = TokenSecret(b"of the cluster")
TOKEN = token("t-1", requester="User:admin", expiry_timestamp_ms=NOW + 1_000, max_timestamp_ms=NOW + 9_000)


class Cluster:
    """The image in force, and who logs in over it."""

    def __init__(self, *tokens: DelegationToken) -> None:
        self.logins = TokenLogins(SECRET, lambda: self.tokens)
        self.becomes(*tokens)

    def becomes(self, *tokens: DelegationToken) -> None:
        self.tokens = TokensImage(ShardedMap({one.token_id: one for one in tokens}))

    def exchange(self, mechanism: ScramMechanism = SHA_256, *, checks_nonce: bool = True) -> ScramExchange:
        users: dict[str, ScramCredential] = {"bob": credential_from_password(mechanism, "geheim", b"salt")}
        return ScramExchange(
            mechanism, users.get, "servernonce", b"key", self.logins, checks_nonce=checks_nonce
        )


def by_token(
    token_id: str = "t-1", password: str | None = None, mechanism: ScramMechanism = SHA_256
) -> ScramClient:
    known = SECRET.password(token_id) if password is None else password
    return ScramClient(mechanism, token_id, known, "nonce", token_auth=True)


def log_in(served: ScramExchange, client: ScramClient, now_ms: int = NOW) -> Accepted | Rejected:
    """Drive both sides to the end."""
    outcome = served.respond(client.first(), now_ms)
    assert isinstance(outcome, Challenge)
    answer = client.respond(outcome.token)
    assert answer is not None
    settled = served.respond(answer, now_ms)
    if isinstance(settled, Deferred):
        work = settled.work()
        assert not isinstance(work, Challenge)
        settled = work
    assert not isinstance(settled, Challenge)
    if isinstance(settled, Accepted):
        assert client.respond(settled.token) is None
        assert client.done
    return settled


@BOTH
@pytest.mark.spec("R9", "R2")
def test_a_token_logs_in_as_its_owner_until_it_expires(mechanism: ScramMechanism) -> None:
    outcome = log_in(Cluster(TOKEN).exchange(mechanism), by_token(mechanism=mechanism))

    assert isinstance(outcome, Accepted)
    assert outcome.principal == Principal("User", "alice")
    assert outcome.principal.token_authenticated
    assert outcome.expires_at_ms == NOW + 1_000


@pytest.mark.spec("R9")
@pytest.mark.parametrize(
    ("client", "now_ms", "reason"),
    [
        (by_token(), NOW + 1_000, "'t-1': the delegation token has expired"),
        (by_token(password=SECRET.password("t-2")), NOW, "'t-1': wrong proof"),
        (by_token(password=TokenSecret(b"other").password("t-1")), NOW, "'t-1': wrong proof"),
        # What the key would give for a token that was never made, or is no more.
        (by_token("t-2"), NOW, "'t-2': no such delegation token"),
        (by_token("bob", "geheim"), NOW, "'bob': no such delegation token"),
        (ScramClient(SHA_256, "t-1", SECRET.password("t-1"), "nonce"), NOW, "'t-1': no such credential"),
    ],
)
def test_nothing_but_a_token_that_is_good_logs_in(client: ScramClient, now_ms: int, reason: str) -> None:
    assert log_in(Cluster(TOKEN).exchange(), client, now_ms) == Rejected("", reason)


@pytest.mark.spec("R9")
def test_a_user_logs_in_with_a_password_where_tokens_do_too() -> None:
    outcome = log_in(Cluster(TOKEN).exchange(), ScramClient(SHA_256, "bob", "geheim", "nonce"))

    assert isinstance(outcome, Accepted)
    assert not outcome.principal.token_authenticated


@pytest.mark.spec("R9")
def test_a_token_removed_between_name_and_proof_is_refused() -> None:
    cluster = Cluster(TOKEN)
    served, client = cluster.exchange(), by_token()
    challenge = served.respond(client.first(), NOW)
    assert isinstance(challenge, Challenge)
    cluster.becomes()

    answer = client.respond(challenge.token)
    assert answer is not None
    deferred = served.respond(answer, NOW)

    assert isinstance(deferred, Deferred)
    assert isinstance(deferred.work(), Rejected)


@pytest.mark.spec("R9")
def test_a_token_that_does_not_exist_is_met_like_one_that_does() -> None:
    def told(token_id: str) -> tuple[str, ...]:
        outcome = Cluster(TOKEN).exchange().respond(by_token(token_id).first(), NOW)
        assert isinstance(outcome, Challenge)
        return tuple(outcome.token.decode().split(","))

    known, unknown = told("t-1"), told("t-2")

    assert known[0] == unknown[0]
    assert known[2] == unknown[2] == "i=4096"
    salts = [b64decode(said[1].removeprefix("s=")) for said in (known, unknown)]
    assert len(salts[0]) == len(salts[1])
    assert salts[0] != salts[1]
    assert [told("t-1"), told("t-2")] == [known, unknown]


@pytest.mark.spec("R9")
def test_an_exchange_is_over_once_its_proof_is_being_checked() -> None:
    served, client = Cluster(TOKEN).exchange(), by_token()
    challenge = served.respond(client.first(), NOW)
    assert isinstance(challenge, Challenge)
    answer = client.respond(challenge.token)
    assert answer is not None

    assert isinstance(served.respond(answer, NOW), Deferred)
    assert isinstance(served.respond(answer, NOW), Rejected)


@pytest.mark.spec("R10")
@pytest.mark.parametrize(
    ("later", "in_force"),
    [
        ((TOKEN,), True),
        ((token("t-1", expiry_timestamp_ms=NOW + 5_000, max_timestamp_ms=NOW + 9_000), TOKEN), True),
        ((token("t-1", expiry_timestamp_ms=NOW + 5_000, max_timestamp_ms=NOW + 9_000),), True),
        ((token("t-1", expiry_timestamp_ms=NOW + 500, max_timestamp_ms=NOW + 9_000),), False),
        ((token("t-2", expiry_timestamp_ms=NOW + 5_000),), False),
        ((), False),
    ],
    ids=["unchanged", "twice", "renewed", "cut short", "another", "removed"],
)
def test_a_login_is_in_force_as_long_as_its_token_is_what_it_was(
    later: tuple[DelegationToken, ...], in_force: bool
) -> None:
    cluster = Cluster(TOKEN)
    outcome = log_in(cluster.exchange(), by_token())
    assert isinstance(outcome, Accepted)
    assert outcome.still_valid is not None

    cluster.becomes(*later)

    assert outcome.still_valid() is in_force


@pytest.mark.spec("R9")
def test_no_secret_of_a_token_shows_in_a_reason() -> None:
    outcome = log_in(Cluster().exchange(), by_token())

    assert SECRET.password("t-1") not in repr(outcome)
    assert SECRET.hmac("t-1").hex() not in repr(outcome)


@pytest.mark.spec("R9", "O2")
@pytest.mark.parametrize(("checks_nonce", "reason"), [(True, "nonce of the client-final"), (False, "")])
def test_the_nonce_of_a_login_with_a_token_is_checked_as_that_of_others(
    checks_nonce: bool, reason: str
) -> None:
    served = Cluster(TOKEN).exchange(checks_nonce=checks_nonce)
    challenge = served.respond(b"n,,n=t-1,r=nonce,tokenauth=true", NOW)
    assert isinstance(challenge, Challenge)
    # An old librdkafka repeats its own nonce before that of the server.
    unproven = "c=biws,r=noncenonceservernonce"
    credential = Cluster(TOKEN).logins.credential(SHA_256, "t-1")
    salted = salted_password(SHA_256, SECRET.password("t-1"), credential.salt, credential.iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    message = f"n=t-1,r=nonce,tokenauth=true,{challenge.token.decode()},{unproven}".encode()
    signature = hmac.digest(credential.stored_key, message, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))

    outcome = served.respond(f"{unproven},p={b64encode(proof).decode()}".encode(), NOW)

    settled = outcome.work() if isinstance(outcome, Deferred) else outcome
    assert isinstance(settled, Rejected if checks_nonce else Accepted)
    assert reason in getattr(settled, "reason", "")
