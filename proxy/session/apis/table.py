"""The table of APIs: the rows of all files in this folder, by key.

An API is added by a file with `APIS` in it; without a row it is rejected and not advertised (SPEC A7).
Produce, Fetch, ApiVersions and the SASL APIs have no row: proxy.session handles them by files of their own.
Brokers' own APIs (AlterPartition, the state of share groups and their kin) stay out: brokers speak to each
other without us, and a client has no business with them. Envelope is rejected at a proxy (SPEC E10).
"""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Protocol

from proxy.session import apis
from proxy.session.call import Api
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message


class Row(Protocol):
    @property
    def key(self) -> ApiKey: ...


def collected(package: ModuleType, attribute: str) -> dict[int, Any]:
    """The rows in the `attribute` of each module of a package, by key. ValueError for a key with two rows.

    For a table in the package itself: the module that calls this has no such attribute yet.
    """
    rows: dict[int, Row] = {}
    for name in sorted(found.name for found in iter_modules(package.__path__, f"{package.__name__}.")):
        for row in getattr(import_module(name), attribute, ()):
            if rows.setdefault(row.key, row) is not row:
                raise ValueError(f"{package.__name__}: {row.key.name} has two rows")
    return rows


TABLE: dict[int, Api] = collected(apis, "APIS")
_ROWS = TABLE.values()
FORWARDED = frozenset(api.key for api in _ROWS if api.forwarded)
"""The requests that change what the cluster has agreed on, and so go to the controller (SPEC E2)."""
FROM_IMAGE = frozenset(api.key for api in _ROWS if api.from_image)
REPEATABLE = frozenset(api.key for api in _ROWS if api.repeatable)
BETWEEN_BROKERS = frozenset(api.key for api in _ROWS if api.between_brokers)
CHANGES_AT_BROKER = frozenset(api.key.name_of(api.key) for api in _ROWS if api.changes_at_broker)
"""Names of the APIs, as the audit trail has them."""


def rejection(
    api_key: int, version: int, request: Message, error_code: ErrorCode | int, message: str | None = None
) -> Any:
    """The response in which all of a decoded request failed; KeyError for an API without a row."""
    return TABLE[api_key].reject(version, request, {"error_code": error_code, "error_message": message})
