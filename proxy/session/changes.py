"""A forwarded request and the controller's answer -> the records that Kafka's own controller writes for it.

Asked by proxy.session.forwarding where the controller does not tell where in its log a change is
(`controller.mode: kraft`), for the audit: reconciliation looks for these changes in the log
(spark_audit.reconcile.kraft_claims). A change is the name of a record, then what is in it in a fixed order,
as far as it is known: a shorter one stands for every record that begins so. Secrets are in none. Without an
answer it is all that was asked for.
"""

import json
from typing import Any

from proxy.session.apis.table import TABLE
from proxy.session.call import Change
from proxy.wire.work import spend

MAX_BYTES = 262_144
"""A request that changes more is told by the kinds of its records: a topic takes no line of megabytes."""

_CHANGE_UNITS = 4
"""What one change costs here, in the units of proxy.wire.work."""


def changes_of(api_key: int, request: Any, response: Any) -> tuple[Change, ...]:
    """In the order asked for; `response` None: nobody knows what came of it."""
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
