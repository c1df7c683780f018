"""Settings of Python's garbage collector that prevent it from holding the event loop (decision 0045).

An image of 100,000 ACLs has some million objects; a full collection takes half a second. Images have no
cycles, so they are frozen: the collector ignores them, and reference counting frees them. The collector looks
at young objects only, and at older ones while there are few. So objects that come in great numbers, such as
connections, must be free of cycles when they end.

Python begins a collection when so many more objects were made than freed. Where old connections end as new
ones come, that is never, and the one that comes at last looks at all of them. So accepted connections count,
and so do the steps of an image. How many objects the collector would look at is counted (decision 0197): no
difference of what was made and freed says that.

The processes call `start`, the feeds `apply_image` for each batch, acceptors `count_accepted`, and the sweeps
`collect_if_few`.
"""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from proxy.net.runtime.chunked import iterate_in_slices

YOUNG_OBJECTS = 2_500
"""New objects between two collections. A collection looks at up to three times as many, in 3 ms, or in
10 where other processes use the caches."""
FEW_OBJECTS = 7_500
"""So many young objects, and as many older ones, are looked at in one collection at most. To count objects
takes a quarter of the time."""
FEW_CONNECTIONS = 100
"""More have too many objects to count these at each sweep."""
ACCEPTED = 100
"""So many connections have some 6,000 objects. To look at these takes 1 ms, or 5 where they lie scattered and
others use the caches."""
STEPS = 5
"""Steps of an image between two looks at young objects. They make some 2,500 objects."""
_NEVER = 1_000_000_000


_old_objects = 0
"""Objects that have survived two collections and are not frozen, or more: some may have been freed since."""
_accepted = 0
"""Connections since the last look at young objects."""


@contextmanager
def importing() -> Iterator[None]:
    """Import modules in this block without collections, and freeze their objects."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def start() -> None:
    """Freeze all objects that exist, and let the collector look at small numbers of new ones."""
    gc.freeze()
    gc.callbacks.append(_freeze_if_many)
    gc.set_threshold(YOUNG_OBJECTS, 1, _NEVER)


async def apply_image(steps: Iterable[object]) -> None:
    """Run the steps that apply records to an image, in slices, and look at young objects between them."""
    number = 0
    async for _ in iterate_in_slices(steps):
        if number % STEPS == 0:
            gc.collect(1)
        number += 1


def count_accepted() -> None:
    """Look at young objects for each ACCEPTED connections."""
    global _accepted
    _accepted += 1
    if _accepted >= ACCEPTED:
        _accepted = 0
        gc.collect(1)


def collect_if_few(connections: int) -> None:
    """Collect cycles among all objects that are not frozen, unless the young ones are too many for that.

    `connections` are open.
    """
    if connections <= FEW_CONNECTIONS and _young_objects() <= FEW_OBJECTS:
        gc.collect()


def _freeze_if_many(phase: str, info: dict[str, int]) -> None:
    """Count old objects as they become old, and freeze all objects when the old ones are many.

    What is frozen is never collected. So a few objects are not frozen: among them are those of requests that
    are under way, and if these end with a cycle, each change would leave something behind for ever.
    """
    global _old_objects
    if info["generation"] == 0:
        return
    if phase == "start":
        _old_objects += _young_objects()
    elif _old_objects > FEW_OBJECTS:
        _old_objects = len(gc.get_objects(generation=2))
        if _old_objects > FEW_OBJECTS // 2:
            gc.freeze()
            _old_objects = 0


def _young_objects() -> int:
    return len(gc.get_objects(generation=0)) + len(gc.get_objects(generation=1))
