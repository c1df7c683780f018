"""Long work in pieces, so that clients are served in between: for whoever makes a page of many rows."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


async def in_pieces(items: Iterable[T], size: int) -> AsyncIterator[list[T]]:
    """The items, `size` at a time; after each piece the loop has a turn."""
    iterator = iter(items)
    while piece := list(islice(iterator, size)):
        yield piece
        await asyncio.sleep(0)
