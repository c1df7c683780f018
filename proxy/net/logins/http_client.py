"""Small requests: to an identity provider for its keys or for a token, and to a witness of the audit trail.

Size and time of the response are bounded. Redirects are not followed: they could lead away from TLS. Proxies
are those of HTTPS_PROXY and NO_PROXY. Used by proxy.net.logins.oauthbearer,
proxy.net.logins.bearer_token and proxy.net.audit.outside_witness.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from proxy.error_text import text_of
from proxy.net.files.tls import TlsError, client_context
from proxy.net.runtime.reachability import NOT_TLS

MAX_BYTES = 1 << 20


class HttpError(Exception):
    """There is no usable response. The message contains nothing of the request."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A complete response of any status."""

    status: int
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class HttpClient:
    """`ca`: PEM file that the server's certificate is verified against; None: the system's CAs."""

    ca: Path | None = None
    timeout_ms: int = 10_000

    def __post_init__(self) -> None:
        # The import is slow: a start without an identity provider does without it (decision 0065).
        import httpx  # noqa: F401

    async def get(self, url: str) -> HttpResponse:
        """Send a GET request. HttpError when no response comes in time."""
        return await self._request("GET", url, None, None)

    async def post(
        self, url: str, body: Mapping[str, str] | str, credentials: tuple[str, str] | None = None
    ) -> HttpResponse:
        """Post a form or a text, with basic authentication if there are credentials. HttpError as `get`."""
        return await self._request("POST", url, body, credentials)

    async def _request(
        self, method: str, url: str, body: Mapping[str, str] | str | None, credentials: tuple[str, str] | None
    ) -> HttpResponse:
        import httpx

        try:
            async with asyncio.timeout(self.timeout_ms / 1000):
                return await self._response(method, url, body, credentials)
        except TimeoutError:
            raise HttpError(f"no response within {self.timeout_ms} ms") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, TlsError) as error:
            raise HttpError(_text_of(error, url)) from None

    async def _response(
        self, method: str, url: str, body: Mapping[str, str] | str | None, credentials: tuple[str, str] | None
    ) -> HttpResponse:
        import httpx

        # A small compressed response could unpack to a huge one.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        form, text = (None, body) if isinstance(body, str) else (body and dict(body), None)
        async with (
            httpx.AsyncClient(verify=client_context(self.ca), timeout=None) as client,  # noqa: S113 - the caller bounds the whole
            client.stream(
                method, url, headers=headers, data=form, content=text, auth=credentials
            ) as response,
        ):
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise HttpError("a compressed response to a request for an uncompressed one")
            received = bytearray()
            async for chunk in response.aiter_raw():
                received += chunk
                if len(received) > MAX_BYTES:
                    raise HttpError(f"a response of more than {MAX_BYTES} bytes")
            return HttpResponse(response.status_code, bytes(received))


def _text_of(error: Exception, url: str) -> str:
    """Return the text of an error, with advice if only one of the server and the URL is for TLS."""
    import httpx

    text = text_of(error)
    if any(reason in text for reason in NOT_TLS):
        return f"{text}: the port is one without TLS: see the scheme and the port of the URL"
    if url.startswith("http:") and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return f"{text}: perhaps the port is one with TLS: write https:"
    return text
