"""Where the HTTP port is, and who may see more than whether the process is alive and ready.

Made from the configuration; asked by proxy.net.http with each request. The token is read again when its file
changes: `run` belongs in the process's TaskGroup. The certificate is watched with the process's others
(proxy.net.certificates).
"""

import hashlib
import hmac
from dataclasses import dataclass
from pathlib import Path

from proxy.net.tls import ServerTls
from proxy.net.watched_file import FileReloads, WatchedFile

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

    async def run(self, reloads: FileReloads) -> None:
        """Look at the token's file until cancelled; returns at once where there is no token."""
        if self.token is not None:
            file = WatchedFile(self.token.path, FILE_KIND, self.token.take, reloads)
            file.load()
            await file.run()

    @property
    def _asks_clients(self) -> bool:
        return self.tls is not None and self.tls.asks_clients
