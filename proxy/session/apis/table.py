"""The table of APIs: the rows of all files in this folder, by key. An API without a row is rejected and not
advertised.

An API is added by a file with `APIS` in it (SPEC A7). Produce, Fetch, ApiVersions and the SASL APIs have no
row: proxy.session handles them by files of their own. Brokers' own APIs (AlterPartition, the state of share
groups and their kin) stay out: brokers speak to each other without us, and a client has no business with
them. Envelope is rejected at a proxy (SPEC E10).
"""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from proxy.session import apis
from proxy.session.call import Api
from proxy.wire.error_codes import ErrorCode


def _rows() -> Iterator[Api]:
    for name in sorted(found.name for found in iter_modules(apis.__path__, f"{apis.__name__}.")):
        if name != __name__:
            yield from getattr(import_module(name), "APIS", ())


TABLE: dict[int, Api] = {}
for _row in _rows():
    if TABLE.setdefault(_row.key, _row) is not _row:
        raise ValueError(f"{_row.key.name} has two rows in {apis.__name__}")

APIS = tuple(TABLE.values())
FORWARDED = frozenset(api.key for api in APIS if api.forwarded)
"""The requests that change what the cluster has agreed on, and so go to the controller (SPEC E2)."""
FROM_IMAGE = frozenset(api.key for api in APIS if api.from_image)
REPEATABLE = frozenset(api.key for api in APIS if api.repeatable)
BETWEEN_BROKERS = frozenset(api.key for api in APIS if api.between_brokers)
CHANGES_AT_BROKER = frozenset(api.key.name_of(api.key) for api in APIS if api.changes_at_broker)
"""Names of the APIs, as the audit trail has them."""


def rejection(
    api_key: int, version: int, request: Any, error_code: ErrorCode | int, message: str | None = None
) -> Any:
    """The response in which all of a decoded request failed; KeyError for an API without a row."""
    return TABLE[api_key].reject(version, request, {"error_code": error_code, "error_message": message})
