"""`penstock connections`, `quotas` and `disconnect`: what the HTTP port of a running proxy shows and does."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from proxy.commands.http_port import HttpPortOf, NoResponse, RequestRejected
from proxy.commands.plain import plain
from proxy.config import ConfigError
from proxy.error_text import text_of
from proxy.net.pages.http_access import AdminTokens, TokenFileError

FILTERS = ("principal", "listener", "client_software", "address", "api_version")
"""Parameters of /connections (proxy.net.pages.connection_page)."""
EXIT_INCOMPLETE, EXIT_INVALID = 1, 2
"""No response, or not of all workers; and a file, a filter or a token that is invalid."""
ROWS = 1_000
_HEAD = ("CONNECTION", "PRINCIPAL", "LISTENER", "ADDRESS", "SOFTWARE", "SINCE", "IN FLIGHT", "API VERSIONS")
_QUOTAS = ("QUOTA", "QUOTA-ID", "RATE", "LIMIT", "THROTTLED FOR", "CONNECTIONS", "GOVERNED BY")


def show_connections(path: Path, filters: Mapping[str, str], *, as_json: bool) -> int:
    """Print all connections that the filters let through; return the exit code."""

    def show(port: HttpPortOf) -> int:
        rows: list[dict[str, Any]] = []
        silent = 0
        for page in _pages(port, filters):
            rows += page["connections"]
            silent = max(silent, page.get("workers_without_response", 0))
        for line in map(json.dumps, rows) if as_json else _table(_HEAD, map(_connection, rows)):
            print(line)
        if silent:
            text = f"workers without a response: {silent}; their clients are missing"
            return _failed("connections", text, EXIT_INCOMPLETE)
        return 0

    return _run("connections", path, show)


def show_quotas(path: Path, *, as_json: bool) -> int:
    """Print the page /quotas (docs/quotas.md); return the exit code."""

    def show(port: HttpPortOf) -> int:
        page = port.get("/quotas")
        for line in [json.dumps(page)] if as_json else _table(_QUOTAS, map(_quota, page["quotas"])):
            print(line)
        return 0

    return _run("quotas", path, show)


def disconnect(path: Path, wanted: dict[str, str], administrator: str | None) -> int:
    """Print how many connections ended; return the exit code.

    `wanted`: the body of the request (proxy.net.pages.disconnecting). `administrator`: the name whose token
    of the file is sent; None: the only one.
    """

    def end(port: HttpPortOf) -> int:
        outcome = port.request("POST", "/disconnect", _token(port, administrator), wanted)
        print(f"disconnected: {outcome['disconnected']}")
        for text in outcome["errors"]:
            _failed("disconnect", text, EXIT_INCOMPLETE)
        return EXIT_INCOMPLETE if outcome["errors"] else 0

    return _run("disconnect", path, end)


def _run(command: str, path: Path, work: Callable[[HttpPortOf], int]) -> int:
    try:
        port = HttpPortOf.of(path)
        try:
            return work(port)
        except (LookupError, TypeError, AttributeError) as error:
            raise port.another_server() from error
    except NoResponse as error:
        return _failed(command, str(error), EXIT_INCOMPLETE)
    except (RequestRejected, ConfigError, TokenFileError, OSError) as error:
        return _failed(command, text_of(error), EXIT_INVALID)


def _failed(command: str, message: str, exit_code: int) -> int:
    print(f"penstock {command}: {message}", file=sys.stderr)
    return exit_code


def _pages(port: HttpPortOf, filters: Mapping[str, str]) -> Iterator[Any]:
    after: str | None = None
    while True:
        query = dict(filters, limit=str(ROWS)) | ({} if after is None else {"after": after})
        page = port.get(f"/connections?{urlencode(query)}")
        yield page
        after = page["next"]
        if after is None:
            return


def _connection(row: Mapping[str, Any]) -> Sequence[str]:
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


def _quota(row: Mapping[str, Any]) -> Sequence[str]:
    return (
        row["quota_key"],
        plain(row["quota_id"]),
        f"{row['rate']:g}",
        f"{row['limit']:g}",
        f"{row['throttled_for_ms']} ms",
        str(row["connections"]),
        plain(row["governed_by"]),
    )


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    cells = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def _token(port: HttpPortOf, administrator: str | None) -> str:
    file = port.settings.admin_tokens_file
    if file is None:
        raise ConfigError("http.admin.tokens.file is not set, so no one may end connections")
    tokens = dict(AdminTokens.read(file, file.read_bytes()))
    if administrator is None and len(tokens) == 1:
        return next(iter(tokens.values()))
    if administrator not in tokens:
        raise ConfigError(f"name whose token is to be used with --as: {', '.join(sorted(tokens))}")
    return tokens[administrator]
