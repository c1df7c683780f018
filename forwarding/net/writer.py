"""One forwarded request after another: decide, commit, wait for the replay, answer (KIP-590, KIP-801).

Fed by forwarding.net.server with Envelopes. A decision is made on the newest image, which has everything
this process committed before; the answer goes out when the change has come back through the log and
counts. Whether this is the active controller is the log's word: a fenced one answers NOT_CONTROLLER.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import structlog

from forwarding.controller.controller import Controller
from forwarding.controller.facts import (
    envelope_refused,
    forwarded_received,
    quotas_changed,
    tokens_expired,
    topics_gone,
)
from forwarding.controller.gone_topics import GoneTopics
from forwarding.controller.outcome import AskBroker, Outcome
from forwarding.controller.records import in_effect
from forwarding.controller.tokens import expired_tokens
from forwarding.envelope import Forwarded, Refused, Sender, answer, refusal
from forwarding.net.answered import Answered, Key, forward_key
from forwarding.net.broker import Broker
from forwarding.net.carried_out import CarriedOut, Transaction
from forwarding.net.log import Committed, CommitUnknown, Entry, Fenced, MetadataLog
from forwarding.net.metrics import ControllerMetrics
from forwarding.net.mutations import Mutations
from forwarding.net.own_responses import (
    MAX_RECORD_BYTES,
    NOT_CONTROLLER,
    PASSING,
    error_name,
    log_entries,
    refused,
    too_large,
    unrecordable,
)
from forwarding.retry import AUTHORIZER_NOT_READY
from proxy.audit.record import AuditEvent
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from proxy.net.kafka.channel import ChannelError
from proxy.net.metadata.topic_feed import FeedTimeout, TopicFeed
from proxy.net.runtime.chunked import call_in_slices, iterate_in_slices
from proxy.quota.mutation import MutationQuotas
from proxy.session.accounting.response_errors import error_of
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message, Response

REPLAY_TIMEOUT_MS = 10_000
"""How long a committed change may take to come back through the log."""
DEFAULT_BROKER_TIMEOUT_MS = 30_000
REGAIN_TIMEOUT_MS = 2_000
"""How long a request waits here for the log to be claimed again, before its proxy gets NOT_CONTROLLER."""
MANY_EVENTS = 50
"""Of one request: more of them are recorded in slices."""

OwnEvent = Callable[[Sequence[Message], tuple[int | None, int], int], AuditEvent]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A commit that nobody answered for: the log will tell when it is read to its end."""

    records: tuple[Message, ...]
    tell: Callable[[Committed], None]
    """To be called if it is in the log."""


class Writer:
    """Serves Envelopes while the log is ours; `activate` makes it ours."""

    def __init__(
        self,
        controller: Controller,
        metadata_log: MetadataLog,
        feed: TopicFeed,
        loader: Loader,
        broker: Broker,
        record: Callable[[AuditEvent], None],
        metrics: ControllerMetrics,
        may_write: Callable[[], Awaitable[bool]],
        kept: Callable[[], Awaitable[bool]],
        now_ms: Callable[[], int],
        mutation_quotas: MutationQuotas,
        carried_out: CarriedOut,
    ) -> None:
        """`carried_out` is fed by `feed`."""
        self._carried_out = carried_out
        self._mutations = Mutations(mutation_quotas, broker, record, now_ms)
        self._may_write = may_write
        self._kept = kept
        self._now_ms = now_ms
        self._controller = controller
        self._log = metadata_log
        self._feed = feed
        self._loader = loader
        self._broker = broker
        self._record = record
        self._metrics = metrics
        self._turn = asyncio.Lock()
        self._answers = Answered()
        self._running: dict[Key, asyncio.Future[types.EnvelopeResponse]] = {}
        self._unsettled: Unsettled | None = None
        self.active = False
        """This process may write, and its image has all that was ever committed."""
        self.activated = asyncio.Event()
        """Set while active, to be waited for."""
        self.lost = asyncio.Event()
        """Set when the log is no longer ours, or we no longer know."""
        self.fenced = False
        """Why it was lost: somebody else has claimed the log."""
        self._decided = asyncio.Event()
        """Not set from the moment the log is lost until it is ours again, or is given up."""
        self._decided.set()

    async def activate(self) -> None:
        """Claim the log and catch up with its end; LogUnavailable, ChannelError or FeedTimeout if not yet."""
        async with self._turn:
            await self._log.claim()
            end = await self._feed.stable_offset()
            await self._feed.wait_for(end - 1, REPLAY_TIMEOUT_MS)
            self._settle()
            self.lost.clear()
            self._set_active(True)
            self._decided.set()
            log.info("controller is active", metadata_offset=self._loader.image.offset)

    async def resign(self) -> None:
        """Answer NOT_CONTROLLER from now on; a request that is being served is served to its end."""
        async with self._turn:
            self._set_active(False)
            self._decided.set()
            await self._log.resign()

    async def serve(
        self, envelope: types.EnvelopeRequest, envelope_version: int, sender: Sender
    ) -> types.EnvelopeResponse:
        """The EnvelopeResponse to an EnvelopeRequest, once what was recorded of it survives this process."""
        response = await self._served(envelope, envelope_version, sender)
        # A change that is made is told, though its record should be late: the audit log has said so.
        await self._kept()
        return response

    async def _served(
        self, envelope: types.EnvelopeRequest, envelope_version: int, sender: Sender
    ) -> types.EnvelopeResponse:
        image = self._loader.image if self._loader.ready else None
        opened, events = await call_in_slices(partial(self._controller.open, envelope, sender, image))
        await self._tell(events)
        if isinstance(opened, Refused):
            return self._refused(opened, envelope_version, sender)
        if image is None:
            fault = Refused(AUTHORIZER_NOT_READY, "the metadata log is not loaded yet")
            return self._refused(fault, envelope_version, sender)
        if not self.active and not await self._regained():
            return self._refused(NOT_CONTROLLER, envelope_version, sender)
        return await self._once(opened, sender, envelope_version)

    async def _once(
        self, forwarded: Forwarded, sender: Sender, envelope_version: int
    ) -> types.EnvelopeResponse:
        """The same forward is carried out once, however often it is asked for."""
        key = forward_key(sender, forwarded)
        if key is None:
            return await self._carry_out(forwarded, sender, envelope_version)
        running = self._running.get(key)
        if running is not None:
            return await asyncio.shield(running)
        earlier = self._answers.get(key)
        if earlier is not None:
            return earlier
        return await self._first(key, forwarded, sender, envelope_version)

    async def _first(
        self, key: Key, forwarded: Forwarded, sender: Sender, envelope_version: int
    ) -> types.EnvelopeResponse:
        self._running[key] = result = asyncio.get_running_loop().create_future()
        response = refusal(ErrorCode.UNKNOWN_SERVER_ERROR, envelope_version)
        try:
            response = await self._carry_out(forwarded, sender, envelope_version)
            until_ms = self._now_ms() + REGAIN_TIMEOUT_MS
            while response.error_code == ErrorCode.NOT_CONTROLLER and self._now_ms() < until_ms:
                if not await self._regained():
                    break
                # Claimed again, so the log is read to its end: what was committed of it is known.
                response = self._answers.get(key) or await self._carry_out(
                    forwarded, sender, envelope_version
                )
        finally:
            del self._running[key]
            result.set_result(response)
        if response.error_code == ErrorCode.NONE:
            self._answers.put(key, response)
        return response

    async def _carry_out(
        self, forwarded: Forwarded, sender: Sender, envelope_version: int
    ) -> types.EnvelopeResponse:
        try:
            existing = await self._broker.existing(self._controller.topics_in_question(forwarded))
            tried = await self._broker.sizes_of(self._controller.creation_to_try(forwarded))
        except ChannelError as error:
            return self._answered(forwarded, sender, self._no_broker(forwarded, error))
        if not await self._may_write():
            # D3: a change that could not be recorded is not made. The attempt is, as soon as there is room.
            return self._answered(forwarded, sender, unrecordable(forwarded))
        async with self._turn:
            if not self.active:
                return self._refused(NOT_CONTROLLER, envelope_version, sender)
            image = self._loader.image
            names = {key: topic.name for key, topic in existing.items()}
            ids = {topic.name: topic.topic_id for topic in existing.values() if any(topic.topic_id)}
            verdict = await call_in_slices(
                partial(self._controller.decide, forwarded, sender, image, names, self._now_ms(), ids, tried)
            )
            await self._tell(verdict.events)
            await self._kept()  # Who asked, and by what right, survives us before the change does.
            decision = verdict.decision
            if isinstance(decision, Outcome):
                done = self._carried_out.find(forwarded.forward_id)
                if done is not None:
                    return self._again(decision, done, forwarded, sender)
                return await self._commit(decision, forwarded, sender, envelope_version)
        return await self._ask_broker(decision, forwarded, sender, image, envelope_version)

    async def _commit(
        self, outcome: Outcome, forwarded: Forwarded, sender: Sender, envelope_version: int
    ) -> types.EnvelopeResponse:
        if not outcome.records:
            return await call_in_slices(partial(self._answered, forwarded, sender, outcome.response))
        entries = await call_in_slices(partial(log_entries, outcome.records))
        largest = max(len(entry.key) + len(entry.value) for entry in entries)
        if largest > MAX_RECORD_BYTES:
            return await call_in_slices(
                lambda: self._answered(forwarded, sender, too_large(forwarded, largest))
            )
        unsettled = Unsettled(outcome.records, partial(self._found, forwarded, sender, outcome))
        committed = await self._append(entries, forwarded.forward_id, unsettled)
        if committed is None:
            # The proxy asks again with the same id, and by then the log has told.
            return self._refused(NOT_CONTROLLER, envelope_version, sender)
        await self._tell(list(quotas_changed(outcome.records, committed.last_offset)))
        return await call_in_slices(partial(self._answered, forwarded, sender, outcome.response, committed))

    def _again(
        self, decided: Outcome, done: Transaction, forwarded: Forwarded, sender: Sender
    ) -> types.EnvelopeResponse:
        """Another controller has carried it out, and could not answer any more."""
        response = self._controller.as_before(
            forwarded, decided.response, done.records, done.removed, self._now_ms()
        )
        return self._answered(forwarded, sender, response, Committed(*done.offsets))

    async def _append(
        self, entries: Sequence[Entry], forward_id: str | None, unsettled: Unsettled
    ) -> Committed | None:
        """Commit, and wait until it counts; None: the log is not ours any more, or we do not know."""
        with self._metrics.commit_seconds.time():
            try:
                committed = await self._log.append(entries, forward_id)
            except Fenced as error:
                self._lose(str(error), fenced=True)
                return None
            except CommitUnknown as error:
                self._metrics.commits_unknown.inc()
                self._unsettled = unsettled
                self._lose(f"commit outcome unknown: {error}", fenced=False)
                return None
            await self._replayed(committed)
        return committed

    async def _replayed(self, committed: Committed) -> None:
        try:
            await self._feed.wait_for(committed.last_offset, REPLAY_TIMEOUT_MS)
        except FeedTimeout as error:
            # The change is committed and may be acknowledged, but no further one may be decided on an
            # image that lacks it.
            self._lose(str(error), fenced=False)

    async def _ask_broker(
        self,
        decision: AskBroker[Response],
        forwarded: Forwarded,
        sender: Sender,
        image: MetadataImage,
        envelope_version: int,
    ) -> types.EnvelopeResponse:
        header = forwarded.header
        timeout_ms = getattr(decision.request, "timeout_ms", None) or DEFAULT_BROKER_TIMEOUT_MS
        try:
            low, high = (await self._broker.api_versions()).get(header.api_key, (0, -1))
            if not low <= header.api_version <= high:
                name = ApiKey.name_of(header.api_key)
                fault = f"{name} v{header.api_version}: the broker speaks v{low}-v{high}"
                return self._refused(Refused(ErrorCode.UNSUPPORTED_VERSION, fault), envelope_version, sender)
            ask = partial(self._broker.request, header.api_key, header.api_version, timeout_ms=timeout_ms)
            response = await self._mutations.carry_out(forwarded, sender, decision.request, image, ask)
            response = decision.merge(response)
            if decision.follow_up is None:
                return await call_in_slices(partial(self._answered, forwarded, sender, response))
            topic_ids = await self._broker.topic_ids(decision.follow_up.unknown_ids(response))
        except ChannelError as error:
            return self._answered(forwarded, sender, self._no_broker(forwarded, error))
        async with self._turn:
            if not self.active:
                # What the broker has done stays; that nobody owns it is the safe side.
                return self._refused(NOT_CONTROLLER, envelope_version, sender)
            records = decision.follow_up.records(response, self._loader.image, topic_ids)
            return await self._commit(Outcome(records, response), forwarded, sender, envelope_version)

    def _no_broker(self, forwarded: Forwarded, error: ChannelError) -> Message:
        header = forwarded.header
        log.warning("no answer from the broker", method=ApiKey.name_of(header.api_key), error=str(error))
        # Done or not is unknown: for that Kafka's clients have this code.
        return refused(forwarded, ErrorCode.REQUEST_TIMED_OUT)

    def _settle(self) -> None:
        """The log is read to its end: was the commit whose outcome was lost in it?"""
        unsettled, self._unsettled = self._unsettled, None
        if unsettled is None:
            return
        image = self._loader.image
        found = in_effect(unsettled.records, image)
        log.info("commit outcome read from the log", committed=found, metadata_offset=image.offset)
        if found:
            unsettled.tell(Committed(None, image.offset))

    def _found(self, forwarded: Forwarded, sender: Sender, outcome: Outcome, committed: Committed) -> None:
        """The log has told that a request was carried out: so it is answered when it comes again."""
        for event in quotas_changed(outcome.records, committed.last_offset):
            self._record(event)
        response = self._answered(forwarded, sender, outcome.response, committed)
        self._answers.put(forward_key(sender, forwarded), response)

    async def remove_expired_tokens(self) -> bool:
        """Take some of the tokens that have expired out of the log; whether there may be more of them."""
        return await self._by_itself(lambda image: expired_tokens(image, self._now_ms()), tokens_expired)

    async def forget_gone_topics(self, gone: GoneTopics) -> None:
        """Take topics that a broker no longer has out of the log."""
        names = sorted(self._loader.image.topics.by_name) if self.active else []
        try:
            found = await self._broker.found_ids(names)
        except ChannelError as error:
            log.warning("no answer from the broker", method="Metadata", error=str(error))
            return
        await self._by_itself(lambda image: gone.records(image, found), topics_gone)

    async def _by_itself(
        self, records_at: Callable[[MetadataImage], tuple[Message, ...]], event: OwnEvent
    ) -> bool:
        """Commit what nobody has asked for; whether anything was."""
        async with self._turn:
            records = records_at(self._loader.image) if self.active else ()
            if not records or not await self._may_write():
                return False
            unsettled = Unsettled(records, partial(self._removed, records, event))
            committed = await self._append(log_entries(records), None, unsettled)
            if committed is not None:
                unsettled.tell(committed)
            return committed is not None

    def _removed(self, records: Sequence[Message], event: OwnEvent, committed: Committed) -> None:
        offsets = committed.first_offset, committed.last_offset
        self._record(event(records, offsets, self._loader.image.offset))

    def _answered(
        self, forwarded: Forwarded, sender: Sender, response: Message, committed: Committed | None = None
    ) -> types.EnvelopeResponse:
        """The answer, and the record of it."""
        error_code = error_of(response)
        offsets = (None, None) if committed is None else (committed.first_offset, committed.last_offset)
        self._record(forwarded_received(sender, forwarded, error_code, offsets, self._loader.image.offset))
        method = ApiKey.name_of(forwarded.header.api_key)
        self._metrics.requests.labels(method, error_name(error_code)).inc()
        return answer(forwarded.header, response, offsets[1])

    def _refused(self, fault: Refused, envelope_version: int, sender: Sender) -> types.EnvelopeResponse:
        error = error_name(fault.error_code)
        self._metrics.envelopes_refused.labels(error).inc()
        if fault.error_code not in PASSING:
            log.warning(
                "envelope refused", principal=str(sender.principal), error=error, message=fault.message
            )
            self._record(envelope_refused(sender, fault.error_code, fault.message))
        return refusal(fault.error_code, envelope_version)

    async def _regained(self) -> bool:
        """Whether the log, just lost, is ours again: so the request need not go back to the proxy."""
        with suppress(TimeoutError):
            async with asyncio.timeout(REGAIN_TIMEOUT_MS / 1000):
                await self._decided.wait()
        return self.active

    def _lose(self, reason: str, *, fenced: bool) -> None:
        tell = log.info if fenced else log.warning
        tell("controller is no longer active", reason=reason, fenced=fenced)
        self._set_active(False)
        self.fenced = fenced
        self._decided.clear()
        self.lost.set()

    def _set_active(self, active: bool) -> None:
        self.active = active
        (self.activated.set if active else self.activated.clear)()
        self._metrics.active.set(active)

    async def _tell(self, events: Sequence[AuditEvent]) -> None:
        """Record them, in slices where they are many."""
        if len(events) < MANY_EVENTS:
            for event in events:
                self._record(event)
            return
        async for event in iterate_in_slices(events):
            self._record(event)
