"""A forwarded request and its response -> the records that Kafka's own controller writes for it.

Used where the controller does not return the offset of a change in its log (`controller.mode: kraft`), for
the audit: reconciliation looks for these records in the log (spark_audit.reconcile). A change is the name of
a record, then its fields in a fixed order, as far as they are known: a shorter one stands for every record
that begins like it. It contains no secrets. Without a response, it is everything that was requested.
"""

import json
from typing import Any

from proxy.session.apis.table import TABLE
from proxy.session.call import Change
from proxy.wire.work import spend

MAX_BYTES = 262_144
"""A request with more changes is recorded by the kinds of its records, since a topic takes no large
messages."""

_CHANGE_UNITS = 4
"""The cost of one change, in the units of proxy.wire.work."""


def expected_records(api_key: int, request: Any, response: Any) -> tuple[Change, ...]:
    """In the order of the request; `response` None: its outcome is unknown."""
    changes_by = TABLE[api_key].changes
    if changes_by is None or getattr(request, "validate_only", False):
        return ()
    changes: list[Change] = []
    kinds: dict[Change, None] = {}
    size_bytes = 0
    for change in changes_by(request, response):
        spend(_CHANGE_UNITS)
        kinds[change[:1]] = None
        if size_bytes <= MAX_BYTES:
            changes.append(change)
            size_bytes += len(json.dumps(change)) + len(", ")
    return tuple(changes) if size_bytes <= MAX_BYTES else tuple(kinds)
