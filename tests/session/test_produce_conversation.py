"""Produce: streams through where it may, loses its denied topics where not, and pays for its bytes."""

import pytest

from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import ADDRESSES, KNOWN_TOPICS
from tests.session.conversation import Conversation, Quotas, at, errors_of, produce, produced
from tests.support.topic_requests import record_batch

PRODUCE = ApiKey.PRODUCE
VERSIONS = list(codecs.request_versions(PRODUCE))
WRITES = ("WRITE TOPIC orders", "WRITE TOPIC payments")
TRANSACTIONAL = record_batch(100, transactional=True)


@pytest.mark.spec("A7")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_at_every_byte_reaches_the_broker_byte_for_byte(version: int) -> None:
    for cut in range(1, 200):
        talk = Conversation(*WRITES)
        first = talk.request(PRODUCE, version, produce(*at(version, "orders")))
        second = talk.request(PRODUCE, version, produce(*at(version, "orders"), records=b"x" * 90))
        both = first + second
        if cut >= len(both):
            break

        talk.sends(both[:cut])
        talk.sends(both[cut:])

        assert talk.forwarded_bytes() == both
        assert len(talk.session.pipeline) == 2


@pytest.mark.spec("A7")
@pytest.mark.parametrize("version", VERSIONS)
def test_single_bytes_lead_to_the_same(version: int) -> None:
    talk = Conversation(*WRITES)
    frame = talk.request(PRODUCE, version, produce(*at(version, "orders")))

    for byte in frame:
        talk.sends(bytes([byte]))

    assert talk.forwarded_bytes() == frame


@pytest.mark.spec("O6")
@pytest.mark.parametrize("seen", [1, 3, 5, 10, 40])
def test_records_are_not_held_even_when_the_head_comes_in_pieces(seen: int) -> None:
    talk = Conversation(*WRITES)
    talk.asks(PRODUCE, 9, produce("orders"))
    talk.forwarded()
    frame = talk.request(PRODUCE, 9, produce("orders", records=bytes(100_000)))

    talk.sends(frame[:seen])
    talk.sends(frame[seen:5_000])

    assert len(talk.to_broker) == 5_000
    talk.sends(frame[5_000:])
    assert talk.forwarded_bytes() == frame


@pytest.mark.spec("A7", "O6")
@pytest.mark.parametrize("version", [9, 12, 13])
@pytest.mark.parametrize("requests_before", [0, 1, 2], ids=["first", "second", "known"])
@pytest.mark.parametrize("missing", [0, 1, 2, 3, 4, 50])
def test_the_broker_never_gets_the_end_of_a_request_whose_last_tag_sections_are_not_empty(
    version: int, requests_before: int, missing: int
) -> None:
    topics = at(version, "orders")
    for place in (-3, -2, -1):
        talk = Conversation(*WRITES)
        for _ in range(requests_before):
            talk.asks(PRODUCE, version, produce(*topics))
            talk.answers(PRODUCE, version, produced(*topics))
        talk.heard_bytes()
        talk.forwarded_bytes()
        frame = bytearray(talk.request(PRODUCE, version, produce(*topics, records=bytes(100))))
        frame[place] = 1

        talk.sends(bytes(frame[: len(frame) - missing]))
        for byte in frame[len(frame) - missing :]:
            if talk.closed is None:
                talk.sends(bytes([byte]))

        assert len(talk.to_broker) <= len(frame) + place
        assert talk.heard_bytes() == b""
        assert talk.close_reason == "malformed_request"
        assert len(talk.told("request_refused")) == 1


@pytest.mark.spec("A7")
@pytest.mark.parametrize("version", VERSIONS)
def test_denied_parts_are_put_back_in_the_order_of_the_request(version: int) -> None:
    talk = Conversation(*WRITES)
    orders, secrets, payments = at(version, "orders", "secrets", "payments")

    talk.asks(PRODUCE, version, produce(orders, secrets, payments))

    (request,) = talk.forwarded()
    assert [topic.name or bytes(topic.topic_id) for topic in request.message.topic_data] == [orders, payments]
    # A broker answers in an order of its own.
    talk.answers(PRODUCE, version, produced(payments, orders))
    assert errors_of(talk.heard(PRODUCE, version)) == [
        (orders, 0),
        (secrets, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (payments, 0),
    ]
    (denial,) = talk.told("authorization")
    assert (denial.operation, denial.resource_name, denial.granted) == ("WRITE", "secrets", False)


@pytest.mark.spec("A7")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_is_denied_whole_never_reaches_the_broker(version: int) -> None:
    talk = Conversation(*WRITES)
    (secrets,) = at(version, "secrets")

    talk.asks(PRODUCE, version, produce(secrets))

    assert errors_of(talk.heard(PRODUCE, version)) == [(secrets, ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    assert talk.forwarded_bytes() == b""


@pytest.mark.spec("A7")
@pytest.mark.parametrize("rights", [(), ("WRITE TOPIC orders",)], ids=["none allowed", "one allowed"])
def test_a_denied_topic_without_partitions_has_no_part_in_the_answer(rights: tuple[str, ...]) -> None:
    talk = Conversation(*rights)
    request = produce("orders", "payments", "secrets")
    request.topic_data[1].partition_data = []

    talk.asks(PRODUCE, 9, request)
    if rights:
        talk.answers(PRODUCE, 9, produced("orders"))

    assert [topic.name for topic in talk.heard(PRODUCE, 9).responses] == ["orders", "secrets"]


@pytest.mark.spec("A7")
def test_an_id_that_the_broker_does_not_know_is_unknown() -> None:
    talk = Conversation(*WRITES)

    talk.asks(PRODUCE, 13, produce(b"?" * 16, KNOWN_TOPICS["orders"]))

    assert talk.forwarded_bytes() == b""
    talk.broker_names()
    talk.answers(PRODUCE, 13, produced(KNOWN_TOPICS["orders"]))
    assert errors_of(talk.heard(PRODUCE, 13)) == [(b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID), (b"o" * 16, 0)]


@pytest.mark.spec("A7")
@pytest.mark.parametrize(("allowed", "error"), [(False, 53), (True, 0)])
def test_a_transactional_id_needs_a_right_of_its_own(allowed: bool, error: int) -> None:
    talk = Conversation(*WRITES, *(["WRITE TRANSACTIONAL_ID tx"] if allowed else []))

    talk.asks(PRODUCE, 9, produce("orders", records=TRANSACTIONAL, transactional_id="tx"))

    if allowed:
        (request,) = talk.forwarded()
        assert request.message.transactional_id == "tx"
        talk.answers(PRODUCE, 9, produced("orders"))
    assert errors_of(talk.heard(PRODUCE, 9)) == [("orders", error)]


@pytest.mark.spec("A7")
@pytest.mark.parametrize(
    ("records", "needs_right"),
    [
        (TRANSACTIONAL, True),
        (record_batch(100) + TRANSACTIONAL, False),
        (TRANSACTIONAL + record_batch(100), True),
        (record_batch(100), False),
        (TRANSACTIONAL[:-1], False),
        (TRANSACTIONAL[:16] + b"\x01" + TRANSACTIONAL[17:], False),
        (b"", False),
    ],
)
def test_the_right_on_the_transactional_id_is_needed_for_transactional_records_as_at_a_broker(
    records: bytes, needs_right: bool
) -> None:
    talk = Conversation(*WRITES)

    talk.asks(PRODUCE, 9, produce("orders", records=records, transactional_id="tx"))

    assert bool(talk.forwarded()) is not needs_right


@pytest.mark.spec("A7")
@pytest.mark.parametrize("topics", [("secrets",), ("orders", "secrets"), ("secrets", "orders")])
def test_with_a_denied_topic_transactional_records_without_an_id_are_all_rejected_as_at_a_broker(
    topics: tuple[str, ...],
) -> None:
    talk = Conversation(*WRITES)

    talk.asks(PRODUCE, 9, produce(*topics, records=TRANSACTIONAL))

    assert talk.forwarded() == []
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert errors_of(talk.heard(PRODUCE, 9)) == [(topic, error) for topic in topics]


@pytest.mark.spec("A7")
def test_without_acks_an_allowed_request_goes_and_nothing_is_expected_back() -> None:
    talk = Conversation(*WRITES)

    talk.asks(PRODUCE, 9, produce("orders", acks=0))
    talk.asks(ApiKey.API_VERSIONS, 0, t.ApiVersionsRequest())

    assert len(talk.forwarded()) == 1
    assert talk.heard(ApiKey.API_VERSIONS, 0).error_code == 0


@pytest.mark.spec("A7")
@pytest.mark.parametrize(("topics", "reach"), [(("secrets",), []), (("orders", "secrets"), ["orders"])])
def test_without_acks_a_denial_is_told_by_closing(topics: tuple[str, ...], reach: list[str]) -> None:
    talk = Conversation(*WRITES)

    talk.asks(PRODUCE, 9, produce(*topics, acks=0))

    assert [topic.name for r in talk.forwarded() for topic in r.message.topic_data] == reach
    assert talk.heard_bytes() == b""
    assert talk.close_reason == "produce_denied"
    assert len(talk.told("authorization")) == 1


@pytest.mark.spec("A7")
@pytest.mark.parametrize("acks", [0, 1])
@pytest.mark.parametrize(("topics", "reach"), [(("secrets",), []), (("orders", "secrets"), ["orders"])])
def test_a_denied_topic_without_a_partition_is_no_error(
    acks: int, topics: tuple[str, ...], reach: list[str]
) -> None:
    talk, request = Conversation(*WRITES), produce(*topics, acks=acks)
    request.topic_data[-1].partition_data = []

    talk.asks(PRODUCE, 9, request)

    assert [topic.name for r in talk.forwarded() for topic in r.message.topic_data] == reach
    assert talk.closed is None
    if acks and not reach:
        assert talk.heard(PRODUCE, 9).responses == []


@pytest.mark.spec("A7")
def test_bytes_behind_a_request_are_cut_and_never_sent_on() -> None:
    talk = Conversation(*WRITES)

    talk.sends(talk.request(PRODUCE, 9, produce("orders"), trailing=b"smuggled"))

    (request,) = talk.forwarded()
    assert (request.trailing, request.message) == (b"", produce("orders"))


@pytest.mark.spec("Q7")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("topics", [("orders",), ("orders", "payments"), ("orders", "secrets")])
def test_an_answer_tells_the_throttle_time_and_then_the_client_is_muted(
    version: int, topics: tuple[str, ...]
) -> None:
    talk = Conversation(*WRITES, quotas=Quotas(producer=1_000))
    names = at(version, *topics)

    talk.asks(PRODUCE, version, produce(*names, records=bytes(30_000)))
    (request,) = talk.forwarded()
    allowed = [topic.name or bytes(topic.topic_id) for topic in request.message.topic_data]
    talk.answers(PRODUCE, version, produced(*allowed))

    told_ms = talk.heard(PRODUCE, version).throttle_time_ms
    assert told_ms > 15_000
    assert talk.mutes == [told_ms]
    assert talk.session.blocked


@pytest.mark.spec("Q7")
def test_the_larger_throttle_time_of_broker_and_proxy_is_told() -> None:
    talk = Conversation(*WRITES, quotas=Quotas(producer=1_000))

    talk.asks(PRODUCE, 9, produce("orders", records=bytes(30_000)))
    talk.answers(PRODUCE, 9, produced("orders", throttle_time_ms=1_000_000))

    assert talk.heard(PRODUCE, 9).throttle_time_ms == 1_000_000


@pytest.mark.spec("Q7")
@pytest.mark.parametrize("trailing", [b"", b"x"])
@pytest.mark.parametrize("topics", [("orders",), ("orders", "payments")])
def test_without_acks_the_channel_is_muted_all_the_same(topics: tuple[str, ...], trailing: bytes) -> None:
    talk = Conversation(*WRITES, quotas=Quotas(producer=1_000))

    talk.sends(
        talk.request(PRODUCE, 9, produce(*topics, acks=0, records=bytes(30_000)), trailing=trailing)
        + talk.request(ApiKey.API_VERSIONS, 0, t.ApiVersionsRequest())
    )

    assert len(talk.mutes) == 1
    assert talk.heard_bytes() == b""
    talk.passes(talk.mutes[0])
    talk.is_unmuted()
    assert talk.heard(ApiKey.API_VERSIONS, 0).error_code == 0


@pytest.mark.spec("Q6")
def test_bytes_behind_a_request_are_paid_for() -> None:
    talk = Conversation(*WRITES, quotas=Quotas(producer=1_000))

    talk.sends(talk.request(PRODUCE, 9, produce("orders", records=bytes(30_000)), trailing=b"x"))
    talk.answers(PRODUCE, 9, produced("orders"))

    assert talk.heard(PRODUCE, 9).throttle_time_ms > 15_000


@pytest.mark.spec("Q7")
def test_a_client_with_two_throttle_times_is_heard_again_when_both_are_over() -> None:
    talk = Conversation(*WRITES)
    talk.mute()
    talk.mute()

    talk.is_unmuted()
    assert talk.session.blocked
    talk.is_unmuted()
    assert not talk.session.blocked


@pytest.mark.spec("O1")
@pytest.mark.parametrize("produced_before", [False, True])
@pytest.mark.parametrize("version", range(10, 14))
def test_the_address_of_a_leader_elsewhere_is_that_of_its_proxy(version: int, produced_before: bool) -> None:
    talk = Conversation(*WRITES)
    topics = at(version, "orders")
    for _ in range(3 if produced_before else 0):  # The fast path knows them by then.
        talk.asks(PRODUCE, version, produce(*topics))
        talk.answers(PRODUCE, version, produced(*topics))
        talk.heard_bytes()
    endpoint = t.ProduceResponse.NodeEndpoint
    nodes = [endpoint(node_id=2, host="broker-two", port=9092), endpoint(node_id=3, host="b3", port=9092)]

    talk.asks(PRODUCE, version, produce(*topics))
    talk.answers(
        PRODUCE,
        version,
        produced(*topics, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, node_endpoints=nodes),
    )

    told = talk.heard(PRODUCE, version).node_endpoints
    assert [(node.node_id, node.host, node.port) for node in told] == [(2, "proxy-two", 29092)]


@pytest.mark.spec("A7")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_version_that_is_told_for_old_clients_but_not_served_is_refused(version: int) -> None:
    talk = Conversation(*WRITES)
    talk.gate.versions = dict(talk.gate.versions) | {PRODUCE: (0, 13)}
    talk.asks(PRODUCE, 3, produce("orders"))
    talk.forwarded()
    frame = bytearray(talk.request(PRODUCE, 3, produce("orders")))
    frame[6:8] = version.to_bytes(2, "big")

    talk.sends(bytes(frame))

    assert talk.forwarded_bytes() == b""
    assert [e.message for e in talk.told("request_refused")] == [
        f"Produce v{version} (api key 0) is not served here"
    ]
    assert talk.session.closing


@pytest.mark.spec("A7")
@pytest.mark.parametrize("topic", ["__penstock_metadata", "__penstock_audit"])
def test_not_even_a_super_user_writes_to_our_own_topics(topic: str) -> None:
    talk = Conversation(principal="root")

    talk.asks(PRODUCE, 9, produce(topic))

    assert errors_of(talk.heard(PRODUCE, 9)) == [(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    assert [e.rule for e in talk.told("authorization")] == ["protected.topic"]
    assert talk.forwarded_bytes() == b""


@pytest.mark.spec("O1")
def test_the_leaders_address_in_a_partly_denied_response_is_that_of_its_proxy() -> None:
    talk = Conversation("WRITE TOPIC orders")
    talk.asks(ApiKey.PRODUCE, 12, produce("orders", "secrets"))
    endpoint = t.ProduceResponse.NodeEndpoint(node_id=1, host="broker-1.internal", port=9092)

    moved = produced("orders", error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, node_endpoints=[endpoint])
    talk.answers(ApiKey.PRODUCE, 12, moved)

    (told,) = talk.heard(ApiKey.PRODUCE, 12).node_endpoints
    assert (told.host, told.port) == ADDRESSES[1]


@pytest.mark.spec("A7")
@pytest.mark.parametrize("others", [(), ("orders",)])
def test_denied_partitions_that_are_named_twice_are_reported_once(others: tuple[str, ...]) -> None:
    talk = Conversation(*WRITES)
    message = produce(*others, "secrets", "secrets", "secrets")
    message.topic_data[-1].partition_data[0].index = 7

    talk.asks(PRODUCE, 9, message)
    if others:
        talk.answers(PRODUCE, 9, produced(*others))

    responses = talk.heard(PRODUCE, 9).responses
    found = [(topic.name, [part.index for part in topic.partition_responses]) for topic in responses]
    assert found == [*((name, [0]) for name in others), ("secrets", [0, 7])]
