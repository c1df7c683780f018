"""The table of APIs: the rows of all files in this folder, by key, and the versions that the proxy supports.

An API is added by a file with `APIS` in it; without a row it is rejected and not advertised (SPEC A7).
Produce, Fetch, ApiVersions and the SASL APIs have no row: proxy.session handles them in files of their own.
The APIs between brokers (AlterPartition, the state of share groups and others) have no row either: brokers
connect to each other without a proxy, and clients do not need them. A proxy rejects Envelope (SPEC E10).
ApiVersions is made from `supported_versions`, restricted to those of broker and controller.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Protocol

from proxy.session import apis
from proxy.session.call import Api, Call, Verdict
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message

_OWN = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


class Row(Protocol):
    """A row of a table by API key."""

    @property
    def key(self) -> ApiKey: ...


def collected(package: ModuleType, attribute: str) -> dict[int, Any]:
    """Return the rows in the `attribute` of each module of a package, by key. ValueError: a key has two rows.

    The calling module may be in the package: it does not have the attribute yet.
    """
    rows: dict[int, Row] = {}
    for name in sorted(found.name for found in iter_modules(package.__path__, f"{package.__name__}.")):
        for row in getattr(import_module(name), attribute, ()):
            if rows.setdefault(row.key, row) is not row:
                raise ValueError(f"{package.__name__}: {row.key.name} has two rows")
    return rows


def _remembering(api: Api) -> Api:
    """Return the row whose decision first retains an administrative request as it came (SPEC D12)."""
    decide, administers = api.decide, api.administers
    if api.objects is None:
        return api

    def remembering(call: Call, request: Message) -> Verdict:
        if administers is None or administers(request):
            call.requested = copy(request)
        return decide(call, request)

    return replace(api, decide=remembering)


TABLE: dict[int, Api] = {key: _remembering(api) for key, api in collected(apis, "APIS").items()}
_ROWS = TABLE.values()
FORWARDED = frozenset(api.key for api in _ROWS if api.admin == "controller")
"""APIs that change the metadata of the cluster, and so go to the controller (SPEC E2)."""
FROM_IMAGE = frozenset(api.key for api in _ROWS if api.admin == "image")
REPEATABLE = frozenset(api.key for api in _ROWS if api.repeatable)
HELD = frozenset(api.key for api in _ROWS if api.held)
BETWEEN_BROKERS = frozenset(api.key for api in _ROWS if api.between_brokers)


def rejection(
    api_key: int, version: int, request: Message, error_code: ErrorCode | int, message: str | None = None
) -> Any:
    """Return the response in which a whole decoded request failed; KeyError: the API has no row."""
    return TABLE[api_key].reject(version, request, {"error_code": error_code, "error_message": message})


HANDLED_HERE = FROM_IMAGE.union(_OWN)
"""The broker never gets these, so its versions do not matter."""


def supported_versions(broker: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """API key -> lowest and highest version that the proxy decodes and decides on."""
    offered = {}
    for api_key in (*_OWN, ApiKey.PRODUCE, ApiKey.FETCH, *TABLE):
        own = codecs.request_versions(api_key)
        offered[int(api_key)] = (own.start, own.stop - 1)
    # Kafka advertises Produce versions that it no longer supports, for clients that look for them
    # (KAFKA-18659).
    advertised = broker.get(ApiKey.PRODUCE)
    if advertised is not None:
        offered[int(ApiKey.PRODUCE)] = (min(advertised[0], offered[0][0]), offered[0][1])
    return offered
