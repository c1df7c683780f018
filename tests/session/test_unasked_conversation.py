"""Requests that ask for no right: no decision tells of them, and the trail has them all the same."""

from typing import Any

import pytest

from proxy.audit.record import AuditEvent
from proxy.security.delegation_tokens import TokenSecret
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import KNOWN_TOPICS
from tests.session.conversation import Conversation, fetch, fetched, gate_with, produce, sasl
from tests.support.images import image_of

pytestmark = pytest.mark.spec("D1", "D2")

UNKNOWN_ID = bytes(15) + b"\x63"
RENEW, DESCRIBE_TOKENS = ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN


def counted(talk: Conversation) -> list[tuple[Any, ...]]:
    """API, count and bytes of each summary since the last look."""
    events = talk.summaries()
    assert all((e.principal, e.client_id) == ("User:alice", "app") for e in events)
    return [(e.method, e.count, e.request_bytes) for e in events if e.event == "request_summary"]


def told(talk: Conversation) -> list[AuditEvent]:
    return talk.told("admin_request")


@pytest.mark.parametrize(
    ("api_key", "version", "message"),
    [
        (ApiKey.METADATA, 12, t.MetadataRequest(topics=None)),
        (ApiKey.METADATA, 12, t.MetadataRequest(topics=[])),
        (ApiKey.LIST_GROUPS, 5, t.ListGroupsRequest()),
        (ApiKey.DESCRIBE_CLUSTER, 1, t.DescribeClusterRequest()),
        (ApiKey.LIST_TRANSACTIONS, 1, t.ListTransactionsRequest()),
        (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, t.GetTelemetrySubscriptionsRequest()),
        (ApiKey.FETCH, 13, fetch(UNKNOWN_ID)),
        (ApiKey.FETCH, 12, fetch("orders", session_id=7, session_epoch=3)),
        (ApiKey.FETCH, 12, fetch()),
        (ApiKey.PRODUCE, 12, produce()),
    ],
    ids=lambda value: value.__class__.__name__,
)
def test_a_request_that_asks_for_no_right_is_counted_with_its_bytes(
    api_key: int, version: int, message: Any
) -> None:
    talk = Conversation()
    size_bytes = 0

    for _ in range(2):
        frame = talk.request(api_key, version, message)
        size_bytes += len(frame)
        talk.sends(frame)
        if talk.lookups:
            talk.broker_names()
        answer(talk, api_key, version)

    assert talk.closed is None
    assert counted(talk) == [(ApiKey.name_of(api_key), 2, size_bytes)]
    assert counted(talk) == []
    assert talk.events == []


def answer(talk: Conversation, api_key: int, version: int) -> None:
    """The broker's, if it was asked."""
    if talk.forwarded_bytes():
        name = ApiKey.name_of(api_key)
        talk.answers(api_key, version, fetched() if name == "Fetch" else getattr(t, f"{name}Response")())


def test_a_request_that_is_decided_on_by_its_answer_is_not_counted_twice() -> None:
    talk = Conversation("DESCRIBE TOPIC orders")
    topic = t.MetadataRequest.MetadataRequestTopic(name=None, topic_id=KNOWN_TOPICS["orders"])

    talk.asks(ApiKey.METADATA, 12, t.MetadataRequest(topics=[topic]))
    part = t.MetadataResponse.MetadataResponseTopic(name="orders", topic_id=KNOWN_TOPICS["orders"])
    talk.answers(ApiKey.METADATA, 12, t.MetadataResponse(topics=[part]))

    assert [(e.event, e.count) for e in talk.summaries()] == [("authorization_summary", 1)]


def test_a_request_that_nothing_in_its_answer_decided_on_is_counted_then() -> None:
    talk = Conversation()
    topic = t.MetadataRequest.MetadataRequestTopic(name=None, topic_id=UNKNOWN_ID)

    frame = talk.request(ApiKey.METADATA, 12, t.MetadataRequest(topics=[topic]))
    talk.sends(frame)
    assert counted(talk) == []
    part = t.MetadataResponse.MetadataResponseTopic(name=None, topic_id=UNKNOWN_ID, error_code=100)
    talk.answers(ApiKey.METADATA, 12, t.MetadataResponse(topics=[part]))

    assert counted(talk) == [("Metadata", 1, len(frame))]


def test_a_request_about_tokens_that_is_refused_to_anybody_is_a_record() -> None:
    gate = gate_with(image_of())
    gate.token_secret = TokenSecret(b"of the cluster")
    talk = Conversation(gate=gate, principal="ANONYMOUS")

    talk.asks(RENEW, 2, t.RenewDelegationTokenRequest(hmac=b"h", renew_period_ms=-1))

    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert talk.heard(RENEW, 2).error_code == refused
    (event,) = told(talk)
    assert (event.method, event.api_version, event.correlation_id) == ("RenewDelegationToken", 2, 1)
    assert (event.error_code, event.principal) == (refused, "User:ANONYMOUS")
    assert talk.summaries() == []


def test_who_asks_for_a_token_of_his_own_is_told_before_the_controller_is_asked() -> None:
    gate = gate_with(image_of())
    gate.token_secret = TokenSecret(b"of the cluster")
    talk = Conversation(gate=gate, sasl_listener=sasl())
    talk.logs_in()

    talk.asks(ApiKey.CREATE_DELEGATION_TOKEN, 3, t.CreateDelegationTokenRequest(max_lifetime_ms=-1))

    (event,) = told(talk)
    assert (event.method, event.error_code, event.principal) == ("CreateDelegationToken", None, "User:alice")
    assert len(talk.controller) == 1
    talk.controller_answers(t.CreateDelegationTokenResponse(token_id="t-1"))
    assert len(told(talk)) == 1
    assert [e.correlation_id for e in talk.told("forwarded")] == [event.correlation_id]


def test_who_looks_at_his_own_tokens_is_counted_and_makes_no_record() -> None:
    gate = gate_with(image_of())
    gate.token_secret = TokenSecret(b"of the cluster")
    talk = Conversation(gate=gate, sasl_listener=sasl())
    talk.logs_in()

    frame = talk.request(DESCRIBE_TOKENS, 3, t.DescribeDelegationTokenRequest(owners=None))
    for _ in range(3):
        talk.sends(frame)
        assert talk.heard(DESCRIBE_TOKENS, 3).error_code == ErrorCode.NONE

    assert told(talk) == []
    assert counted(talk) == [("DescribeDelegationToken", 3, 3 * len(frame))]
