"""URLs of an identity provider's keys or tokens: `https://…`, `file:…`, or `http://` on this machine."""

from pathlib import Path
from typing import Annotated
from urllib.parse import quote, unquote, urlsplit

from pydantic import ValidationInfo
from pydantic.functional_validators import AfterValidator

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def _identity_url(text: str, info: ValidationInfo) -> str:
    """Checks the URL. A `file:` URL is returned with an absolute path."""
    parts = urlsplit(text)
    if parts.scheme == "file":
        return "file:" + quote(str(_file(parts.netloc, parts.path, info)))
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError(f"expected https://… or file:…, found {text!r}")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        # An attacker that can change the response could forge any identity.
        raise ValueError(f"http:// is allowed only to {', '.join(LOOPBACK)}; write https://")
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "the URL must not contain a user name or password, because logs and metrics show it; remove them"
        )
    _ = parts.port  # ValueError for an invalid port.
    return text


def _file(host: str, path: str, info: ValidationInfo) -> Path:
    if host not in ("", "localhost"):
        raise ValueError(f"the file: URL has the host {host!r}; write file:/path or file:///path")
    found = Path((info.context or {}).get("directory", Path())) / unquote(path)
    if not found.is_file():
        raise ValueError(f"no such file: {found}")
    return found


IdentityUrl = Annotated[str, AfterValidator(_identity_url)]


def file_of(url: str) -> Path | None:
    """The path in a checked `file:` URL; None for an endpoint."""
    return Path(unquote(url.removeprefix("file:"))) if url.startswith("file:") else None
