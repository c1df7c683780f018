"""The counts of a listener for the metrics: requests, their durations, and error codes of responses.

Each listener's policy (proxy.session.gate) has one; its sessions count in it, and proxy.net reads it at each
scrape. The numbers are in plain lists, because this is the hot path: see docs/decisions/0054.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from operator import add as add_int
from operator import attrgetter
from typing import Any

from proxy.session.accounting.response_errors import ERROR_FIELDS
from proxy.wire import catalog
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message
from proxy.wire.schema import Struct

BUCKETS = 64
Durations = list[int]
"""At n < BUCKETS the number of durations below 2**n ms and not below half of that; at -1 the sum in ms."""
UNKNOWN_API = -1
"""In place of any API key that Kafka does not have: a client may send any number."""

_KNOWN_APIS = frozenset(map(int, ApiKey))


def no_durations() -> Durations:
    return [0] * (BUCKETS + 1)


def add(durations: Durations, duration_ms: int) -> None:
    """Add one duration; a negative one, after the wall clock was set back, counts as 0."""
    if duration_ms > 0:
        durations[duration_ms.bit_length()] += 1
        durations[-1] += duration_ms
    else:
        durations[0] += 1


def _by_api() -> defaultdict[int, Durations]:
    return defaultdict(no_durations)


@dataclass(slots=True)
class RequestCounts:
    """The counts of one listener; all by API key."""

    requests: dict[int, int] = field(default_factory=dict)
    request_bytes: int = 0
    response_bytes: int = 0
    passed: dict[int, Durations] = field(default_factory=_by_api)
    """Durations of requests whose response from the broker was sent on at once."""
    through: dict[int, Durations] = field(default_factory=_by_api)
    """Durations of all others, from request to response: the proxy's own, the controller's, and held ones."""
    at_broker: dict[int, Durations] = field(default_factory=_by_api)
    """Durations of those in `through` at the broker, from sending the request to the broker's response."""
    errors: dict[tuple[int, int], int] = field(default_factory=dict)
    """Responses by API key and error code."""
    connections_by_software: dict[str, int] = field(default_factory=dict)
    """Open connections by name and version of their clients' software (client_state)."""
    connections_by_version: dict[tuple[int, int], int] = field(default_factory=dict)
    """Open connections by API key and version that their clients have used."""

    def request_durations(self) -> dict[int, Durations]:
        """Return by API: from taking a request to sending its response."""
        return _added(self.passed, self.through)

    def broker_durations(self) -> dict[int, Durations]:
        """Return by API: from sending a request to the broker to its response."""
        return _added(self.passed, self.at_broker)

    def took(self, api_key: int) -> None:
        """Count a request, whatever its outcome."""
        known = _known(api_key)
        self.requests[known] = self.requests.get(known, 0) + 1

    def responded_here(self, api_key: int, duration_ms: int) -> None:
        """Count a response of the proxy's own, sent after this time."""
        add(self.through[api_key], duration_ms)

    def error(self, api_key: int, error_code: int) -> None:
        """Count a response with this error code; one without an error is not counted."""
        if error_code:
            key = _known(api_key), int(error_code)
            self.errors[key] = self.errors.get(key, 0) + 1

    def errors_of(self, api_key: int, response: Any) -> None:
        """Count each error code of a decoded response once, however often the response has it."""
        codes: set[int] = set()
        _collect(_error_plan(api_key), [response], codes)
        for code in codes:
            self.error(api_key, code)


def _added(one: Mapping[int, Durations], other: Mapping[int, Durations]) -> dict[int, Durations]:
    keys = sorted({*one, *other})
    none = no_durations()
    both = {key: list(map(add_int, one.get(key, none), other.get(key, none))) for key in keys}
    return {key: durations for key, durations in both.items() if any(durations)}


def _known(api_key: int) -> int:
    return api_key if api_key in _KNOWN_APIS else UNKNOWN_API


@dataclass(slots=True, eq=False)
class _Plan:
    """The fields of a struct that are error codes, and those whose structs have some."""

    codes: tuple[Callable[[Any], int], ...]
    below: tuple[tuple[Callable[[Any], Any], "_Plan"], ...]


@cache
def _error_plan(api_key: int) -> _Plan:
    return _plan_of(catalog.response(api_key).root)


def _plan_of(struct: Struct) -> _Plan:
    names = [each.attribute for each in struct.fields]
    codes = tuple(attrgetter(name) for name in names if name in ERROR_FIELDS)
    below = [(each.attribute, _plan_of(each.struct)) for each in struct.fields if each.struct is not None]
    return _Plan(codes, tuple((attrgetter(name), plan) for name, plan in below if plan.codes or plan.below))


def _collect(plan: _Plan, parts: list[Any], codes: set[int]) -> None:
    """A response may have 100,000 partitions: this is the cheapest way through them, level by level.

    A long array at the top is iterated over as it was decoded, so that it counts by itself.
    """
    for code in plan.codes:
        codes.update(map(code, parts))
    for values_of, below in plan.below:
        found: list[Any] = []
        for value in map(values_of, parts):
            if isinstance(value, list):
                if len(parts) == 1:
                    found = value
                else:
                    found += value
            elif isinstance(value, Message):  # Or null, or not decoded.
                found.append(value)
        if found:
            _collect(below, found, codes)


def name_of_error(error_code: int) -> str:
    """Return Kafka's name; `Unknown` for codes that are not in the table, so that their number is bounded."""
    return ErrorCode(error_code).name if error_code in _ERROR_CODES else "Unknown"


def name_of_api(api_key: int) -> str:
    """Return Kafka's name; `Unknown` if there is none."""
    return ApiKey.name_of(api_key) if api_key in _KNOWN_APIS else "Unknown"


_ERROR_CODES = frozenset(map(int, ErrorCode))
