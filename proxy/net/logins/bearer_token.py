"""Bearer tokens for Penstock's own logins: from a file, or from a token endpoint (RFC 6749, section 4.4).

proxy.net.kafka.channel requests one for each login; so does aiokafka, through forwarding.net.log. A token of
an endpoint is cached until most of its life has passed, and longer while the endpoint fails. A file is read
for each login.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import structlog

from proxy.error_text import text_of
from proxy.net.logins.http_client import HttpClient, HttpError
from proxy.security.sasl.exchange import shown

REFRESH_SHARE = 0.8
"""Share of a token's life after which it is replaced. Sessions renew themselves at 85 % of the rest."""

log = structlog.get_logger(__name__)


class TokenError(Exception):
    """There is no token to log in with. The message contains no secret."""


class TokenSource(Protocol):
    """A source of bearer tokens."""

    async def token(self) -> str:
        """Return a token that is valid now. TokenError when there is none."""
        ...


@dataclass(frozen=True, slots=True)
class FileToken:
    """A token that another program writes to a file."""

    path: Path

    async def token(self) -> str:
        """Read the file; see TokenSource."""
        try:
            content = await asyncio.to_thread(self.path.read_text, encoding="ascii")
        except (OSError, ValueError) as error:
            raise TokenError(f"{self.path}: {text_of(error)}") from error
        if not content.strip():
            raise TokenError(f"{self.path}: empty")
        return content.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """Penstock's credentials at the token endpoint, named like `oauthbearer.*`."""

    url: str
    client_id: str
    client_secret: Callable[[], str] = field(repr=False)
    """Read for each request, so that a changed secret takes effect."""
    scope: str | None = None
    ca: Path | None = None
    timeout_ms: int = 10_000


@dataclass(slots=True)
class _CachedToken:
    token: str = field(repr=False)
    refresh_at_ms: float
    expires_at_ms: float


class EndpointToken:
    """Requests tokens from a token endpoint; all connections share one."""

    def __init__(self, credentials: ClientCredentials, now_ms: Callable[[], int]) -> None:
        self._credentials = credentials
        self._now_ms = now_ms
        self._client = HttpClient(credentials.ca, credentials.timeout_ms)
        self._cached: _CachedToken | None = None
        self._requesting = asyncio.Lock()

    async def token(self) -> str:
        """Return the cached token, or request a new one; see TokenSource."""
        async with self._requesting:
            cached = self._cached
            if cached is not None and self._now_ms() < cached.refresh_at_ms:
                return cached.token
            try:
                self._cached = await self._request()
            except (HttpError, OSError, UnicodeDecodeError) as error:
                url = self._credentials.url
                if cached is None or self._now_ms() >= cached.expires_at_ms:
                    raise TokenError(f"{url}: {text_of(error)}") from error
                log.warning(
                    "Failed to fetch a new token; using the previous one", url=url, error=text_of(error)
                )
                return cached.token
            return self._cached.token

    async def _request(self) -> _CachedToken:
        own, requested_at_ms = self._credentials, self._now_ms()
        form = {"grant_type": "client_credentials"} | ({"scope": own.scope} if own.scope else {})
        secret = await asyncio.to_thread(own.client_secret)
        response = await self._client.post(own.url, form, (own.client_id, secret))
        fields = _object(response.body)
        token = fields.get("access_token")
        if response.status != 200 or not isinstance(token, str) or not token:
            # RFC 6749, section 5.2: `error` is a code, so it contains no secret.
            error = fields.get("error")
            raise HttpError(
                f"status {response.status}" + (f": {shown(str(error))}" if error else ", no token")
            )
        seconds = fields.get("expires_in", 0)
        # A token without a lifetime is used for one login.
        life_ms = seconds * 1000 if isinstance(seconds, int | float) else 0
        return _CachedToken(token, requested_at_ms + life_ms * REFRESH_SHARE, requested_at_ms + life_ms)


def _object(content: bytes) -> dict[str, object]:
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}
