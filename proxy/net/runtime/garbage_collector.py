"""The garbage collector, kept from holding the event loop (decision 0045).

Used by the processes at their start, by the feeds around each batch that they apply, and by the proxy's
sweep. An image of 100,000 ACLs is some million objects that the collector would look at, half a second at
a time. Images have no cycles, so they are taken out of its sight: what is dropped of them is freed at once.
It looks at what is young only, and at what is older while that is little. So whatever comes in great numbers,
as connections do, has to be free of cycles when it ends.
"""

import gc
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from proxy.net.runtime.chunked import in_pieces

YOUNG_OBJECTS = 10_000
"""The collector looks at so many new objects at a time, or at three times as many: up to ten milliseconds."""
FEW_BLOCKS = 60_000
"""With so many blocks of memory allocated since the last image there are some 30,000 objects to look at,
which takes ten milliseconds. Blocks are counted because to count the objects is to list them all."""
_NEVER = 1_000_000_000


_settled_blocks = 0
"""Allocated when the collector last lost sight of everything."""


@contextmanager
def importing() -> Iterator[None]:
    """Import what lives as long as the process: the collector does not look at it, now or later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def start() -> None:
    """What was made so far lives as long as the process; what comes is looked at in small numbers."""
    _settle()
    gc.set_threshold(YOUNG_OBJECTS, 1, _NEVER)


async def apply_image(steps: Iterable[object]) -> None:
    """Take all steps of applying records, in pieces; the collector does not look at what they make."""
    gc.collect(1)
    async for _ in in_pieces(steps):
        gc.freeze()
    _settle()


def collect_if_few() -> None:
    """Look for cycles among all objects since the last image, unless there are too many of them."""
    if sys.getallocatedblocks() - _settled_blocks <= FEW_BLOCKS:
        gc.collect()


def _settle() -> None:
    global _settled_blocks
    gc.freeze()
    _settled_blocks = sys.getallocatedblocks()
