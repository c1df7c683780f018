"""Where an identity provider's keys or tokens are: `https://…`, `file:…`, or `http://` on this machine."""

from pathlib import Path
from typing import Annotated
from urllib.parse import quote, unquote, urlsplit

from pydantic import ValidationInfo
from pydantic.functional_validators import AfterValidator

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def _identity_url(text: str, info: ValidationInfo) -> str:
    """A `file:` URL comes back with a whole path."""
    parts = urlsplit(text)
    if parts.scheme == "file":
        return "file:" + quote(str(_file(parts.netloc, parts.path, info)))
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError("expected https://… or file:…")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        # Whoever can change what comes back says who is who.
        raise ValueError(f"http:// only to {', '.join(LOOPBACK)}; elsewhere https://")
    if parts.username is not None or parts.password is not None:
        raise ValueError("no user name or password in the URL: it is shown in logs and metrics")
    _ = parts.port  # ValueError for one that is none.
    return text


def _file(host: str, path: str, info: ValidationInfo) -> Path:
    if host not in ("", "localhost"):
        raise ValueError(f"file: URL with the host {host!r}; expected file:/path or file:///path")
    found = Path((info.context or {}).get("directory", Path())) / unquote(path)
    if not found.is_file():
        raise ValueError(f"no such file: {found}")
    return found


IdentityUrl = Annotated[str, AfterValidator(_identity_url)]


def file_of(url: str) -> Path | None:
    """The file that a checked `file:` URL names; None for an endpoint."""
    return Path(unquote(url.removeprefix("file:"))) if url.startswith("file:") else None
