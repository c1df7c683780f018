"""Other settings while clients are connected: who may do what, under which quota, and what records name."""

from collections.abc import Callable

import pytest

from proxy.quota.throttle import ClientQuotas
from proxy.security.protected import ProtectedResources
from proxy.security.standard import StandardAuthorizer
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import OWN, image_with
from tests.session.conversation import (
    Conversation,
    Quotas,
    fetch,
    fetched,
    gate_with,
    produce,
    produced,
)

pytestmark = pytest.mark.spec("O9", "D2")

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH


def super_users_are(talk: Conversation, generation: int, names: str, everyone: str = "false") -> None:
    """What a reload does once it has recorded the settings."""
    authorizer = StandardAuthorizer()
    authorizer.configure({"super.users": names, "allow.everyone.if.no.acl.found": everyone})
    talk.gate.decide_by(generation, ProtectedResources(authorizer, OWN))


def produce_error(talk: Conversation) -> int:
    talk.asks(PRODUCE, 9, produce("orders"))
    if talk.forwarded():
        talk.answers(PRODUCE, 9, produced("orders"))
    return int(talk.heard(PRODUCE, 9).responses[0].partition_responses[0].error_code)


def test_a_super_user_who_is_none_any_more_is_denied_at_the_next_request() -> None:
    talk = Conversation(principal="root")
    assert [produce_error(talk) for _ in range(3)] == [0, 0, 0]
    super_users_are(talk, 1, "User:admin")

    assert produce_error(talk) == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    records = [
        (event.event, event.count, event.rule, event.granted, event.settings_generation)
        for event in talk.events
    ]
    assert records == [
        ("authorization_summary", 3, "super.users", True, None),
        ("authorization", None, "default.deny", False, 1),
    ]


def test_so_it_is_with_a_fetch_that_is_like_the_one_before() -> None:
    talk = Conversation(principal="root")
    for _ in range(2):
        talk.asks(FETCH, 12, fetch("orders"))
        talk.answers(FETCH, 12, fetched("orders"))
    assert len(talk.forwarded()) == 2
    talk.heard_bytes()
    super_users_are(talk, 1, "User:admin")

    talk.asks(FETCH, 12, fetch("orders"))

    error: int = talk.heard(FETCH, 12).responses[0].partitions[0].error_code
    assert (error, talk.forwarded_bytes()) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")


def test_who_becomes_a_super_user_is_one_at_the_next_request() -> None:
    talk = Conversation()
    assert produce_error(talk) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    super_users_are(talk, 1, "User:root;User:alice")
    assert produce_error(talk) == 0
    super_users_are(talk, 2, "User:root", everyone="true")
    assert produce_error(talk) == 0

    # Each summary leaves before what it was counted under changes.
    summaries = [*talk.told("authorization_summary"), *talk.summaries()]
    assert [(each.rule, each.settings_generation) for each in summaries] == [
        ("super.users", 1),
        ("allow.everyone.if.no.acl.found", 2),
    ]


@pytest.mark.spec("S4")
def test_a_super_user_is_none_any_more_before_the_log_is_loaded_too() -> None:
    talk = Conversation(early=True, principal="root")
    assert produce_error(talk) == 0
    super_users_are(talk, 1, "User:admin")

    assert produce_error(talk) != 0
    assert talk.forwarded_bytes() == b""


def test_the_last_bytes_of_a_request_do_not_pass_once_its_sender_is_no_super_user() -> None:
    talk = Conversation(principal="root")
    assert produce_error(talk) == 0
    frame = talk.request(PRODUCE, 9, produce("orders", records=bytes(9_000)))
    talk.sends(frame[:-1])
    assert talk.forwarded_bytes() == frame[:-1]
    super_users_are(talk, 1, "User:admin")
    talk.sends(frame[-1:])

    assert (talk.forwarded_bytes(), talk.close_reason) == (b"", "produce_denied")
    (denied,) = talk.told("authorization")
    assert (denied.granted, denied.settings_generation) == (False, 1)


def test_a_request_that_has_begun_is_decided_by_the_settings_it_began_under() -> None:
    talk = Conversation(principal="root")
    talk.asks(ApiKey.METADATA, 9, t.MetadataRequest(topics=None))
    super_users_are(talk, 1, "User:admin")
    answer = t.MetadataResponse
    topic = answer.MetadataResponseTopic(name="orders", partitions=[])

    talk.answers(ApiKey.METADATA, 9, answer(brokers=[], topics=[topic]))

    assert [each.name for each in talk.heard(ApiKey.METADATA, 9).topics] == ["orders"]
    talk.asks(ApiKey.METADATA, 9, t.MetadataRequest(topics=None))
    talk.answers(ApiKey.METADATA, 9, answer(brokers=[], topics=[topic]))
    assert talk.heard(ApiKey.METADATA, 9).topics == []


@pytest.mark.spec("A4", "A7")
@pytest.mark.parametrize(
    ("principal", "change"),
    [
        ("root", lambda talk: super_users_are(talk, 1, "User:admin")),
        ("alice", lambda talk: talk.gate.forget_decisions()),
    ],
    ids=["no super user any more", "decisions forgotten"],
)
def test_a_fetch_session_is_over_at_any_later_image_too(
    principal: str, change: Callable[[Conversation], None]
) -> None:
    talk = Conversation("READ TOPIC orders", principal=principal)
    talk.asks(FETCH, 12, fetch("orders", session_epoch=0))
    talk.answers(FETCH, 12, fetched("orders", session_id=77))
    talk.forwarded_bytes()
    talk.heard_bytes()
    before = talk.gate.image
    assert before is not None
    change(talk)
    # A change that leaves the ACLs as they were.
    talk.gate.image = type(before)(before.offset + 1, before.acls, before.quotas, before.scram)

    talk.asks(FETCH, 12, fetch(session_id=77, session_epoch=1))

    assert talk.heard(FETCH, 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert talk.forwarded_bytes() == b""


LIMIT = 1_000


def limited(enforced: bool = True, limit: float | None = LIMIT) -> tuple[Conversation, Quotas]:
    settings = Quotas(producer=limit)
    gate = gate_with(image_with("WRITE TOPIC orders", "READ TOPIC orders"))
    gate.quotas = ClientQuotas(settings, enforced)
    return Conversation(gate=gate), settings


def quotas_are(
    talk: Conversation, generation: int, limit: float | None, enforced: bool = True, excluded: str = ""
) -> None:
    talk.gate.quotas.follow(Quotas(producer=limit), enforced, excluded.split(), generation)
    talk.gate.decide_by(generation)


def is_throttled(talk: Conversation, size: int) -> bool:
    talk.asks(PRODUCE, 9, produce("orders", records=bytes(size)))
    talk.answers(PRODUCE, 9, produced("orders"))
    told = bool(talk.heard(PRODUCE, 9).throttle_time_ms)
    for _ in talk.mutes:
        talk.is_unmuted()
    talk.mutes.clear()
    return told


@pytest.mark.spec("Q2", "Q8")
def test_a_client_is_held_to_another_default_from_its_next_request_and_owes_what_it_has_used() -> None:
    talk, _ = limited(limit=1_000_000)
    assert not is_throttled(talk, 15_000)
    quotas_are(talk, 1, LIMIT)

    assert is_throttled(talk, 15_000)
    quotas_are(talk, 2, None)
    assert not is_throttled(talk, 15_000)

    (throttled,) = talk.told("throttled")
    assert (throttled.quota_limit, throttled.settings_generation) == (LIMIT, 1)
    summaries = [*talk.told("authorization_summary"), *talk.summaries()]
    assert [(each.count, each.settings_generation) for each in summaries] == [(1, None), (1, 1), (1, 2)]


@pytest.mark.spec("Q2")
def test_an_answer_to_a_request_of_before_is_recorded_under_the_settings_it_was_throttled_by() -> None:
    talk, _ = limited()
    talk.asks(PRODUCE, 9, produce("orders", records=bytes(15_000)))
    quotas_are(talk, 1, None)
    talk.sends(talk.request(PRODUCE, 9, produce("orders"))[:20])
    talk.answers(PRODUCE, 9, produced("orders"), talk.correlation_id - 1)

    assert talk.heard(PRODUCE, 9).throttle_time_ms > 0
    (throttled,) = [each for each in talk.summaries() if each.event == "throttled"]
    assert (throttled.quota_limit, throttled.settings_generation) == (LIMIT, None)


@pytest.mark.spec("Q2")
def test_the_mode_and_the_excluded_principals_change_at_the_next_request() -> None:
    talk, _ = limited(enforced=False)
    assert not is_throttled(talk, 15_000)
    quotas_are(talk, 1, LIMIT, enforced=True)
    assert is_throttled(talk, 15_000)
    quotas_are(talk, 2, LIMIT, excluded="User:alice")
    assert not is_throttled(talk, 15_000)

    rules = [(each.rule, each.settings_generation) for each in talk.told("throttled")]
    assert rules == [("observe", None), (None, 1)]


def test_other_quotas_leave_fetch_sessions_open() -> None:
    talk, _ = limited()
    talk.asks(FETCH, 12, fetch("orders", session_epoch=0))
    talk.answers(FETCH, 12, fetched("orders", session_id=77))
    talk.forwarded_bytes()
    quotas_are(talk, 1, 2 * LIMIT)

    talk.asks(FETCH, 12, fetch(session_id=77, session_epoch=1))

    assert len(talk.forwarded()) == 1
