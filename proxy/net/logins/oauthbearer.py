"""OAUTHBEARER of a listener: its settings, and the identity providers' keys, which all listeners share.

The keys come from a URL that is requested at an interval, or from a watched file.
proxy.security.sasl.oauthbearer reads them for each login. While an endpoint fails, the previous keys stay in
effect; before the first ones every token is rejected. A token with an unknown key causes an early request, at
most one each EARLY_INTERVAL_MS, and the login waits for its response. proxy.net.logins.credentials makes the
mechanism; the process runs the refresh.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import structlog
from prometheus_client import CollectorRegistry, Counter

from proxy.error_text import text_of
from proxy.net.files.watched_file import FileReloads, WatchedFile
from proxy.net.logins.http_client import HttpClient, HttpError
from proxy.net.runtime.clock import set_within
from proxy.net.runtime.merged_metrics import Gauge
from proxy.security.jwk_set import JwkSet, JwkSetError
from proxy.security.jwt import JwtPolicy
from proxy.security.sasl.exchange import Exchange
from proxy.security.sasl.oauthbearer import NAME, KeySource, OAuthBearerExchange, TrustedProvider

EARLY_INTERVAL_MS = 5_000
"""Bounds the requests that strangers can cause, with tokens that name unknown keys."""
WAIT_MS = 3_000
_MAX_KEY_ID = 1_000

FILE_KIND = "jwks"
Background = list[Callable[[], Coroutine[object, object, None]]]

log = structlog.get_logger(__name__)


class JwksMetrics:
    """The metrics of all key sources of a process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._refreshes = Counter(
            "penstock_jwks_refreshes_total",
            "Requests for an identity provider's keys, by outcome (loaded, failed)",
            ("url", "outcome"),
            registry=registry,
        )
        self._loaded_at = Gauge(
            "penstock_jwks_loaded_timestamp_seconds",
            "When an identity provider's keys were last loaded; 0 if never",
            ("url",),
            registry=registry,
            multiprocess_mode="min",
        )

    def watch(self, url: str) -> None:
        """Start all series of a source at 0, so that the first failure is an increase."""
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
    """Settings of a key source, named like `sasl.oauthbearer.jwks.endpoint.*`."""

    url: str
    refresh_ms: int = 3_600_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000
    ca: Path | None = None
    timeout_ms: int = 10_000

    @property
    def path(self) -> Path | None:
        """The path of a `file:` URL; None for an endpoint."""
        return Path(unquote(self.url.removeprefix("file:"))) if self.url.startswith("file:") else None


class JwksEndpoint:
    """Keys behind a URL, which `run` requests until it is cancelled."""

    def __init__(self, settings: JwksSettings, metrics: JwksMetrics, now_ms: Callable[[], int]) -> None:
        self.settings = settings
        self.keys: JwkSet | None = None
        self._metrics = metrics
        self._now_ms = now_ms
        self._client = HttpClient(settings.ca, settings.timeout_ms)
        self._wanted = asyncio.Event()
        self._refresh = _Refresh()
        self._requesting = False
        self._early_at_ms: int | None = None
        metrics.watch(settings.url)

    async def run(self) -> None:
        """Request the keys now and then every `refresh_ms`; sooner after a failure or for an unknown key."""
        failures = 0
        while True:
            failures = 0 if await self._request() else failures + 1
            pause_ms = self.settings.refresh_ms
            if failures:
                doubled_ms = self.settings.retry_backoff_ms * 2 ** min(failures - 1, 30)
                pause_ms = min(doubled_ms, self.settings.retry_backoff_max_ms)
            await set_within(self._wanted, pause_ms)

    def newer(self, key_id: str | None) -> Callable[[], Awaitable[None]] | None:
        """Request newer keys if the last early request is long enough ago; see KeySource."""
        if key_id is not None and len(key_id) > _MAX_KEY_ID:
            return None
        if not self._requesting and not self._wanted.is_set():
            now_ms = self._now_ms()
            if self._early_at_ms is not None and 0 <= now_ms - self._early_at_ms < EARLY_INTERVAL_MS:
                return None
            self._early_at_ms = now_ms
            self._wanted.set()
        return self._refresh.wait

    async def _request(self) -> bool:
        # Callers of `newer` from here on wait for this request, or for the one after it.
        self._wanted.clear()
        self._requesting = True
        try:
            await self._load()
        except (HttpError, JwkSetError) as error:
            self._metrics.failed(self.settings.url)
            log.warning(
                "Failed to load the identity provider's keys; "
                + ("all tokens are rejected" if self.keys is None else "keeping the previous ones"),
                url=self.settings.url,
                error=str(error),
            )
            return False
        finally:
            self._requesting = False
            self._refresh.end()
            self._refresh = _Refresh()
        return True

    async def _load(self) -> None:
        keys = await requested_keys(self._client, self.settings.url)
        if keys != self.keys:
            _log_keys(self.settings.url, keys)
        self.keys = keys
        self._metrics.loaded(self.settings.url, self._now_ms())


async def requested_keys(client: HttpClient, url: str) -> JwkSet:
    """Request the keys once. HttpError or JwkSetError when there are none."""
    response = await client.get(url)
    if response.status != 200:
        raise HttpError(f"status {response.status}")
    return JwkSet.parse(response.body)


class JwksFile:
    """Keys in a file; a WatchedFile passes its content to `load` whenever it changes."""

    def __init__(self, settings: JwksSettings, metrics: JwksMetrics, now_ms: Callable[[], int]) -> None:
        self.settings = settings
        self.keys: JwkSet | None = None
        self._metrics = metrics
        self._now_ms = now_ms
        metrics.watch(settings.url)

    def load(self, content: bytes) -> None:
        """Replace the keys. ValueError when the file holds none: the previous ones stay in effect."""
        try:
            keys = JwkSet.parse(content)
        except JwkSetError as error:
            self._metrics.failed(self.settings.url)
            raise ValueError(f"{self.settings.url}: {error}") from error
        _log_keys(self.settings.url, keys)
        self.keys = keys
        self._metrics.loaded(self.settings.url, self._now_ms())

    def newer(self, key_id: str | None) -> Callable[[], Awaitable[None]] | None:
        """Return None: the file is watched anyway."""
        return None


def _log_keys(url: str, keys: JwkSet) -> None:
    log.info(
        "identity provider's keys loaded", url=url, keys=keys.key_descriptions, skipped=list(keys.skipped)
    )


class _Refresh:
    """One request to the endpoint, which logins wait for."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()

    async def wait(self) -> None:
        if not await set_within(self._ended, WAIT_MS):
            log.info("Timed out waiting for refreshed JWKS", waited_ms=WAIT_MS)

    def end(self) -> None:
        self._ended.set()


@dataclass(frozen=True, slots=True)
class OAuthBearerSettings:
    """Of one identity provider: where its keys are, and the rules for its tokens."""

    jwks: JwksSettings
    policy: JwtPolicy


class KeySources:
    """The identity providers' keys of a process."""

    def __init__(self, registry: CollectorRegistry, reloads: FileReloads, now_ms: Callable[[], int]) -> None:
        self._metrics: JwksMetrics | None = None
        self._registry = registry
        self._reloads = reloads
        self._now_ms = now_ms
        self._sources: dict[JwksSettings, KeySource] = {}

    def of(self, settings: JwksSettings, background: Background) -> KeySource:
        """Return the shared source of these keys. ValueError when its file holds no keys.

        The task that refreshes them is appended to `background`, for the process to run.
        """
        if settings not in self._sources:
            self._sources[settings] = self._made(settings, background)
        return self._sources[settings]

    def _made(self, settings: JwksSettings, background: Background) -> KeySource:
        # Only processes that verify tokens have these series.
        self._metrics = self._metrics or JwksMetrics(self._registry)
        if settings.path is None:
            endpoint = JwksEndpoint(settings, self._metrics, self._now_ms)
            background.append(endpoint.run)
            return endpoint
        source = JwksFile(settings, self._metrics, self._now_ms)
        watched = WatchedFile(settings.path, FILE_KIND, source.load, self._reloads)
        try:
            watched.load()
        except OSError as error:
            raise ValueError(f"sasl.oauthbearer.jwks.endpoint.url: {text_of(error)}") from error
        background.append(watched.run)
        return source


@dataclass(frozen=True, slots=True)
class OAuthBearerMechanism:
    """The SASL mechanism OAUTHBEARER; see SaslMechanism."""

    providers: tuple[TrustedProvider, ...]
    name: str = NAME

    def new_exchange(self) -> Exchange:
        """Return an exchange for one login, with the keys known now."""
        return OAuthBearerExchange(self.providers)
