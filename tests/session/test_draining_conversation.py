"""A session that drains: what is in flight is answered, what was not begun is dropped, and then it closes."""

import pytest

from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.session.conversation import (
    Conversation,
    fetch,
    fetched,
    plain_token,
    produce,
    produced,
    sasl,
)

pytestmark = pytest.mark.spec("O4")

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH


def drains(talk: Conversation) -> None:
    talk.carry_out(talk.session.drain())


def test_with_nothing_in_flight_it_closes_at_once() -> None:
    talk = Conversation("WRITE TOPIC orders")

    drains(talk)

    assert talk.close_reason == "drained"


def test_all_that_is_in_flight_is_answered_in_order_and_then_it_closes() -> None:
    talk = Conversation("WRITE TOPIC orders")
    first = talk.asks(PRODUCE, 9, produce("orders"))
    second = talk.asks(PRODUCE, 9, produce("secret"))
    third = talk.asks(PRODUCE, 9, produce("orders"))

    drains(talk)
    talk.asks(PRODUCE, 9, produce("orders"))
    talk.answers(PRODUCE, 9, produced("orders"), first)
    assert talk.close_reason is None
    talk.answers(PRODUCE, 9, produced("orders"), third)

    assert [each for each, _ in talk.heard_all(*[(PRODUCE, 9)] * 3)] == [first, second, third]
    assert len(talk.forwarded()) == 2
    assert talk.close_reason == "drained"


def test_what_a_muted_client_has_sent_is_dropped() -> None:
    talk = Conversation("WRITE TOPIC orders")
    talk.mute()
    talk.asks(PRODUCE, 9, produce("orders"))

    drains(talk)
    talk.is_unmuted()

    assert (talk.forwarded(), talk.close_reason) == ([], "drained")


def test_the_rest_of_a_request_that_streams_is_passed_on_and_nothing_behind_it() -> None:
    talk = Conversation("WRITE TOPIC orders")
    talk.asks(PRODUCE, 9, produce("orders"))
    talk.answers(PRODUCE, 9, produced("orders"))
    frame = talk.request(PRODUCE, 9, produce("orders", records=bytes(20_000)))
    talk.sends(frame[:9_000])
    talk.heard_bytes(), talk.forwarded_bytes()

    drains(talk)
    assert talk.session.takes_rest
    talk.sends(frame[9_000:] + talk.request(PRODUCE, 9, produce("orders")))
    assert (talk.session.takes_rest, talk.close_reason) == (False, None)
    talk.answers(PRODUCE, 9, produced("orders"), talk.correlation_id - 1)

    assert talk.forwarded_bytes() == frame[9_000:]
    assert talk.heard(PRODUCE, 9).responses[0].name == "orders"
    assert talk.close_reason == "drained"


def test_a_login_that_is_being_verified_is_answered_and_recorded() -> None:
    talk = Conversation(sasl_listener=sasl(60_000))
    talk.holds_checks = True
    talk.shakes_hands()
    talk.asks(ApiKey.SASL_AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=plain_token("alice")))

    drains(talk)
    assert talk.close_reason is None
    talk.is_verified()

    assert talk.heard(ApiKey.SASL_AUTHENTICATE, 2).error_code == 0
    assert [event.principal for event in talk.told("authentication")] == ["User:alice"]
    assert talk.close_reason == "drained"


def test_only_requests_that_a_client_repeats_need_no_answer() -> None:
    polling = Conversation("READ TOPIC orders", "WRITE TOPIC orders")
    polling.asks(FETCH, 12, fetch("orders"))
    assert polling.session.needs_no_response

    # It waits for the response to the Fetch: the broker does not have it, and the client sends it again.
    polling.asks(PRODUCE, 9, produce("orders"))
    assert polling.session.needs_no_response

    writing = Conversation("READ TOPIC orders", "WRITE TOPIC orders")
    writing.asks(PRODUCE, 9, produce("orders"))
    assert not writing.session.needs_no_response
    writing.asks(FETCH, 12, fetch("orders"))
    assert not writing.session.needs_no_response


def test_a_response_that_has_begun_needs_its_end() -> None:
    talk = Conversation("READ TOPIC orders")
    talk.asks(FETCH, 12, fetch("orders"))
    response = talk.response(FETCH, 12, fetched("orders", records=bytes(5_000)))
    drains(talk)

    talk.broker_sends(response[:3_000])
    assert not talk.session.needs_no_response
    talk.broker_sends(response[3_000:])

    assert talk.heard_bytes() == response
    assert talk.close_reason == "drained"


def test_a_produce_request_of_which_bytes_are_missing_needs_no_answer_but_one_that_is_whole_does() -> None:
    talk = Conversation("WRITE TOPIC orders")
    talk.asks(PRODUCE, 9, produce("orders"))
    talk.answers(PRODUCE, 9, produced("orders"))
    frame = talk.request(PRODUCE, 9, produce("orders", records=bytes(20_000)))

    talk.sends(frame[:9_000])
    drains(talk)
    assert talk.session.needs_no_response
    talk.sends(frame[9_000:])
    assert not talk.session.needs_no_response


def test_a_whole_request_is_not_taken_for_one_without_acks_that_streams_behind_it() -> None:
    talk = Conversation("WRITE TOPIC orders")
    talk.asks(PRODUCE, 9, produce("orders"))
    frame = talk.request(PRODUCE, 9, produce("orders", acks=0, records=bytes(20_000)))
    talk.sends(frame[:9_000])

    drains(talk)

    assert talk.session.takes_rest
    assert not talk.session.needs_no_response
