"""SCRAM credentials with an end (decision 0162): from the request that sets one to the login that fails."""

from dataclasses import replace
from typing import Any

import pytest

from forwarding.controller.scram import alter_user_scram_credentials, credential_record
from forwarding.controller.signing import state_records
from proxy.metadata.acl import UNTIL_TAG, tags_of_end
from proxy.metadata.image import MetadataImage
from proxy.metadata.scram import (
    ScramMechanism,
    credential_from_password,
    salted_password,
)
from proxy.metadata.tree import tree_of
from proxy.security.sasl.client import ScramClient
from proxy.security.sasl.exchange import Accepted, Challenge, Rejected
from proxy.security.sasl.scram import ScramExchange
from proxy.session.authentication import SaslListener
from proxy.wire import metadata_records
from proxy.wire import types as t
from proxy.wire.error_codes import ErrorCode
from tests.session.conversation import NOW_MS, Conversation
from tests.support.images import image_of

pytestmark = pytest.mark.spec("A11")

SHA_256 = ScramMechanism.SCRAM_SHA_256
END_MS = NOW_MS + 60_000


def alteration(tags: dict[int, bytes] | None) -> t.AlterUserScramCredentialsRequest:
    request = t.AlterUserScramCredentialsRequest
    new = request.ScramCredentialUpsertion(
        name="alice",
        mechanism=SHA_256,
        iterations=4096,
        salt=b"salt",
        salted_password=salted_password(SHA_256, "pencil", b"salt", 4096),
        unknown_tags=tags,
    )
    return request(upsertions=[new])


def image_with(tags: dict[int, bytes] | None, now_ms: int = NOW_MS) -> MetadataImage:
    """The state after a request, through the bytes of the log."""
    outcome = alter_user_scram_credentials(alteration(tags), MetadataImage.EMPTY, now_ms)
    assert [each.error_code for each in outcome.response.results] == [ErrorCode.NONE]
    (record,) = outcome.records
    return image_of(metadata_records.decode_record(metadata_records.encode_record(record)))


def outcome_at(now_ms: int, image: MetadataImage, password: str = "pencil") -> Any:
    server = ScramExchange(SHA_256, lambda user: image.scram.credential(SHA_256, user), "nonce", b"key" * 11)
    client = ScramClient(SHA_256, "alice", password, "client-nonce")
    challenge = server.respond(client.first(), now_ms)
    assert isinstance(challenge, Challenge)
    return server.respond(client.respond(challenge.token) or b"", now_ms)


def test_a_login_succeeds_until_the_last_millisecond_and_says_when_the_credential_ends() -> None:
    image = image_with(tags_of_end(END_MS))

    last = outcome_at(END_MS - 1, image)
    assert isinstance(last, Accepted)
    assert last.expires_at_ms == END_MS
    assert outcome_at(END_MS, image) == Rejected("", "'alice': its credential has ended")
    # Who does not know the password does not learn that there was one.
    assert outcome_at(END_MS, image, "wrong") == Rejected("", "'alice': wrong proof")


def test_a_credential_without_an_end_has_none() -> None:
    accepted = outcome_at(END_MS * 10, image_with(None))

    assert isinstance(accepted, Accepted)
    assert accepted.expires_at_ms is None


def test_a_session_ends_with_the_credential_and_cannot_be_renewed() -> None:
    image = image_with(tags_of_end(END_MS))

    def exchange(_name: str) -> ScramExchange:
        return ScramExchange(SHA_256, lambda user: image.scram.credential(SHA_256, user), "nonce", b"secret")

    name = SHA_256.mechanism_name
    talk = Conversation(sasl_listener=SaslListener("SASL", (name,), lambda _: 3_600_000, exchange))

    def logs_in() -> Any:
        client = ScramClient(SHA_256, "alice", "pencil", "clientnonce")
        talk.shakes_hands(name)
        final = client.respond(bytes(talk.authenticates(client.first()).auth_bytes))
        return talk.authenticates(final or b"")

    assert logs_in().session_lifetime_ms == 60_000
    talk.passes(59_000)
    assert logs_in().session_lifetime_ms == 1_000
    talk.passes(1_000)
    assert logs_in().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert talk.close_reason == "authentication_failed"
    assert [each.message for each in talk.told("reauthentication_failed")] == [
        "'alice': its credential has ended"
    ]


@pytest.mark.parametrize("raw", [b"", b"1234567", b"\x80" + bytes(7), b"\x7f" + b"\xff" * 7])
def test_an_end_that_is_malformed_is_rejected_and_in_the_log_it_is_past(raw: bytes) -> None:
    outcome = alter_user_scram_credentials(alteration({UNTIL_TAG: raw}), MetadataImage.EMPTY, NOW_MS)
    (result,) = outcome.response.results
    assert (outcome.records, result.error_code) == ((), ErrorCode.UNACCEPTABLE_CREDENTIAL)
    assert "The end of the credential is no time" in result.error_message

    record = credential_record(SHA_256, "alice", credential_from_password(SHA_256, "pencil", b"salt"))
    record.unknown_tags = {UNTIL_TAG: raw}
    assert outcome_at(NOW_MS, image_of(record)) == Rejected("", "'alice': its credential has ended")


def test_an_end_in_the_past_is_rejected() -> None:
    outcome = alter_user_scram_credentials(alteration(tags_of_end(NOW_MS)), MetadataImage.EMPTY, NOW_MS)

    (result,) = outcome.response.results
    assert outcome.records == ()
    assert "The end of the credential, 2023-11-14T22:13:20.000Z, is in the past" in result.error_message


def test_the_last_request_counts_and_a_password_that_is_set_by_kafkas_tools_has_no_end() -> None:
    ending, endless = image_with(tags_of_end(END_MS)), image_with(None)

    (first,) = ending.scram.credentials.values()
    (second,) = endless.scram.credentials.values()
    assert first == replace(second, until_ms=END_MS)
    assert ending.digest != endless.digest != image_with(tags_of_end(END_MS + 1)).digest


def test_the_state_that_is_written_again_has_the_end() -> None:
    image = image_with(tags_of_end(END_MS))
    again = image_of(*(each for each in state_records(image) if not isinstance(each, t.NoOpRecord)))

    assert again.digest == image.digest
    node = tree_of(image).children["scram"].children["SCRAM-SHA-256"].children["alice"]
    assert node.value is not None
    assert node.value() == {"iterations": 4096, "until": "2023-11-14T22:14:20.000Z"}
