"""Reports what of the metadata log a process does not understand (SPEC S13): once each, and while it lasts.

Proxies and controllers pass each image, and the error that has stopped their feed. What an image has fails
closed by itself (`Acl.enforced`): the process stays ready, since most clients are not concerned. A record
that cannot be applied may restrict anyone, so its process serves no one any more.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator

import structlog
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from proxy.audit import events
from proxy.audit.record import AuditEvent
from proxy.metadata.delta import MetadataError
from proxy.metadata.image import MetadataImage
from proxy.metadata.signatures import LogVerifier, UnsignedRecords
from proxy.net.metadata.seen_number import SeenNumber
from proxy.net.pages.readiness import Note
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.merged_metrics import GaugeMetricFamily

MAX_REPORTED = 100
"""Records that are reported one by one when an image brings more of them; the rest is counted."""
UNSIGNED_INTERVAL_MS = 60_000
"""Unsigned records that are found within it are one report."""
SHOWN = 3
"""Records that /readyz names."""

log = structlog.get_logger(__name__)


class LogReport(Collector):
    """What the image in effect has that is not understood, and what has stopped the feed."""

    def __init__(
        self,
        record: Callable[[AuditEvent], None],
        registry: CollectorRegistry,
        verifier: LogVerifier | None = None,
        seen: SeenNumber | None = None,
        now_ms: Callable[[], int] = now_ms,
    ) -> None:
        """`verifier`: None: the log is not signed. `seen`: where its highest number is remembered."""
        self._verifier = verifier
        self._seen = seen
        if seen is not None and verifier is not None:
            verifier.has_seen(seen.number)
        self._now_ms = now_ms
        self._unsigned_count = 0
        self._held: UnsignedRecords | None = None
        """Found since the last report about unsigned records, and not reported yet."""
        self._reported_ms: int | None = None
        registry.register(self)
        self._record = record
        self._image = MetadataImage.EMPTY
        self._stopped: str | None = None

    def update(self, image: MetadataImage) -> None:
        """Report what is new in this image, and what was not signed before it."""
        self._take_unsigned()
        if self._seen is not None and self._verifier is not None:
            self._seen.update(self._verifier.number)
        before, self._image = self._image.not_understood, image
        if image.not_understood is before:
            return
        new = [found for key, found in image.not_understood.items() if before.get(key) != found]
        new.sort(key=lambda found: found.offset)
        for found in new[:MAX_REPORTED]:
            self._report(found.offset, str(found))
        if len(new) > MAX_REPORTED:
            more = new[MAX_REPORTED:]
            self._report(more[0].offset, f"{len(more)} more records up to offset {more[-1].offset}")

    async def follow(self, following: Coroutine[object, object, None], stop: Callable[[], None]) -> None:
        """Run the feed until it stops at a record that cannot be applied. Then `stop`, and report it."""
        async with asyncio.TaskGroup() as tasks:
            reporting = tasks.create_task(self._report_held())
            try:
                await following
            except MetadataError as error:
                stop()
                self._stopped = str(error)
                self._report(None, f"{error}. No client is served, except super users at a proxy")
            finally:
                reporting.cancel()

    def blocked(self) -> Iterator[Note]:
        """Yield why the process is not ready."""
        if self._stopped is not None:
            what = "the metadata log has a record that cannot be applied"
            yield Note(what, what, f"{what}: {self._stopped}")
        if self._verifier is not None and self._verifier.is_waiting:
            what = "the metadata log has no record that a controller has signed"
            yield Note(what, what, ": ".join([what, *map(str, self._verifier.unsigned[-1:])]))

    def notes(self) -> Iterator[Note]:
        """Yield what is degraded."""
        found = self._image.not_understood
        if found:
            what = "records of the metadata log are not understood and fail closed"
            public = f"degraded: {len(found)} {what}"
            first = sorted(found.values(), key=lambda each: each.offset)[:SHOWN]
            detailed = f"{public}: {', '.join(map(str, first))}{', ...' if len(found) > SHOWN else ''}"
            yield Note(f"degraded: {what}", public, detailed)

        if self._unsigned_count:
            what = "records of the metadata log are not signed by a controller"
            yield Note(f"degraded: {what}", *[f"degraded: {self._unsigned_count} {what}"] * 2)

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "penstock_metadata_not_understood",
            "Records of the metadata log that are not understood and fail closed",
            len(self._image.not_understood) + (self._stopped is not None),
            merge="max",
        )
        yield GaugeMetricFamily(
            "penstock_metadata_digest",
            "The first 48 bits of the digest of what is in effect; processes at one offset have the same",
            int.from_bytes(self._image.digest[:6], "big"),
            merge="max",
        )
        acls = self._image.acls
        yield GaugeMetricFamily(
            "penstock_acls_with_end", "ACLs in effect that have an end", len(acls.ends), merge="max"
        )
        if acls.next_end_ms is not None:
            yield GaugeMetricFamily(
                "penstock_acl_next_end_timestamp_seconds",
                "When the next ACL ends; absent if none does",
                acls.next_end_ms / 1000,
                merge="min",
            )
        if self._verifier is not None:
            yield CounterMetricFamily(
                "penstock_metadata_unsigned_records",
                "Records of the metadata log that no controller has signed",
                self._unsigned_count,
            )
            yield GaugeMetricFamily(
                "penstock_metadata_signed_transaction",
                "The number of the last signed transaction of the metadata log that is in effect",
                self._verifier.number,
                merge="min",
            )

    def _take_unsigned(self) -> None:
        if self._verifier is None:
            return
        found, self._verifier.unsigned = self._verifier.unsigned, []
        for each in found:
            self._unsigned_count += each.reasons.total()
            self._held = each if self._held is None else self._held.with_later(each)
        self.report_unsigned()

    async def _report_held(self) -> None:
        while True:
            await asyncio.sleep(UNSIGNED_INTERVAL_MS / 1000)
            self.report_unsigned()

    def report_unsigned(self) -> None:
        """Report what is held, at most once in UNSIGNED_INTERVAL_MS: a writer may flood the topic."""
        found, now = self._held, self._now_ms()
        if found is None or (
            self._reported_ms is not None and now - self._reported_ms < UNSIGNED_INTERVAL_MS
        ):
            return
        self._held, self._reported_ms = None, now
        log.error("metadata log not signed", metadata_offset=found.first_offset, what=str(found))
        self._record(events.log_not_signed(metadata_offset=found.first_offset, message=str(found)))

    def _report(self, offset: int | None, what: str) -> None:
        log.error("metadata log not understood", metadata_offset=offset, what=what)
        self._record(events.log_not_understood(metadata_offset=offset, message=what))
