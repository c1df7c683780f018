"""Whatever clients and brokers send, cut anywhere: a session gives effects, never an exception (SPEC O6).

Streams are made of good requests of many APIs, of such requests with bytes changed, and of noise; the broker
answers what reached it, rightly or not. What holds at each step: nothing follows a Close, strangers' bytes
never reach the broker, and what reaches the broker are whole requests of APIs that are served.
"""

from struct import pack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.session.apis.table import TABLE
from proxy.session.memory import Limits
from proxy.session.state import State
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import decode_request_header, encode_response
from tests.session.conversation import (
    Conversation,
    Quotas,
    at,
    fetch,
    fetched,
    frames_of,
    plain_token,
    produce,
    produced,
    sasl,
)

pytestmark = [pytest.mark.spec("O6"), pytest.mark.slow]

RIGHTS = ("WRITE TOPIC orders", "READ TOPIC orders", "DESCRIBE TOPIC orders", "READ GROUP team")
BOUNDED = settings(
    max_examples=250,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def request_frames() -> list[bytes]:
    """A good request of every API and version, and the shapes of Produce and Fetch that differ."""
    talk = Conversation(*RIGHTS)
    frames = []
    for api_key in (*TABLE, ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
        message = getattr(t, ApiKey.name_of(api_key) + "Request")()
        frames += [talk.request(api_key, v, message) for v in codecs.request_versions(api_key)]
    for version in codecs.request_versions(ApiKey.PRODUCE):
        frames += [
            talk.request(ApiKey.PRODUCE, version, produce(*at(version, *names), acks=acks))
            for names in (["orders"], ["secrets"], ["orders", "secrets"])
            for acks in (0, 1)
        ]
    for version in codecs.request_versions(ApiKey.FETCH):
        frames += [
            talk.request(ApiKey.FETCH, version, fetch(*at(version, *names), session_epoch=epoch))
            for names in (["orders"], ["orders", "secrets"])
            for epoch in (0, -1, 1)
        ]
    return frames


FRAMES = request_frames()
HANDSHAKES = [
    Conversation().request(ApiKey.SASL_HANDSHAKE, version, t.SaslHandshakeRequest(mechanism=mechanism))
    for version in (0, 1)
    for mechanism in ("PLAIN", "OAUTHBEARER", "NONE")
] + [
    Conversation().request(ApiKey.SASL_AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=token))
    for token in (plain_token("alice", "wrong"), b"nobody", b"")
]

good = st.sampled_from(FRAMES)
noise = st.binary(max_size=64)


@st.composite
def mutated(draw: st.DrawFn, frames: st.SearchStrategy[bytes] = good) -> bytes:
    """A good request with some bytes changed, often those at its end, which are empty sections of tagged
    fields; its length prefix is often left right."""
    frame = bytearray(draw(frames))
    for _ in range(draw(st.integers(1, 4))):
        first = draw(st.sampled_from([0, max(0, len(frame) - 4)]))
        frame[draw(st.integers(first, len(frame) - 1))] = draw(st.integers(0, 255))
    cut = draw(st.integers(0, 8))
    if cut and len(frame) > cut:
        del frame[-cut:]
    if draw(st.booleans()):
        frame[:4] = pack(">i", len(frame) - 4)
    return bytes(frame)


pieces = st.lists(st.one_of(good, mutated(), noise), min_size=1, max_size=6)
sizes = st.lists(st.integers(1, 200), min_size=1, max_size=20)
broker_moods = st.lists(st.sampled_from(["right", "short", "wrong id", "noise", "silent"]), max_size=12)


def chunks(data: bytes, lengths: list[int]) -> list[bytes]:
    """The data cut in pieces of these lengths, over and over."""
    found: list[bytes] = []
    position = 0
    while position < len(data):
        length = lengths[len(found) % len(lengths)]
        found.append(data[position : position + length])
        position += length
    return found


def an_answer(talk: Conversation, mood: str) -> bytes:
    """What the broker says to the oldest request in flight."""
    entry = talk.session.pipeline.head()
    if entry is None or mood == "silent" or entry.api_key < 0:
        return b""
    correlation_id = entry.correlation_id + (mood == "wrong id")
    if mood == "noise":
        return pack(">ii", 24, correlation_id) + bytes(range(20))
    if mood == "short":
        return pack(">ii", 5, correlation_id) + b"\0"
    message = right_answer(entry.api_key, entry.version)
    body = codecs.response(entry.api_key, entry.version).encode(message)
    return encode_response(entry.api_key, entry.version, correlation_id, body)


def right_answer(api_key: int, version: int) -> Any:
    if api_key == ApiKey.PRODUCE:
        return produced(*at(version, "orders"))
    if api_key == ApiKey.FETCH:
        changes: dict[str, Any] = {"session_id": 5} if version >= 7 else {}
        return fetched(*at(version, "orders"), **changes)
    return getattr(t, ApiKey.name_of(api_key) + "Response")()


@BOUNDED
@given(pieces, sizes, broker_moods, st.booleans())
def test_a_client_that_is_known_can_break_nothing(
    sent: list[bytes], lengths: list[int], moods: list[str], throttled: bool
) -> None:
    limit = 10.0 if throttled else None
    talk = Conversation(*RIGHTS, quotas=Quotas(limit, limit))
    answers = iter(moods)

    for chunk in chunks(b"".join(sent), lengths):
        talk.sends(chunk)
        talk.broker_sends(an_answer(talk, next(answers, "silent")))
        if talk.mutes and talk.session.state & State.MUTED:
            talk.is_unmuted()

    served = {ApiKey.PRODUCE, ApiKey.FETCH, *TABLE}
    for frame in whole_frames(talk.to_broker):
        header = decode_request_header(frame, 4)
        assert header.api_key in served
        codec = codecs.request(header.api_key, header.api_version)
        assert codec.decode(frame, header.body_offset)[1] == len(frame)
    talk.summaries()


@BOUNDED
@given(pieces, sizes, st.sampled_from([0, 1, 3]), st.sampled_from([30, 60, 1 << 16]))
def test_limits_smaller_than_requests_break_nothing(
    sent: list[bytes], lengths: list[int], max_elements: int, max_bytes: int
) -> None:
    talk = Conversation(*RIGHTS)
    talk.gate.limits = Limits(1 << 20, max_bytes, 1 << 12, decoded_request_max_elements=max_elements)

    for chunk in chunks(b"".join(sent), lengths):
        talk.sends(chunk)

    for frame in whole_frames(talk.to_broker):
        header = decode_request_header(frame, 4)
        assert header.api_key in {ApiKey.PRODUCE, ApiKey.FETCH, *TABLE}
        assert header.api_key == ApiKey.PRODUCE or len(frame) <= 4 + max_bytes
    frames_of(talk.to_client)  # Whole ones only.
    talk.summaries()


def whole_frames(data: bytes | bytearray) -> list[bytes]:
    """Without the last one where that is not whole yet: produce requests stream."""
    found, position = [], 0
    while position + 4 <= len(data):
        stop = position + 4 + int.from_bytes(data[position : position + 4], "big")
        if stop > len(data):
            break
        found += frames_of(data[position:stop])
        position = stop
    return found


PLAIN_FRAMES = [
    (api_key, version, make(*at(version, "orders")))
    for api_key, make in ((ApiKey.PRODUCE, produce), (ApiKey.FETCH, fetch))
    for version in codecs.request_versions(api_key)
]
ALLOWED = {"orders", *at(13, "orders")}


@settings(BOUNDED, max_examples=1_500)
@given(st.sampled_from(PLAIN_FRAMES), st.integers(0, 2), st.data(), sizes)
def test_what_passes_without_being_decoded_can_be_decoded_and_is_allowed(
    plain: tuple[int, int, Any], times_before: int, data: st.DataObject, lengths: list[int]
) -> None:
    api_key, version, message = plain
    talk = Conversation(*RIGHTS)
    for _ in range(times_before):  # So that the next one is known by its first bytes.
        talk.asks(api_key, version, message)
        talk.answers(api_key, version, right_answer(api_key, version))
    talk.forwarded_bytes()

    for chunk in chunks(data.draw(mutated(st.just(talk.request(api_key, version, message)))), lengths):
        talk.sends(chunk)

    for frame in whole_frames(talk.to_broker):
        header = decode_request_header(frame, 4)
        request, end = codecs.request(header.api_key, header.api_version).decode(frame, header.body_offset)
        assert end == len(frame)
        assert topics_of(request) <= ALLOWED


def topics_of(request: Any) -> set[str | bytes]:
    """The topics of a Produce or Fetch request, by name or by id; a changed API key is that of another."""
    if isinstance(request, t.ProduceRequest):
        return {topic.name or bytes(topic.topic_id) for topic in request.topic_data}
    is_fetch = isinstance(request, t.FetchRequest)
    return {topic.topic or bytes(topic.topic_id) for topic in request.topics} if is_fetch else set()


@BOUNDED
@given(
    st.lists(
        st.one_of(st.sampled_from(HANDSHAKES), mutated(st.sampled_from(HANDSHAKES)), good, noise),
        min_size=1,
        max_size=6,
    ),
    sizes,
)
def test_nothing_of_a_stranger_reaches_the_broker(sent: list[bytes], lengths: list[int]) -> None:
    talk = Conversation(*RIGHTS, sasl_listener=sasl(1_000, "PLAIN"))

    for chunk in chunks(b"".join(sent), lengths):
        talk.sends(chunk)

    assert talk.told("authentication") == []
    assert talk.to_broker == b""
    assert talk.controller == []


@BOUNDED
@given(st.lists(st.sampled_from(FRAMES), min_size=1, max_size=5), sizes)
def test_how_the_bytes_are_cut_changes_nothing(sent: list[bytes], lengths: list[int]) -> None:
    whole, cut = Conversation(*RIGHTS), Conversation(*RIGHTS)
    data = b"".join(sent)

    whole.sends(data)
    for chunk in chunks(data, lengths):
        cut.sends(chunk)

    assert (cut.to_broker, cut.to_client) == (whole.to_broker, whole.to_client)
    assert (cut.close_reason, cut.controller) == (whole.close_reason, whole.controller)
    assert [e.event for e in cut.events] == [e.event for e in whole.events]
