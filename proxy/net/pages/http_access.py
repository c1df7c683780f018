"""Where the HTTP port is, and who may see more than whether the process is alive and ready.

Made from the configuration; asked by proxy.net.pages.http_server with each request. The certificate and the
token are read again when their files change (`HttpFiles`).
"""

import asyncio
import hashlib
import hmac
from dataclasses import dataclass
from pathlib import Path

from proxy.net.files.certificates import Certificates
from proxy.net.files.tls import ServerTls
from proxy.net.files.watched_file import FileReloads, WatchedFile

FILE_KIND = "http_token"
MIN_TOKEN_CHARACTERS = 16


class TokenFileError(ValueError):
    """The file holds no token that could be used; the message names it."""


class BearerToken:
    """The token in a file, by its hash (RFC 6750)."""

    def __init__(self, path: Path) -> None:
        """TokenFileError when the file cannot be used."""
        self.path = path
        self._digest = b""
        try:
            self.take(path.read_bytes())
        except OSError as error:
            raise TokenFileError(f"http.bearer.token.file: {path}: {error.strerror}") from error

    def take(self, content: bytes) -> None:
        """The file's content, now or after a change."""
        token = content.strip()
        if len(token) < MIN_TOKEN_CHARACTERS or not token.isascii() or len(token.split()) != 1:
            raise TokenFileError(
                f"http.bearer.token.file: {self.path}: expected one word of at least {MIN_TOKEN_CHARACTERS}"
                " ASCII characters; `openssl rand -hex 32` makes one"
            )
        self._digest = hashlib.sha256(token).digest()

    def is_in(self, authorization: bytes) -> bool:
        """Whether an Authorization header carries it; takes as long for a wrong one as for the right one."""
        scheme, _, token = authorization.partition(b" ")
        given = hashlib.sha256(token.strip()).digest()
        return hmac.compare_digest(given, self._digest) and scheme.lower() == b"bearer"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAccess:
    """Of one process."""

    host: str
    port: int
    tls: ServerTls | None = None
    """With a CA of clients, whoever has a certificate of it may see everything."""
    token: BearerToken | None = None

    @property
    def is_open(self) -> bool:
        """Nobody needs a credential."""
        return self.token is None and not self._asks_clients

    def allows(self, authorization: bytes, *, has_certificate: bool) -> bool:
        """Whether this client may see pages that name users."""
        if self.is_open or (has_certificate and self._asks_clients):
            return True
        return self.token is not None and self.token.is_in(authorization)

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    @property
    def _asks_clients(self) -> bool:
        return self.tls is not None and self.tls.asks_clients


class HttpFiles:
    """What an access rests on: read once, and again whenever it changes."""

    def __init__(self, access: HttpAccess | None, reloads: FileReloads) -> None:
        """TlsError, TokenFileError or OSError for a file that has become unusable since `access` was made."""
        tls, token = (None, None) if access is None else (access.tls, access.token)
        self._certificates = Certificates([tls], reloads)
        self._token = None if token is None else WatchedFile(token.path, FILE_KIND, token.take, reloads)
        if self._token is not None:
            self._token.load()

    @property
    def expiries(self) -> dict[Path, float]:
        """As of proxy.net.files.certificates."""
        return self._certificates.expiries

    async def run(self) -> None:
        """Look at the files until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._certificates.run())
            if self._token is not None:
                tasks.create_task(self._token.run())
