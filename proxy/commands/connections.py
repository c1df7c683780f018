"""`penstock connections`: who is connected to a running proxy, as a table or as JSON."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from proxy.commands.http_port import HttpPortOf, NoResponse, RequestRejected
from proxy.commands.plain import plain
from proxy.config import ConfigError

FILTERS = ("principal", "listener", "client_software", "address", "api_version")
"""Parameters of /connections (proxy.net.pages.connection_page)."""
EXIT_NO_RESPONSE, EXIT_INVALID = 1, 2
ROWS = 1_000
_HEAD = ("CONNECTION", "PRINCIPAL", "LISTENER", "ADDRESS", "SOFTWARE", "SINCE", "IN FLIGHT", "API VERSIONS")


def show_connections(path: Path, filters: Mapping[str, str], *, as_json: bool) -> int:
    """Print all connections that the filters let through; return the exit code.

    0: success; 1: no response, or not of all workers; 2: the file or a filter is invalid.
    """
    silent = 0
    try:
        rows: list[dict[str, Any]] = []
        for page in _pages(HttpPortOf.of(path), filters):
            rows += page["connections"]
            silent = max(silent, page.get("workers_without_response", 0))
    except NoResponse as error:
        return _failed(str(error), EXIT_NO_RESPONSE)
    except (RequestRejected, ConfigError) as error:
        return _failed(str(error), EXIT_INVALID)
    lines = map(json.dumps, rows) if as_json else table([_HEAD, *map(_cells, rows)])
    for line in lines:
        print(line)
    if silent:
        return _failed(f"workers without a response: {silent}; their clients are missing", EXIT_NO_RESPONSE)
    return 0


def _pages(port: HttpPortOf, filters: Mapping[str, str]) -> Iterator[Any]:
    after: str | None = None
    while True:
        query = dict(filters, limit=str(ROWS)) | ({} if after is None else {"after": after})
        page = port.get(f"/connections?{urlencode(query)}")
        yield page
        after = page["next"]
        if after is None:
            return


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    used = row["api_versions"].items()
    return (
        row["connection_id"],
        plain(row["principal"] or "-"),
        row["listener"],
        row["address"],
        row["client_software"] or "-",
        datetime.fromtimestamp(row["since_ms"] / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        str(row["requests_in_flight"]),
        " ".join(f"{api}:{','.join(map(str, versions))}" for api, versions in used) or "-",
    )


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def _failed(message: str, exit_code: int) -> int:
    print(f"penstock connections: {message}", file=sys.stderr)
    return exit_code
