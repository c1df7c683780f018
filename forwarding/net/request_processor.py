"""The active controller's request processor: decides, commits, waits for the replay, responds (KIP-590).

forwarding.net.server calls `serve` with Envelopes. A decision is made on the newest image, which has all
earlier commits of this process; the response is sent when the change was replayed from the log. The log
decides which controller is active: a fenced one responds NOT_CONTROLLER (KIP-801).

What grows with a request and only computes (decoding, decisions, records, responses) runs in a thread, one
call at a time. Images are immutable; state of this process changes on the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import structlog

from forwarding.controller.acls import ended_acls, removal_record
from forwarding.controller.api import ControllerOutcome, Decision, SendToBroker
from forwarding.controller.audit_events import (
    LogPlace,
    acls_ended,
    assertion_broken,
    envelope_rejected,
    forwarded_received,
    log_written_again,
    quotas_changed,
    tokens_expired,
    topics_deleted,
)
from forwarding.controller.controller import Controller, Verdict
from forwarding.controller.mutations import Topics
from forwarding.controller.policy import DryRunResult
from forwarding.controller.records import already_applied, key_of
from forwarding.controller.signing import LogSigner, state_records
from forwarding.controller.tokens import expired_tokens
from forwarding.controller.topic_owner import OwnerAndAcls
from forwarding.controller.topic_records import DeletedTopics
from forwarding.envelope import (
    AUTHORIZER_NOT_READY,
    ForwardedRequest,
    RejectedEnvelope,
    Sender,
    as_known,
    wrap_response,
)
from forwarding.net.broker import Broker
from forwarding.net.duplicate_forwards import (
    CommittedForwards,
    ForwardKey,
    ResponseCache,
    Transaction,
    forward_key,
)
from forwarding.net.log import (
    MAX_RECORD_BYTES,
    CommittedOffsets,
    CommitUnknown,
    Fenced,
    MetadataLog,
    WrittenRecord,
    log_entries,
)
from forwarding.net.metrics import ControllerMetrics
from forwarding.net.mutations import Mutations
from forwarding.net.one_thread import OneThread
from proxy.audit.classes import CLASSES
from proxy.audit.record import AuditEvent
from proxy.metadata.acl import Acl
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from proxy.net.kafka.channel import ChannelError
from proxy.net.metadata.feed import FeedTimeout
from proxy.net.metadata.topic_feed import TopicFeed
from proxy.net.runtime.clock import set_within
from proxy.quota.mutation import MutationQuotas
from proxy.session.accounting.response_errors import error_of
from proxy.session.apis.table import rejection
from proxy.session.call import LEAST_TIMEOUT_MS
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message, Response

REPLAY_TIMEOUT_MS = 10_000
"""How long the replay of a committed change may take."""
DEFAULT_BROKER_TIMEOUT_MS = 30_000
REGAIN_TIMEOUT_MS = 2_000
"""How long a request waits for the log to be claimed again, before its proxy gets NOT_CONTROLLER."""
NOT_CONTROLLER = RejectedEnvelope(ErrorCode.NOT_CONTROLLER, "not the active controller")
UNRECORDED_ERRORS = (ErrorCode.NOT_CONTROLLER, AUTHORIZER_NOT_READY)
"""The proxy retries after these, here or at another controller: they are counted, not recorded."""
RIGHTS_CHANGED = (
    "Rights have changed since the request was decided: its owners and ACLs of topics were not set."
)
UNRECORDABLE = "The audit trail of the controller is full: no change can be recorded, so none is made."
WRITTEN_AGAIN = 200
"""Records of one transaction when a part of the state, or all of it, is written again."""

MaintenanceEvent = Callable[[Sequence[Message], LogPlace], AuditEvent]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class UnknownCommit:
    """A commit whose outcome is unknown until the log is read to its end."""

    records: tuple[Message, ...]
    on_committed: Callable[[CommittedOffsets], None]
    """Called if the log has it."""


@dataclass(frozen=True, slots=True)
class RecordedResponse:
    """A response in its Envelope, and the audit event of the request."""

    response: types.EnvelopeResponse
    event: AuditEvent
    method: str
    error_code: int

    @classmethod
    def of(
        cls,
        forwarded: ForwardedRequest,
        sender: Sender,
        response: Message,
        committed: CommittedOffsets | None,
        metadata_offset: int,
    ) -> RecordedResponse:
        error_code = error_of(response)
        offsets = (None, None) if committed is None else (committed.first_offset, committed.last_offset)
        return cls(
            wrap_response(forwarded.header, response, offsets[1]),
            forwarded_received(sender, forwarded, error_code, offsets, metadata_offset, None, response),
            ApiKey.name_of(forwarded.header.api_key),
            error_code,
        )


class DecisionTrail(Protocol):
    """The audit trail (proxy.net.audit.audit_log)."""

    @property
    def end(self) -> str:
        """A recent record, for proxies to witness."""

    def append(self, event: AuditEvent) -> None: ...

    async def append_all(self, events: Iterable[AuditEvent]) -> None:
        """Append events of which there may be very many."""

    def allows_change(self) -> Awaitable[bool]:
        """Return whether the trail has room; without it changes are rejected (D3)."""

    async def wait_until_durable(self, classes: Collection[str]) -> bool:
        """Return once the records are durable; no response is sent before."""


@dataclass(frozen=True, slots=True)
class LogAccess:
    """The metadata log, as this controller writes it and follows it."""

    log: MetadataLog
    feed: TopicFeed
    loader: Loader
    committed_forwards: CommittedForwards
    """Fed by `feed`."""
    signer: LogSigner | None = None
    """None: the log is not signed."""


class RequestProcessor:
    """Serves Envelopes while this process holds the log; `activate` claims it."""

    def __init__(
        self,
        controller: Controller,
        access: LogAccess,
        broker: Broker,
        trail: DecisionTrail,
        metrics: ControllerMetrics,
        now_ms: Callable[[], int],
        mutation_quotas: MutationQuotas,
    ) -> None:
        self._signer = access.signer
        self._committed_forwards = access.committed_forwards
        self._thread = OneThread("decisions")
        self.mutations = Mutations(mutation_quotas, broker, trail.append, now_ms, self._thread)
        self._trail = trail
        self._now_ms = now_ms
        self._controller = controller
        self._log = access.log
        self._feed = access.feed
        self._loader = access.loader
        self._broker = broker
        self._record = trail.append
        self._metrics = metrics
        # One at a time: each decision is made on an image that has the commit before it.
        self._turn = asyncio.Lock()
        self._responses = ResponseCache()
        # Forwards in progress: a retry waits for the response to the first attempt.
        self._running: dict[ForwardKey, asyncio.Future[types.EnvelopeResponse]] = {}
        self._unknown_commit: UnknownCommit | None = None
        self.refusal: Callable[[MetadataImage, Sequence[Message]], Awaitable[str | None]] = _refuses_nothing
        """Why records must not change the image (`PolicyGuard.refusal`)."""
        self.active = False
        """Whether this process may write, and its image has everything that was committed."""
        self.activated = asyncio.Event()
        """Set while active."""
        self.lost = asyncio.Event()
        """Set when the claim of the log was lost, or may have been."""
        self.fenced = False
        """Whether it was lost because another producer claimed the log."""
        self._claim_settled = asyncio.Event()
        """Cleared when the log is lost, set when it is claimed again or given up."""
        self._claim_settled.set()

    async def activate(self) -> None:
        """Claim the log and read it to its end; LogUnavailable, ChannelError or FeedTimeout if that fails."""
        async with self._turn:
            await self._log.claim()
            end = await self._feed.stable_offset()
            await self._feed.wait_for(end - 1, REPLAY_TIMEOUT_MS)
            # Before the first request: the retry of that forward has to find its response.
            self._resolve_unknown_commit()
            self.lost.clear()
            self._set_active(True)
            self._claim_settled.set()
            log.info("controller is active", metadata_offset=self._loader.image.offset)
            if self._signer is not None and self._signer.has_to_begin:
                await self._begin_signed_log()

    async def _begin_signed_log(self) -> None:
        """Write what is in effect again, signed.

        If the claim is lost meanwhile, the rest remains without signatures of its own. The digest covers it.
        """
        image = self._loader.image
        records = await self._thread.run(lambda: list(state_records(image)))
        if await self._write_again(records):
            log.info("signed what the metadata log had", records=len(records), digest=image.digest.hex())

    async def repair_log(self) -> None:
        """Write again what records that no controller has signed have overwritten.

        Compaction would keep those, and a process that starts later would miss what was before. A new
        signature also makes copies of older records old.
        """
        verifier = self._loader.verifier
        if verifier is None or not verifier.rejects or not verifier.overwritten:
            return
        async with self._turn:
            if not self.active:
                return
            keys, verifier.overwritten = verifier.overwritten, set()
            image = self._loader.image
            records = await self._thread.run(
                lambda: [types.NoOpRecord(), *(r for r in state_records(image) if key_of(r).encode() in keys)]
            )
            if not await self._write_again(records):
                verifier.overwritten |= keys
                return
        log.warning("wrote again what unsigned records had overwritten", records=len(records))

    async def _write_again(self, records: Sequence[Message]) -> bool:
        """Commit records that change nothing; return whether all were committed."""
        for first in range(0, len(records), WRITTEN_AGAIN):
            some = records[first : first + WRITTEN_AGAIN]
            unknown_commit = UnknownCommit(tuple(some), partial(self._unrequested, some, log_written_again))
            entries = await self._thread.run(partial(self._entries, some, self._loader.image))
            committed = await self._append(entries, None, unknown_commit)
            if committed is None:
                return False
            unknown_commit.on_committed(committed)
        return True

    async def resign(self) -> None:
        """Respond NOT_CONTROLLER from now on; requests in progress are finished."""
        async with self._turn:
            self._set_active(False)
            self._claim_settled.set()
            await self._log.resign()

    async def serve(
        self, envelope: types.EnvelopeRequest, envelope_version: int, sender: Sender
    ) -> types.EnvelopeResponse:
        """Return the EnvelopeResponse once the audit records of the request are durable."""
        response = await self._processed(envelope, sender)
        # If the records are late the response is sent anyway: the change is made, and the audit log warns.
        await self._trail.wait_until_durable(CLASSES)
        return as_known(response, envelope_version)

    def envelope_error(self, sender: Sender) -> int:
        """Return the error that an Envelope of this sender would get now; nothing is recorded."""
        image = self._loader.image if self._loader.ready else None
        rejected, _ = self._controller.sender_rejected(sender, image)
        if rejected is not None:
            return rejected.error_code
        if image is None:
            return AUTHORIZER_NOT_READY
        return ErrorCode.NONE if self.active else ErrorCode.NOT_CONTROLLER

    async def _processed(self, envelope: types.EnvelopeRequest, sender: Sender) -> types.EnvelopeResponse:
        image = self._loader.image if self._loader.ready else None
        opened, events = await self._thread.run(partial(self._controller.open, envelope, sender, image))
        await self._trail.append_all(events)
        if isinstance(opened, RejectedEnvelope):
            return self._reject(opened, sender)
        if image is None:
            fault = RejectedEnvelope(AUTHORIZER_NOT_READY, "the metadata log is not loaded yet")
            return self._reject(fault, sender)
        if not self.active and not await self._wait_until_active():
            return self._reject(NOT_CONTROLLER, sender)
        return await self._deduplicated(opened, sender)

    async def _deduplicated(self, forwarded: ForwardedRequest, sender: Sender) -> types.EnvelopeResponse:
        """Carry out the same forward once, however often it arrives."""
        key = forward_key(sender, forwarded)
        if key is None:
            return await self._carry_out(forwarded, sender)
        running = self._running.get(key)
        if running is not None:
            # A retry whose connection ends must not cancel the first attempt.
            return await asyncio.shield(running)
        earlier = self._responses.get(key)
        if earlier is not None:
            return earlier
        return await self._first_attempt(key, forwarded, sender)

    async def _first_attempt(
        self, key: ForwardKey, forwarded: ForwardedRequest, sender: Sender
    ) -> types.EnvelopeResponse:
        self._running[key] = result = asyncio.get_running_loop().create_future()
        response = types.EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        try:
            response = await self._carry_out(forwarded, sender)
            until_ms = self._now_ms() + REGAIN_TIMEOUT_MS
            while response.error_code == ErrorCode.NOT_CONTROLLER and self._now_ms() < until_ms:
                if not await self._wait_until_active():
                    break
                # After a new claim the log is read to its end, so a commit of this request is known.
                response = self._responses.get(key) or await self._carry_out(forwarded, sender)
        finally:
            del self._running[key]
            result.set_result(response)
        # Envelope-level errors are not cached: a retry may succeed.
        if response.error_code == ErrorCode.NONE:
            self._responses.put(key, response)
        return response

    async def _carry_out(self, forwarded: ForwardedRequest, sender: Sender) -> types.EnvelopeResponse:
        try:
            keys, dry_run = await self._thread.run(
                lambda: (
                    self._controller.topics_to_look_up(forwarded),
                    self._controller.dry_run_request(forwarded),
                )
            )
            existing = await self._broker.existing(keys) if keys else {}
            tried = [] if dry_run is None else (await self._broker.dry_run(dry_run)).topics
        except ChannelError as error:
            return await self._respond(forwarded, sender, _broker_timeout(forwarded, error))
        # The look-ups above are outside the lock: a slow broker must not delay other requests.
        if not await self._trail.allows_change():
            # D3: a change that cannot be recorded is not made. The attempt is recorded once there is room.
            return await self._respond(
                forwarded, sender, partial(_rejected, forwarded, ErrorCode.UNKNOWN_SERVER_ERROR, UNRECORDABLE)
            )
        async with self._turn:
            if not self.active:
                return self._reject(NOT_CONTROLLER, sender)
            image = self._loader.image
            forwarded = replace(forwarded, known=self._controller.known(image, existing))
            verdict = await self._thread.run(partial(self._decide, forwarded, sender, image, existing, tried))
            await self._trail.append_all(verdict.events)
            decision = verdict.decision
            committed = self._committed_forwards.find(forwarded.forward_id)
            if committed is None:
                decision = await self._guarded(decision, forwarded, sender, image)
            # Requester and decision are durable before the change is.
            await self._trail.wait_until_durable(CLASSES)
            if isinstance(decision, ControllerOutcome):
                if committed is not None:
                    return await self._respond_to_duplicate(decision, committed, forwarded, sender)
                return await self._commit(decision, forwarded, sender)
        decide = partial(self._decide, forwarded, sender, existing=existing, tried=tried)
        return await self._send_to_broker(decision, forwarded, sender, image, decide)

    async def _guarded(
        self, decision: Decision, forwarded: ForwardedRequest, sender: Sender, image: MetadataImage
    ) -> Decision:
        """Return the decision, or a rejection if its ACLs break an assertion about the policy."""
        if isinstance(decision, ControllerOutcome):
            records: Sequence[Message] = decision.records
        else:
            records = () if decision.follow_up is None else decision.follow_up.acl_records(image)
        fault = await self.refusal(image, records)
        if fault is None:
            return decision
        self._record(assertion_broken(sender, forwarded, image.offset, fault))
        return ControllerOutcome((), _rejected(forwarded, ErrorCode.POLICY_VIOLATION, fault))

    def _decide(
        self,
        forwarded: ForwardedRequest,
        sender: Sender,
        image: MetadataImage,
        existing: Topics,
        tried: Sequence[DryRunResult],
    ) -> Verdict:
        names = {key: topic.name for key, topic in existing.items()}
        ids = {topic.name: topic.topic_id for topic in existing.values() if any(topic.topic_id)}
        # They have the sizes that the broker chooses.
        results = {topic.name: topic for topic in tried}
        return self._controller.decide(forwarded, sender, image, names, self._now_ms(), ids, results)

    async def _commit(
        self, outcome: ControllerOutcome, forwarded: ForwardedRequest, sender: Sender
    ) -> types.EnvelopeResponse:
        if not outcome.records:
            return await self._respond(forwarded, sender, lambda: outcome.response)
        entries = await self._thread.run(partial(self._entries, outcome.records, self._loader.image))
        largest = max(len(entry.key) + len(entry.value) for entry in entries)
        if largest > MAX_RECORD_BYTES:
            message = f"A metadata record of {largest} bytes, the limit is {MAX_RECORD_BYTES}."
            return await self._respond(
                forwarded, sender, partial(_rejected, forwarded, ErrorCode.POLICY_VIOLATION, message)
            )
        unknown_commit = UnknownCommit(
            outcome.records, partial(self._on_commit_found, forwarded, sender, outcome)
        )
        committed = await self._append(entries, forwarded.forward_id, unknown_commit)
        if committed is None:
            # The proxy retries with the same id, and by then the log was read.
            return self._reject(NOT_CONTROLLER, sender)
        await self._trail.append_all(quotas_changed(outcome.records, committed.last_offset))
        return await self._respond(forwarded, sender, lambda: outcome.response, committed)

    async def _respond_to_duplicate(
        self, decided: ControllerOutcome, committed: Transaction, forwarded: ForwardedRequest, sender: Sender
    ) -> types.EnvelopeResponse:
        """Respond to a forward that another controller committed without sending the response."""
        response = partial(
            self._controller.duplicate_response,
            forwarded,
            decided.response,
            committed.records,
            committed.removed,
            self._now_ms(),
        )
        return await self._respond(forwarded, sender, response, CommittedOffsets(*committed.offsets))

    def _entries(self, records: Sequence[Message], image: MetadataImage) -> list[WrittenRecord]:
        """Return the records as entries of the log, signed if it is signed. `image`: before them."""
        entries = log_entries(records)
        if self._signer is None:
            return entries
        pairs = [(entry.key, entry.value) for entry in entries]
        signatures = self._signer.sign(records, pairs, image)
        return [replace(entry, signature=each) for entry, each in zip(entries, signatures, strict=True)]

    async def _append(
        self, entries: Sequence[WrittenRecord], forward_id: str | None, unknown_commit: UnknownCommit
    ) -> CommittedOffsets | None:
        """Commit, and wait for the replay; None if the claim was lost or the outcome is unknown."""
        with self._metrics.commit_seconds.time():
            try:
                committed = await self._log.append(entries, forward_id)
            except Fenced as error:
                self._lose_claim(str(error), fenced=True)
                return None
            except CommitUnknown as error:
                self._metrics.commits_unknown.inc()
                self._unknown_commit = unknown_commit
                self._lose_claim(f"commit outcome unknown: {error}", fenced=False)
                return None
            try:
                await self._feed.wait_for(committed.last_offset, REPLAY_TIMEOUT_MS)
            except FeedTimeout as error:
                # The change is committed and may be acknowledged, but no other may be decided on an image
                # that lacks it.
                self._lose_claim(str(error), fenced=False)
        return committed

    async def _send_to_broker(
        self,
        decision: SendToBroker[Response],
        forwarded: ForwardedRequest,
        sender: Sender,
        image: MetadataImage,
        decide: Callable[[MetadataImage], Verdict],
    ) -> types.EnvelopeResponse:
        """`decide`: decides the same request on another image than `image`."""
        header = forwarded.header
        timeout_ms = max(getattr(decision.request, "timeout_ms", DEFAULT_BROKER_TIMEOUT_MS), LEAST_TIMEOUT_MS)
        try:
            low, high = (await self._broker.api_versions()).get(header.api_key, (0, -1))
            if not low <= header.api_version <= high:
                name = ApiKey.name_of(header.api_key)
                fault = f"{name} v{header.api_version}: the broker supports v{low}-v{high}"
                return self._reject(RejectedEnvelope(ErrorCode.UNSUPPORTED_VERSION, fault), sender)
            send = partial(self._broker.request, header.api_key, header.api_version, timeout_ms=timeout_ms)
            response = await self.mutations.carry_out(forwarded, sender, decision.request, image, send)
            if decision.follow_up is None:
                return await self._respond(forwarded, sender, partial(decision.merge, response))
            response = await self._thread.run(partial(decision.merge, response))
            unknown_ids = await self._thread.run(partial(decision.follow_up.unknown_ids, response))
            topic_ids = await self._broker.created_ids(unknown_ids)
        except ChannelError as error:
            return await self._respond(forwarded, sender, _broker_timeout(forwarded, error))
        async with self._turn:
            if not self.active:
                # The broker has made its change. That the topic has no owner is the safe side.
                return self._reject(NOT_CONTROLLER, sender)
            newest = self._loader.image
            records = await self._thread.run(partial(decision.follow_up.records, response, newest, topic_ids))
            if not newest.has_rights_of(image):
                # Others have been served meanwhile: a right may have been taken away that this needs.
                again = await self._thread.run(partial(decide, newest))
                rejected = await self._guarded(again.decision, forwarded, sender, newest)
                if _grants(rejected) != _grants(decision):
                    await self._trail.append_all(again.events)
                    why = partial(_rejected, forwarded, ErrorCode.UNKNOWN_SERVER_ERROR, RIGHTS_CHANGED)
                    return await self._respond(forwarded, sender, why)
            return await self._commit(ControllerOutcome(records, response), forwarded, sender)

    def _resolve_unknown_commit(self) -> None:
        """Look for the commit with the unknown outcome, now that the log was read to its end."""
        unknown_commit, self._unknown_commit = self._unknown_commit, None
        if unknown_commit is None:
            return
        image = self._loader.image
        found = already_applied(unknown_commit.records, image)
        log.info("commit outcome read from the log", committed=found, metadata_offset=image.offset)
        if found:
            unknown_commit.on_committed(CommittedOffsets(None, image.offset))

    def _on_commit_found(
        self,
        forwarded: ForwardedRequest,
        sender: Sender,
        outcome: ControllerOutcome,
        committed: CommittedOffsets,
    ) -> None:
        """Record a commit that the log was found to have, and cache its response for the retry."""
        for event in quotas_changed(outcome.records, committed.last_offset):
            self._record(event)
        recorded = RecordedResponse.of(
            forwarded, sender, outcome.response, committed, self._loader.image.offset
        )
        self._responses.put(forward_key(sender, forwarded), self._responded(recorded))

    async def remove_expired_tokens(self) -> bool:
        """Remove some expired tokens from the log; return whether there may be more."""
        return await self._commit_unrequested(
            lambda image: expired_tokens(image, self._now_ms()), tokens_expired
        )

    async def remove_ended_acls(self) -> bool:
        """Remove some ACLs from the log that have ended; return whether there may be more."""
        ended: list[Acl] = []

        def removals(image: MetadataImage) -> tuple[Message, ...]:
            ended[:] = ended_acls(image, self._now_ms())
            return tuple(map(removal_record, ended))

        return await self._commit_unrequested(removals, lambda _records, at: acls_ended(ended, at))

    async def remove_deleted_topics(self, deleted: DeletedTopics) -> None:
        """Remove topics from the log that a broker no longer has."""
        names = sorted(self._loader.image.topics.by_name) if self.active else []
        try:
            found = await self._broker.found_ids(names)
        except ChannelError as error:
            log.warning("broker did not respond", method="Metadata", error=str(error))
            return
        await self._commit_unrequested(lambda image: deleted.records(image, found), topics_deleted)

    async def _commit_unrequested(
        self, records_at: Callable[[MetadataImage], tuple[Message, ...]], event: MaintenanceEvent
    ) -> bool:
        """Commit records that no client requested; return whether there were any."""
        async with self._turn:
            image = self._loader.image
            records = await self._thread.run(partial(records_at, image)) if self.active else ()
            if not records or not await self._trail.allows_change():
                return False
            unknown_commit = UnknownCommit(records, partial(self._unrequested, records, event))
            committed = await self._append(
                await self._thread.run(partial(self._entries, records, image)), None, unknown_commit
            )
            if committed is not None:
                unknown_commit.on_committed(committed)
            return committed is not None

    def _unrequested(
        self, records: Sequence[Message], event: MaintenanceEvent, committed: CommittedOffsets
    ) -> None:
        first, last = committed.first_offset, committed.last_offset
        at = LogPlace(first_offset=first, last_offset=last, metadata_offset=self._loader.image.offset)
        self._record(event(records, at))

    async def _respond(
        self,
        forwarded: ForwardedRequest,
        sender: Sender,
        response: Callable[[], Message],
        committed: CommittedOffsets | None = None,
    ) -> types.EnvelopeResponse:
        """Make the response, record it and return it in an Envelope."""
        image = self._loader.image
        recorded = await self._thread.run(
            lambda: RecordedResponse.of(forwarded, sender, response(), committed, image.offset)
        )
        return self._responded(recorded)

    def _responded(self, recorded: RecordedResponse) -> types.EnvelopeResponse:
        self._record(recorded.event)
        self._metrics.requests.labels(recorded.method, _error_name(recorded.error_code)).inc()
        return recorded.response

    def _reject(self, fault: RejectedEnvelope, sender: Sender) -> types.EnvelopeResponse:
        error = _error_name(fault.error_code)
        self._metrics.envelopes_refused.labels(error).inc()
        if fault.error_code not in UNRECORDED_ERRORS:
            log.warning(
                "envelope rejected", principal=str(sender.principal), error=error, message=fault.message
            )
            self._record(envelope_rejected(sender, fault.error_code, fault.message))
        return types.EnvelopeResponse(error_code=fault.error_code)

    async def _wait_until_active(self) -> bool:
        """Wait until the log is claimed again or given up; return whether this controller is active."""
        await set_within(self._claim_settled, REGAIN_TIMEOUT_MS)
        return self.active

    def _lose_claim(self, reason: str, *, fenced: bool) -> None:
        log_at_level = log.info if fenced else log.warning
        log_at_level("controller is no longer active", reason=reason, fenced=fenced)
        self._set_active(False)
        self.fenced = fenced
        self._claim_settled.clear()
        self.lost.set()

    def _set_active(self, active: bool) -> None:
        self.active = active
        (self.activated.set if active else self.activated.clear)()
        self._metrics.active.set(active)


async def _refuses_nothing(_image: MetadataImage, _records: Sequence[Message]) -> None:
    """Without assertions."""


def _grants(decision: Decision) -> Mapping[str, OwnerAndAcls]:
    """Return the owners and ACLs that a request is to set once a broker has carried it out, by topic."""
    if not isinstance(decision, SendToBroker) or decision.follow_up is None:
        return {}
    return {name: change for name, change in decision.follow_up.changes.items() if change.is_any}


def _broker_timeout(forwarded: ForwardedRequest, error: ChannelError) -> Callable[[], Message]:
    method = ApiKey.name_of(forwarded.header.api_key)
    log.warning("broker did not respond", method=method, error=str(error))
    # The outcome is unknown: Kafka's clients have this error code for it.
    return partial(_rejected, forwarded, ErrorCode.REQUEST_TIMED_OUT)


def _error_name(error_code: int) -> str:
    if error_code == AUTHORIZER_NOT_READY:
        return "AUTHORIZER_NOT_READY"
    return ErrorCode(error_code).name


def _rejected(forwarded: ForwardedRequest, error_code: ErrorCode, message: str | None = None) -> Message:
    header = forwarded.header
    response: Message = rejection(header.api_key, header.api_version, forwarded.message, error_code, message)
    return response
