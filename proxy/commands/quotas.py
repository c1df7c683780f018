"""`penstock quotas`: the quotas in use at a running proxy, who is throttled first, as a table or as JSON."""

import json
import sys
from pathlib import Path

from proxy.commands.connections import EXIT_INVALID, EXIT_NO_RESPONSE, table
from proxy.commands.http_port import HttpPortOf, NoResponse, RequestRejected
from proxy.commands.plain import plain
from proxy.config import ConfigError

_HEAD = ("QUOTA", "QUOTA-ID", "RATE", "LIMIT", "THROTTLED FOR", "CONNECTIONS", "GOVERNED BY")


def show_quotas(path: Path, *, as_json: bool) -> int:
    """Print the page /quotas (docs/quotas.md); return 0, 1 without a response, or 2 for an invalid file."""
    try:
        page = HttpPortOf.of(path).get("/quotas")
    except NoResponse as error:
        print(f"penstock quotas: {error}", file=sys.stderr)
        return EXIT_NO_RESPONSE
    except (RequestRejected, ConfigError) as error:
        print(f"penstock quotas: {error}", file=sys.stderr)
        return EXIT_INVALID
    if as_json:
        print(json.dumps(page))
        return 0
    rows = [
        (
            row["quota_key"],
            plain(row["quota_id"]),
            f"{row['rate']:g}",
            f"{row['limit']:g}",
            f"{row['throttled_for_ms']} ms",
            str(row["connections"]),
            plain(row["governed_by"]),
        )
        for row in page["quotas"]
    ]
    for line in table([_HEAD, *rows]):
        print(line)
    return 0
