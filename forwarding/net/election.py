"""The election of the active controller, a member of a consumer group at the broker, and its term.

Kafka detects a dead member, and the others elect again. The election only decides which controller should
claim the log; Leader claims it when this controller is elected, and releases it when it was replaced. The
claim itself ensures that no other writes (forwarding.net.log). So an active controller does not stop for what
other clients do to the group: its term ends only when the broker is silent, or when the controller that the
group elected has claimed the log. Disturbances counts what other clients do to the election and to the
transactional id. A client with rights on them can repeat these things quickly, so one in LOG_INTERVAL_MS is
logged. `run` of both belongs in the process's TaskGroup.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum

import structlog
from prometheus_client import Counter

from forwarding.net.broker import Broker
from forwarding.net.group import STABLE, GroupCoordinator, GroupError, GroupMember, Joined
from forwarding.net.log import LogUnavailable
from forwarding.net.request_processor import RequestProcessor
from proxy.net.kafka.channel import ChannelError, ChannelTimeout, EndpointSettings
from proxy.net.metadata.feed import FeedTimeout
from proxy.net.runtime.clock import set_within
from proxy.net.runtime.reachability import Backoff, Reachability
from proxy.wire.error_codes import ErrorCode

LOG_INTERVAL_MS = 30_000

log = structlog.get_logger(__name__)


class Disturbed(StrEnum):
    """The kind of disturbance, which is the label of the metric."""

    FENCED = "fenced"
    EVICTED = "evicted"
    UNSEATED = "unseated"
    ALIEN = "alien member"
    NO_ELECTION = "no election"


MEANINGS = {
    Disturbed.FENCED: "another producer with the transactional id of the controllers fenced this one, "
    "which is the elected one",
    Disturbed.EVICTED: "this controller was removed from its election group although it sent heartbeats",
    Disturbed.UNSEATED: "the election group chose another member although this controller is active",
    Disturbed.ALIEN: "a client that is not a controller is in the election group",
    Disturbed.NO_ELECTION: "the election group cannot be used: this controller is active without an election",
}
ACTION = (
    "only controllers may have WRITE on this transactional id and READ on this group: look for ACLs that "
    "give them to others, prefixes and * included, and for clients with these names"
)


class Disturbances:
    """Counts every disturbance, and logs one of each kind in LOG_INTERVAL_MS."""

    def __init__(
        self, counter: Counter, transactional_id: str, group_id: str, now_ms: Callable[[], int]
    ) -> None:
        self._counter = counter
        self._transactional_id = transactional_id
        self._group_id = group_id
        self._now_ms = now_ms
        self._logged_ms: dict[Disturbed, int] = {}

    def is_due(self, kind: Disturbed) -> bool:
        """Whether the next one of this kind is logged."""
        return self._now_ms() - self._logged_ms.get(kind, -LOG_INTERVAL_MS) >= LOG_INTERVAL_MS

    def report(self, kind: Disturbed, members: Sequence[str] = ()) -> None:
        """Report one disturbance. `members`: the members of the election group, with this controller."""
        self._counter.labels(kind.value).inc()
        if not self.is_due(kind):
            return
        self._logged_ms[kind] = self._now_ms()
        log.error(
            "controller disturbed",
            kind=kind.value,
            meaning=MEANINGS[kind],
            action=ACTION,
            transactional_id=self._transactional_id,
            group=self._group_id,
            members=list(members),
        )


SESSION_TIMEOUT_MS = 6_000
"""A controller that is silent for so long is replaced. Kafka's default minimum
(group.min.session.timeout.ms)."""
HEARTBEAT_INTERVAL_MS = 1_500
JOIN_TIMEOUT_MS = SESSION_TIMEOUT_MS + 2_500
"""After it, a member is removed that does not join the next generation."""
STANDBY_JOIN_TIMEOUT_MS = 2 * JOIN_TIMEOUT_MS
"""Longer, because the active controller learns of the next generation at its next heartbeat, later if it is
busy. It has to remove the others first: if a controller that stands by removed it, that one would be
elected."""
CONFIRM_TIMEOUT_MS = 1_000
MEMBER_PAUSE_MS = 1_000
"""The longest pause after which a controller is still a member of the group."""
NOT_JOINED = Backoff(50, MEMBER_PAUSE_MS)
MAX_MEMBERS_REPORTED = 20

HOLDER, NOT_HOLDER = b"holder", b""
_CLAIM = re.compile(rb"penstock:(\d{1,15})")
_OUT = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


def elected(members: Mapping[str, int]) -> str:
    """Return the member that is to be active.

    `members`: member id -> since when it has been active (ms), 0: not.

    The last winner stays active: a new member does not replace a working one, and a member that was frozen or
    cut off, and believes that it is still active, does not replace its successor.
    """
    return min(members, key=lambda member: (-members[member], member))


def active_since_ms(metadata: bytes) -> int | None:
    """Return since when a member has been active, by its metadata; None if it is no controller."""
    match = _CLAIM.fullmatch(metadata)
    return None if match is None else int(match[1])


class Election:
    """This process's membership in the group."""

    def __init__(
        self,
        endpoint: EndpointSettings,
        group_id: str,
        now_ms: Callable[[], int],
        disturbances: Disturbances,
    ) -> None:
        self._endpoint = endpoint
        self._group_id = group_id
        self._now_ms = now_ms
        self._disturbances = disturbances
        self._member_id = ""
        self._generation = -1
        self._active_since_ms = 0
        self._last_response_s = 0.0
        self._blocked_since_s: float | None = None
        self._unseated = False
        self._has_joined = False
        self._rejections = 0
        self.reachability = Reachability("controller election goes on", "controller election interrupted", 50)
        self._heartbeat_now = asyncio.Event()
        self._confirmed = asyncio.Event()
        self.won = asyncio.Event()
        """Set while this controller should be the active one."""
        self.lost = asyncio.Event()
        """Set while it should not."""
        self._set_won(won=False)

    async def run(self) -> None:
        """Be a member of the group until cancelled."""
        self._note_response()
        while True:
            try:
                async with await GroupCoordinator.open(self._endpoint, self._group_id) as group:
                    await self._participate(group)
            except (ChannelError, GroupError) as error:
                # Kafka creates its topic for groups at the first request, and returns errors until then.
                level = "warning" if self._has_joined else "info"
                self.reachability.failed(error, level=level, group=self._group_id)
                if self._may_be_replaced():
                    self._set_won(won=False)
                await self.reachability.pause(None if self._may_be_replaced() else MEMBER_PAUSE_MS)

    async def confirmed(self) -> bool:
        """Whether this controller should stay active, by a new heartbeat; called when its claim was lost."""
        self._confirmed.clear()
        self._heartbeat_now.set()
        await set_within(self._confirmed, CONFIRM_TIMEOUT_MS)
        if self._unseated or self._may_be_replaced():
            # The group has elected another controller, or may have, and the log was claimed.
            self._set_won(won=False)
        return self.won.is_set()

    async def report_fenced(self) -> None:
        """Report that a producer which the group did not elect has claimed the log."""
        if not self._disturbances.is_due(Disturbed.FENCED):
            self._disturbances.report(Disturbed.FENCED)
            return
        try:
            async with await GroupCoordinator.open(self._endpoint, self._group_id) as group:
                members = (await group.describe()).members
        except (ChannelError, GroupError):
            members = ()
        self._disturbances.report(Disturbed.FENCED, _reported(members))

    async def _participate(self, group: GroupCoordinator) -> None:
        try:
            while True:
                if await self._join(group):
                    self._has_joined, self._rejections = True, 0
                    self.reachability.reached(group=self._group_id)
                    await self._heartbeats(group)
                else:
                    self._rejections += 1
                    await asyncio.sleep(NOT_JOINED.pause_ms(self._rejections, 0.5) / 1000)
        except asyncio.CancelledError:
            # Leaving lets the others elect at once, without waiting for the session timeout.
            self._set_won(won=False)
            with suppress(ChannelError, TimeoutError):
                async with asyncio.timeout(1):
                    await group.leave([self._member_id])
            raise

    async def _join(self, group: GroupCoordinator) -> bool:
        """Join the group; return whether this is a member of a group that works."""
        claim, was_replaceable = b"penstock:%d" % self._active_since_ms, self._may_be_replaced()
        try:
            timeout_ms = JOIN_TIMEOUT_MS if self.won.is_set() else STANDBY_JOIN_TIMEOUT_MS
            joined = await group.join(
                self._member_id, claim, SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS, timeout_ms
            )
        except ChannelTimeout:
            await self._evict_others()
            raise
        except GroupError as error:
            if not was_replaceable:
                # However late the response: without this member the group has not elected.
                self._note_response()
            return await self._not_joined(group, error)
        self._member_id, self._generation = joined.member_id, joined.generation
        try:
            assignment = await group.sync(joined, _assignments(joined))
        except GroupError as error:
            return await self._not_joined(group, error)
        self._note_response()
        return await self._decided(group, joined, assignment)

    async def _not_joined(self, group: GroupCoordinator, error: GroupError) -> bool:
        match error.error_code:
            case code if code in _OUT:
                await self._on_removed(group)
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._note_response()
            case ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
                self._note_response()
                # The members use another protocol, so none of them is a controller: it could not have joined.
                await self._blocked(group, [])
            case _:
                raise error
        return False

    async def _decided(self, group: GroupCoordinator, joined: Joined, assignment: bytes) -> bool:
        self._unseated = False
        if assignment == HOLDER or joined.leads:
            self._blocked_since_s = None
            if joined.leads and None in map(active_since_ms, joined.members.values()):
                self._disturbances.report(Disturbed.ALIEN, _reported((await group.describe()).members))
            self._set_won(won=assignment == HOLDER)
            return True
        described = await group.describe()
        if described.state != STABLE:
            return False
        controllers = [each for each in described.members if active_since_ms(each.metadata) is not None]
        if not any(each.assignment == HOLDER for each in controllers):
            await self._blocked(group, controllers)
            return False
        self._blocked_since_s = None
        if self.won.is_set():
            # This controller never gives up the role by itself, so another client made this assignment. It
            # stays active until the log is claimed.
            self._unseated = True
            self._disturbances.report(Disturbed.UNSEATED, _reported(described.members))
        else:
            self._set_won(won=False)
        return True

    async def _heartbeats(self, group: GroupCoordinator) -> None:
        """Send heartbeats until the group has to be joined again."""
        while True:
            await set_within(self._heartbeat_now, HEARTBEAT_INTERVAL_MS)
            self._heartbeat_now.clear()
            try:
                await group.heartbeat(self._generation, self._member_id)
                self._note_response()
            except GroupError as error:
                if error.error_code in _OUT:
                    await self._on_removed(group)
                elif error.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                    self._note_response()
                else:
                    raise
                return
            finally:
                # Also after an error: `confirmed` then decides by the state that the error has left.
                self._confirmed.set()

    async def _on_removed(self, group: GroupCoordinator) -> None:
        """Handle that the coordinator no longer knows this member, which has to join with a new id."""
        self._member_id = ""
        may_be_replaced = self._may_be_replaced()
        self._note_response()
        if may_be_replaced:
            # Its session timed out, and others may have elected another controller meanwhile.
            self._set_won(won=False)
        elif self.won.is_set():
            self._disturbances.report(Disturbed.EVICTED, _reported((await group.describe()).members))

    async def _blocked(self, group: GroupCoordinator, controllers: Sequence[GroupMember]) -> None:
        """Remove members that prevent an election; without success, become active after a while."""
        described = await group.describe()
        known = {each.member_id for each in controllers}
        aliens = [each for each in described.members if each.member_id not in known]
        if aliens:
            self._disturbances.report(Disturbed.ALIEN, _reported(aliens))
            await group.evict(aliens, use_our_protocol=described.uses_our_protocol)
        now_s = asyncio.get_running_loop().time()
        self._blocked_since_s = self._blocked_since_s or now_s
        if now_s - self._blocked_since_s > SESSION_TIMEOUT_MS / 1000 and not self.won.is_set():
            # Safe with several controllers too: the log has one writer, the last that claimed it.
            self._disturbances.report(Disturbed.NO_ELECTION, _reported(aliens))
            self._set_won(won=True)

    async def _evict_others(self) -> None:
        """Remove all other members: one of them does not rejoin, which delays the rebalance for all."""
        async with await GroupCoordinator.open(self._endpoint, self._group_id) as group:
            own = [each for each in (await group.describe()).members if each.member_id == self._member_id]
            if own:
                # This is still a member, so no new generation has formed without it.
                self._note_response()
            await self._blocked(group, own)

    def _note_response(self) -> None:
        self._last_response_s = asyncio.get_running_loop().time()

    def _may_be_replaced(self) -> bool:
        """Whether the broker was silent for so long that the others may have elected another controller."""
        return asyncio.get_running_loop().time() - self._last_response_s > SESSION_TIMEOUT_MS / 1000

    def _set_won(self, *, won: bool) -> None:
        if won != self.won.is_set() or not self._has_joined:
            log.info("controller elected" if won else "controller stands by", group=self._group_id)
        if not won:
            self._active_since_ms = 0
            self._unseated = False
        elif not self._active_since_ms:
            self._active_since_ms = self._now_ms()
        (self.won.set if won else self.won.clear)()
        (self.lost.clear if won else self.lost.set)()


def _assignments(joined: Joined) -> dict[str, bytes]:
    """Return the leader's assignments. A client that is no controller never becomes the active one."""
    claims = {member: active_since_ms(metadata) for member, metadata in joined.members.items()}
    controllers = {member: claim for member, claim in claims.items() if claim is not None}
    if not joined.leads or not controllers:
        return {}
    holder = elected(controllers)
    return {member: HOLDER if member == holder else NOT_HOLDER for member in joined.members}


def _reported(members: Sequence[GroupMember]) -> list[str]:
    return [str(member) for member in members[:MAX_MEMBERS_REPORTED]]


class Leader:
    """Activates the request processor while this process is elected."""

    def __init__(self, processor: RequestProcessor, election: Election, broker: Broker, topic: str) -> None:
        self._processor = processor
        self._election = election
        self._broker = broker
        self._topic = topic
        self.reachability = Reachability("metadata log available", "metadata log not available yet", 50)

    async def run(self) -> None:
        """Create the topic, take part in the election, lead whenever elected; until cancelled."""
        await self._until_done(lambda: self._broker.ensure_topic(self._topic), lambda: True)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._election.run())
            while True:
                await self._election.won.wait()
                while await self._until_done(self._processor.activate, self._election.won.is_set):
                    if not await self._lead():
                        break
                    if self._processor.fenced:
                        tasks.create_task(self._election.report_fenced())

    async def _lead(self) -> bool:
        """Wait for the end of the election or of the claim; return whether to claim the log again at once."""
        async with asyncio.TaskGroup() as tasks:
            ends = [
                tasks.create_task(self._election.lost.wait()),
                tasks.create_task(self._processor.lost.wait()),
            ]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
        # After being fenced or cut off, another controller may have been elected: to claim the log without
        # asking the group would fence it.
        if self._processor.lost.is_set() and await self._election.confirmed():
            return True
        await self._processor.resign()
        return False

    async def _until_done(self, attempt: Callable[[], Awaitable[None]], wanted: Callable[[], bool]) -> bool:
        while wanted():
            try:
                await attempt()
            except (LogUnavailable, ChannelError, FeedTimeout) as error:
                self.reachability.failed(error, topic=self._topic)
                await self.reachability.pause()
            else:
                self.reachability.reached(topic=self._topic)
                return True
        return False
