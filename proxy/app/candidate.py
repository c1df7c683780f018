"""The candidate (`authorizer.candidate`): read, brought up to date, and what it would have decided recorded.

proxy.security.shadow compares; sessions know nothing of it. A file is read at the start and at each reload.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

import structlog

from proxy.audit import events
from proxy.audit.events import Counted
from proxy.audit.record import AuditEvent
from proxy.config import AuthorizerConfig
from proxy.config.candidate import DIGEST_CHARACTERS, read_candidate
from proxy.metadata.acl import PatternType
from proxy.net.files.watched_file import FileReloads
from proxy.net.runtime.clock import now_ms
from proxy.security.shadow import ERROR, MAX_DIFFERENCES, Difference, Shadow
from proxy.security.standard import StandardAuthorizer

FILE_KIND = "candidate"
INTERVAL_S = 1.0

log = structlog.get_logger(__name__)


class CandidateTrial:
    """The candidate of one process."""

    def __init__(self, settings: AuthorizerConfig, reloads: FileReloads) -> None:
        """ConfigError names what is wrong in the file."""
        self._reloads = reloads
        self._settings = settings
        self._since_ms = now_ms()
        self._compared = self._errors = self._logged_errors = 0
        """The counts at the last records, and at the last log line."""
        self.shadow: Shadow | None = None
        self.shadow = self.read(settings)

    def read(self, settings: AuthorizerConfig) -> Shadow | None:
        """Return the shadow for these settings: the same one if they and the file are unchanged. Blocks."""
        if settings.candidate is None:
            return None
        candidate, before = read_candidate(settings.candidate), self.shadow
        if before is not None and before.digest == candidate.digest and settings == self._settings:
            return before
        authorizer = StandardAuthorizer()
        authorizer.configure(settings.settings())
        found = Shadow(authorizer, *candidate, None if before is None else before.counts)
        while found.end_acls(now_ms()):
            pass
        return found

    def replace(self, settings: AuthorizerConfig, shadow: Shadow | None) -> None:
        """Compare with what `read` has returned for these settings from now on."""
        before, self.shadow, self._settings = self.shadow, shadow, settings
        if before is None:
            self._compared = self._errors = self._logged_errors = 0
        if shadow is not None and (before is None or before.digest != shadow.digest):
            assert settings.candidate is not None
            self._reloads.report(settings.candidate, FILE_KIND, bytes.fromhex(shadow.digest))

    async def run(self, forget: Callable[[], None]) -> None:
        """End ACLs and log errors until cancelled. `forget`: decide again what sessions remember."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            while self.shadow is not None and self.shadow.end_acls(now_ms()):
                forget()
                await asyncio.sleep(0)
            self.log_errors()

    def log_errors(self) -> None:
        """Log the errors since the last call: the shadow itself does not log."""
        if self.shadow is None:
            return
        count = self.shadow.counts[ERROR]
        if count > self._logged_errors:
            count, self._logged_errors = count - self._logged_errors, count
            log.error("the candidate cannot decide", count=count, last_error=self.shadow.last_error)

    def events(self, moment_ms: int) -> Iterator[AuditEvent]:
        """Yield what was compared since the last call, and the differences."""
        since_ms, self._since_ms = self._since_ms, moment_ms
        if self.shadow is None:
            return
        counted = partial(Counted, interval_start_ms=since_ms, interval_end_ms=moment_ms)
        candidate = f"candidate {self.shadow.digest[:DIGEST_CHARACTERS]}"
        failed = self.shadow.counts[ERROR]
        total = sum(self.shadow.counts.values()) - failed
        compared, self._compared = total - self._compared, total
        errors, self._errors = failed - self._errors, failed
        if compared or errors:
            text = f"{candidate}: errors: {errors}" if errors else candidate
            yield events.candidate_compared(message=text, **counted(count=compared))
        differences, more = self.shadow.drain()
        for found, count in differences.items():
            yield _event(found, candidate, counted(count=count))
        if more:
            text = f"{candidate}: differences beyond the first {MAX_DIFFERENCES} of the interval"
            yield events.candidate_differs(message=text, **counted(count=more))


def _event(found: Difference, candidate: str, counted: Counted) -> AuditEvent:
    decided, would = found.decision, found.candidates
    effect = "allowed" if would.allowed else "denied"
    return events.candidate_differs(
        host=found.host,
        principal=found.principal,
        groups=found.groups or None,
        resource_type=found.action.resource_type.name,
        resource_name=None if found.by_type else found.action.resource_name,
        pattern_type=None if found.by_type else PatternType.LITERAL.name,
        operation=found.action.operation.name,
        granted=decided.allowed,
        rule=decided.rule,
        acl_id=decided.acl_id,
        message=f"{candidate}: {effect} ({would.acl_id or would.rule})",
        **counted,
    )
