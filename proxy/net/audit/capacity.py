"""The room for audit records of each class, and what happens without it.

proxy.net.audit.audit_log checks it before an event gets its number, so that no number is taken back
(docs/decisions/0019). Queue and spool are divided among the classes (proxy.audit.classes), so that a flood of
one class does not displace another (docs/decisions/0043).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.audit.classes import ADMIN, CLASSES, PROCESS, SpoolShares
from proxy.net.audit.spool import Spool
from proxy.net.audit.writer import AuditWriter, Fsync

if TYPE_CHECKING:
    from proxy.metadata.signing_keys import SigningKey
    from proxy.net.audit.outside_witness import WitnessTopic

REFUSE, DROP_AND_COUNT = "refuse", "drop-and-count"
QUEUE_MAX_BYTES = 8 * 1024 * 1024
RESERVE_BYTES = 64 * 1024
"""With less room than this, or a sixteenth of the queue, requests are rejected before a record is dropped."""
RATE_PER_PRINCIPAL = 100
"""Records a second that one principal can cause without changing anything."""

QUEUE, SPOOL_FULL, DISK = "queue_full", "spool_full", "disk"
REASONS = (QUEUE, SPOOL_FULL, DISK)


@dataclass(frozen=True, slots=True)
class AuditPolicy:
    """The settings under `audit` for writing records."""

    by_class: Mapping[str, str] = field(default_factory=dict)
    """Class -> REFUSE or DROP_AND_COUNT; the default is DROP_AND_COUNT."""
    fsync: Fsync = Fsync.INTERVAL
    fsync_interval_ms: int = 100
    synced: frozenset[str] = frozenset()
    """Classes whose requests wait for a sync of their records (audit.fsync.<class>)."""
    queue_max_bytes: int = QUEUE_MAX_BYTES
    chain_key: bytes | None = field(default=None, repr=False)
    rate_per_principal: int = RATE_PER_PRINCIPAL
    """See proxy.audit.noise; 0: no limit."""
    signing_key: "SigningKey | None" = field(default=None, repr=False)
    """With which the process signs its checkpoints."""
    witness: "str | WitnessTopic | None" = None
    """The directory, URL or topic of a witness outside, which gets the checkpoints."""


DROP_ALL_BUT_ADMIN = AuditPolicy({ADMIN: REFUSE})


class AuditCapacity:
    """The room for records in the queue and in the spool of one process."""

    def __init__(self, spool: Spool, writer: AuditWriter, policy: AuditPolicy) -> None:
        self._spool = spool
        self._writer = writer
        self._in_queue = SpoolShares(policy.queue_max_bytes)
        self._in_spool = SpoolShares(spool.max_bytes, spool.size_bytes)
        self._removed_before_bytes = spool.removed_bytes
        self._reserve_bytes = min(RESERVE_BYTES, policy.queue_max_bytes // 16)
        self.reconfigure(policy)

    def reconfigure(self, policy: AuditPolicy) -> None:
        """Apply another policy for requests without room."""
        self._rejecting = tuple(name for name in CLASSES if policy.by_class.get(name) == REFUSE)

    def shortage(self, event_class: str, size_bytes: int) -> str | None:
        """Return what has no room for a line of this size, one of REASONS; None if there is room.

        Records about the trail itself always have room. There are few: each stands for others that were
        dropped, or for the start or end of a boot.
        """
        if event_class == PROCESS:
            return None
        self._update()
        if size_bytes > self._in_queue.room_bytes(event_class):
            return QUEUE if self._writer.error is None else DISK
        # What was put, not what is written: a line that is being written would count twice.
        return SPOOL_FULL if size_bytes > self._in_spool.room_bytes(event_class) else None

    def add(self, event_class: str, size_bytes: int) -> None:
        """Count a line that was put in the queue."""
        self._in_queue.put(event_class, size_bytes)
        self._in_spool.put(event_class, size_bytes)

    @property
    def spool_ratio(self) -> float:
        """How full the spool is for the class with the least room; 1: it has none."""
        self._update()
        return self._in_spool.ratio

    def rejected_classes(self) -> frozenset[str]:
        """Return the classes whose requests are to be rejected now.

        A failing disk has this effect before records have to be dropped.
        """
        if not self._rejecting:
            return frozenset()
        failing, reserve = self._writer.error is not None, self._reserve_bytes
        return frozenset(
            name for name in self._rejecting if failing or self.shortage(name, reserve) is not None
        )

    def _update(self) -> None:
        self._in_queue.release(self._writer.put_bytes - self._writer.queued_bytes)
        self._in_spool.release(self._spool.removed_bytes - self._removed_before_bytes)


class Drops:
    """Counts events without a record, by reason and class."""

    def __init__(self) -> None:
        self.counts = {(reason, name): 0 for reason in REASONS for name in (*CLASSES, PROCESS)}
        self._reported: dict[tuple[str, str], int] = dict(self.counts)

    @property
    def unreported(self) -> bool:
        """Whether some drops are not in a record yet."""
        return self.counts != self._reported

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def count(self, reason: str, event_class: str) -> None:
        self.counts[reason, event_class] += 1

    def report(self) -> tuple[int, str]:
        """Return the number of drops since the last report, and a description by class and reason."""
        since = {
            key: count - self._reported[key]
            for key, count in self.counts.items()
            if count > self._reported[key]
        }
        self._reported = dict(self.counts)
        parts = [f"{count} {name} ({reason})" for (reason, name), count in since.items()]
        return sum(since.values()), ", ".join(parts)
