"""Which processes a process witnesses where no controller does it (`controller.mode: kraft`, SPEC D8).

Each process writes the end of its audit trail to a topic that all of them read. Each records the ends of the
two processes that follow it in the order of their names, so that every process has two witnesses, and N
processes write 2 N records a minute. proxy.net.audit.witnessing does the input and output (decision 0097).
"""

import hmac
from collections.abc import Callable
from dataclasses import dataclass

from proxy.audit.chain import LONGEST_END, author_of, size_of, witnessed_end
from proxy.audit.checkpoints import Checkpoint
from proxy.audit.same_id import MOST_PROCESSES, SILENT_MS, SameId

WITNESSED_PROCESSES = 2
STALE_MS = 600_000
"""The topic retains messages for so long. A checkpoint that was signed before was written again by somebody,
and its process may have ended."""
_DOMAIN = b"end of an audit trail\n"
"""No link of a chain begins like this, so neither can stand for the other."""
_SIGNATURE_BYTES = 64


@dataclass(slots=True)
class _Process:
    end: str
    """The one that was heard last."""
    longest: str
    """The longest one since ends were recorded. Who writes an old one again hides no newer one, nor does a
    forged one hide what is true: both are recorded."""
    heard_ms: int
    recorded: frozenset[str] = frozenset()
    """The ends that were recorded last."""


class Witness:
    """What one process has heard of the others."""

    def __init__(self, key: str, end: Callable[[], str], secret: bytes | None = None) -> None:
        """`key`: `<proxy_id>/<boot_id>`; `end`: see AuditLog.end; `secret`: the key of the chain."""
        self.key = key
        self._end = end
        self._secret = secret
        self._others: dict[str, _Process] = {}
        self._same_id = SameId()

    def message(self) -> bytes:
        """Return what the others are to hear: a signature, and the end of this process's trail."""
        end = self._end().encode()
        return self._signature(end) + end

    def hear(self, message: bytes, heard_ms: int, now_ms: int) -> bool:
        """Take a message from the topic; return whether it is of a process that was not heard before.

        A message of another form, with another signature, or with an old checkpoint, does not count.
        `heard_ms` is of a clock that is not set, as the times of the other methods, `now_ms` since the epoch.
        """
        if len(message) > _SIGNATURE_BYTES + LONGEST_END:
            return False
        signature, text = message[:_SIGNATURE_BYTES], message[_SIGNATURE_BYTES:]
        end = witnessed_end(text)
        if end is None or not hmac.compare_digest(signature, self._signature(text)):
            return False
        checkpoint = Checkpoint.parse(end)
        if checkpoint is not None and now_ms - checkpoint.time_ms > STALE_MS:
            return False
        key = author_of(end)
        if key == self.key:
            return False
        self._same_id.hear(key, heard_ms)
        known = self._others.get(key)
        if known is not None:
            known.end, known.heard_ms = end, heard_ms
            known.longest = max(end, known.longest, key=size_of)
        elif len(self._others) < MOST_PROCESSES:
            self._others[key] = _Process(end, end, heard_ms)
            return True
        return False

    def due(self, now_ms: int) -> list[str]:
        """Return the ends to record now: those that are new, of the processes that follow this one."""
        for key in [key for key, each in self._others.items() if now_ms - each.heard_ms > SILENT_MS]:
            del self._others[key]
        # The smallest name follows the largest.
        following = sorted(self._others, key=lambda key: (key < self.key, key))[:WITNESSED_PROCESSES]
        ends = []
        for key in following:
            process = self._others[key]
            said = dict.fromkeys((process.longest, process.end))
            ends += [end for end in said if end not in process.recorded]
            process.recorded, process.longest = frozenset(said), process.end
        return ends

    def same_id(self, now_ms: int) -> str | None:
        """Return which other process runs under this one's id, as far as it was heard."""
        return self._same_id.hear(self.key, now_ms)

    def _signature(self, end: bytes) -> bytes:
        """Without a key anybody who can write to the topic may claim anything, as with the chain itself."""
        if self._secret is None:
            return b"-" * _SIGNATURE_BYTES
        return hmac.digest(self._secret, _DOMAIN + end, "sha256").hex().encode()
