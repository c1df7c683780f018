"""A client while decisions change by something else than the metadata log: a file, the hour."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from proxy.security.authorizer import Action, Decision, RequestContext
from proxy.security.simple import SimpleAclAuthorizer
from proxy.session.gate import Gate
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import image_with
from tests.session.conversation import Conversation, fetch, fetched, gate_with, produce, produced
from tests.support.acl_filters import describe_acls
from tests.support.office_hours import Closing
from tests.support.two_sides import allow_request

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLOSED_TO_ALICE = {
    "orders": {
        "acls": [{"principal": "alice", "permissionType": "DENY", "operations": ["ALL"], "hosts": ["*"]}]
    }
}


def a_gate(authorizer: SimpleAclAuthorizer | Closing, *rights: str) -> Gate:
    gate = gate_with(image_with(*rights))
    gate.authorizer = authorizer
    return gate


def by_file() -> SimpleAclAuthorizer:
    authorizer = SimpleAclAuthorizer()
    authorizer.configure({})
    return authorizer


def file_changes(authorizer: SimpleAclAuthorizer, gate: Gate) -> None:
    document = {"version": 1, "acls": [], "topics": CLOSED_TO_ALICE}
    authorizer.load_file(Path("acls.json"), json.dumps(document).encode())
    gate.forget_decisions()


def produce_error(talk: Conversation) -> int:
    """The error of a produce request to orders, which the broker takes if it comes to it."""
    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    if talk.forwarded():
        talk.answers(ApiKey.PRODUCE, 9, produced("orders"))
    error: int = talk.heard(ApiKey.PRODUCE, 9).responses[0].partition_responses[0].error_code
    return error


@pytest.mark.spec("A4")
def test_a_changed_acl_file_counts_for_a_connection_that_has_produced_already() -> None:
    authorizer = by_file()
    talk = Conversation(gate=a_gate(authorizer))
    assert [produce_error(talk) for _ in range(3)] == [0, 0, 0]

    file_changes(authorizer, talk.gate)

    assert [produce_error(talk) for _ in range(2)] == [DENIED, DENIED]
    assert talk.closed is None
    assert [(event.rule, event.acl_id) for event in talk.told("authorization")] == [
        ("acl.file", "topics > orders > acls[0]")
    ] * 2


@pytest.mark.spec("A4")
def test_a_fetch_session_that_was_opened_before_the_acl_file_changed_has_to_start_anew() -> None:
    authorizer = by_file()
    talk = Conversation(gate=a_gate(authorizer))
    talk.asks(ApiKey.FETCH, 12, fetch("orders", session_id=0, session_epoch=0))
    talk.answers(ApiKey.FETCH, 12, fetched("orders", session_id=77))
    talk.heard(ApiKey.FETCH, 12)
    talk.asks(ApiKey.FETCH, 12, fetch(session_id=77, session_epoch=1))
    talk.answers(ApiKey.FETCH, 12, fetched(session_id=77))
    assert len(talk.forwarded()) == 2
    assert talk.heard(ApiKey.FETCH, 12).error_code == 0

    file_changes(authorizer, talk.gate)
    talk.asks(ApiKey.FETCH, 12, fetch(session_id=77, session_epoch=2))

    assert talk.heard(ApiKey.FETCH, 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert talk.forwarded() == []


@pytest.mark.spec("A4", "S8")
@pytest.mark.parametrize(
    ("api_key", "version", "request_", "told"),
    [
        (
            ApiKey.DESCRIBE_ACLS,
            3,
            describe_acls(),
            lambda answer: [answer.error_code],
        ),
        (
            ApiKey.CREATE_ACLS,
            3,
            allow_request("orders", "bob"),
            lambda answer: [result.error_code for result in answer.results],
        ),
    ],
    ids=["DescribeAcls", "CreateAcls"],
)
def test_acls_of_the_log_are_disabled_where_a_file_decides(api_key, version, request_, told) -> None:  # type: ignore[no-untyped-def]
    talk = Conversation(gate=a_gate(by_file()))

    talk.asks(api_key, version, request_)

    assert told(talk.heard(api_key, version)) == [ErrorCode.SECURITY_DISABLED]
    assert talk.controller == []


@pytest.mark.spec("A1")
def test_an_authorizer_that_decides_by_the_hour_closes_a_connection_that_has_produced_already() -> None:
    authorizer = Closing()
    authorizer.configure({"office.hours": "8-18"})
    talk = Conversation(gate=a_gate(authorizer, "WRITE TOPIC orders"))
    assert produce_error(talk) == 0

    authorizer.now_hour = 18
    talk.gate.forget_decisions()

    assert produce_error(talk) == DENIED
    assert [event.rule for event in talk.told("authorization")] == ["office.closed"]


class Counting(SimpleAclAuthorizer):
    """Counts the actions that it decides on."""

    decided = 0

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        self.decided += len(actions)
        return super().authorize(context, actions)


@pytest.mark.spec("A4")
def test_a_decoded_request_reuses_what_was_allowed_and_asks_again_for_what_was_denied() -> None:
    authorizer = Counting()
    authorizer.configure({})
    document = {"version": 1, "acls": [], "topics": {"secrets": CLOSED_TO_ALICE["orders"]}}
    authorizer.load_file(Path("acls.json"), json.dumps(document).encode())
    talk = Conversation(gate=a_gate(authorizer))

    for _ in range(3):
        talk.asks(ApiKey.PRODUCE, 9, produce("orders", "payments", "secrets"))
        talk.answers(ApiKey.PRODUCE, 9, produced("orders", "payments"))
        codes = [topic.partition_responses[0].error_code for topic in talk.heard(ApiKey.PRODUCE, 9).responses]
        assert codes == [0, 0, DENIED]

    assert authorizer.decided == 3 + 1 + 1
    assert len(talk.told("authorization")) == 3, "each denial is a record"
