"""A small request to an identity provider: its keys, or a token for us.

Stood on by proxy.net.logins.oauthbearer and proxy.net.logins.bearer_token. What comes back is bounded in size
and time, whatever the other side does; redirects are not followed, since they could lead away from the TLS
that was asked for. Proxies are taken from HTTPS_PROXY and NO_PROXY, as other programs do.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from proxy.net.files.tls import TlsError, client_context

MAX_BYTES = 1 << 20


class HttpError(Exception):
    """There is no usable answer; the message says why, and holds nothing of what was sent."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer of any status."""

    status: int
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class HttpClient:
    """`ca`: PEM file that the server's certificate is checked against; None: the system's."""

    ca: Path | None = None
    timeout_ms: int = 10_000

    def __post_init__(self) -> None:
        # Its import takes a while: a start without an identity provider does without it (decision 0065).
        import httpx  # noqa: F401

    async def get(self, url: str) -> Answer:
        """HttpError when no answer comes in time."""
        return await self._ask("GET", url, None, None)

    async def post(self, url: str, form: Mapping[str, str], credentials: tuple[str, str] | None) -> Answer:
        """A form, with basic authentication where credentials are given."""
        return await self._ask("POST", url, form, credentials)

    async def _ask(
        self, method: str, url: str, form: Mapping[str, str] | None, credentials: tuple[str, str] | None
    ) -> Answer:
        import httpx

        try:
            async with asyncio.timeout(self.timeout_ms / 1000):
                return await self._answer(method, url, form, credentials)
        except TimeoutError:
            raise HttpError(f"no answer within {self.timeout_ms} ms") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, TlsError) as error:
            raise HttpError(str(error) or type(error).__name__) from None

    async def _answer(
        self, method: str, url: str, form: Mapping[str, str] | None, credentials: tuple[str, str] | None
    ) -> Answer:
        import httpx

        # Compressed, a small answer could unpack to a huge one.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with (
            httpx.AsyncClient(verify=client_context(self.ca, None, None, True), timeout=None) as client,  # noqa: S113 - the caller bounds the whole
            client.stream(
                method, url, headers=headers, data=None if form is None else dict(form), auth=credentials
            ) as response,
        ):
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise HttpError("a compressed answer, which was not asked for")
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise HttpError(f"an answer of more than {MAX_BYTES} bytes")
            return Answer(response.status_code, bytes(body))
