"""Produce and Fetch requests that pass without being decoded, and the responses that pass as they come.

Clients write to one partition again and again, so a Produce request that begins like the last one is
recognised by those bytes (`produce_again`): they are its `ProduceTemplate`. A first one is recognised by its
head (`head_of_produce`), which has the topics. To one partition it may stream (`produce`); to several it
passes if the client is known to be allowed to write all of its topics (`produce_to_several`), and so does a
Fetch (`fetch`). Whatever is not as plain as this is decoded. What passes here is charged and counted as if it
had been decoded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct

from proxy.metadata.acl import Operation
from proxy.session.accounting.summaries import Summary
from proxy.session.authentication import Authentication, Phase
from proxy.session.client_state import ClientState, topic_action
from proxy.session.data import fetch
from proxy.session.data.produce import FIRST_FLEXIBLE
from proxy.session.gate import Gate, ListenerPolicy, Rights
from proxy.session.in_flight import (
    FIRST_WITH_ENDPOINTS,
    MAX_IN_FLIGHT,
    Fetched,
    InFlight,
    Passing,
    Pipeline,
    PlainResponse,
    Produced,
    ProducedToSeveral,
    Ready,
    charge_on_arrival,
)
from proxy.session.remembered import FetchSession, Remembered
from proxy.wire import codecs, skim
from proxy.wire.api_keys import ApiKey

Fields = Callable[[memoryview, int], tuple[int, bytes, int, bytes]]

_HEAD = Struct(">ihhih").unpack_from  # length, API key, version, correlation id, client id length
_RESPONSE_HEAD = Struct(">ii").unpack_from  # length, correlation id
_RESPONSE_HEAD_BYTES = 8
_SESSION_ID = Struct(">i").unpack_from
HEAD_BYTES = 14
FETCH_HEAD_BYTES = 19  # length, correlation id, tags, throttle time, error, session id
FIRST_FLEXIBLE_FETCH = 12
_PRODUCE = int(ApiKey.PRODUCE)
_FETCH = int(ApiKey.FETCH)
_FIRST_PRODUCE = codecs.request_versions(_PRODUCE).start
_COMPLETE = Phase.COMPLETE


@dataclass(slots=True, eq=False)
class ProduceTemplate:
    """The bytes that requests of one client to one partition have in common."""

    fields: Fields
    """Reads a request's length, what has to equal `start`, its correlation id, and what has to equal
    `head`."""
    start: bytes
    """The API key and the version."""
    head: bytes
    """From the client id's length to the count of partitions, which is one."""
    records_at: int
    """The offset of the length of the records in the frame."""
    end_of_records: Callable[[memoryview, int], int]
    """Where the request has to end, from there; -1 when the records are null."""
    tag_bytes: int
    """The number of zeros at that end."""
    versions: Mapping[int, tuple[int, int]]
    """The versions that were offered when the request was taken apart."""
    summary: Summary
    entry: Produced
    """The request in flight; used again for the next one while none is in flight."""

    @classmethod
    def of(
        cls,
        data: memoryview,
        body: int,
        topic: bytes,
        versions: Mapping[int, tuple[int, int]],
        entry: Produced,
        summary: Summary,
    ) -> "ProduceTemplate":
        """Return the template of the request at the beginning of `data`, which is in flight as `entry`; its
        body begins at `body`."""
        version = entry.version
        # Behind the topic: the count of partitions (1 or 4 bytes), and the index of the only one.
        records_at = body + skim.topic_offset(version) + len(topic) + (5 if version >= FIRST_FLEXIBLE else 8)
        fields = _request(records_at - 16)
        _, start, _, head = fields(data, 0)
        end_of_records, tag_bytes = skim.end_of_records(version), skim.tag_bytes(version)
        return cls(fields, start, head, records_at, end_of_records, tag_bytes, versions, summary, entry)

    def another(self) -> Produced:
        """A request in flight like the template's."""
        like = self.entry
        return Produced(
            like.api_key,
            like.version,
            0,
            like.client,
            0,
            0,
            like.durations,
            0,
            like.bucket,
            like.summary,
            like.plain,
        )


@lru_cache(maxsize=1_024)
def _request(head_bytes: int) -> Fields:
    # Length, API key and version, correlation id, the head.
    return Struct(f">i4si{head_bytes}s").unpack_from


@dataclass(slots=True)
class ProduceHead:
    """A Produce request, as far as its head shows; to one partition, the rest may not have arrived yet."""

    version: int
    correlation_id: int
    length: int
    body: int
    """The offset of the body in the data."""
    raw_id: bytes
    """The client id with its length, as in the header."""
    acks: int
    topics: list[bytes]
    """Their names, or their ids (KIP-516), as on the wire."""
    partitions: int
    """Of all topics together."""


class FastLane:
    """The paths of one connection for requests and responses that need not be decoded."""

    __slots__ = (
        "_counts",
        "_gate",
        "_last_write",
        "_queue",
        "_template",
        "authentication",
        "client",
        "remembered",
        "streaming",
    )

    def __init__(
        self,
        gate: Gate,
        listener: ListenerPolicy,
        authentication: Authentication,
        pipeline: Pipeline,
        remembered: Remembered,
        client: ClientState,
    ) -> None:
        self._gate = gate
        self._counts = listener.counts
        self.authentication = authentication
        self._queue = pipeline.queue
        self.remembered = remembered
        self.client = client
        """The state that requests use now; the session replaces it by `use`."""
        self._template: ProduceTemplate | None = None
        # The summary of the last request of which a template could have been made.
        self._last_write: Summary | None = None
        self.streaming: Produced | None = None
        """The last request that passed before all of it had come; None: it has no place in flight."""

    def use(self, client: ClientState) -> None:
        """Requests are those of this client from now on."""
        self.client = client
        self._template = self._last_write = None

    def produce_again(self, data: memoryview, position: int, stop: int, now_ms: int) -> Summary | None:
        """Let the frame at `position` pass if it begins like the last one that did; None if it does not.

        Returns the summary that counts it. Of the checks of a first request, those are repeated whose outcome
        does not follow from the bytes.
        """
        known, client, gate = self._template, self.client, self._gate
        if known is None or client.basis is not gate.basis or known.versions is not gate.versions:
            return None
        records_at = position + known.records_at
        if len(data) < records_at + 8:
            return None
        length, start, correlation_id, head = known.fields(data, position)
        authentication = self.authentication
        expires_at_ms = authentication.expires_at_ms
        if (
            head != known.head
            or start != known.start
            or length != stop - position - 4
            or known.end_of_records(data, records_at) != stop
            or any(data[stop - known.tag_bytes : stop])  # What is still to come, the intake looks at.
            or length > gate.limits.socket_request_max_bytes
            or authentication.phase is not _COMPLETE
            or (expires_at_ms is not None and now_ms >= expires_at_ms)
        ):
            return None
        summary, queue, entry = known.summary, self._queue, known.entry
        # Most clients wait for each response: then one entry serves them for all their requests.
        if queue:
            if len(queue) >= MAX_IN_FLIGHT or queue[-1].holds_back:
                return None
            entry = known.another()
        if stop > len(data):
            self.streaming = entry
        elif entry.bucket is not None and not entry.bucket.record_within(length, now_ms):
            return None
        summary.count += 1
        summary.request_bytes += length + 4
        self._counts.requests[_PRODUCE] += 1
        entry.since_ms = now_ms
        entry.correlation_id = correlation_id
        entry.request_bytes = length
        queue.append(entry)
        return summary

    def head_of_produce(self, data: memoryview, position: int, stop: int, now_ms: int) -> ProduceHead | None:
        """The head of the frame at `position`, if it is a Produce request that may pass."""
        length, api_key, version, correlation_id, id_length = _HEAD(data, position)
        if api_key != _PRODUCE or not self._may_stream(version, length, now_ms):
            return None
        body = position + HEAD_BYTES + (id_length if id_length > 0 else 0)
        raw_id, known_id = bytes(data[position + 12 : body]), self.client.raw_id
        if raw_id != known_id and known_id is not None:
            return None  # The first request of a client names it.
        if version >= FIRST_FLEXIBLE:
            if body >= len(data) or data[body]:
                return None
            body += 1
        found = skim.produce(data, body, version)
        if found is None or found[3] != stop or any(data[stop - skim.tag_bytes(version) : stop]):
            return None
        if stop > len(data) and found[2] > 1:
            return None
        return ProduceHead(version, correlation_id, length, body, raw_id, *found[:3])

    def decide(self, head: ProduceHead, name: str, now_ms: int) -> Summary | None:
        """Decide on a topic that the client has not written to before; None where it is denied."""
        client = self.client
        action = topic_action(Operation.WRITE, name)
        decision = client.decide([action])[0]
        if not decision.allowed:
            return None
        summary = client.summary(_PRODUCE, head.version, action, decision, now_ms)
        client.writes[head.version][head.topics[0]] = summary
        return summary

    def produce(
        self, head: ProduceHead, data: memoryview, position: int, summary: Summary, now_ms: int
    ) -> None:
        """Let a Produce request pass whose topic is allowed; with acks=0 it has no place in flight."""
        summary.count += 1
        summary.request_bytes += head.length + 4
        requests = self._counts.requests
        requests[_PRODUCE] = requests.get(_PRODUCE, 0) + 1
        if not head.acks:
            self.streaming = None
            return
        client = self.client
        bucket = client.producer if client.producer.limited else None
        durations = self._counts.passed[_PRODUCE]
        entry = Produced(
            _PRODUCE,
            head.version,
            head.correlation_id,
            client,
            now_ms,
            0,
            durations,
            head.length,
            bucket,
            summary,
            holds_back=client.request.limited,
        )
        self._queue.append(entry)
        if position + head.length + 4 > len(data):
            self.streaming = entry
        else:
            charge_on_arrival(entry, now_ms)
        if not (entry.holds_back or entry.throttle_time_ms):
            # A client that goes from topic to topic would have a template made for each request.
            if self._template is None or self._last_write is summary:
                entry.plain = PlainResponse.of(entry.version, head.topics[0])
                self._template = ProduceTemplate.of(
                    data[position:], head.body - position, head.topics[0], self._gate.versions, entry, summary
                )
            self._last_write = summary

    def produce_to_several(self, head: ProduceHead, now_ms: int) -> Summary | None:
        """Let a whole request pass if all of its topics are known to be allowed; return where it is counted.

        With acks=0 it has no place in flight.
        """
        gate, client, version = self._gate, self.client, head.version
        if gate.unrecorded or client.raw_id is None:
            return None
        summaries = self._summaries_of(version, head.topics)
        if summaries is None:
            return None
        for summary in summaries:
            summary.count += 1
        summaries[0].request_bytes += head.length + 4
        counts = self._counts
        counts.requests[_PRODUCE] = counts.requests.get(_PRODUCE, 0) + 1
        if head.acks:
            bucket = client.producer if client.producer.limited else None
            common = (_PRODUCE, version, head.correlation_id, client, now_ms, 0, counts.passed[_PRODUCE])
            entry = ProducedToSeveral(*common, head.length, bucket, holds_back=client.request.limited)
            if bucket is not None:
                charge_on_arrival(entry, now_ms)
            self._queue.append(entry)
        return summaries[0]

    def _summaries_of(self, version: int, topics: list[bytes]) -> list[Summary] | None:
        """The summaries of these topics, each once; None where one is not known to be allowed."""
        writes, summaries = self.client.writes[version], []
        for topic in dict.fromkeys(topics):
            summary = writes.get(topic)
            if summary is None:
                return None
            summaries.append(summary)
        return summaries

    def _may_stream(self, version: int, length: int, now_ms: int) -> bool:
        authentication, gate = self.authentication, self._gate
        if authentication.under_way or authentication.is_expired(now_ms):
            return False
        if length > gate.limits.socket_request_max_bytes:
            return False
        offered = gate.versions.get(_PRODUCE)
        # Older versions may be advertised, but their heads must not be read like those of later ones.
        return offered is not None and max(_FIRST_PRODUCE, offered[0]) <= version <= offered[1]

    def fetch(self, data: memoryview, now_ms: int) -> bool:
        """Let `data` pass, patched perhaps, if it is one whole Fetch for topics that are known to be
        allowed."""
        size_bytes = len(data)
        if size_bytes < HEAD_BYTES:
            return False
        length, api_key, version, correlation_id, id_length = _HEAD(data)
        if api_key != _FETCH:
            return False
        client, basis = self.client, self._gate.basis
        if (
            basis.image is None
            or client.basis is not basis
            or client.request.limited
            or client.until_ms is not None
            or (self._queue and (len(self._queue) >= MAX_IN_FLIGHT or self._queue[-1].holds_back))
            or not self._may_fetch(version, length, now_ms)
        ):
            return False
        body = HEAD_BYTES + (id_length if id_length > 0 else 0)
        if bytes(data[12:body]) != client.raw_id:
            return False
        if version >= FIRST_FLEXIBLE_FETCH:
            if body >= size_bytes or data[body]:
                return False
            body += 1
        wanted = skim.fetch(data, body, version)
        if wanted is None or wanted[3] != size_bytes or length != size_bytes - 4:
            return False
        names = self._names(version, wanted[2])
        if names is None:
            return False
        counts = self._counts
        bucket = client.consumer if client.consumer.limited else None
        entry = Fetched(_FETCH, version, correlation_id, client, now_ms, 0, counts.passed[_FETCH], bucket)
        is_incremental = wanted[1] not in fetch.FULL_EPOCHS
        session = self._session(wanted[0], basis.rights, entry) if is_incremental else None
        if not (session if is_incremental else names) or (
            bucket is not None and not self._limit(data, body, entry)
        ):
            return False
        counts.requests[_FETCH] = counts.requests.get(_FETCH, 0) + 1
        fetch.count(client, entry, names, size_bytes, opens=not is_incremental)
        self._queue.append(entry)
        entry.version = fetch.adjust_in_place(data, version, body, session)
        return True

    def _limit(self, data: memoryview, body: int, entry: Fetched) -> bool:
        """Request no more than the quota has room for; False if there is none."""
        room_bytes = fetch.reserve(self.client, entry)
        if not room_bytes:
            return False
        fetch.limit_in_place(data, entry.version, body, room_bytes)
        return True

    def _may_fetch(self, version: int, length: int, now_ms: int) -> bool:
        gate, authentication = self._gate, self.authentication
        offered = gate.versions.get(_FETCH)
        expires_at_ms = authentication.expires_at_ms
        return (
            offered is not None
            and offered[0] <= version <= offered[1]
            and version == self.client.fetch_version
            and length <= gate.limits.decoded_request_max_bytes
            and authentication.phase is _COMPLETE
            and (expires_at_ms is None or now_ms < expires_at_ms)
            and not gate.unrecorded
            and not gate.rejects_changes
        )

    def _names(self, version: int, topics: list[bytes]) -> list[str] | None:
        """The topics' names; None where one is unknown, or not known to be allowed."""
        names, by_id, reads = [], version >= fetch.FIRST_WITH_TOPIC_ID, self.client.reads
        for topic in topics:
            name = self._gate.topic_names.name(topic) if by_id else decoded_name(topic)
            if name is None or name not in reads:
                return None
            names.append(name)
        return names

    def _session(self, session_id: int, rights: Rights, entry: Fetched) -> FetchSession | None:
        """The fetch session, if it may still be used as it is; its traffic is counted at its first topic."""
        session = self.remembered.fetch_sessions.find(session_id, rights)
        if session is None or session.held or session.until_ms is not None:
            return None
        entry.summary = self.client.reads.get(session.first_topic)
        return None if entry.summary is None else session

    def response(self, data: memoryview, now_ms: int) -> bool:
        """Let `data` pass if it is the response that is due, whole, unchanged, and nothing is due after it.

        That is by far the most frequent case: a Produce that no quota throttles and that has no addresses, a
        Fetch that the quota has room for, or one that is not read here. Not while a response has begun.
        """
        queue, size_bytes = self._queue, len(data)
        if not queue or (len(queue) > 1 and isinstance(queue[1], Ready)):
            return False
        entry = queue[0]
        if type(entry) is Produced:
            if not is_plain(entry, data, 0, size_bytes):
                return False
        elif type(entry) is Fetched:
            if not self._fetch_response(data, entry, now_ms):
                return False
        elif not _passes(entry, data):
            return False
        queue.pop(0)
        self._counts.response_bytes += size_bytes
        if (durations := entry.durations) is not None:
            # As request_counts.add, without a call.
            if (took_ms := now_ms - entry.since_ms) > 0:
                durations[took_ms.bit_length()] += 1
                durations[-1] += took_ms
            else:
                durations[0] += 1
        return True

    def _fetch_response(self, data: memoryview, entry: Fetched, now_ms: int) -> bool:
        """Charge `data` if it is the whole response to this fetch and the quota has room for it."""
        size_bytes = len(data)
        if (
            size_bytes < FETCH_HEAD_BYTES
            or entry.queued_ms
            or _RESPONSE_HEAD(data) != (size_bytes - 4, entry.correlation_id)
        ):
            return False
        is_flexible = entry.version >= FIRST_FLEXIBLE_FETCH
        client, bucket = entry.client, entry.bucket
        if bucket is not None and client is not None:
            length = size_bytes - (5 if is_flexible else 4)
            if client.request.limited or not bucket.record_within(length, now_ms):
                return False
            client.fetched(length, entry.reserved_bytes, entry.since_ms, now_ms)
        self.fetched(data, 9 if is_flexible else 8, size_bytes, entry)
        return True

    def fetched(self, data: memoryview, offset: int, size_bytes: int, entry: Fetched) -> None:
        """Count a response, and learn of the session that it opens; its throttle time is at `offset`."""
        if entry.summary is None:
            return
        entry.summary.response_bytes += size_bytes
        if entry.opens_at is not None and entry.version >= fetch.FIRST_WITH_SESSION:
            client = entry.client
            if client is not None and client.image is not None:
                self.remembered.fetch_sessions.opened(
                    _SESSION_ID(data, offset + 6)[0],
                    client.basis.rights,
                    # The name that is remembered already: a client may open many sessions.
                    entry.summary.action.resource_name,
                    client.until_ms,
                )


def is_plain(entry: Produced, data: memoryview, position: int, stop: int) -> bool:
    """Whether the whole response at `position` passes as it is."""
    plain, length = entry.plain, stop - position - 4
    if (
        plain is None
        or length < plain.min_bytes
        or plain.fields(data, position) != (length, entry.correlation_id, plain.head, plain.no_error)
    ):
        return False
    return not entry.throttle_time_ms


def passes_to_several(entry: ProducedToSeveral, frame: memoryview) -> bool:
    """Whether `frame`, the whole response, passes as it is."""
    if (
        entry.throttle_time_ms
        or entry.holds_back
        or _RESPONSE_HEAD(frame) != (len(frame) - 4, entry.correlation_id)
    ):
        return False
    if entry.version < FIRST_WITH_ENDPOINTS:
        return True
    return not frame[8] and skim.produced_without_error(frame, 9, entry.version)


def _passes(entry: InFlight, data: memoryview) -> bool:
    """Whether `data` is the whole response to a request that is neither a Produce to one partition nor a
    Fetch, and passes as it is."""
    if type(entry) is ProducedToSeveral:
        return passes_to_several(entry, data)
    size_bytes = len(data)
    return (
        type(entry) is Passing
        and size_bytes >= _RESPONSE_HEAD_BYTES
        and _RESPONSE_HEAD(data) == (size_bytes - 4, entry.correlation_id)
        and not entry.queued_ms
    )


def decoded_name(topic: bytes) -> str | None:
    """A topic's name as on the wire; None if it is no UTF-8."""
    try:
        return topic.decode()
    except UnicodeDecodeError:
        return None
