"""A QuorumFeed that runs in the test's own loop, and every image it has shown.

async with following(endpoint_of(kafka.controller)) as follower:
    image = await follower.until(lambda image: image.acls.count == 1)
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from proxy.net.channel import EndpointSettings
from proxy.net.quorum_feed import QuorumFeed

TIMEOUT_MS = 60_000


@dataclass
class Follower:
    feed: QuorumFeed
    loader: Loader
    images: list[MetadataImage] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def on_image(self, image: MetadataImage, _changed: tuple[str, ...]) -> None:
        self.images.append(image)
        self.news.set()

    async def loaded(self) -> MetadataImage:
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            await self.feed.loaded.wait()
        return self.loader.image

    async def until(self, wanted: Callable[[MetadataImage], bool]) -> MetadataImage:
        """The first image from now on of which this holds."""
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            while not wanted(self.loader.image):
                self.news.clear()
                await self.news.wait()
        return self.loader.image


@asynccontextmanager
async def following(*endpoints: EndpointSettings) -> AsyncIterator[Follower]:
    loader = Loader(
        lambda image, changed: follower.on_image(image, changed), compacted=False, every_offset=False
    )
    follower = Follower(QuorumFeed(endpoints, loader), loader)
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(follower.feed.run())
        try:
            yield follower
        finally:
            run.cancel()
