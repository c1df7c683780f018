"""Reports another process under this one's proxy.id, when it begins and when it ends (decision 0119).

Both write records under one name and number them alone, both consume the quotas of one proxy, and a stop or a
restart of one is taken for one of the other. Only an operator knows which one is wrong, so both serve on.
"""

from collections.abc import Callable, Iterator

import structlog
from prometheus_client.registry import CollectorRegistry

from proxy.audit import events
from proxy.audit.record import AuditEvent
from proxy.net.pages.readiness import Note
from proxy.net.runtime.merged_metrics import Gauge

log = structlog.get_logger(__name__)


class SameIdReport:
    """Whether another process runs under this one's id."""

    def __init__(self, record: Callable[[AuditEvent], None], registry: CollectorRegistry) -> None:
        self._record = record
        self._other: str | None = None
        gauge = Gauge(
            "penstock_proxy_id_used_twice",
            "Whether another process runs under this process's proxy.id",
            registry=registry,
            multiprocess_mode="max",
        )
        gauge.set_function(lambda: self._other is not None)

    def told(self, other: str | None) -> None:
        """Take what the witnesses say: the other process, None if there is none."""
        before, self._other = self._other, other
        if other == before:
            return
        if other is None:
            log.info("proxy.id no longer used twice", other=before)
            return
        log.error(
            "proxy.id used twice: give each process a proxy.id of its own, or stop one of the two",
            other=other,
        )
        self._record(events.same_id_twice(message=other))

    def notes(self) -> Iterator[Note]:
        """Yield what is degraded."""
        if self._other is not None:
            what = "degraded: another process runs under this proxy.id"
            yield Note(what, what, f"{what}: {self._other}")
