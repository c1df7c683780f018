"""SCRAM credentials that are changed after a login, and what unknown users are told."""

import pytest

from proxy.metadata.delta import MetadataDelta
from proxy.metadata.image import MetadataImage
from proxy.metadata.scram import MIN_ITERATIONS, ScramCredential, ScramMechanism, credential_from_password
from proxy.security.sasl.client import ScramClient
from proxy.security.sasl.exchange import Accepted, Challenge
from proxy.security.sasl.scram import ScramExchange, UsualIterations
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
def test_unknown_users_are_told_the_iterations_that_most_known_ones_have() -> None:
    delta = MetadataDelta(MetadataImage.EMPTY)
    for number, iterations in enumerate((8192, 8192, 4096, 16384)):
        credential = ScramCredential(b"salt", b"stored", b"server", iterations)
        delta.replay(scram_record(SHA_256, f"user-{number}", credential))
    image = delta.apply(4).scram
    usual, other = UsualIterations(SHA_256), UsualIterations(SHA_512)

    assert (usual.of(image), other.of(image)) == (8192, MIN_ITERATIONS)
    assert usual.of(MetadataImage.EMPTY.scram) == MIN_ITERATIONS
