"""OAUTHBEARER of a listener: its settings, and the keys that it shares with the other listeners.

Made by proxy.net.credentials when a process is put together; the process runs what keeps the keys fresh.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from proxy.net.watched_file import FileReloads, WatchedFile

if TYPE_CHECKING:
    # These stand on httpx and joserfc, which a start without OAUTHBEARER does not import (decision 0065).
    from proxy.net.jwks import JwksMetrics, JwksSettings
    from proxy.security.jwt import JwtPolicy
    from proxy.security.sasl.oauthbearer import KeySource

FILE_KIND = "jwks"
Background = list[Callable[[], Coroutine[object, object, None]]]


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
        from proxy.net.jwks import JwksEndpoint, JwksFile, JwksMetrics

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
