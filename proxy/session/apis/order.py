"""Parts of an answer, some from the broker and some refused here, into the order the client asked for.

Used by the files of single APIs. Brokers group and reorder the parts as they like; a client that finds its
parts in the order of its request cannot read from their places which of them were refused.
"""

from collections.abc import Callable, Hashable, Iterable
from operator import itemgetter
from typing import Any

from proxy.wire.work import paced


def in_request_order(
    asked: Iterable[Hashable], parts: Iterable[Any], key: Callable[[Any], Hashable]
) -> list[Any]:
    """The parts sorted by where `key` of them stands in `asked`; those nobody asked for come last."""
    places: dict[Hashable, int] = {}
    for name in paced(list(asked)):
        places.setdefault(name, len(places))
    keyed = [(places.get(key(part), len(places)), part) for part in paced(list(parts))]
    return [part for _, part in sorted(keyed, key=itemgetter(0))]
