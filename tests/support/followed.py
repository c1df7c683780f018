"""A metadata feed that runs in the test's own loop, and every image it has shown.

async with followed(lambda shown: feed_of(Loader(shown))) as follower: ...
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader

FEED_TIMEOUT_MS = 60_000
Shown = Callable[[MetadataImage, tuple[str, ...]], None]


class Feed(Protocol):
    @property
    def loaded(self) -> asyncio.Event: ...

    async def run(self) -> None: ...

    async def wait_for(self, offset: int, timeout_ms: int, /) -> None: ...


FeedT = TypeVar("FeedT", bound=Feed)


@dataclass
class Follower(Generic[FeedT]):
    feed: FeedT
    loader: Loader
    images: list[MetadataImage] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def on_image(self, image: MetadataImage, _changed: tuple[str, ...]) -> None:
        self.images.append(image)
        self.news.set()

    async def loaded(self) -> MetadataImage:
        async with asyncio.timeout(FEED_TIMEOUT_MS / 1000):
            await self.feed.loaded.wait()
        return self.loader.image

    async def at(self, offset: int) -> MetadataImage:
        await self.feed.wait_for(offset, FEED_TIMEOUT_MS)
        return self.loader.image

    async def until(self, wanted: Callable[[MetadataImage], bool]) -> MetadataImage:
        """The first image from now on of which this holds."""
        async with asyncio.timeout(FEED_TIMEOUT_MS / 1000):
            while not wanted(self.loader.image):
                self.news.clear()
                await self.news.wait()
        return self.loader.image


@asynccontextmanager
async def followed(make: Callable[[Shown], tuple[FeedT, Loader]]) -> AsyncIterator[Follower[FeedT]]:
    """`make` is told what its loader has to call with each image."""
    feed, loader = make(lambda image, changed: follower.on_image(image, changed))
    follower = Follower(feed, loader)
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(feed.run())
        try:
            yield follower
        finally:
            run.cancel()
