"""A proxy's connection to the active controller: sends Envelopes, and retries until the deadline (KIP-590).

`run` belongs in the proxy's TaskGroup. It maintains one channel to a controller, so that the controller's API
versions are known before a client requests them. The proxy calls `forward` for each ToController effect.
forwarding.envelope decides what is retried and which errors clients see.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from time import perf_counter
from weakref import WeakValueDictionary

import structlog
from structlog.contextvars import bind_contextvars

from forwarding import envelope
from forwarding.envelope import CONNECTION_LOST, NextAttempt, next_step
from forwarding.net.forward_spans import ForwardSpan
from forwarding.net.metrics import ForwarderMetrics
from forwarding.versions import AUDIT_END_TAG, SAME_ID_TAG, transactional_id_of, witness_request
from proxy.audit.chain import witnessed_end
from proxy.net.kafka.channel import (
    API_VERSIONS_VERSION,
    Channel,
    ChannelError,
    ChannelTimeout,
    EndpointSettings,
)
from proxy.net.runtime.clock import set_within
from proxy.net.runtime.reachability import CLOSED, Backoff, Cause, Reachability
from proxy.net.telemetry.spans import NO_SPANS, Spans, trace_ids
from proxy.session.effects import ControllerResponse, ToController
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.errors import WireError
from proxy.wire.header import decode_response_header

ATTEMPT_TIMEOUT_MS = 5_000
"""A controller that sends nothing for so long, with requests in flight, may be frozen or cut off: another one
is tried. If it was only slow, it gets the same forward id again, and responds as to the first attempt."""
LEADER_TIMEOUT_MS = 30_000
"""The same for the leader of Kafka's quorum, as long as it serves its log. It knows no forward ids, and would
carry out the request twice; brokers give it as much (controller.socket.timeout.ms)."""

MAX_OF_PRINCIPAL = 8
"""The controller serves the requests of a proxy one after the other, and some need no right: those of one
principal with thousands of connections must not be ahead of all others."""
TOKEN_TURN_S = 1.0
"""The least time for which a request about a token is one of these eight. No right is needed for it, and the
controller commits and records each, so one principal makes eight a second from a process."""
MAX_PAUSE_MS = 1_000
"""The longest pause between two attempts of one request."""

WITNESS_INTERVAL_MS = 60_000
"""How often proxy and controller exchange the ends of their audit trails, from the connection on."""

ApiVersions = Mapping[int, tuple[int, int]]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Forward:
    request: ToController
    forward_id: str
    body: bytes
    """The EnvelopeRequest, encoded once for all attempts."""
    span: ForwardSpan


@dataclass(frozen=True, slots=True)
class _AttemptResult:
    error_code: int | None
    """The envelope-level error, or CONNECTION_LOST."""
    message: types.EnvelopeResponse | None = None


class Forwarder:
    """The channel to the active controller, one of `endpoints`, and the requests on it."""

    def __init__(
        self,
        endpoints: Sequence[EndpointSettings],
        forward_id_prefix: str,
        metrics: ForwarderMetrics,
        now_ms: Callable[[], int],
        backoff: Backoff | None = None,
        attempt_timeout_ms: int = ATTEMPT_TIMEOUT_MS,
        spans: Spans = NO_SPANS,
    ) -> None:
        """`forward_id_prefix`: unique to this boot, "<proxy id>/<boot id>".

        Set before `run`: `leader` returns the active controller if it is known; it is tried first.
        `on_api_versions` is called with those of each controller that is reached. With `audit_end`,
        Penstock's controller and the proxy witness each other's audit trail (`on_witnessed`), and the
        controller says which other process runs under this proxy's id (`on_same_id`).
        """
        self.leader: Callable[[], EndpointSettings | None] = lambda: None
        self.on_api_versions: Callable[[ApiVersions], None] = lambda _versions: None
        self.audit_end: Callable[[], str] | None = None
        self.on_witnessed: Callable[[str], None] = lambda _end: None
        self.on_same_id: Callable[[str | None], None] = lambda _other: None
        if not endpoints:
            raise ValueError("no controller endpoint")
        self._attempt_timeout_ms = attempt_timeout_ms
        self._endpoints = tuple(map(self._with_attempt_timeout, endpoints))
        self._attempted_endpoints = 0
        self._prefix = forward_id_prefix
        self._metrics = metrics
        self._spans = spans
        self._now_ms = now_ms
        self._backoff = backoff or Backoff(maximum_ms=MAX_PAUSE_MS)
        self.reachability = Reachability(
            "controller reached", "controller not reached", 50, len(self._endpoints)
        )
        self._rejected: Cause | None = None
        """Why the controller did not carry out the last request."""
        self._channel: Channel | None = None
        self._found = asyncio.Event()  # Set while there is a channel.
        self._reached = asyncio.Event()  # Set once there was one.
        self._abandoned = asyncio.Event()  # Set when another controller is to be tried.
        self._numbers = count()
        # Of principals with requests: those about tokens, and all others.
        self._turns = WeakValueDictionary[tuple[bytes, bool], asyncio.Semaphore]()
        self.controller_api_versions: ApiVersions | None = None
        """The versions that the last controller supported (E8); None before the first connection."""
        self.controller_transactional_id: str | None = None
        """The transactional id of its log; None from Kafka's own controller."""

    @property
    def connected(self) -> bool:
        """Whether a controller is connected, active or not."""
        return self._channel is not None and not self._channel.closed

    @property
    def trouble(self) -> Cause | None:
        """Why administrative requests would fail now, as far as is known."""
        if self.connected:
            return self._rejected
        return self.reachability.cause or Cause("no controller connected yet")

    async def reached(self, timeout_ms: int) -> bool:
        """Wait until a controller's API versions are known; False when the time is over."""
        with self.reachability.wanted():
            return await set_within(self._reached, timeout_ms)

    @property
    def endpoint(self) -> EndpointSettings | None:
        """The controller that is connected; None while one is searched for."""
        return None if self._channel is None else self._channel.endpoint

    async def run(self) -> None:
        """Maintain a channel; move to the next endpoint when the current one cannot be used."""
        endpoint: EndpointSettings | None = None
        while True:
            endpoint = self._known_leader(endpoint) or self._next_endpoint()
            try:
                async with await Channel.open(endpoint) as channel:
                    self._abandoned.clear()
                    self._channel = channel
                    self.controller_api_versions = dict(channel.api_versions)
                    self.controller_transactional_id = transactional_id_of(channel.api_versions_tags)
                    self.on_api_versions(self.controller_api_versions)
                    self._found.set()
                    self._reached.set()
                    self.reachability.reached(address=channel.endpoint.address)
                    await self._until_unusable(channel)
                    if channel.closed:
                        self.reachability.failed(
                            Cause(CLOSED, f"{endpoint.address}: {CLOSED}"), endpoint.address
                        )
            except ChannelError as error:
                self.reachability.failed(error, endpoint.address)
            finally:
                self._channel = None
                self._found.clear()
            await self.reachability.pause()

    async def forward(self, request: ToController) -> ControllerResponse:
        """Send a client's request in an Envelope, and retry until the result is final or its time is over.

        The body is sent unchanged: it is what was authorized.
        """
        deadline_ms = self._now_ms() + request.timeout_ms
        forward_id = f"{self._prefix}/{next(self._numbers)}"
        span = ForwardSpan(self._spans, request, forward_id)
        bind_contextvars(**trace_ids(span.traceparent))  # Of the task, which is this request's alone.
        message = envelope.wrap(
            request.api_key,
            request.api_version,
            request.correlation_id,
            request.client_id,
            request.body,
            principal=request.principal,
            client_address=request.client_address,
            forward_id=forward_id,
            traceparent=span.traceparent,
        )
        # All attempts have the same bytes and the same id. Version 1 has the layout of version 0.
        encoded = codecs.of(types.EnvelopeRequest, 0).encode(message)
        in_flight = self._metrics.count(request.client_id)
        reply = None
        begun_s = perf_counter()
        try:
            with in_flight.track_inprogress():
                reply = await self._in_turn(_Forward(request, forward_id, encoded, span), deadline_ms)
        finally:
            self._metrics.seconds.observe(perf_counter() - begun_s, trace_ids(span.traceparent) or None)
            span.ended(reply)
        return reply

    async def _in_turn(self, forward: _Forward, deadline_ms: int) -> ControllerResponse:
        """Send it once fewer than MAX_OF_PRINCIPAL of its principal are on their way."""
        is_of_token = ApiKey.name_of(forward.request.api_key).endswith("DelegationToken")
        key = forward.request.principal, is_of_token
        turn = self._turns.setdefault(key, asyncio.Semaphore(MAX_OF_PRINCIPAL))
        try:
            async with asyncio.timeout((deadline_ms - self._now_ms()) / 1000):
                await turn.acquire()
        except TimeoutError:
            return self._outcome(forward, _AttemptResult(ErrorCode.REQUEST_TIMED_OUT), 1)
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + (TOKEN_TURN_S if is_of_token else 0)
        try:
            return await self._attempts(forward, deadline_ms)
        finally:
            if ends_s > loop.time():
                loop.call_at(ends_s, turn.release)
            else:
                turn.release()

    async def _attempts(self, forward: _Forward, deadline_ms: int) -> ControllerResponse:
        for attempt in count(1):
            reply = await self._attempt(forward, deadline_ms)
            step = next_step(reply.error_code)
            left_ms = deadline_ms - self._now_ms()
            if step is NextAttempt.DONE or left_ms <= 0:
                return self._outcome(forward, reply, attempt)
            self._metrics.retries.labels(_reason(reply.error_code)).inc()
            forward.span.retried(_reason(reply.error_code))
            await asyncio.sleep(
                self._backoff.pause_ms(attempt, secrets.randbelow(1000) / 1000, left_ms) / 1000
            )
        raise AssertionError("count() does not end")

    async def _attempt(self, forward: _Forward, deadline_ms: int) -> _AttemptResult:
        channel = await self._controller(deadline_ms - self._now_ms())
        if channel is None:
            return _AttemptResult(ErrorCode.REQUEST_TIMED_OUT)
        # A timeout of 0 would fail at once; the last millisecond is worth a try.
        left_ms = max(1, deadline_ms - self._now_ms())
        forward.span.sent(channel.endpoint.host, channel.endpoint.port)
        try:
            version = channel.version(ApiKey.ENVELOPE, (0, envelope.MAX_VERSION))
            raw = await channel.send_body(
                ApiKey.ENVELOPE, version, channel.endpoint.client_id, forward.body, timeout_ms=left_ms
            )
            message, _ = codecs.of(types.EnvelopeResponse, 0).decode(raw)
        except ChannelTimeout as error:
            # The client's deadline says nothing about the controller. Other requests share the channel, so
            # only `_until_silent` gives it up.
            log.debug("deadline of a request passed", forward_id=forward.forward_id, error=str(error))
            return _AttemptResult(ErrorCode.REQUEST_TIMED_OUT)
        except ChannelError as error:
            log.info("forward interrupted", forward_id=forward.forward_id, error=str(error))
            return _AttemptResult(CONNECTION_LOST)
        except WireError as error:
            log.error("envelope response unreadable", forward_id=forward.forward_id, error=str(error))
            return _AttemptResult(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._note(message.error_code, channel)
        # With no other controller to try, this one is tried again: it may be just taking over.
        if next_step(message.error_code) is NextAttempt.FIND_CONTROLLER and self._has_alternative_to(channel):
            self._abandon(channel)
        return _AttemptResult(message.error_code, message)

    def _outcome(self, forward: _Forward, reply: _AttemptResult, attempts: int) -> ControllerResponse:
        if reply.error_code == ErrorCode.NONE:
            assert reply.message is not None
            return replace(self._unwrap(forward, reply.message), attempts=attempts)
        final = next_step(reply.error_code) is NextAttempt.DONE
        error_code = reply.error_code if final else ErrorCode.REQUEST_TIMED_OUT
        assert error_code is not None
        client_error = envelope.client_error(error_code)
        log_line = {"forward_id": forward.forward_id, "attempts": attempts}
        if error_code == ErrorCode.REQUEST_TIMED_OUT:
            # The controller is connected: the client's timeout was too short, which is not a fault of the
            # set-up.
            client_gave_up = reply.error_code == ErrorCode.REQUEST_TIMED_OUT and self.connected
            log_at_level = log.info if client_gave_up else log.warning
            log_at_level("no controller responded in time", last=_reason(reply.error_code), **log_line)
        else:
            # E6: proxy and controller do not fit together, which only an operator can mend.
            log.error("controller rejected the envelope", error=_reason(error_code), **log_line)
        return ControllerResponse(
            ErrorCode(client_error.error_code),
            None,
            forward.forward_id,
            close=client_error.close,
            attempts=attempts,
        )

    def _unwrap(self, forward: _Forward, message: types.EnvelopeResponse) -> ControllerResponse:
        data = message.response_data
        try:
            if data is None:
                raise WireError("no response in the envelope")
            sent = forward.request
            correlation_id, body_offset = decode_response_header(sent.api_key, sent.api_version, data)
            if correlation_id != sent.correlation_id:
                raise WireError(f"correlation id {correlation_id}, sent {sent.correlation_id}")
        except WireError as error:
            log.error("response in the envelope unreadable", forward_id=forward.forward_id, error=str(error))
            return ControllerResponse(ErrorCode.UNKNOWN_SERVER_ERROR, None, forward.forward_id)
        body = bytes(data[body_offset:])
        return ControllerResponse(ErrorCode.NONE, body, forward.forward_id, envelope.last_offset(message))

    def follow(self, endpoints: Sequence[EndpointSettings]) -> None:
        """Use other endpoints from now on; close the connection to an endpoint that is not one of them."""
        self._endpoints = tuple(map(self._with_attempt_timeout, endpoints))
        self._attempted_endpoints = 0
        self.reachability.replace_addresses(len(self._endpoints))
        channel, addresses = self._channel, {each.address for each in self._endpoints}
        # In kraft mode Kafka's quorum names its leader, whatever the file lists.
        if channel is not None and channel.endpoint.address not in addresses and self.leader() is None:
            self._abandon(channel)

    def _next_endpoint(self) -> EndpointSettings:
        endpoint = self._endpoints[self._attempted_endpoints % len(self._endpoints)]
        self._attempted_endpoints += 1
        return endpoint

    def _with_attempt_timeout(self, endpoint: EndpointSettings) -> EndpointSettings:
        # Connecting is part of an attempt, and may not take longer.
        limit_ms = min(endpoint.request_timeout_ms, self._attempt_timeout_ms)
        return replace(endpoint, request_timeout_ms=limit_ms)

    def _known_leader(self, last: EndpointSettings | None) -> EndpointSettings | None:
        """Return the known leader, unless it was tried last: then it may be out of date."""
        leader = self.leader()
        if leader is None or (last is not None and last.address == leader.address):
            return None
        return self._with_attempt_timeout(leader)

    def _has_alternative_to(self, channel: Channel) -> bool:
        """Whether another controller can be tried."""
        leader = self.leader()
        return len(self._endpoints) > 1 or (leader is not None and leader.address != channel.endpoint.address)

    async def _controller(self, left_ms: int) -> Channel | None:
        """Return the channel, or None if there is none before the deadline."""
        with self.reachability.wanted():
            return self._channel if await set_within(self._found, max(0, left_ms)) else None

    def _note(self, error_code: int, channel: Channel) -> None:
        """Remember what a response says about the next requests."""
        reason = None if error_code == ErrorCode.NONE else _reason(error_code)
        if reason is None:
            self._rejected = None
        else:
            is_other = error_code == ErrorCode.NOT_CONTROLLER
            what = "no controller is active" if is_other else f"the controller rejects envelopes: {reason}"
            self._rejected = Cause(what, f"{channel.endpoint.address}: {reason}")

    def _abandon(self, channel: Channel) -> None:
        if channel is self._channel:
            self._found.clear()
            self._abandoned.set()

    async def _until_unusable(self, channel: Channel) -> None:
        async with asyncio.TaskGroup() as tasks:
            ends = [
                tasks.create_task(channel.wait_closed()),
                tasks.create_task(self._abandoned.wait()),
                tasks.create_task(self._until_silent(channel)),
            ]
            witness = tasks.create_task(self._witness(channel))
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in (*ends, witness):
                end.cancel()

    async def _witness(self, channel: Channel) -> None:
        """Exchange the ends of the audit trails with Penstock's controller, and request its versions again.

        Kafka's controller does not know the tag. Its versions change only when it restarts.
        """
        if self.audit_end is None or self.controller_transactional_id is None:
            return
        while True:
            request = witness_request(self.audit_end())
            try:
                response = await channel.request(ApiKey.API_VERSIONS, API_VERSIONS_VERSION, request)
            except ChannelError as error:
                # The channel is closed then, or about to be, and the next one begins again.
                log.info("audit trail not witnessed", error=str(error))
                return
            versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
            if versions != self.controller_api_versions:
                # A broker was upgraded that the controller sends requests to.
                self.controller_api_versions = versions
                self.on_api_versions(versions)
            tags = response.unknown_tags or {}
            end = witnessed_end(tags.get(AUDIT_END_TAG, b""))
            if end is not None:
                self.on_witnessed(end)
            self.on_same_id(tags.get(SAME_ID_TAG, b"").decode(errors="replace") or None)
            await asyncio.sleep(WITNESS_INTERVAL_MS / 1000)

    async def _until_silent(self, channel: Channel) -> None:
        left_ms = self._attempt_timeout_ms
        while left_ms > 0:
            await asyncio.sleep(min(left_ms, self._attempt_timeout_ms) / 1000)
            leader = self.leader()
            leads = leader is not None and leader.address == channel.endpoint.address
            left_ms = (LEADER_TIMEOUT_MS if leads else self._attempt_timeout_ms) - channel.silent_ms
        log.warning("controller is silent", address=channel.endpoint.address, silent_ms=channel.silent_ms)
        self._abandon(channel)


def _reason(error_code: int | None) -> str:
    if error_code is CONNECTION_LOST:
        return "connection lost"
    if error_code == envelope.AUTHORIZER_NOT_READY:
        return "AUTHORIZER_NOT_READY"
    return ErrorCode.name_of(error_code)
