"""Settings of Python's garbage collector that prevent it from holding the event loop (decision 0045).

An image of 100,000 ACLs has some million objects; a full collection takes half a second. Images have no
cycles, so they are frozen: the collector ignores them, and reference counting frees them. The collector looks
at young objects only, and at older ones while there are few. So objects that come in great numbers, such as
connections, must be free of cycles when they end.

Python begins a collection when so many more objects were made than freed. Where old connections end as new
ones come, that is never, and the one that comes at last looks at all of them. So accepted connections count.

The processes call `start`, the feeds `apply_image` for each batch, acceptors `count_accepted`, and the sweeps
`collect_if_few`.
"""

import gc
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from proxy.net.runtime.chunked import iterate_in_slices

YOUNG_OBJECTS = 5_000
"""New objects between two collections. A collection looks at up to three times as many, in 5 ms, or in
10 where other processes use the caches."""
FEW_CONNECTIONS = 100
ACCEPTED = 100
"""So many connections have some 6,000 objects. To look at these takes 1 ms, or 5 where they lie scattered and
others use the caches."""
FEW_BLOCKS = 15_000
"""So many blocks of memory belong to some 7,000 objects. Counting blocks is cheap; counting the objects would
list them all."""
MANY_BLOCKS = 60_000
"""A feed that has applied more than this freezes all objects, so that young collections do not see them."""
_NEVER = 1_000_000_000


_settled_blocks = 0
"""Blocks that were allocated at the last freeze, or less: after it, frozen objects were freed."""
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
    _settle()
    gc.set_threshold(YOUNG_OBJECTS, 1, _NEVER)


async def apply_image(steps: Iterable[object]) -> None:
    """Run the steps that apply records to an image, in slices, and freeze the objects if they are many.

    What is frozen is never collected. So a few new objects are not frozen: among them are those of requests
    that are under way, and if these end with a cycle, each change would leave something behind for ever.
    """
    gc.collect(1)
    async for _ in iterate_in_slices(steps):
        _settle_if_many()
    _settle_if_many()


def count_accepted() -> None:
    """Look at young objects for each ACCEPTED connections."""
    global _accepted
    _accepted += 1
    if _accepted >= ACCEPTED:
        _accepted = 0
        gc.collect(1)


def collect_if_few(connections: int) -> None:
    """Collect cycles among all objects that are not frozen, unless there are too many.

    `connections` are open. If frozen ones end, blocks do not say how many objects the others have.
    """
    global _settled_blocks
    blocks = sys.getallocatedblocks()
    _settled_blocks = min(_settled_blocks, blocks)
    if connections <= FEW_CONNECTIONS and blocks - _settled_blocks <= FEW_BLOCKS:
        gc.collect()


def _settle_if_many() -> None:
    if sys.getallocatedblocks() - _settled_blocks > MANY_BLOCKS:
        _settle()


def _settle() -> None:
    global _settled_blocks
    gc.freeze()
    _settled_blocks = sys.getallocatedblocks()
