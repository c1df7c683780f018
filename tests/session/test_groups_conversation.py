"""The groups of a session decide for it until its next login, and stand in its records (SPEC A8)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from proxy.metadata.acl import Operation, PatternType, PermissionType, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.quota.throttle import UNLIMITED, ClientQuotas
from proxy.security.authorizer import load_authorizer
from proxy.security.principal import ANONYMOUS, Principal
from proxy.security.protected import ProtectedResources
from proxy.session.authentication import Authentication
from proxy.session.gate import Basis, Gate, ListenerPolicy, Peer
from proxy.session.session import Session
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import ADDRESSES, KNOWN_TOPICS, OWN
from tests.session.apis.test_share_fetch_api import answer
from tests.session.apis.test_share_fetch_api import fetch as share_fetch
from tests.session.conversation import (
    Conversation,
    Quotas,
    fetch,
    fetched,
    gate_with,
    plain_token,
    produce,
    produced,
    sasl,
)
from tests.support.images import acl_record, image_of

pytestmark = pytest.mark.spec("A8", "A10")

PRODUCE, FETCH, SHARE_FETCH = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH
HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
PAYMENTS, INTERNS = "Group:payments", "Group:interns"
WRITE = acl_record(1, principal=PAYMENTS, operation=Operation.WRITE)
READ = acl_record(2, principal=PAYMENTS)
TEAM = acl_record(3, "team", ResourceType.GROUP, principal="User:alice")
DENY = acl_record(
    4, "o", pattern_type=PatternType.PREFIXED, principal=INTERNS, permission_type=PermissionType.DENY,
    operation=Operation.WRITE,
)  # fmt: skip
IMAGE = image_of(WRITE, READ, TEAM, DENY)
MANY = tuple(f"g{number:03}" for number in range(500))


def gate_of(image: MetadataImage = IMAGE, excluded: Sequence[str] = ()) -> Gate:
    authorizer = load_authorizer(
        "proxy.security.standard.StandardAuthorizer", {"super.users": "User:root;Group:admins"}
    )
    gate = gate_with(image)
    gate.basis = Basis(ProtectedResources(authorizer, OWN), image)
    gate.quotas = ClientQuotas(Quotas(producer=1_000), excluded=excluded)
    return gate


class Member:
    """A client whose groups at each login are those of the directory."""

    def __init__(self, gate: Gate, *groups: str) -> None:
        self.groups: tuple[str, ...] = groups
        listener = sasl(60_000)
        self.talk = talk = Conversation(sasl_listener=listener, gate=gate)
        talk.listener = ListenerPolicy("SASL", listener, addresses=ADDRESSES)
        peer = Peer("c0ffee", "10.0.0.1", bytes([10, 0, 0, 1]))
        authentication = Authentication(listener, ANONYMOUS, self._principal, "10.0.0.1")
        talk.session = Session(gate, talk.listener, peer, authentication)
        talk.logs_in()

    def _principal(self, _mechanism: str, found: Principal) -> Principal:
        return replace(found, groups=self.groups)

    def logs_in_with(self, *groups: str) -> None:
        self.groups = groups
        self.talk.passes(2_000)
        assert self.talk.logs_in().error_code == ErrorCode.NONE

    def writes(self) -> bool:
        """Whether a Produce request reaches the broker."""
        talk = self.talk
        talk.asks(PRODUCE, 9, produce("orders"))
        if not talk.forwarded():
            response = talk.heard(PRODUCE, 9).responses[0].partition_responses[0]
            assert response.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return False
        talk.answers(PRODUCE, 9, produced("orders"))
        talk.heard(PRODUCE, 9)
        return True


def test_a_day_of_a_person_who_joins_a_group_works_and_leaves() -> None:
    person = Member(gate_of(), "staff")
    talk = person.talk
    assert not person.writes()

    person.logs_in_with("payments", "staff")
    assert [person.writes() for _ in range(3)] == [True] * 3

    person.logs_in_with("staff")
    assert not person.writes()
    assert talk.closed is None

    logins = [(e.event, e.groups) for e in talk.events if "authentication" in e.event]
    assert logins == [
        ("authentication", ("staff",)),
        ("reauthentication", ("payments", "staff")),
        ("reauthentication", ("staff",)),
    ]
    denials = [(e.granted, e.rule, e.groups) for e in talk.told("authorization")]
    assert denials == [(False, "default.deny", None)] * 2
    summed = [(e.granted, e.rule, e.groups, e.count) for e in talk.told("authorization_summary")]
    assert summed == [(True, "acl", ("payments",), 3)]


@pytest.mark.parametrize(
    ("groups", "allowed"),
    [((), False), (("payments",), True), (("interns", "payments"), False), (("admins", "interns"), True)],
)
def test_a_known_produce_is_decided_again_after_a_login_with_other_groups(
    groups: tuple[str, ...], allowed: bool
) -> None:
    member = Member(gate_of(), "payments")
    assert [member.writes(), member.writes()] == [True, True]

    member.logs_in_with(*groups)

    assert [member.writes(), member.writes()] == [allowed, allowed]


def test_each_connection_of_a_user_decides_by_its_own_groups() -> None:
    gate = gate_of()
    inside, outside, denied = Member(gate, "payments"), Member(gate), Member(gate, "interns", "payments")

    for _ in range(2):
        assert [inside.writes(), outside.writes(), denied.writes()] == [True, False, False]


def test_a_fetch_session_ends_with_the_groups_it_was_opened_with() -> None:
    member = Member(gate_of(), "payments")
    talk = member.talk
    talk.asks(FETCH, 12, fetch("orders", session_epoch=0))
    talk.answers(FETCH, 12, fetched("orders", session_id=77))
    talk.heard(FETCH, 12)
    talk.forwarded()

    member.logs_in_with()
    talk.asks(FETCH, 12, fetch(session_id=77, session_epoch=1))

    assert talk.forwarded() == []
    assert talk.heard(FETCH, 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("groups", [(), ("payments",)])
@pytest.mark.parametrize("records", [b"records", b""], ids=["records", "empty"])
def test_a_fetch_session_that_opens_after_a_login_has_the_groups_of_it(
    groups: tuple[str, ...], records: bytes
) -> None:
    """The broker holds the first Fetch while the client re-authenticates: its rights were those of before."""
    own = acl_record(5, "audits", principal="User:alice")
    member = Member(gate_of(image_of(READ, own)), "payments")
    talk = member.talk
    topics = ("audits", "orders")
    first = talk.asks(FETCH, 12, fetch(*topics, session_epoch=0))
    talk.passes(2_000)
    member.groups = groups
    talk.asks(ApiKey.SASL_HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN"))
    talk.asks(ApiKey.SASL_AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=plain_token("alice")))
    talk.answers(FETCH, 12, fetched(*topics, records=records, session_id=77), first)
    talk.heard_all((FETCH, 12), (ApiKey.SASL_HANDSHAKE, 1), (ApiKey.SASL_AUTHENTICATE, 2))
    talk.forwarded()

    talk.asks(FETCH, 12, fetch(session_id=77, session_epoch=1))

    assert len(talk.forwarded()) == len(groups)
    if not groups:
        assert talk.heard(FETCH, 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_share_session_loses_the_topics_of_a_group_that_was_left() -> None:
    member, orders = Member(gate_of(), "payments"), KNOWN_TOPICS["orders"]
    talk = member.talk
    talk.asks(SHARE_FETCH, 2, share_fetch(0, (orders, [0])))
    talk.answers(SHARE_FETCH, 2, answer((orders, [0])))
    talk.heard(SHARE_FETCH, 2)
    talk.forwarded()

    member.logs_in_with()
    talk.asks(SHARE_FETCH, 2, share_fetch(1))

    (request,) = talk.forwarded()
    forgotten = [(each.topic_id, each.partitions) for each in request.message.forgotten_topics_data]
    assert forgotten == [(orders, [0])]
    talk.answers(SHARE_FETCH, 2, answer())
    response = talk.heard(SHARE_FETCH, 2)
    assert [each.error_code for topic in response.responses for each in topic.partitions] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED
    ]


@pytest.mark.parametrize(("groups", "told"), [(("payments",), ["orders"]), ((), [])])
def test_an_assignment_is_told_by_the_groups_at_the_time(groups: tuple[str, ...], told: list[str]) -> None:
    member = Member(gate_of(), "payments")
    talk = member.talk
    member.logs_in_with(*groups)
    request = t.ConsumerGroupHeartbeatRequest(group_id="team", member_id="m", subscribed_topic_regex=".*")
    talk.asks(HEARTBEAT, 1, request)
    assert len(talk.forwarded()) == 1
    response = t.ConsumerGroupHeartbeatResponse
    parts = [response.TopicPartitions(topic_id=KNOWN_TOPICS["orders"], partitions=[0])]
    assigned = response(member_id="m", member_epoch=5, assignment=response.Assignment(topic_partitions=parts))

    talk.answers(HEARTBEAT, 1, assigned)

    heard: Any = talk.heard(HEARTBEAT, 1).assignment
    ids = [] if heard is None else [part.topic_id for part in heard.topic_partitions]
    assert ids == [KNOWN_TOPICS[name] for name in told]


def test_the_record_of_a_login_has_all_groups_and_that_of_a_decision_those_that_decide() -> None:
    member = Member(gate_of(), *sorted({*MANY, "interns", "admins"} - {"admins"}))

    assert not member.writes()

    (login,), (denial,) = member.talk.told("authentication"), member.talk.told("authorization")
    assert len(login.groups or ()) == 501
    assert denial.groups == ("interns",)


def test_without_groups_no_record_has_any() -> None:
    member = Member(gate_of())
    member.writes()
    member.talk.summaries()

    assert {event.groups for event in member.talk.events} == {None}


@pytest.mark.parametrize(
    ("groups", "is_limited", "recorded"),
    [(("backup", "payments"), False, ("backup", "payments")), (("payments",), True, ("payments",))],
)
def test_a_group_without_quotas_is_not_limited_and_its_records_say_so(
    groups: tuple[str, ...], is_limited: bool, recorded: tuple[str, ...]
) -> None:
    member = Member(gate_of(excluded=["Group:backup"]), *groups)
    assert member.writes()

    assert (member.talk.session.machine.client.producer is not UNLIMITED) == is_limited
    (summary,) = member.talk.summaries()
    assert summary.groups == recorded
