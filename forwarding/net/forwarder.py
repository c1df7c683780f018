"""A proxy's way to the active controller: finds it, sends Envelopes, retries until the deadline (KIP-590).

`run` belongs in the proxy's TaskGroup and keeps one channel to a controller open, so that its ApiVersions
are known before a client asks; `forward` is what the proxy's net layer calls for each ToController
effect. What may be retried is forwarding.retry's, what clients see of errors forwarding.envelope's.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import structlog

from forwarding import envelope
from forwarding.net.forward_spans import ForwardSpan
from forwarding.net.metrics import ForwarderMetrics
from forwarding.retry import CONNECTION_LOST, Step, next_step
from forwarding.versions import transactional_id_of
from proxy.net.kafka.channel import Channel, ChannelError, ChannelTimeout, EndpointSettings
from proxy.net.runtime.cause import CLOSED, Cause
from proxy.net.runtime.reachability import Backoff, Reachability
from proxy.net.telemetry.spans import NO_SPANS, Spans
from proxy.session.controller_response import ControllerResponse
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.errors import WireError
from proxy.wire.header import decode_response_header

ATTEMPT_TIMEOUT_MS = 5_000
"""A controller that sends nothing at all for so long, with requests in flight, may be frozen or cut off: the
others are asked. If it was only slow, it is asked again with the same forward id, and answers with what the
first attempt came to."""

MAX_PAUSE_MS = 1_000
"""Between two attempts of one request."""

ApiVersions = Mapping[int, tuple[int, int]]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Request:
    api_key: int
    api_version: int
    correlation_id: int
    forward_id: str
    body: bytes
    """The EnvelopeRequest, encoded once for all attempts."""
    span: ForwardSpan


@dataclass(frozen=True, slots=True)
class _Reply:
    error_code: int | None
    """The envelope-level error, or CONNECTION_LOST."""
    message: types.EnvelopeResponse | None = None


class Forwarder:
    """The one channel to the active controller among `endpoints`, and the requests on it."""

    def __init__(
        self,
        endpoints: Sequence[EndpointSettings],
        forward_id_prefix: str,
        metrics: ForwarderMetrics,
        now_ms: Callable[[], int],
        on_api_versions: Callable[[ApiVersions], None] = lambda _versions: None,
        backoff: Backoff | None = None,
        attempt_timeout_ms: int = ATTEMPT_TIMEOUT_MS,
        leader: Callable[[], EndpointSettings | None] = lambda: None,
        spans: Spans = NO_SPANS,
    ) -> None:
        """`forward_id_prefix`: unique to this process's life, "<proxy id>/<boot id>".

        `leader`: the active controller, where others know which one that is; it is tried first.
        """
        if not endpoints:
            raise ValueError("no controller endpoint")
        self._attempt_timeout_ms = attempt_timeout_ms
        self._endpoints = tuple(map(self._impatient, endpoints))
        self._tried = 0
        self._leader = leader
        self._prefix = forward_id_prefix
        self._metrics = metrics
        self._spans = spans
        self._now_ms = now_ms
        self._on_api_versions = on_api_versions
        self._backoff = backoff or Backoff(maximum_ms=MAX_PAUSE_MS)
        self.reachability = Reachability(
            "controller reached", "controller not reached", 50, len(self._endpoints)
        )
        self._rejected: Cause | None = None
        """Why the controllers that are reached did not carry out the last request."""
        self._channel: Channel | None = None
        self._found = asyncio.Event()
        self._reached = asyncio.Event()
        self._abandoned = asyncio.Event()
        self._numbers = count()
        self.controller_api_versions: ApiVersions | None = None
        """What the controller we last reached speaks (E8); None before the first."""
        self.controller_transactional_id: str | None = None
        """What it writes its log with; None when it does not say, as Kafka's own controller."""

    @property
    def connected(self) -> bool:
        """A controller answers, be it the active one or not."""
        return self._channel is not None and not self._channel.closed

    @property
    def trouble(self) -> Cause | None:
        """Why administrative requests would not be carried out now, as far as is known."""
        if self.connected:
            return self._rejected
        return self.reachability.cause or Cause("no controller connected yet")

    async def reached(self, timeout_ms: int) -> bool:
        """Wait until a controller has said what it speaks; False when none has in the time given."""
        try:
            with self.reachability.wanted():
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._reached.wait()
        except TimeoutError:
            return False
        return True

    @property
    def endpoint(self) -> EndpointSettings | None:
        """The controller that was reached last; None while one is looked for."""
        return None if self._channel is None else self._channel.endpoint

    async def run(self) -> None:
        """Keep a channel open, to the next endpoint whenever the present one will not do."""
        endpoint: EndpointSettings | None = None
        while True:
            endpoint = self._known_leader(endpoint) or self._next_endpoint()
            try:
                async with await Channel.open(endpoint) as channel:
                    self._use(channel)
                    await self._until_of_no_use(channel)
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

    async def forward(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        body: bytes,
        *,
        principal: bytes,
        client_address: bytes,
        deadline_ms: int,
        traceparent: str | None = None,
    ) -> ControllerResponse:
        """Send a client's request in an Envelope until it is answered for good or `deadline_ms` has come.

        `deadline_ms` is a time of the clock `now_ms`. The body is sent as it is: what was authorised.
        `traceparent`: of the client's request.
        """
        forward_id = f"{self._prefix}/{next(self._numbers)}"
        span = ForwardSpan(self._spans, api_key, forward_id, traceparent)
        message = envelope.wrap(
            api_key,
            api_version,
            correlation_id,
            client_id,
            body,
            principal=principal,
            client_address=client_address,
            forward_id=forward_id,
            traceparent=span.traceparent,
        )
        encoded = codecs.of(types.EnvelopeRequest, 0).encode(message)
        request = _Request(api_key, api_version, correlation_id, forward_id, encoded, span)
        self._metrics.count(client_id)
        reply = None
        try:
            with self._metrics.in_flight.track_inprogress(), self._metrics.seconds.time():
                reply = await self._attempts(request, deadline_ms)
        finally:
            span.ended(reply)
        return reply

    async def _attempts(self, request: _Request, deadline_ms: int) -> ControllerResponse:
        for attempt in count(1):
            reply = await self._attempt(request, deadline_ms)
            step = next_step(reply.error_code)
            left_ms = deadline_ms - self._now_ms()
            if step is Step.DONE or left_ms <= 0:
                return self._outcome(request, reply, attempt)
            self._metrics.retries.labels(_reason(reply.error_code)).inc()
            request.span.retried(_reason(reply.error_code))
            await asyncio.sleep(self._pause_ms(attempt, left_ms) / 1000)
        raise AssertionError("count() does not end")

    async def _attempt(self, request: _Request, deadline_ms: int) -> _Reply:
        channel = await self._controller(deadline_ms - self._now_ms())
        if channel is None:
            return _Reply(ErrorCode.REQUEST_TIMED_OUT)
        # Zero would be no time at all; what is left is at least worth a try.
        left_ms = max(1, deadline_ms - self._now_ms())
        request.span.sent(channel.endpoint.host, channel.endpoint.port)
        try:
            version = channel.version(ApiKey.ENVELOPE, (0, envelope.MAX_VERSION))
            raw = await channel.send_body(
                ApiKey.ENVELOPE, version, channel.endpoint.client_id, request.body, timeout_ms=left_ms
            )
            message, _ = codecs.of(types.EnvelopeResponse, 0).decode(raw)
        except ChannelTimeout as error:
            # The client's own deadline, which says nothing about the controller. Others share the channel:
            # it is given up by `_until_silent` alone.
            log.debug("deadline of a request passed", forward_id=request.forward_id, error=str(error))
            return _Reply(ErrorCode.REQUEST_TIMED_OUT)
        except ChannelError as error:
            log.info("forward interrupted", forward_id=request.forward_id, error=str(error))
            return _Reply(CONNECTION_LOST)
        except WireError as error:
            log.error("envelope response unreadable", forward_id=request.forward_id, error=str(error))
            return _Reply(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._note(message.error_code, channel)
        # With nowhere else to look the same one is asked again: it may be taking over this very moment.
        if next_step(message.error_code) is Step.FIND_CONTROLLER and self._others_than(channel):
            self._abandon(channel)
        return _Reply(message.error_code, message)

    def _outcome(self, request: _Request, reply: _Reply, attempts: int) -> ControllerResponse:
        if reply.error_code == ErrorCode.NONE:
            assert reply.message is not None
            return replace(self._answer(request, reply.message), attempts=attempts)
        final = next_step(reply.error_code) is Step.DONE
        error_code = reply.error_code if final else ErrorCode.REQUEST_TIMED_OUT
        assert error_code is not None
        seen = envelope.client_sees(error_code)
        log_line = {"forward_id": request.forward_id, "attempts": attempts}
        if error_code == ErrorCode.REQUEST_TIMED_OUT:
            # With a controller at hand it was the client that did not wait, which is no fault of anyone's.
            impatient = reply.error_code == ErrorCode.REQUEST_TIMED_OUT and self.connected
            tell = log.info if impatient else log.warning
            tell("no controller answered in time", last=_reason(reply.error_code), **log_line)
        else:
            # E6: the fault is in how proxy and controller are set up, and only the operator can mend it.
            log.error("controller refused the envelope", error=_reason(error_code), **log_line)
        return ControllerResponse(
            ErrorCode(seen.error_code), None, request.forward_id, close=seen.close, attempts=attempts
        )

    def _answer(self, request: _Request, message: types.EnvelopeResponse) -> ControllerResponse:
        data = message.response_data
        try:
            if data is None:
                raise WireError("no response in the envelope")
            correlation_id, body_offset = decode_response_header(request.api_key, request.api_version, data)
            if correlation_id != request.correlation_id:
                raise WireError(f"correlation id {correlation_id}, sent {request.correlation_id}")
        except WireError as error:
            log.error("response in the envelope unreadable", forward_id=request.forward_id, error=str(error))
            return ControllerResponse(ErrorCode.UNKNOWN_SERVER_ERROR, None, request.forward_id)
        body = bytes(data[body_offset:])
        return ControllerResponse(ErrorCode.NONE, body, request.forward_id, envelope.last_offset(message))

    def follow(self, endpoints: Sequence[EndpointSettings]) -> None:
        """These are the controllers from now on; the connection to one that is none of them ends."""
        self._endpoints = tuple(map(self._impatient, endpoints))
        self._tried = 0
        self.reachability.replace_addresses(len(self._endpoints))
        channel, addresses = self._channel, {each.address for each in self._endpoints}
        # Kafka's own quorum tells where its leader is, whatever the file lists.
        if channel is not None and channel.endpoint.address not in addresses and self._leader() is None:
            self._abandon(channel)

    def _next_endpoint(self) -> EndpointSettings:
        endpoint = self._endpoints[self._tried % len(self._endpoints)]
        self._tried += 1
        return endpoint

    def _impatient(self, endpoint: EndpointSettings) -> EndpointSettings:
        # Connecting is a part of an attempt and may not take longer.
        limit_ms = min(endpoint.request_timeout_ms, self._attempt_timeout_ms)
        return replace(endpoint, request_timeout_ms=limit_ms)

    def _known_leader(self, tried: EndpointSettings | None) -> EndpointSettings | None:
        """Unless it was what was tried last: what is known of it may be out of date."""
        leader = self._leader()
        if leader is None or (tried is not None and tried.address == leader.address):
            return None
        return self._impatient(leader)

    def _others_than(self, channel: Channel) -> bool:
        """There is somewhere else to look for the active controller."""
        leader = self._leader()
        return len(self._endpoints) > 1 or (leader is not None and leader.address != channel.endpoint.address)

    async def _controller(self, left_ms: int) -> Channel | None:
        """The channel in use, waited for until the deadline."""
        try:
            with self.reachability.wanted():
                async with asyncio.timeout(max(0, left_ms) / 1000):
                    await self._found.wait()
        except TimeoutError:
            return None
        return self._channel

    def _use(self, channel: Channel) -> None:
        self._abandoned.clear()
        self._channel = channel
        self.controller_api_versions = dict(channel.api_versions)
        self.controller_transactional_id = transactional_id_of(channel.api_versions_tags)
        self._on_api_versions(self.controller_api_versions)
        self._found.set()
        self._reached.set()
        self.reachability.reached(address=channel.endpoint.address)

    def _note(self, error_code: int, channel: Channel) -> None:
        """What an answer says about the next requests."""
        reason = None if error_code == ErrorCode.NONE else _reason(error_code)
        if reason is None:
            self._rejected = None
        elif error_code == ErrorCode.NOT_CONTROLLER:
            self._rejected = Cause("no controller is active", f"{channel.endpoint.address}: {reason}")
        else:
            self._rejected = Cause(
                f"the controller rejects envelopes: {reason}", f"{channel.endpoint.address}: {reason}"
            )

    def _abandon(self, channel: Channel) -> None:
        if channel is self._channel:
            self._found.clear()
            self._abandoned.set()

    async def _until_of_no_use(self, channel: Channel) -> None:
        async with asyncio.TaskGroup() as tasks:
            ends = [
                tasks.create_task(channel.wait_closed()),
                tasks.create_task(self._abandoned.wait()),
                tasks.create_task(self._until_silent(channel)),
            ]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()

    async def _until_silent(self, channel: Channel) -> None:
        left_ms = self._attempt_timeout_ms
        while left_ms > 0:
            await asyncio.sleep(left_ms / 1000)
            left_ms = self._attempt_timeout_ms - channel.silent_ms
        log.warning("controller is silent", address=channel.endpoint.address, silent_ms=channel.silent_ms)
        self._abandon(channel)

    def _pause_ms(self, attempt: int, left_ms: int) -> int:
        return self._backoff.pause_ms(attempt, secrets.randbelow(1000) / 1000, left_ms)


def _reason(error_code: int | None) -> str:
    if error_code is CONNECTION_LOST:
        return "connection lost"
    try:
        return ErrorCode(error_code).name
    except ValueError:
        return "AUTHORIZER_NOT_READY"
