"""The trail against the wire: what a client asked for is told, once, with the bytes that it sent.

A client sends requests of several kinds, in pieces and pipelined; the broker answers in its own time; ACLs
change, client ids change, summaries are written, quotas throttle. A ledger of the test's own says what every
request is to be told as. In the end both are the same: each request at each topic, its bytes once, by whom
and under which ACLs, and of Fetch the bytes of its answers.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from proxy.audit.record import AuditEvent
from proxy.session.state import State
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.session.apis.asking import KNOWN_TOPICS, image_with
from tests.session.conversation import Conversation, Quotas, at, fetch, fetched, produce, produced

pytestmark = [pytest.mark.spec("D1", "D2"), pytest.mark.slow]

ALLOWED, DENIED = ("orders", "payments"), "secrets"
RIGHTS = [f"{right} TOPIC {name}" for name in ALLOWED for right in ("READ", "WRITE", "DESCRIBE")]
Ledger = Counter[tuple[Any, ...]]


def metadata(names: tuple[str, ...], by_id: bool) -> Any:
    topic = t.MetadataRequest.MetadataRequestTopic
    parts = [topic(name=None, topic_id=KNOWN_TOPICS[n]) if by_id else topic(name=n) for n in names]
    return t.MetadataRequest(topics=parts, allow_auto_topic_creation=False)


def described(names: tuple[str, ...]) -> Any:
    response = t.MetadataResponse
    part = response.MetadataResponseTopic
    return response(topics=[part(name=name, topic_id=KNOWN_TOPICS[name]) for name in names])


def of_kind(
    kind: str, version: int, names: tuple[str, ...], kept: tuple[str, ...], size: int
) -> tuple[int, int, Any, Any]:
    """API, version, request, and what the broker answers to what is left of it."""
    if kind == "fetch":
        return ApiKey.FETCH, version, fetch(*at(version, *names)), fetched(*at(version, *kept))
    if kind == "produce":
        message = produce(*at(version, *names), records=bytes(size))
        return ApiKey.PRODUCE, version, message, produced(*at(version, *kept))
    if kind == "all topics":
        return ApiKey.METADATA, 12, t.MetadataRequest(topics=None), described(ALLOWED)
    by_id = kind == "metadata by id"
    return ApiKey.METADATA, 12, metadata(names, by_id), described(names if by_id else kept)


class Told:
    """A conversation, and beside it what the trail has to say of it."""

    def __init__(self, throttled: bool) -> None:
        limit = 200.0 if throttled else None
        self.talk = Conversation(*RIGHTS, quotas=Quotas(limit, limit))
        self.client_id, self.rights = "app", 0
        self.expected: Ledger = Counter()
        self.unasked: Ledger = Counter()
        self.request_bytes: Ledger = Counter()
        self.response_bytes: Ledger = Counter()
        self.answers: list[Callable[[], None]] = []
        self.unsent = b""

    def ask(self, kind: str, version: int, names: tuple[str, ...], size: int) -> None:
        """One request; it is told when it is decided on, and that may be when it is answered."""
        kept = tuple(dict.fromkeys(name for name in names if name != DENIED))
        key, version, message, answer = of_kind(kind, version, names, kept, size)
        frame = self.talk.request(key, version, message, client_id=self.client_id)
        method, correlation_id = ApiKey.name_of(key), self.talk.correlation_id
        who = self.client_id, self.talk.gate.image.offset  # type: ignore[union-attr]

        def decide() -> None:
            if kind == "all topics":
                self.unasked[(method, len(frame), *who)] += 1
                return
            for name in dict.fromkeys(names):
                self.expected[(method, name, name != DENIED, *who)] += 1
            if kept:
                self.request_bytes[(method, *who)] += len(frame)

        def answered() -> None:
            data = self.talk.response(key, version, answer, correlation_id)
            if kind == "metadata by id":
                decide()
            if kind == "fetch":
                self.response_bytes[(method, *who)] += len(data)
            self.talk.broker_sends(data)

        self.unsent += frame
        if kind != "metadata by id":
            decide()
        if kept or key == ApiKey.METADATA:
            self.answers.append(answered)

    def send(self, piece: int) -> None:
        """What was asked, in pieces of that size; the mutes of quotas pass at once."""
        data, self.unsent = self.unsent, b""
        for position in range(0, len(data), piece):
            self.talk.sends(data[position : position + piece])
            self.unmute()

    def unmute(self) -> None:
        while self.talk.session.state & State.MUTED:
            self.talk.is_unmuted()

    def answer(self, count: int) -> None:
        now, self.answers = self.answers[:count], self.answers[count:]
        for each in now:
            each()
            self.unmute()

    def change_acls(self) -> None:
        """To others that allow the same: only the offset of decisions differs."""
        self.rights += 1
        more = [f"READ GROUP group-{number}" for number in range(self.rights)]
        self.talk.gate.image = image_with(*RIGHTS, *more)

    def records(self) -> list[AuditEvent]:
        return [*self.talk.events, *self.talk.summaries()]


kinds = st.sampled_from(["fetch", "produce", "metadata", "metadata by id", "all topics"])
topics = st.lists(st.sampled_from([*ALLOWED, DENIED]), min_size=1, max_size=4).map(tuple)
asks = st.tuples(kinds, st.sampled_from([9, 12, 13]), topics, st.sampled_from([0, 10, 3_000]))
others = st.sampled_from(["another client id", "other ACLs", "summaries"])
steps = st.one_of(asks, st.integers(1, 3), others, st.integers(20, 5_000))


def carry_out(told: Told, step: Any) -> None:
    match step:
        case (kind, version, names, size):
            told.ask(kind, version, names, size)
            told.send(1 << 20)
        case "another client id":
            told.client_id = "other" if told.client_id == "app" else "app"
        case "other ACLs":
            told.change_acls()
        case "summaries":
            told.talk.carry_out(told.talk.session.machine.summaries(told.talk.now_ms))
        case int() if step <= 3:
            told.answer(step)
        case _:
            told.ask("produce", 12, ("orders",), 2 * step)
            told.send(step)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=12), st.booleans())
@example([("fetch", 12, ("orders", "payments"), 0), "other ACLs", ("fetch", 12, ("orders",), 0), 2], False)
@example(
    [
        ("metadata by id", 12, ("secrets", "orders"), 0),
        "another client id",
        (*("produce", 9), ("orders",), 9),
        2,
    ],
    False,
)
def test_what_the_trail_tells_is_what_went_over_the_wire(run: list[Any], throttled: bool) -> None:
    told = Told(throttled)
    for step in run:
        carry_out(told, step)
    told.answer(len(told.answers))
    records = told.records()

    assert of(records, lambda e: 1 if e.event == "authorization" else e.count) == told.expected
    assert by_request(records, lambda e: e.request_bytes) == told.request_bytes
    assert unasked(records) == summed(told.unasked)
    if not throttled:  # Else some of them are kept from the client, and empty ones told in their place.
        assert by_request(records, lambda e: e.response_bytes) == told.response_bytes
    assert not any(e.error_code == 0 for e in records if e.granted is False)
    assert told.talk.close_reason is None


def unasked(records: list[AuditEvent]) -> Ledger:
    """Requests without a decision, and their bytes: API, client id, offset."""
    found: Ledger = Counter()
    for e in records:
        if e.event == "request_summary":
            found["requests", e.method, e.client_id, e.metadata_offset] += e.count or 0
            found["bytes", e.method, e.client_id, e.metadata_offset] += e.request_bytes or 0
    return found


def summed(requests: Ledger) -> Ledger:
    found: Ledger = Counter()
    for (method, size_bytes, *who), count in requests.items():
        found["requests", method, *who] += count
        found["bytes", method, *who] += size_bytes * count
    return found


def decisions(records: list[AuditEvent]) -> list[AuditEvent]:
    return [e for e in records if e.event in ("authorization", "authorization_summary")]


def of(records: list[AuditEvent], count: Callable[[AuditEvent], int | None]) -> Ledger:
    """How often each was told: API, topic, whether it was allowed, client id, offset."""
    found: Ledger = Counter()
    for e in decisions(records):
        assert (e.principal, e.host, e.listener) == ("User:alice", "10.0.0.1", "SASL")
        found[e.method, e.resource_name, e.granted, e.client_id, e.metadata_offset] += count(e) or 0
    return +found


def by_request(records: list[AuditEvent], size: Callable[[AuditEvent], int | None]) -> Ledger:
    found: Ledger = Counter()
    for e in decisions(records):
        found[e.method, e.client_id, e.metadata_offset] += size(e) or 0
    return +found
