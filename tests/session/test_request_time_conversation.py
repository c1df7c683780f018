"""What a client sees of a quota on the loop's time (KIP-124): which answers tell it, and what is exempt."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.quota.keys import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from proxy.quota.throttle import ClientQuotas, percent
from proxy.session.machine import LOOKED_UP_ID_NS, LOOKUP_NS
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import image_with
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
from tests.support.metadata_log import quotas_image

PRODUCE, FETCH, HEARTBEAT = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.HEARTBEAT
RIGHTS = (
    "READ TOPIC orders",
    "WRITE TOPIC orders",
    "READ GROUP team",
    "DESCRIBE CLUSTER kafka-cluster",
    "DESCRIBE_CONFIGS CLUSTER kafka-cluster",
    "CLUSTER_ACTION CLUSTER kafka-cluster",
    "ALTER_CONFIGS CLUSTER kafka-cluster",
)
ONE_PERCENT = 1.0
WINDOW_MS = 1_000
MS = 1_000_000
"""In nanoseconds."""

heartbeat = t.HeartbeatRequest(group_id="team", generation_id=1, member_id="m")
TOLD = list(codecs.request_versions(HEARTBEAT))[1:]


def limited(
    mode_enforced: bool = True,
    excluded: tuple[str, ...] = (),
    request: float = ONE_PERCENT,
    keys: dict[str, float] | None = None,
) -> Conversation:
    quotas = quotas_image({QuotaEntity(user=DEFAULT): {REQUEST_PERCENTAGE: request, **(keys or {})}})
    gate = gate_with(replace(image_with(*RIGHTS), quotas=quotas))
    gate.quotas = ClientQuotas(Quotas(), mode_enforced, excluded)
    talk = Conversation(gate=gate)
    talk.asks(HEARTBEAT, 4, heartbeat)
    talk.answers(HEARTBEAT, 4, t.HeartbeatResponse())
    talk.heard_bytes()
    talk.forwarded_bytes()
    return talk


def spent(talk: Conversation, spent_ns: int) -> None:
    """The edge has measured so much for what the client asked last."""
    talk.session.machine.spent_on_requests(spent_ns, talk.now_ms)


def answered_by_the_broker(talk: Conversation) -> int:
    talk.asks(HEARTBEAT, 4, heartbeat)
    talk.answers(HEARTBEAT, 4, t.HeartbeatResponse())
    return int(talk.heard(HEARTBEAT, 4).throttle_time_ms)


def produced_to(talk: Conversation) -> int:
    talk.asks(PRODUCE, 9, produce("orders"))
    talk.answers(PRODUCE, 9, produced("orders"))
    return int(talk.heard(PRODUCE, 9).throttle_time_ms)


def fetched_from(talk: Conversation) -> int:
    talk.asks(FETCH, 12, fetch("orders"))
    talk.answers(FETCH, 12, fetched("orders"))
    answer = talk.heard(FETCH, 12)
    assert bytes(answer.responses[0].partitions[0].records) == b"records"
    return int(answer.throttle_time_ms)


def answered_by_us(talk: Conversation) -> int:
    talk.asks(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, t.DescribeClientQuotasRequest(components=[], strict=False))
    return int(talk.heard(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1).throttle_time_ms)


def answered_by_the_controller(talk: Conversation, throttle_time_ms: int = 0) -> int:
    talk.asks(ApiKey.ALTER_CLIENT_QUOTAS, 1, t.AlterClientQuotasRequest(entries=[], validate_only=False))
    talk.controller_answers(t.AlterClientQuotasResponse(throttle_time_ms=throttle_time_ms, entries=[]))
    return int(talk.heard(ApiKey.ALTER_CLIENT_QUOTAS, 1).throttle_time_ms)


def denied(talk: Conversation) -> int:
    talk.asks(FETCH, 12, fetch("secrets"))
    return int(talk.heard(FETCH, 12).throttle_time_ms)


def versions_told(talk: Conversation) -> int:
    asked = t.ApiVersionsRequest(client_software_name="test", client_software_version="1")
    talk.asks(ApiKey.API_VERSIONS, 3, asked)
    answer = talk.heard(ApiKey.API_VERSIONS, 3)
    assert answer.api_keys
    return int(answer.throttle_time_ms)


ANSWERS = [
    answered_by_the_broker,
    produced_to,
    fetched_from,
    answered_by_us,
    answered_by_the_controller,
    denied,
    versions_told,
]


@pytest.mark.spec("Q7", "Q12")
@pytest.mark.parametrize("asks", ANSWERS)
def test_every_answer_tells_a_client_that_took_too_much_of_the_loop_to_wait(
    asks: Callable[[Conversation], int],
) -> None:
    talk = limited()
    spent(talk, 100 * MS)
    assert asks(talk) == 0, "it has taken exactly what is its own"
    spent(talk, 5 * MS)

    told = asks(talk)

    assert (told, talk.mutes, talk.session.blocked) == (500, [500], True)
    talk.passes(500)
    talk.is_unmuted()
    assert (asks(talk), talk.session.blocked) == (0, False)


@pytest.mark.spec("Q7", "Q12")
@pytest.mark.parametrize("asks", ANSWERS)
def test_nobody_waits_for_longer_than_a_window_at_once(asks: Callable[[Conversation], int]) -> None:
    talk = limited(request=0.01)
    spent(talk, 5_000 * MS)

    for _ in range(3):
        assert asks(talk) == WINDOW_MS
        talk.passes(WINDOW_MS)
        talk.is_unmuted()

    assert talk.mutes == [WINDOW_MS] * 3


@pytest.mark.spec("Q7", "Q12")
@pytest.mark.parametrize("version", TOLD)
@pytest.mark.parametrize("cut", [1, 4, 8, 9, 11, 12, 13])
def test_an_answer_that_comes_in_pieces_tells_it_once(version: int, cut: int) -> None:
    talk = limited()
    spent(talk, 105 * MS)
    talk.asks(HEARTBEAT, version, heartbeat)
    answer = talk.response(HEARTBEAT, version, t.HeartbeatResponse(error_code=27))

    talk.broker_sends(answer[:cut])
    talk.broker_sends(answer[cut:])

    told = talk.heard(HEARTBEAT, version)
    assert (told.error_code, told.throttle_time_ms, talk.mutes) == (27, 500, [500])


@pytest.mark.spec("Q7", "Q12")
def test_a_version_that_cannot_say_it_is_held_up_all_the_same() -> None:
    talk = limited()
    spent(talk, 105 * MS)

    talk.asks(HEARTBEAT, 0, heartbeat)
    talk.answers(HEARTBEAT, 0, t.HeartbeatResponse())

    assert (talk.heard(HEARTBEAT, 0).error_code, talk.mutes) == (0, [500])


@pytest.mark.spec("Q7", "Q12", "D1")
@pytest.mark.parametrize(
    ("spent_ms", "told", "quota_key"),
    [(101, 2_003, PRODUCER_BYTE_RATE), (300, 1_000, REQUEST_PERCENTAGE), (0, 2_003, PRODUCER_BYTE_RATE)],
)
def test_of_bytes_and_time_the_longer_is_told_and_written_down(
    spent_ms: int, told: int, quota_key: str
) -> None:
    size = 12_000 if quota_key == PRODUCER_BYTE_RATE else 10_300
    talk = limited(keys={PRODUCER_BYTE_RATE: 1_000.0})
    spent(talk, spent_ms * MS)

    talk.asks(PRODUCE, 9, produce("orders", records=bytes(size)))
    talk.answers(PRODUCE, 9, produced("orders"))

    answer = talk.heard(PRODUCE, 9).throttle_time_ms
    assert talk.mutes == [answer]
    assert told <= answer < told + 200
    (record,) = [event for event in talk.summaries() if event.event == "throttled"]
    assert (record.quota_key, record.throttle_time_ms, record.count) == (quota_key, answer, 1)
    assert record.quota_limit == (ONE_PERCENT if quota_key == REQUEST_PERCENTAGE else 1_000.0)


@pytest.mark.spec("Q7", "Q12")
def test_a_fetch_that_bytes_leave_no_room_for_is_empty_and_tells_the_longer_time() -> None:
    talk = limited(keys={CONSUMER_BYTE_RATE: 1_000.0})
    talk.asks(FETCH, 12, fetch("orders"))
    talk.session.machine.client.consumer.record(9_900, talk.now_ms)  # By another connection.
    spent(talk, 300 * MS)
    talk.answers(FETCH, 12, fetched("orders", records=bytes(300)))

    answer = talk.heard(FETCH, 12)
    assert (answer.responses, answer.throttle_time_ms, talk.mutes) == ([], WINDOW_MS, [WINDOW_MS])


@pytest.mark.spec("Q7", "Q12")
@pytest.mark.parametrize(("controller", "told"), [(200, 500), (3_000, 3_000)])
def test_of_the_controllers_time_and_ours_the_longer_is_told(controller: int, told: int) -> None:
    talk = limited()
    spent(talk, 105 * MS)

    assert (answered_by_the_controller(talk, controller), talk.mutes) == (told, [told])


@pytest.mark.spec("Q12")
def test_the_time_of_answering_is_counted_and_throttles_the_next_answer() -> None:
    talk = limited()
    assert answered_by_the_broker(talk) == 0

    talk.session.machine.spent_on_responses(105 * MS, False, talk.now_ms)

    assert talk.mutes == []
    assert answered_by_the_broker(talk) == 500


def without_an_answer(talk: Conversation) -> None:
    talk.asks(PRODUCE, 9, produce("orders", acks=0))


def as_a_follower(talk: Conversation) -> None:
    talk.asks(FETCH, 12, fetch("orders", replica_id=3))


def marking_transactions(talk: Conversation) -> None:
    talk.asks(ApiKey.WRITE_TXN_MARKERS, 1, t.WriteTxnMarkersRequest(markers=[]))


@pytest.mark.spec("Q12")
@pytest.mark.parametrize("asks", [without_an_answer, as_a_follower, marking_transactions])
def test_requests_that_kafka_exempts_are_counted_apart(asks: Callable[[Conversation], None]) -> None:
    talk = limited()
    asks(talk)
    spent(talk, 500 * MS)

    assert talk.gate.quotas.exempt_time.measure(talk.now_ms) == pytest.approx(percent(500 * MS) / 10)
    assert talk.session.machine.client.request.byte_rate(talk.now_ms) == 0
    assert talk.session.machine.next_response_is_exempt is (asks is not without_an_answer)


@pytest.mark.spec("Q12")
def test_a_request_without_an_answer_exempts_no_other_one() -> None:
    talk = limited()
    talk.sends(talk.request(PRODUCE, 9, produce("orders", acks=0)) + talk.request(HEARTBEAT, 4, heartbeat))
    spent(talk, 105 * MS)

    talk.answers(HEARTBEAT, 4, t.HeartbeatResponse())

    assert (talk.heard(HEARTBEAT, 4).throttle_time_ms, talk.mutes) == (500, [500])


@pytest.mark.spec("Q12")
def test_our_own_answer_after_a_request_without_one_is_paid_for() -> None:
    talk = limited()
    without_an_answer(talk)
    answered_by_us(talk)
    spent(talk, 105 * MS)

    assert answered_by_us(talk) == 500


@pytest.mark.spec("Q12")
@pytest.mark.parametrize("asks", ANSWERS)
def test_an_observed_quota_on_time_holds_nobody_up_and_is_written_down(
    asks: Callable[[Conversation], int],
) -> None:
    talk = limited(mode_enforced=False)
    spent(talk, 105 * MS)

    assert (asks(talk), talk.mutes) == (0, [])
    (record,) = [event for event in talk.summaries() if event.event == "throttled"]
    assert (record.quota_key, record.rule, record.throttle_time_ms) == (REQUEST_PERCENTAGE, "observe", 500)


@pytest.mark.spec("Q12")
@pytest.mark.parametrize(("excluded", "measured"), [(("User:alice",), False), (("User:bob",), True)])
def test_only_those_whom_a_quota_on_time_governs_are_measured(
    excluded: tuple[str, ...], measured: bool
) -> None:
    talk = limited(excluded=excluded)
    produced_to(talk)
    again = memoryview(bytearray(talk.request(PRODUCE, 9, produce("orders"))))

    assert talk.session.machine.is_timed is measured
    assert talk.session.forward_request(again, talk.now_ms) is not measured


@pytest.mark.spec("Q12")
def test_a_connections_first_request_is_measured_before_its_quota_is_known() -> None:
    gate = limited().gate
    talk = Conversation(gate=gate)
    assert talk.session.machine.is_timed

    talk.asks(HEARTBEAT, 4, heartbeat)
    spent(talk, 105 * MS)
    talk.answers(HEARTBEAT, 4, t.HeartbeatResponse())

    assert talk.heard(HEARTBEAT, 4).throttle_time_ms == 500


@pytest.mark.spec("Q4", "Q12")
def test_all_connections_of_a_quota_id_pay_from_one_share_of_the_loop() -> None:
    talk = limited()
    other = Conversation(gate=talk.gate)
    answered_by_the_broker(other)
    spent(talk, 50 * MS)
    spent(other, 55 * MS)

    assert (answered_by_the_broker(talk), answered_by_the_broker(other)) == (500, 500)


@pytest.mark.spec("Q8", "Q12")
def test_a_quota_on_time_that_is_set_or_removed_holds_from_the_next_request_on() -> None:
    talk = limited()
    spent(talk, 105 * MS)
    image = talk.gate.image
    assert image is not None

    talk.gate.image = replace(image, quotas=quotas_image({}))
    assert (answered_by_the_broker(talk), produced_to(talk)) == (0, 0)
    talk.gate.image = image
    assert answered_by_the_broker(talk) == 500


@pytest.mark.spec("Q12")
def test_a_long_poll_is_not_charged_for_waiting() -> None:
    talk = limited()
    for _ in range(20):
        talk.asks(FETCH, 12, fetch("orders", max_wait_ms=30_000))
        spent(talk, 1 * MS)
        talk.passes(30_000)
        talk.answers(FETCH, 12, fetched("orders", records=b""))

    assert talk.mutes == []
    assert talk.session.machine.client.request.byte_rate(talk.now_ms) < ONE_PERCENT


@pytest.mark.spec("Q7", "Q12")
@pytest.mark.parametrize("again", [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE], ids=lambda key: key.name)
@pytest.mark.parametrize("client_id", [None, "other"])
def test_a_login_that_nothing_is_to_renew_is_held_up_too(again: ApiKey, client_id: str | None) -> None:
    """By the quota of its own client id, as at a broker, which has these rejected where it has all others."""
    quotas = quotas_image({QuotaEntity(client_id="other"): {REQUEST_PERCENTAGE: ONE_PERCENT}})
    talk = Conversation(gate=gate_with(replace(image_with(*RIGHTS), quotas=quotas)))
    versions = t.ApiVersionsRequest(client_software_name="test", client_software_version="1")
    talk.asks(ApiKey.API_VERSIONS, 3, versions, client_id="other")
    spent(talk, 60_000 * MS)
    requests = {
        ApiKey.SASL_HANDSHAKE: t.SaslHandshakeRequest(mechanism="PLAIN"),
        ApiKey.SASL_AUTHENTICATE: t.SaslAuthenticateRequest(auth_bytes=b""),
    }
    talk.heard_bytes()

    for _ in range(3):
        talk.asks(again, 1, requests[again], client_id=client_id)

    mutes, count = ([], 3) if client_id is None else ([WINDOW_MS], 1)
    assert talk.mutes == mutes
    answers = talk.heard_all(*[(again, 1)] * count)
    assert {message.error_code for _, message in answers} == {ErrorCode.ILLEGAL_SASL_STATE}


@pytest.mark.spec("Q12", "R3")
def test_a_login_that_renews_a_session_is_late_by_a_window_at_most() -> None:
    talk = Conversation(gate=limited().gate, sasl_listener=sasl(10_000))
    talk.logs_in("alice")
    answered_by_the_broker(talk)
    spent(talk, 60_000 * MS)
    assert answered_by_the_broker(talk) == WINDOW_MS

    talk.sends(talk.request(ApiKey.SASL_HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN")))
    assert talk.heard_bytes() == b""
    talk.passes(WINDOW_MS)
    talk.is_unmuted()

    assert talk.heard(ApiKey.SASL_HANDSHAKE, 1).error_code == 0
    assert talk.authenticates(plain_token("alice")).error_code == 0
    assert (talk.mutes, talk.closed) == ([WINDOW_MS], None)


@pytest.mark.spec("Q2", "O8")
def test_a_lookup_of_topic_ids_is_charged_by_the_number_of_ids() -> None:
    """It has a place in the loop of its own, where nobody measures the client."""
    talk = limited()
    talk.gate.versions = {**talk.gate.versions, ApiKey.METADATA: (0, 13)}
    ids = [number.to_bytes(16, "big") for number in range(1, 1_001)]
    talk.asks(FETCH, 13, fetch(*ids))
    assert [len(each) for each in talk.lookups] == [1_000]
    assert [each for each in talk.summaries() if each.event == "quota_used"] == []

    talk.broker_names()

    (used,) = (each for each in talk.summaries() if each.event == "quota_used")
    assert used.count == (LOOKUP_NS + 1_000 * LOOKED_UP_ID_NS) // 1_000
