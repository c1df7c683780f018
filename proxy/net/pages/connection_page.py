"""The page /connections as JSON: who is connected, from where, since and until when, with what (O13).

Made from the proxy's connections for each request, in steps, so that clients are served meanwhile. Pages
follow one another by connection id: `next` of one is `after` of the following. With workers the supervisor
asks each of them for the same page, and merges them. `ConnectionQuery` raises BadRequest for a query that is
not understood: nothing is shown that was not asked for.
"""

import json
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappush, heappushpop
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, Protocol, TypedDict
from urllib.parse import parse_qsl

from proxy.net.pages.http_server import BadRequest
from proxy.security.principal import parse_principal
from proxy.session.session import Session
from proxy.wire.api_keys import ApiKey

DEFAULT_ROWS, MAX_ROWS = 100, 1_000
"""Of one page."""
_HIGHEST_VERSION = (1 << 15) - 1
_NUMBER = re.compile("[0-9]{1,9}")
_KEYS = {ApiKey.name_of(key).lower(): int(key) for key in ApiKey}


class ConnectedClient(Protocol):
    """A client's connection."""

    session: Session
    since_ms: int
    last_activity_ms: int


class ConnectionRow(TypedDict):
    connection_id: str
    principal: str | None
    groups: list[str]
    listener: str
    address: str
    balancer: str | None
    mechanism: str | None
    client_id: str | None
    client_software: str | None
    api_versions: dict[str, list[int]]
    since_ms: int
    last_activity_ms: int
    session_end_ms: int | None
    requests_in_flight: int


class ConnectionPage(TypedDict):
    """`matching` is the number of connections on all pages; `next` None: this is the last one."""

    matching: int
    next: str | None
    connections: list[ConnectionRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionQuery:
    """Which connections are asked for; None: a filter that was not given."""

    principal: str | None = None
    listener: str | None = None
    client_software: str | None = None
    """A name, of all versions, or a name and a version."""
    address: IPv4Network | IPv6Network | None = None
    api_version: tuple[int, int, int] | None = None
    """API key, lowest and highest version: those that have used one of them."""
    after: int = -1
    """A connection id as a number, which the page begins behind."""
    limit: int = DEFAULT_ROWS

    @classmethod
    def parsed(cls, query: str) -> "ConnectionQuery":
        """BadRequest."""
        try:
            pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict")
        except ValueError as error:
            raise BadRequest(f"invalid query: {error}") from error
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name not in _PARSERS:
                raise BadRequest(f"unknown parameter {name[:64]!r}: expected {', '.join(_PARSERS)}")
            if [each for each, _ in pairs].count(name) > 1:
                raise BadRequest(f"{name} is there more than once")
            if not value:
                raise BadRequest(f"{name} is empty")
            found[name] = _PARSERS[name](value)
        return cls(**found)

    def matches(self, session: Session) -> bool:
        """Whether the connection is asked for."""
        authentication, peer = session.authentication, session.peer
        if self.listener is not None and self.listener != session.listener.name:
            return False
        if self.principal is not None and self.principal != _principal(session):
            return False
        if self.client_software is not None:
            named = authentication.client_software
            if named is None or self.client_software not in (named, named.partition(" ")[0]):
                return False
        if self.address is not None and ip_address(peer.host.partition("%")[0]) not in self.address:
            return False
        if self.api_version is not None:
            key, low, high = self.api_version
            return any(api == key and low <= version <= high for api, version in session.machine.use.versions)
        return True


def _text(value: str) -> str:
    return value


def principal_text(value: str) -> str:
    """Return it. BadRequest for what is no principal: it would match none, as if no one were connected."""
    try:
        return str(parse_principal(value))
    except ValueError as error:
        raise BadRequest(f"principal: {error}") from error


def _network(value: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(value)
    except ValueError as error:
        raise BadRequest(f"address: {error}; expected an address, or a network as 10.0.3.0/24") from error


def _api_version(value: str) -> tuple[int, int, int]:
    name, _, versions = value.partition(":")
    low, dash, high = versions.partition("-")
    key = _KEYS.get(name.lower())
    if key is None:
        raise BadRequest(f"api_version: no API is called {name[:64]!r}; expected a name as in Fetch:4")
    if not versions:
        return key, 0, _HIGHEST_VERSION
    if not (_NUMBER.fullmatch(low) and (_NUMBER.fullmatch(high) if dash else True)):
        raise BadRequest("api_version: expected an API with a version or versions, as Fetch:4 or Fetch:0-3")
    return key, int(low), int(high or low)


def _limit(value: str) -> int:
    if not _NUMBER.fullmatch(value) or not 1 <= int(value) <= MAX_ROWS:
        raise BadRequest(f"limit: expected a number from 1 to {MAX_ROWS}")
    return int(value)


def _after(value: str) -> int:
    try:
        return int(value, 16)
    except ValueError as error:
        raise BadRequest("after: expected a connection id, the `next` of the page before") from error


_PARSERS: dict[str, Callable[[str], object]] = {
    "principal": principal_text,
    "listener": _text,
    "client_software": _text,
    "address": _network,
    "api_version": _api_version,
    "after": _after,
    "limit": _limit,
}


def connection_page(
    query: ConnectionQuery, connections: Iterable[ConnectedClient]
) -> Generator[None, None, bytes]:
    """Return the page of these connections that the query asks for, in steps."""
    first: list[
        tuple[int, int, ConnectedClient]
    ] = []  # The lowest ids behind `after`, negated: the heap's top is
    matching = 0  # the highest of them. The second number orders equal ids.
    for connection in connections:
        yield
        if not query.matches(connection.session):
            continue
        matching += 1
        number = int(connection.session.peer.connection_id, 16)
        if number > query.after:
            put = heappush if len(first) <= query.limit else heappushpop
            put(first, (-number, matching, connection))
    rows = []
    for *_, connection in sorted(first, reverse=True):
        rows.append(_row(connection))
        yield
    return _page(matching, rows, query.limit)


def merged_connections(query: ConnectionQuery, pages: Sequence[bytes], workers: int) -> bytes:
    """Return one page of those of the workers that have responded, of so many."""
    read: list[ConnectionPage] = [json.loads(page) for page in pages]
    rows = sorted(
        (row for page in read for row in page["connections"]), key=lambda row: int(row["connection_id"], 16)
    )
    is_last = all(page["next"] is None for page in read)
    matching = sum(page["matching"] for page in read)
    more = {"workers": workers, "workers_without_response": workers - len(read)}
    return _page(matching, rows, query.limit, is_last=is_last, **more)


def _page(
    matching: int, rows: list[ConnectionRow], limit: int, *, is_last: bool = True, **more: int
) -> bytes:
    has_more = len(rows) > limit or not is_last
    shown = rows[:limit]
    head = {"matching": matching, "next": shown[-1]["connection_id"] if has_more and shown else None, **more}
    listed = ",\n".join(map(json.dumps, shown))
    return f'{json.dumps(head)[:-1]}, "connections": [\n{listed}\n]}}\n'.encode()


def _row(connection: ConnectedClient) -> ConnectionRow:
    session = connection.session
    authentication, peer, machine = session.authentication, session.peer, session.machine
    versions: dict[str, list[int]] = {}
    for api_key, version in sorted(machine.use.versions):
        versions.setdefault(ApiKey.name_of(api_key), []).append(version)
    return {
        "connection_id": peer.connection_id,
        "principal": _principal(session),
        "groups": list(authentication.principal.groups),
        "listener": session.listener.name,
        "address": peer.host,
        "balancer": peer.balancer,
        "mechanism": authentication.mechanism,
        "client_id": machine.client.context.client_id,
        "client_software": authentication.client_software,
        "api_versions": versions,
        "since_ms": connection.since_ms,
        "last_activity_ms": connection.last_activity_ms,
        "session_end_ms": authentication.expires_at_ms,
        "requests_in_flight": len(session.pipeline),
    }


def _principal(session: Session) -> str | None:
    """Return the principal; None: the client has not logged in yet."""
    return str(session.authentication.principal) if session.authentication.known else None
