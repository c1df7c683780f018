"""Whether there is room for another audit record, by its class, and what becomes of it where there is none.

Asked by proxy.net.audit.audit_log before an event gets its number, so that what has one is never taken back
(docs/decisions/0019). Queue and spool are shared by class (proxy.audit.shares), so that a flood of one class
does not push out another (docs/decisions/0043).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from proxy.audit.classes import ADMIN, CLASSES, PROCESS
from proxy.audit.shares import Shares
from proxy.net.audit.spool import Spool
from proxy.net.audit.writer import AuditWriter, Fsync

REFUSE, DROP_AND_COUNT = "refuse", "drop-and-count"
QUEUE_MAX_BYTES = 8 * 1024 * 1024
RESERVE_BYTES = 64 * 1024
"""With less room than this, or a sixteenth of the queue, requests are refused: before a record is dropped."""
RATE_PER_PRINCIPAL = 100
"""Records a second of what one principal can cause without changing anything."""

QUEUE, SPOOL_FULL, DISK = "queue_full", "spool_full", "disk"
REASONS = (QUEUE, SPOOL_FULL, DISK)


@dataclass(frozen=True, slots=True)
class AuditPolicy:
    """The settings under `audit` that are about keeping records."""

    by_class: Mapping[str, str] = field(default_factory=dict)
    """Class -> REFUSE or DROP_AND_COUNT; a class that is not named drops."""
    fsync: Fsync = Fsync.INTERVAL
    fsync_interval_ms: int = 100
    synced: frozenset[str] = frozenset()
    """Classes whose requests are answered once their records are on the disk (audit.fsync.<class>)."""
    queue_max_bytes: int = QUEUE_MAX_BYTES
    chain_key: bytes | None = field(default=None, repr=False)
    rate_per_principal: int = RATE_PER_PRINCIPAL
    """See proxy.audit.noise; 0: no limit."""


DROP_ALL_BUT_ADMIN = AuditPolicy({ADMIN: REFUSE})


class Room:
    """Of one process."""

    def __init__(self, spool: Spool, writer: AuditWriter, policy: AuditPolicy) -> None:
        self._spool = spool
        self._writer = writer
        self._in_queue = Shares(policy.queue_max_bytes)
        self._in_spool = Shares(spool.max_bytes, spool.size_bytes)
        self._removed_before_bytes = spool.removed_bytes
        self._reserve_bytes = min(RESERVE_BYTES, policy.queue_max_bytes // 16)
        self.follow(policy)

    def follow(self, policy: AuditPolicy) -> None:
        """Other classes are refused while there is no room."""
        self._refusing = tuple(name for name in CLASSES if policy.by_class.get(name) == REFUSE)

    def lacking(self, event_class: str, size_bytes: int) -> str | None:
        """What there is no room in for a line of this size: one of REASONS; None when there is.

        There always is for the few that tell of the trail itself: each stands for others that were dropped,
        or for the begin or the end of a boot.
        """
        if event_class == PROCESS:
            return None
        self._look()
        if size_bytes > self._in_queue.room_bytes(event_class):
            return QUEUE if self._writer.error is None else DISK
        # Of what was put, and not of what is written: a line that is being written would count twice.
        return SPOOL_FULL if size_bytes > self._in_spool.room_bytes(event_class) else None

    def put(self, event_class: str, size_bytes: int) -> None:
        """A line was put down for the spool."""
        self._in_queue.put(event_class, size_bytes)
        self._in_spool.put(event_class, size_bytes)

    @property
    def spool_ratio(self) -> float:
        """How full the spool is for the class that has the least room in it."""
        self._look()
        return self._in_spool.ratio

    def refused(self) -> frozenset[str]:
        """The classes whose requests are not to be served now.

        With a disk that takes nothing that is so before its records have to be dropped.
        """
        if not self._refusing:
            return frozenset()
        failing, reserve = self._writer.error is not None, self._reserve_bytes
        return frozenset(
            name for name in self._refusing if failing or self.lacking(name, reserve) is not None
        )

    def _look(self) -> None:
        self._in_queue.release(self._writer.put_bytes - self._writer.queued_bytes)
        self._in_spool.release(self._spool.removed_bytes - self._removed_before_bytes)


class Drops:
    """How many events had no room, by reason and class."""

    def __init__(self) -> None:
        self.counts = {(reason, name): 0 for reason in REASONS for name in (*CLASSES, PROCESS)}
        self._told: dict[tuple[str, str], int] = dict(self.counts)

    @property
    def untold(self) -> bool:
        """Some were dropped that no record has told of yet."""
        return self.counts != self._told

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def count(self, reason: str, event_class: str) -> None:
        self.counts[reason, event_class] += 1

    def tell(self) -> tuple[int, str]:
        """How many since the last time, and in words which and why."""
        since = {
            key: count - self._told[key] for key, count in self.counts.items() if count > self._told[key]
        }
        self._told = dict(self.counts)
        parts = [f"{count} {name} ({reason})" for (reason, name), count in since.items()]
        return sum(since.values()), ", ".join(parts)
