"""POST /disconnect: an administrator ends one connection, or all of a principal (O13).

The request is JSON: `principal` or `connection_id`, and `why`. Each connection ends as one does whose session
has expired, and is a record with the administrator and the reason. With workers the supervisor passes the
request to each of them (`encoded`). Connections that clients open meanwhile are not ended: revoke the
credential first.
"""

import json
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from proxy.error_text import text_of
from proxy.net.pages.connection_page import ConnectedClient, ConnectionQuery, principal_text
from proxy.net.pages.http_server import BadRequest

MAX_WHY_CHARACTERS = 500
_KEYS = ("principal", "connection_id", "why")
_UNRECORDED = "no connection was ended, because audit records cannot be written"


class EndingConnection(ConnectedClient, Protocol):
    """A client's connection that can be ended."""

    def disconnect(self, message: str) -> bool:
        """End it; return False if it has ended already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisconnectRequest:
    """Which connections end; `principal` or `connection_id` is None."""

    principal: str | None = None
    connection_id: str | None = None
    why: str
    by: str
    """The administrator, and the address that the request came from."""

    @classmethod
    def parsed(cls, body: bytes, by: str) -> "DisconnectRequest":
        """BadRequest."""
        try:
            found: Any = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"expected a JSON object: {text_of(error)}") from error
        if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
            raise BadRequest("expected a JSON object whose values are text")
        if unknown := [name for name in found if name not in _KEYS]:
            raise BadRequest(f"unknown key {unknown[0][:64]!r}: expected {', '.join(_KEYS)}")
        if ("principal" in found) == ("connection_id" in found):
            raise BadRequest("expected either principal or connection_id")
        if not all(each.strip() for each in found.values()):
            raise BadRequest("a value is empty")
        if "principal" in found:
            principal_text(found["principal"])
        why = found.pop("why", "").strip()
        if not 0 < len(why) <= MAX_WHY_CHARACTERS:
            raise BadRequest(f"why: expected a reason of at most {MAX_WHY_CHARACTERS} characters")
        return cls(**found, why=why, by=by)

    def encoded(self) -> str:
        """Return the text from which `decoded` makes the same again."""
        return json.dumps(asdict(self))

    @classmethod
    def decoded(cls, text: str) -> "DisconnectRequest":
        return cls(**json.loads(text))

    async def carry_out(
        self, connections: AsyncIterable[EndingConnection], allows_change: Callable[[], Awaitable[bool]]
    ) -> bytes:
        """End those of these connections that are meant, and return how many as JSON.

        `allows_change`: whether a change can be recorded (SPEC D3); without a record none ends.
        """
        if not await allows_change():
            return _outcome(0, [_UNRECORDED])
        ended, query = 0, ConnectionQuery(principal=self.principal)
        async for connection in connections:
            is_meant = self.connection_id in (None, connection.session.peer.connection_id)
            if is_meant and query.matches(connection.session):
                ended += connection.disconnect(f"{self.why} (by {self.by})")
        return _outcome(ended, [])


def merged_disconnects(pages: Sequence[bytes], workers: int) -> bytes:
    """Return one outcome of those of the workers that have responded, of so many."""
    read = [json.loads(page) for page in pages]
    errors = [error for page in read for error in page["errors"]]
    if len(read) < workers:
        errors.append(f"{workers - len(read)} of {workers} workers have not responded")
    return _outcome(sum(page["disconnected"] for page in read), list(dict.fromkeys(errors)))


def _outcome(ended: int, errors: list[str]) -> bytes:
    return json.dumps({"disconnected": ended, "errors": errors}).encode() + b"\n"
