"""OAUTHBEARER of a listener: its settings, and the identity providers' keys, which all listeners share.

Made by proxy.net.logins.credentials when a process is put together; the process runs what refreshes the keys.
They come from a URL that is requested again and again, or from a watched file, and
proxy.security.sasl.oauthbearer reads them at each login. While an endpoint does not respond, the last keys
stay in effect; before the first ones no token is valid. A token with an unknown key causes an early request,
at most one each EARLY_INTERVAL_MS, and the login waits for its response.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from proxy.net.files.watched_file import FileReloads, WatchedFile
from proxy.net.logins.http_client import HttpClient, HttpError
from proxy.security.jwk_set import JwkSet, JwkSetError
from proxy.security.jwt import JwtPolicy
from proxy.security.sasl.exchange import Exchange
from proxy.security.sasl.oauthbearer import NAME, KeySource, OAuthBearerExchange

EARLY_INTERVAL_MS = 5_000
"""What strangers can make us do is bounded: anybody can send a token that names an unknown key."""
WAIT_MS = 3_000
_MAX_KEY_ID = 1_000

FILE_KIND = "jwks"
Background = list[Callable[[], Coroutine[object, object, None]]]

log = structlog.get_logger(__name__)


class JwksMetrics:
    """How it stands with the keys; one for each process, shared by its sources."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._refreshes = Counter(
            "penstock_jwks_refreshes_total",
            "Times that an identity provider's keys were asked for, by outcome (loaded, failed)",
            ("url", "outcome"),
            registry=registry,
        )
        self._loaded_at = Gauge(
            "penstock_jwks_loaded_timestamp_seconds",
            "When an identity provider's keys were last loaded, 0 when they never were",
            ("url",),
            registry=registry,
        )

    def watch(self, url: str) -> None:
        """Show all series of a source from the start, so that the first failure is an increase."""
        for outcome in ("loaded", "failed"):
            self._refreshes.labels(url, outcome)
        self._loaded_at.labels(url)

    def loaded(self, url: str, now_ms: int) -> None:
        self._refreshes.labels(url, "loaded").inc()
        self._loaded_at.labels(url).set(now_ms / 1000)

    def failed(self, url: str) -> None:
        self._refreshes.labels(url, "failed").inc()


@dataclass(frozen=True, slots=True, kw_only=True)
class JwksSettings:
    """The names are those of `sasl.oauthbearer.jwks.endpoint.*`."""

    url: str
    refresh_ms: int = 3_600_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000
    ca: Path | None = None
    timeout_ms: int = 10_000

    @property
    def path(self) -> Path | None:
        """The file that a `file:` URL names; None for an endpoint."""
        return Path(unquote(self.url.removeprefix("file:"))) if self.url.startswith("file:") else None


class JwksEndpoint:
    """Keys behind a URL; `run` asks for them until it is cancelled."""

    def __init__(self, settings: JwksSettings, metrics: JwksMetrics, now_ms: Callable[[], int]) -> None:
        self.settings = settings
        self.keys: JwkSet | None = None
        self._metrics = metrics
        self._now_ms = now_ms
        self._client = HttpClient(settings.ca, settings.timeout_ms)
        self._wanted = asyncio.Event()
        self._round = _Round()
        self._asking = False
        self._early_at_ms: int | None = None
        metrics.watch(settings.url)

    async def run(self) -> None:
        """Ask at once, then every `refresh_ms`; sooner after a failure or when somebody needs newer keys."""
        failures = 0
        while True:
            failures = 0 if await self._ask() else failures + 1
            pause_ms = self.settings.refresh_ms
            if failures:
                doubled_ms = self.settings.retry_backoff_ms * 2 ** min(failures - 1, 30)
                pause_ms = min(doubled_ms, self.settings.retry_backoff_max_ms)
            try:
                async with asyncio.timeout(pause_ms / 1000):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    def newer(self, key_id: str | None) -> Callable[[], Awaitable[None]] | None:
        """See KeySource."""
        if key_id is not None and len(key_id) > _MAX_KEY_ID:
            return None
        if not self._asking and not self._wanted.is_set():
            now_ms = self._now_ms()
            if self._early_at_ms is not None and 0 <= now_ms - self._early_at_ms < EARLY_INTERVAL_MS:
                return None
            self._early_at_ms = now_ms
            self._wanted.set()
        return self._round.wait

    async def _ask(self) -> bool:
        # What is wanted from here on is answered by this round or by the one after it.
        self._wanted.clear()
        self._asking = True
        try:
            await self._load()
        except (HttpError, JwkSetError) as error:
            self._metrics.failed(self.settings.url)
            log.warning(
                "identity provider's keys not loaded, "
                + ("no token is accepted" if self.keys is None else "the last ones stay in force"),
                url=self.settings.url,
                error=str(error),
            )
            return False
        finally:
            self._asking = False
            self._round.end()
            self._round = _Round()
        return True

    async def _load(self) -> None:
        answer = await self._client.get(self.settings.url)
        if answer.status != 200:
            raise HttpError(f"status {answer.status}")
        keys = JwkSet.parse(answer.body)
        if keys != self.keys:
            tell_keys(self.settings.url, keys)
        self.keys = keys
        self._metrics.loaded(self.settings.url, self._now_ms())


class JwksFile:
    """Keys in a file, taken by a WatchedFile whenever they change."""

    def __init__(self, settings: JwksSettings, metrics: JwksMetrics, now_ms: Callable[[], int]) -> None:
        self.settings = settings
        self.keys: JwkSet | None = None
        self._metrics = metrics
        self._now_ms = now_ms
        metrics.watch(settings.url)

    def take(self, content: bytes) -> None:
        """ValueError when it holds no keys: the last ones stay in force."""
        try:
            keys = JwkSet.parse(content)
        except JwkSetError as error:
            self._metrics.failed(self.settings.url)
            raise ValueError(f"{self.settings.url}: {error}") from error
        tell_keys(self.settings.url, keys)
        self.keys = keys
        self._metrics.loaded(self.settings.url, self._now_ms())

    def newer(self, key_id: str | None) -> Callable[[], Awaitable[None]] | None:
        """Never: the file is looked at all the time."""
        return None


def tell_keys(url: str, keys: JwkSet) -> None:
    """Which keys count now, and which of the document do not."""
    log.info(
        "identity provider's keys loaded", url=url, keys=keys.key_descriptions, skipped=list(keys.skipped)
    )


class _Round:
    """Those who wait for one answer of the endpoint, and not for long if it is slow."""

    def __init__(self) -> None:
        self._over = asyncio.Event()

    async def wait(self) -> None:
        try:
            async with asyncio.timeout(WAIT_MS / 1000):
                await self._over.wait()
        except TimeoutError:
            log.info("a login has waited in vain for newer keys of the identity provider", waited_ms=WAIT_MS)

    def end(self) -> None:
        self._over.set()


@dataclass(frozen=True, slots=True)
class OAuthBearerSettings:
    """Where the keys are, and what a token has to be."""

    jwks: JwksSettings
    policy: JwtPolicy


class KeySources:
    """The identity providers' keys of one process."""

    def __init__(self, registry: CollectorRegistry, reloads: FileReloads, now_ms: Callable[[], int]) -> None:
        self._metrics: JwksMetrics | None = None
        self._registry = registry
        self._reloads = reloads
        self._now_ms = now_ms
        self._sources: dict[JwksSettings, KeySource] = {}

    def of(self, settings: JwksSettings, background: Background) -> KeySource:
        """One for all who ask for the same; ValueError when its file holds no keys.

        What keeps it fresh is added to `background`, for the process to run until it cancels it.
        """
        if settings not in self._sources:
            self._sources[settings] = self._made(settings, background)
        return self._sources[settings]

    def _made(self, settings: JwksSettings, background: Background) -> KeySource:
        # Only a process that checks tokens has these series.
        self._metrics = self._metrics or JwksMetrics(self._registry)
        if settings.path is None:
            endpoint = JwksEndpoint(settings, self._metrics, self._now_ms)
            background.append(endpoint.run)
            return endpoint
        source = JwksFile(settings, self._metrics, self._now_ms)
        watched = WatchedFile(settings.path, FILE_KIND, source.take, self._reloads)
        try:
            watched.load()
        except OSError as error:
            raise ValueError(f"sasl.oauthbearer.jwks.endpoint.url: {error}") from error
        background.append(watched.run)
        return source


@dataclass(frozen=True, slots=True)
class OAuthBearerMechanism:
    """See SaslMechanism."""

    source: KeySource
    policy: JwtPolicy
    name: str = NAME

    def new_exchange(self) -> Exchange:
        """For one login, with the keys as they are known now."""
        return OAuthBearerExchange(self.source, self.policy)
