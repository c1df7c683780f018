"""A QuorumFeed that runs in the test's own loop, and every image it has shown.

async with following(endpoint_of(kafka.controller)) as follower:
    image = await follower.until(lambda image: image.acls.count == 1)
"""

from contextlib import AbstractAsyncContextManager

from proxy.metadata.loader import Loader
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.metadata.quorum_feed import QuorumFeed
from tests.support import followed
from tests.support.followed import Shown

TIMEOUT_MS = followed.FEED_TIMEOUT_MS
Follower = followed.Follower[QuorumFeed]


def following(*endpoints: EndpointSettings) -> AbstractAsyncContextManager[Follower]:
    def make(shown: Shown) -> tuple[QuorumFeed, Loader]:
        loader = Loader(shown, compacted=False, every_offset=False)
        return QuorumFeed(endpoints, loader), loader

    return followed.followed(make)
