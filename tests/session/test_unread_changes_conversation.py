"""Changes of the metadata log by which no request is decided: tokens, SCRAM credentials, configs of topics.

Any client that has logged in may renew its token as often as it likes. Each of these changes makes another
image, and no session may decide again or record its counts because of it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from proxy.metadata.image import MetadataImage
from proxy.metadata.scram import ScramMechanism
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.session.apis.asking import image_with
from tests.session.conversation import Conversation, gate_with, produce, produced, sasl
from tests.support.images import acl_record, image_of, scram_record
from tests.support.metadata_log import owned, owner_record, token, token_record

PRODUCE = ApiKey.PRODUCE
RIGHTS = "WRITE TOPIC orders", "ALTER CLUSTER kafka-cluster", "DESCRIBE CLUSTER kafka-cluster"
BASE = image_of(
    token_record(token("a")),
    *owned("payments", "User:carol"),
    base=image_with(*RIGHTS, base=MetadataImage(5)),
)

UNREAD: dict[str, Callable[[], Any]] = {
    "a token was renewed": lambda: token_record(replace(token("a"), expiry_timestamp_ms=77)),
    "a password was changed": lambda: scram_record("bob"),
    "an owned topic is cleaned up sooner": lambda: t.ConfigRecord(
        resource_type=2, resource_name="payments", name="retention.ms", value="1"
    ),
}


def talking() -> Conversation:
    """A client whose Produce requests are known."""
    talk = Conversation(gate=gate_with(BASE))
    for _ in range(2):
        produces(talk)
    return talk


def produces(talk: Conversation) -> bool:
    """Whether a request like the ones before went to the broker without a look at the rights."""
    data = memoryview(bytearray(talk.request(PRODUCE, 9, produce("orders"))))
    is_known = talk.session.forward_request(data, talk.now_ms)
    if not is_known:
        talk.carry_out(talk.session.receive(data, talk.now_ms))
    talk.answers(PRODUCE, 9, produced("orders"))
    return is_known


@pytest.mark.spec("A7", "D1", "O6")
@pytest.mark.parametrize("change", UNREAD.values(), ids=UNREAD)
def test_a_change_that_decides_nothing_makes_no_session_decide_or_record(change: Callable[[], Any]) -> None:
    talk = talking()

    for _ in range(3):
        assert talk.gate.image is not None
        talk.gate.image = image_of(change(), base=talk.gate.image)
        assert produces(talk)

    assert talk.events == []
    (summary,) = talk.summaries()
    # What it was decided by is at this offset as it was before.
    assert (summary.count, summary.metadata_offset) == (5, BASE.offset + 3)


@pytest.mark.spec("A7", "D1")
@pytest.mark.parametrize("change", [lambda: owner_record("payments", "User:dave"), lambda: acl_record(9)])
def test_an_owner_and_an_acl_decide(change: Callable[[], Any]) -> None:
    talk = talking()

    talk.gate.image = image_of(change(), base=BASE)

    assert not produces(talk)
    (before,) = talk.told("authorization_summary")
    (after,) = talk.summaries()
    assert (before.count, before.metadata_offset) == (2, BASE.offset)
    assert (after.count, after.metadata_offset) == (1, BASE.offset + 1)


@pytest.mark.spec("A7")
def test_the_ends_of_counts_are_at_the_last_image_that_decided_as_the_first() -> None:
    talk = talking()
    talk.gate.image = image_of(scram_record("bob"), base=BASE)
    talk.gate.image = image_of(acl_record(9), base=talk.gate.image)

    produces(talk)

    (before,) = talk.told("authorization_summary")
    assert (before.count, before.metadata_offset) == (2, BASE.offset + 1)


@pytest.mark.spec("E5")
def test_a_description_of_credentials_is_of_the_newest_image() -> None:
    talk = talking()
    talk.gate.image = image_of(scram_record("bob"), base=BASE)
    talk.heard_bytes()

    talk.asks(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, t.DescribeUserScramCredentialsRequest(users=None))

    (result,) = talk.heard(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0).results
    assert result.user == "bob"
    granted = talk.events[-1]
    assert (granted.event, granted.metadata_offset) == ("authorization", BASE.offset + 1)


@pytest.mark.spec("D1", "D12")
def test_the_record_of_a_change_is_of_the_image_before_it() -> None:
    talk = talking()
    talk.heard_bytes()
    upsertion = t.AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name="bob",
        mechanism=int(ScramMechanism.SCRAM_SHA_256),
        iterations=5_000,
        salt=b"s",
        salted_password=b"p",
    )
    request = t.AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
    talk.gate.image = before = image_of(scram_record("bob"), base=BASE)
    assert before.offset == BASE.offset + 1
    talk.asks(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)

    # The proxy applies the change before it responds.
    talk.gate.image = image_of(scram_record("bob"), scram_record("carol"), base=before)
    result = t.AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult(user="bob")
    talk.controller_answers(t.AlterUserScramCredentialsResponse(results=[result]))

    (forwarded,) = talk.told("forwarded")
    assert forwarded.metadata_offset == before.offset
    assert [each.metadata_offset for each in talk.told("authorization")] == [before.offset]


@pytest.mark.spec("S1", "D1")
def test_a_login_is_recorded_at_the_newest_image() -> None:
    talk = Conversation(gate=gate_with(BASE), sasl_listener=sasl(60_000))
    talk.logs_in()
    talk.gate.image = image_of(scram_record("bob"), base=BASE)

    talk.logs_in()

    first, again = (each for each in talk.events if each.event in ("authentication", "reauthentication"))
    assert (first.metadata_offset, again.metadata_offset) == (BASE.offset, BASE.offset + 1)
