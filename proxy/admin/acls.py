"""The numbers of an ACL or of a filter in a request: one without a meaning makes the request unreadable.

Checked before any right: a broker closes the connection of a client that sends such a number, whoever it is,
and Kafka's controller rejects the Envelope.
"""

from collections.abc import Iterable
from typing import Any

from proxy.metadata.acl import Operation, PatternType, PermissionType, ResourceType
from proxy.wire.errors import WireError
from proxy.wire.work import paced

_NUMBERS = (
    ("resource_type", ResourceType),
    ("resource_type_filter", ResourceType),
    ("resource_pattern_type", PatternType),
    ("pattern_type_filter", PatternType),
    ("operation", Operation),
    ("permission_type", PermissionType),
)


_PART_UNITS = 4
"""What a part costs, in the units of proxy.wire.work."""


def must_be_known(parts: Iterable[Any]) -> None:
    """WireError for a creation or filter with a number that has no meaning; `parts` may be [request]."""
    for part in paced(list(parts), _PART_UNITS):
        for attribute, kind in _NUMBERS:
            number = getattr(part, attribute, None)
            if number is not None and kind(number) == 0:
                raise WireError(f"{type(part).__qualname__}: {attribute} {number} is unknown")
