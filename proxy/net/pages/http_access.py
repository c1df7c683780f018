"""The address of the HTTP port, and the credentials that its pages need.

Made from the configuration, and checked by proxy.net.pages.http_server for each request. The certificate and
the token are reloaded when their files change (`HttpFiles`).
"""

import asyncio
import hashlib
import hmac
from dataclasses import dataclass
from pathlib import Path

from proxy.net.files.tls import Certificates, ServerTls
from proxy.net.files.watched_file import FileReloads, WatchedFile

FILE_KIND = "http_token"
MIN_TOKEN_CHARACTERS = 16


class TokenFileError(ValueError):
    """The file has no usable token; the message names it."""


class BearerToken:
    """The token in a file, stored as its hash (RFC 6750)."""

    def __init__(self, path: Path) -> None:
        """TokenFileError when the file cannot be used."""
        self.path = path
        self._digest = b""
        try:
            self.load(path.read_bytes())
        except OSError as error:
            raise TokenFileError(f"http.bearer.token.file: {path}: {error.strerror}") from error

    def load(self, content: bytes) -> None:
        """Replace the token by the file's content. TokenFileError when it has no usable token."""
        token = content.strip()
        if len(token) < MIN_TOKEN_CHARACTERS or not token.isascii() or len(token.split()) != 1:
            raise TokenFileError(
                f"http.bearer.token.file: {self.path}: expected one word of at least {MIN_TOKEN_CHARACTERS}"
                " ASCII characters; `openssl rand -hex 32` makes one"
            )
        self._digest = hashlib.sha256(token).digest()

    def is_in(self, authorization: bytes) -> bool:
        """Return whether an Authorization header has the token. Takes the same time for a wrong one."""
        scheme, _, token = authorization.partition(b" ")
        given = hashlib.sha256(token.strip()).digest()
        return hmac.compare_digest(given, self._digest) and scheme.lower() == b"bearer"


class AdminTokens:
    """The tokens of administrators in a file, each with its owner's name; stored as hashes."""

    def __init__(self, path: Path) -> None:
        """TokenFileError when the file cannot be used."""
        self.path = path
        self._names: dict[bytes, str] = {}
        try:
            self.load(path.read_bytes())
        except OSError as error:
            raise TokenFileError(f"http.admin.tokens.file: {path}: {error.strerror}") from error

    def load(self, content: bytes) -> None:
        """Replace the tokens by those of the file. TokenFileError when a line has none that can be used."""
        self._names = {
            hashlib.sha256(token.encode()).digest(): name for name, token in self.read(self.path, content)
        }

    @staticmethod
    def read(path: Path, content: bytes) -> list[tuple[str, str]]:
        """Return names and tokens. TokenFileError as `load`."""
        found: list[tuple[str, str]] = []
        for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if not line.isascii() or len(words) != 2 or len(words[1]) < MIN_TOKEN_CHARACTERS:
                raise TokenFileError(
                    f"http.admin.tokens.file: {path}, line {number}: expected a name and a token of at least"
                    f" {MIN_TOKEN_CHARACTERS} ASCII characters; `openssl rand -hex 32` makes a token"
                )
            found.append((words[0], words[1]))
        for each in zip(*found, strict=True):
            if len(set(each)) < len(found):
                raise TokenFileError(f"http.admin.tokens.file: {path}: a name or token is there twice")
        if not found:
            raise TokenFileError(f"http.admin.tokens.file: {path}: there is no token in it")
        return found

    def name_in(self, authorization: bytes) -> str | None:
        """Return whose token an Authorization header has; None: no one's."""
        scheme, _, token = authorization.partition(b" ")
        given = hashlib.sha256(token.strip()).digest()
        names = [name for digest, name in self._names.items() if hmac.compare_digest(given, digest)]
        return names[0] if names and scheme.lower() == b"bearer" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAccess:
    """The HTTP port of one process."""

    host: str
    port: int
    tls: ServerTls | None = None
    """If it has a CA for clients, a client with a certificate may see all pages."""
    token: BearerToken | None = None
    admins: AdminTokens | None = None
    """Who may end connections; None: no one."""

    @property
    def is_open(self) -> bool:
        """Whether all pages may be seen without a credential."""
        return self.token is None and not self._requests_certificates

    def allows(self, authorization: bytes, *, has_certificate: bool) -> bool:
        """Return whether this client may see pages that name users."""
        if self.is_open or (has_certificate and self._requests_certificates):
            return True
        if self.admins is not None and self.admins.name_in(authorization) is not None:
            return True
        return self.token is not None and self.token.is_in(authorization)

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    @property
    def _requests_certificates(self) -> bool:
        return self.tls is not None and self.tls.requests_certificates


class HttpFiles:
    """The files of an access; reloaded when they change."""

    def __init__(self, access: HttpAccess | None, reloads: FileReloads) -> None:
        """TlsError, TokenFileError or OSError if a file has become unusable since `access` was made."""
        tls, token = (None, None) if access is None else (access.tls, access.token)
        self._certificates = Certificates([tls], reloads)
        admins = None if access is None else access.admins
        self._tokens = [
            WatchedFile(each.path, FILE_KIND, each.load, reloads)
            for each in (token, admins)
            if each is not None
        ]
        for file in self._tokens:
            file.load()

    @property
    def expiries(self) -> dict[Path, float]:
        """By file, in seconds since the epoch."""
        return self._certificates.expiries

    async def run(self) -> None:
        """Watch the files until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._certificates.run())
            for file in self._tokens:
                tasks.create_task(file.run())
