"""The errors of a response for its audit records: of the response as a whole, and of each resource (SPEC D1).

Used for administrative and denied requests that the proxy responds to itself, and for the responses of a
controller. A broker's responses to allowed data traffic pass without being read; their records have no error
code.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from proxy.audit.record import AuditEvent
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message
from proxy.wire.work import paced

ERROR_FIELDS = ("error_code", "partition_error_code", "acknowledge_error_code")
"""The fields that hold an error. `topic_config_error_code` of CreateTopics is not one of them: the topic was
created, only its configs are not described."""

NAMES = ("name", "topic_name", "resource_name", "group_id", "transactional_id", "topic", "user", "host")
"""The fields that name the resource a part of a response is about, by API."""

_TYPE_NAMED_BY = {
    "name": "TOPIC",
    "topic_name": "TOPIC",
    "topic": "TOPIC",
    "group_id": "GROUP",
    "transactional_id": "TRANSACTIONAL_ID",
}
"""The resource type that a field names; the other fields name any."""

_PART_UNITS = 4
"""The cost of a part of a response, in the units of proxy.wire.work."""

_OF_DENIAL = {
    kind: ErrorCode[f"{kind}_AUTHORIZATION_FAILED"]
    for kind in ("TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN")
}
"""The error of a denial by resource type."""


def error_of(response: Any) -> int:
    """The error at the top of a response, else the first one of its parts; NONE when all went well."""
    return int(next((code for code in _codes(response) if code != ErrorCode.NONE), ErrorCode.NONE))


def set_error_codes(events: Iterable[AuditEvent], response: Any) -> None:
    """Set the error code of each event from the response, by resource where the response names it.

    A denial whose resource the response does not name, or names by its id, gets the error of another part.
    """
    top = getattr(response, "error_code", ErrorCode.NONE)
    by_name = {} if top else dict(_by_name(response))
    others: list[int] | None = None
    for event in events:
        if top:
            event.error_code = int(top)
        elif (named := _named(by_name, event)) is not None:
            event.error_code = named
        elif event.granted is False:
            # Once for all denials: a response may have as many parts as its request had bytes.
            if others is None:
                others = [int(code) for code in dict.fromkeys(_codes(response)) if code != ErrorCode.NONE]
            own = _OF_DENIAL.get(event.resource_type or "")
            event.error_code = int(own) if own in others else (*others, int(ErrorCode.NONE))[0]


def _named(by_name: Mapping[tuple[str | None, str], int], event: AuditEvent) -> int | None:
    """The error of the part that is about the event's resource. A group may be called like a topic."""
    name = event.resource_name or ""
    named = by_name.get((event.resource_type, name))
    return by_name.get((None, name)) if named is None else named


def _by_name(response: Any) -> Iterator[tuple[tuple[str | None, str], int]]:
    """Resource type (None: any) and name, and the error of the part."""
    for part in _parts(response):
        field = next((field for field in NAMES if hasattr(part, field)), None)
        name = None if field is None else getattr(part, field)
        if field is not None and name is not None:
            yield (_TYPE_NAMED_BY.get(field), name), error_of(part)


def _codes(message: Any) -> Iterator[int]:
    for field in _error_fields(type(message).__slots__):
        yield getattr(message, field)
    for part in _parts(message):
        yield from _codes(part)


@cache
def _error_fields(slots: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(field for field in ERROR_FIELDS if field in slots)


def _parts(message: Any) -> Iterator[Message]:
    """The structs in a message's lists, in the order of the wire."""
    for field in type(message).__slots__:
        value = getattr(message, field)
        if isinstance(value, list):
            yield from (part for part in paced(value, _PART_UNITS) if isinstance(part, Message))
