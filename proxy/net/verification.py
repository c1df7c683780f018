"""Checks of logins that take long, in a few threads of their own: the loop goes on meanwhile.

One for each process, asked by proxy.net.listener and the controller's server. Not the loop's own threads: a
flood of logins must not keep files and host names waiting.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import structlog
from prometheus_client import CollectorRegistry, Counter

from proxy.security.sasl.exchange import Rejected, Settled

THREADS = 4
"""Hashing leaves the interpreter's lock alone, so it runs beside the loop; more would crowd it out."""

log = structlog.get_logger(__name__)


class Verifications:
    """See the module."""

    def __init__(self, registry: CollectorRegistry, threads: int = THREADS) -> None:
        self._threads = ThreadPoolExecutor(threads, "verification")
        self._errors = Counter(
            "penstock_authentication_errors_total",
            "Checks of a login that ended in an error, and so in a rejection",
            registry=registry,
        )

    async def outcome(
        self,
        work: Callable[[], Settled],
        ready: Callable[[], Awaitable[None]] | None = None,
        delay_ms: int = 0,
    ) -> Settled:
        """What `work` gives, after the delay and `ready`; a rejection when one fails or gives none."""
        try:
            if delay_ms:
                await asyncio.sleep(delay_ms / 1000)
            if ready is not None:
                await ready()
            outcome = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except Exception:
            log.exception("login rejected because its check failed")
        else:
            if isinstance(outcome, Settled):
                return outcome
            log.error("login rejected because its check gave no outcome", outcome=type(outcome).__name__)
        self._errors.inc()
        return Rejected("", "the check of the credentials failed")

    def close(self) -> None:
        """Nobody waits for an outcome any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
