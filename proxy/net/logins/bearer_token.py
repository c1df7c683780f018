"""A bearer token for a login of our own: from a file, or from a provider's token endpoint (RFC 6749, 4.4).

Awaited at each login by proxy.net.kafka.channel, and by aiokafka through forwarding.net.log. That of an
endpoint is kept until little of it is left, and longer if the endpoint is away; one in a file is read at each
login, so that whoever writes the file decides.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import structlog

from proxy.net.logins.http_client import HttpClient, HttpError
from proxy.security.sasl.exchange import shown

REFRESH_SHARE = 0.8
"""Of a token's life: sessions end with their token, and renew themselves at 85 % of what is left of it."""

log = structlog.get_logger(__name__)


class TokenError(Exception):
    """There is no token to log in with; the message holds no secret."""


class TokenSource(Protocol):
    """Where our tokens come from."""

    async def token(self) -> str:
        """One that is valid now; TokenError when there is none."""
        ...


@dataclass(frozen=True, slots=True)
class FileToken:
    """What somebody else keeps in a file."""

    path: Path

    async def token(self) -> str:
        """See TokenSource."""
        try:
            content = await asyncio.to_thread(self.path.read_text, encoding="ascii")
        except (OSError, ValueError) as error:
            raise TokenError(f"{self.path}: {error}") from error
        if not content.strip():
            raise TokenError(f"{self.path}: empty")
        return content.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """Who we are at the token endpoint; the names are those of `oauthbearer.*`."""

    url: str
    client_id: str
    client_secret: Callable[[], str] = field(repr=False)
    """Read for each request, so that a changed secret is used from the next one on."""
    scope: str | None = None
    ca: Path | None = None
    timeout_ms: int = 10_000


@dataclass(slots=True)
class _Kept:
    token: str = field(repr=False)
    refresh_at_ms: float
    expires_at_ms: float


class EndpointToken:
    """Tokens of a token endpoint, one for all connections."""

    def __init__(self, credentials: ClientCredentials, now_ms: Callable[[], int]) -> None:
        self._credentials = credentials
        self._now_ms = now_ms
        self._client = HttpClient(credentials.ca, credentials.timeout_ms)
        self._kept: _Kept | None = None
        self._asking = asyncio.Lock()

    async def token(self) -> str:
        """See TokenSource."""
        async with self._asking:
            kept = self._kept
            if kept is not None and self._now_ms() < kept.refresh_at_ms:
                return kept.token
            try:
                self._kept = await self._ask()
            except (HttpError, OSError, UnicodeDecodeError) as error:
                url = self._credentials.url
                if kept is None or self._now_ms() >= kept.expires_at_ms:
                    raise TokenError(f"{url}: {error}") from error
                log.warning("no new token, the last one is used while it lasts", url=url, error=str(error))
                return kept.token
            return self._kept.token

    async def _ask(self) -> _Kept:
        ours, asked_at_ms = self._credentials, self._now_ms()
        form = {"grant_type": "client_credentials"} | ({"scope": ours.scope} if ours.scope else {})
        secret = await asyncio.to_thread(ours.client_secret)
        answer = await self._client.post(ours.url, form, (ours.client_id, secret))
        told = _object(answer.body)
        token = told.get("access_token")
        if answer.status != 200 or not isinstance(token, str) or not token:
            # RFC 6749, section 5.2: `error` is a code, and nothing of ours.
            error = told.get("error")
            raise HttpError(f"status {answer.status}" + (f": {shown(str(error))}" if error else ", no token"))
        seconds = told.get("expires_in", 0)
        # Without a lifetime it is good for the login that asked for it, and the next one asks again.
        life_ms = seconds * 1000 if isinstance(seconds, int | float) else 0
        return _Kept(token, asked_at_ms + life_ms * REFRESH_SHARE, asked_at_ms + life_ms)


def _object(content: bytes) -> dict[str, object]:
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}
