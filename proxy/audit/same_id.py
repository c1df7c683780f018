"""Notices processes that run under one proxy.id at the same time (SPEC O5, decision 0119).

The boots of one id follow each other: a successor begins after its predecessor has ended (decision 0066), and
so does a restarted process. So both run if each is heard after the other was heard for the first time.
"""

from dataclasses import dataclass

SILENT_MS = 180_000
"""A process that was not heard for this time has ended, or cannot write."""
MOST_PROCESSES = 10_000
MOST_BOOTS = 10
"""Boots of one id that are remembered; those that were silent for SILENT_MS are forgotten first."""
_FIRST_WORKER = ".w0"
"""A process alone and the first worker of a group have one proxy.id in their configuration."""


@dataclass(slots=True)
class _Boot:
    first_ms: int
    last_ms: int
    host: str


class SameId:
    """The boots that were heard lately, by id."""

    def __init__(self) -> None:
        self._boots: dict[str, dict[str, _Boot]] = {}

    def hear(self, key: str, now_ms: int, host: str = "") -> str | None:
        """Take a sign of life of `<proxy_id>/<boot_id>`, and return which other boot of its id runs, if any.

        `host`: where it runs, if that is known.
        """
        proxy_id, _, boot_id = key.rpartition("/")
        proxy_id = proxy_id.removesuffix(_FIRST_WORKER)
        boots = self._boots.pop(proxy_id, {})
        for silent in [each for each, boot in boots.items() if now_ms - boot.last_ms > SILENT_MS]:
            del boots[silent]
        # Last in its order now: who was silent for longest is forgotten first.
        self._boots[proxy_id] = boots
        if len(self._boots) > MOST_PROCESSES:
            del self._boots[next(iter(self._boots))]
        if boot_id not in boots and len(boots) >= MOST_BOOTS:
            return None
        heard = boots.setdefault(boot_id, _Boot(now_ms, now_ms, host))
        heard.last_ms, heard.host = now_ms, host
        for other_id, other in boots.items():
            if other is not heard and max(heard.first_ms, other.first_ms) < min(heard.last_ms, other.last_ms):
                return f"boot {other_id} on host {other.host}" if other.host else f"boot {other_id}"
        return None
