"""Which controller is the active one: the member of a group at the broker that the group has chosen.

Kafka notices a member that died, and the others choose again. An election only says who should claim the
log; that nobody else writes is assured by the claim itself (forwarding.net.log). So an active controller
does not stop for what others do to the group: only silence of the broker, or a claim of the controller
that the group chose, ends its term. `run` belongs in the process's TaskGroup.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import structlog

from forwarding.net.disturbances import Disturbances, Kind
from forwarding.net.group import STABLE, Coordinator, GroupError, Joined, Member
from proxy.net.kafka.channel import ChannelError, ChannelTimeout, EndpointSettings
from proxy.net.runtime.reachability import Backoff, Reachability
from proxy.wire.error_codes import ErrorCode

SESSION_TIMEOUT_MS = 6_000
"""A controller that is silent for so long is replaced; less than this Kafka does not take by default."""
HEARTBEAT_INTERVAL_MS = 1_500
CONFIRM_TIMEOUT_MS = 1_000
MEMBER_PAUSE_MS = 1_000
"""The longest pause of a controller whose place in the group can still be kept."""
NOT_JOINED = Backoff(50, MEMBER_PAUSE_MS)
MAX_MEMBERS_TOLD = 20

HOLDER, NOT_HOLDER = b"holder", b""
_CLAIM = re.compile(rb"penstock:(\d{1,15})")
_OUT = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)

log = structlog.get_logger(__name__)


def chosen(members: Mapping[str, int]) -> str:
    """Who is to hold the log; `members`: member id -> since when it has held it (ms), 0 for not at all.

    The one who won last keeps it: a member that joins does not take over from one that does its work, and
    one that was away for a while (frozen, cut off) and thinks that it still holds it does not get it back.
    """
    return min(members, key=lambda member: (-members[member], member))


def held_since_ms(metadata: bytes) -> int | None:
    """What a controller said when it joined; None from a client that is not a controller."""
    match = _CLAIM.fullmatch(metadata)
    return None if match is None else int(match[1])


class Election:
    """This process's standing in the group."""

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
        self._held_since_ms = 0
        self._heard_s = 0.0
        self._blocked_since_s: float | None = None
        self._unseated = False
        self._has_joined = False
        self._refusals = 0
        self.reachability = Reachability("controller election goes on", "controller election interrupted", 50)
        self._asked = asyncio.Event()
        self._confirmed = asyncio.Event()
        self.won = asyncio.Event()
        """Set while this controller should be the active one."""
        self.lost = asyncio.Event()
        """Set while it should not."""
        self._hold(won=False)

    async def run(self) -> None:
        """Be a member of the group until cancelled."""
        self._hear()
        while True:
            try:
                async with await Coordinator.open(self._endpoint, self._group_id) as group:
                    await self._take_part(group)
            except (ChannelError, GroupError) as error:
                # Kafka makes its topic for groups when the first one is asked for, and says so by errors.
                level = "warning" if self._has_joined else "info"
                self.reachability.failed(error, level=level, group=self._group_id)
                if self._is_away():
                    self._hold(won=False)
                await self._pause()

    async def confirmed(self) -> bool:
        """Whether this controller should go on, as the group says now; asked when its claim was lost."""
        self._confirmed.clear()
        self._asked.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(CONFIRM_TIMEOUT_MS / 1000):
                await self._confirmed.wait()
        if self._unseated or self._is_away():
            # The group has chosen another controller, or may have, and somebody has claimed the log.
            self._hold(won=False)
        return self.won.is_set()

    async def tell_fenced(self) -> None:
        """Somebody has claimed the log whom the group did not choose."""
        if not self._disturbances.is_due(Kind.FENCED):
            self._disturbances.tell(Kind.FENCED)
            return
        try:
            async with await Coordinator.open(self._endpoint, self._group_id) as group:
                members = (await group.describe()).members
        except (ChannelError, GroupError):
            members = ()
        self._disturbances.tell(Kind.FENCED, _told(members))

    async def _take_part(self, group: Coordinator) -> None:
        try:
            while True:
                if await self._join(group):
                    self._has_joined, self._refusals = True, 0
                    self.reachability.reached(group=self._group_id)
                    await self._beat(group)
                else:
                    self._refusals += 1
                    await asyncio.sleep(NOT_JOINED.pause_ms(self._refusals, 0.5) / 1000)
        except asyncio.CancelledError:
            self._hold(won=False)
            with suppress(ChannelError, TimeoutError):
                async with asyncio.timeout(1):
                    await group.leave([self._member_id])
            raise

    async def _join(self, group: Coordinator) -> bool:
        """Whether this is a member of a group that works."""
        claim, was_away = b"penstock:%d" % self._held_since_ms, self._is_away()
        try:
            joined = await group.join(self._member_id, claim, SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS)
        except ChannelTimeout:
            await self._hurry()
            raise
        except GroupError as error:
            if not was_away:
                # However long the answer took, the group has not chosen without us meanwhile.
                self._hear()
            return await self._not_joined(group, error)
        self._member_id, self._generation = joined.member_id, joined.generation
        try:
            assignment = await group.sync(joined, _assignments(joined))
        except GroupError as error:
            return await self._not_joined(group, error)
        self._hear()
        return await self._decided(group, joined, assignment)

    async def _not_joined(self, group: Coordinator, error: GroupError) -> bool:
        match error.error_code:
            case code if code in _OUT:
                await self._removed(group)
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._hear()
            case ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
                self._hear()
                # Where others have another protocol no controller is a member: it could not have joined.
                await self._blocked(group, [])
            case _:
                raise error
        return False

    async def _decided(self, group: Coordinator, joined: Joined, assignment: bytes) -> bool:
        self._unseated = False
        if assignment == HOLDER or joined.leads:
            self._blocked_since_s = None
            if joined.leads and None in map(held_since_ms, joined.members.values()):
                self._disturbances.tell(Kind.ALIEN, _told((await group.describe()).members))
            self._hold(won=assignment == HOLDER)
            return True
        described = await group.describe()
        if described.state != STABLE:
            return False
        controllers = [each for each in described.members if held_since_ms(each.metadata) is not None]
        if not any(each.assignment == HOLDER for each in controllers):
            await self._blocked(group, controllers)
            return False
        self._blocked_since_s = None
        if self.won.is_set():
            # It keeps what it holds, so somebody else made this choice. Active until the log is claimed.
            self._unseated = True
            self._disturbances.tell(Kind.UNSEATED, _told(described.members))
        else:
            self._hold(won=False)
        return True

    async def _beat(self, group: Coordinator) -> None:
        """Until the group is to be joined again."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_INTERVAL_MS / 1000):
                    await self._asked.wait()
            self._asked.clear()
            try:
                await group.heartbeat(self._generation, self._member_id)
                self._hear()
            except GroupError as error:
                if error.error_code in _OUT:
                    await self._removed(group)
                elif error.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                    self._hear()
                else:
                    raise
                return
            finally:
                self._confirmed.set()

    async def _removed(self, group: Coordinator) -> None:
        self._member_id = ""
        is_away = self._is_away()
        self._hear()
        if is_away:
            self._hold(won=False)
        elif self.won.is_set():
            self._disturbances.tell(Kind.EVICTED, _told((await group.describe()).members))

    async def _blocked(self, group: Coordinator, controllers: Sequence[Member]) -> None:
        """Others keep the group from choosing a controller: they have to go."""
        described = await group.describe()
        known = {each.member_id for each in controllers}
        aliens = [each for each in described.members if each.member_id not in known]
        if aliens:
            self._disturbances.tell(Kind.ALIEN, _told(aliens))
            await group.evict(aliens, are_ours=described.is_ours)
        now_s = asyncio.get_running_loop().time()
        self._blocked_since_s = self._blocked_since_s or now_s
        if now_s - self._blocked_since_s > SESSION_TIMEOUT_MS / 1000 and not self.won.is_set():
            # Safe with several controllers too: the log has one writer, whoever claimed it last.
            self._disturbances.tell(Kind.NO_ELECTION, _told(aliens))
            self._hold(won=True)

    async def _hurry(self) -> None:
        """A member that does not join again holds up all others: everybody is to join anew."""
        async with await Coordinator.open(self._endpoint, self._group_id) as group:
            mine = [each for each in (await group.describe()).members if each.member_id == self._member_id]
            if mine:
                # No generation has come about without us.
                self._hear()
            await self._blocked(group, mine)

    def _hear(self) -> None:
        self._heard_s = asyncio.get_running_loop().time()

    def _is_away(self) -> bool:
        """So long that others may have chosen again without us."""
        return asyncio.get_running_loop().time() - self._heard_s > SESSION_TIMEOUT_MS / 1000

    async def _pause(self) -> None:
        await self.reachability.pause(None if self._is_away() else MEMBER_PAUSE_MS)

    def _hold(self, *, won: bool) -> None:
        if won != self.won.is_set() or not self._has_joined:
            log.info("controller elected" if won else "controller stands by", group=self._group_id)
        if not won:
            self._held_since_ms = 0
            self._unseated = False
        elif not self._held_since_ms:
            self._held_since_ms = self._now_ms()
        (self.won.set if won else self.won.clear)()
        (self.lost.clear if won else self.lost.set)()


def _assignments(joined: Joined) -> dict[str, bytes]:
    """Of the member that leads: who is to hold the log. A client that is not a controller never is."""
    claims = {member: held_since_ms(metadata) for member, metadata in joined.members.items()}
    controllers = {member: claim for member, claim in claims.items() if claim is not None}
    if not joined.leads or not controllers:
        return {}
    holder = chosen(controllers)
    return {member: HOLDER if member == holder else NOT_HOLDER for member in joined.members}


def _told(members: Sequence[Member]) -> list[str]:
    return [str(member) for member in members[:MAX_MEMBERS_TOLD]]
