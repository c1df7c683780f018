"""SCRAM credentials that are changed after a login, and what unknown users are told."""

from secrets import token_bytes

import pytest

from proxy.config import ListenerConfig
from proxy.metadata.delta import MetadataDelta
from proxy.metadata.image import MetadataImage, ScramImage
from proxy.metadata.scram import MIN_ITERATIONS, ScramCredential, ScramMechanism, credential_from_password
from proxy.net.logins.credentials import Credentials, PlainUsers, sasl_listener
from proxy.security.delegation_tokens import TokenLogins, TokenSecret
from proxy.security.sasl.client import ScramClient
from proxy.security.sasl.exchange import Accepted, Challenge
from proxy.security.sasl.scram import SaltKey, ScramExchange, Usual, UsualCredentials
from proxy.wire import types as t
from tests.support.metadata_log import scram_record

NOW = 1_700_000_000_000
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


@pytest.mark.spec("R10")
@pytest.mark.parametrize("change", ["same", "removed", "changed"])
def test_a_login_is_in_force_until_its_credential_is_another_one(change: str) -> None:
    credentials: dict[str, ScramCredential] = {
        "alice": credential_from_password(SHA_256, "pencil", b"salt" * 4)
    }
    server = ScramExchange(SHA_256, credentials.get, "server-nonce", b"key" * 11)
    client = ScramClient(SHA_256, "alice", "pencil", "client-nonce")
    challenge = server.respond(client.first(), NOW)
    assert isinstance(challenge, Challenge)
    accepted = server.respond(client.respond(challenge.token) or b"", NOW)
    assert isinstance(accepted, Accepted)
    assert accepted.still_valid is not None

    if change == "removed":
        del credentials["alice"]
    elif change == "changed":
        credentials["alice"] = credential_from_password(SHA_256, "pencil", b"tlas" * 4)

    assert accepted.still_valid() is (change == "same")


@pytest.mark.spec("R9")
def test_unknown_users_are_told_the_iterations_and_salts_that_most_known_ones_have() -> None:
    def usual(*known: tuple[int, bytes], mechanism: ScramMechanism = SHA_256) -> Usual:
        delta = MetadataDelta(MetadataImage.EMPTY)
        for number, (iterations, salt) in enumerate(known):
            credential = ScramCredential(salt, b"stored", b"server", iterations)
            delta.replay(scram_record(SHA_256, f"user-{number}", credential))
        return UsualCredentials(mechanism).of(delta.apply(4).scram)

    kafkas, others, short = b"1qy8x2v0a9mbtz3c5d7e6f4gh", bytes(20), (1024, b"a")

    assert usual((8192, kafkas), (8192, kafkas[1:]), (4096, kafkas), (16384, others)) == Usual(8192)
    assert usual((8192, kafkas), (8192, others), (8192, others)) == Usual(8192, 20)
    assert usual((8192, others), mechanism=SHA_512) == usual() == Usual(MIN_ITERATIONS)
    assert usual(short, short).iterations == MIN_ITERATIONS


def team(*names: str) -> ScramImage:
    """What the log has made of these users, whose passwords are their names."""
    delta = MetadataDelta(MetadataImage.EMPTY)
    for name in names:
        delta.replay(scram_record(SHA_256, name, credential_from_password(SHA_256, name, b"salt" * 4)))
    return delta.apply(4).scram


@pytest.mark.spec("R9")
def test_unknown_users_have_the_same_salts_from_all_processes_as_known_ones_have() -> None:
    """Otherwise a stranger finds the known ones by their salts at two proxies, or at one with workers."""
    image = MetadataImage(scram=team("carol", "bob", "alice", "dave"))
    settings = ListenerConfig.model_validate(
        {
            "name": "SASL_PLAINTEXT",
            "bind": "127.0.0.1:0",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": ["SCRAM-SHA-256"],
        }
    )

    def salt_of(user: str, tokens: TokenLogins | None = None) -> bytes:
        credentials = Credentials(PlainUsers({}), lambda: image, tokens=tokens)  # Of another process each.
        exchange = sasl_listener(settings, credentials).new_exchange("SCRAM-SHA-256")
        challenge = exchange.respond(f"n,,n={user},r=nonce".encode(), NOW)
        assert isinstance(challenge, Challenge)
        return challenge.token.split(b",")[1]

    tokens = TokenLogins(TokenSecret(b"secret"), lambda: image.tokens)

    assert salt_of("alice") == salt_of("alice") == salt_of("alice", tokens)
    assert salt_of("mallory") == salt_of("mallory") != salt_of("trent")
    assert salt_of("mallory", tokens) == salt_of("mallory", tokens) != salt_of("mallory")


@pytest.mark.spec("R9")
def test_the_key_of_those_salts_is_one_that_no_user_knows_and_few_changes_replace() -> None:
    def key_at(image: ScramImage) -> bytes:
        return SaltKey(None, token_bytes(32)).of(image)

    first = team("carol", "bob", "alice", "dave")

    assert key_at(first) == key_at(team("dave", "alice", "bob"))
    assert len({key_at(team(*names)) for names in (("alice",), ("alice", "bob"), ("alice", "carol"))}) == 3
    assert key_at(ScramImage()) != key_at(ScramImage())
    followed = SaltKey(None, token_bytes(32))
    assert followed.of(ScramImage()) != followed.of(first) == key_at(first)


@pytest.mark.spec("R9")
@pytest.mark.parametrize(
    ("removed", "added", "left"),
    [((), "zoe", "alice bob"), ((), "aaron", "aaron alice"), (("alice",), "bert", "bert bob")],
)
def test_the_first_users_are_those_of_a_log_that_is_read_at_once(
    removed: tuple[str, ...], added: str, left: str
) -> None:
    delta = MetadataDelta(MetadataImage(scram=team("carol", "bob", "alice", "dave")))
    for user in removed:
        delta.replay(t.RemoveUserScramCredentialRecord(name=user, mechanism=SHA_256))
    delta.replay(scram_record(SHA_256, added, credential_from_password(SHA_256, "pencil", b"salt" * 4)))

    assert [user for _, user in delta.apply(5).scram.first] == left.split()
