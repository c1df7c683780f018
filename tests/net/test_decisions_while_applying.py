"""Decisions while the log is being applied: a DENY that stands before an ALLOW is never missed.

A writer commits, for one topic after another, the DENY and then the ALLOW, to a real log; a feed applies them
as they come. Meanwhile many readers ask, each on the image of the moment, whether the topic may be read.
"""

import asyncio
from collections import Counter
from itertools import count
from random import Random

import pytest

from forwarding.controller.records import key_of
from forwarding.net.broker import Broker as BrokerRequests
from forwarding.net.log import MetadataLog, WrittenRecord
from proxy.metadata.acl import Acl, Operation, PatternType, PermissionType, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from proxy.net.metadata.topic_feed import TopicFeed
from proxy.security.authorizer import Action, Decision, RequestContext
from proxy.security.principal import Principal
from proxy.security.standard import StandardAuthorizer
from proxy.wire import metadata_records
from tests.lab.cluster.broker import Broker
from tests.support.controllers import plaintext
from tests.support.metadata_log import acl, acl_record

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

READERS, DECISIONS = 100, 100
TOPICS = 60
TIMEOUT_S = 90


def entry(added: Acl) -> WrittenRecord:
    record = acl_record(added)
    return WrittenRecord(key_of(record).encode(), metadata_records.encode_record(record))


async def _write(log: MetadataLog, number: int) -> int:
    """In one transaction or in two, the DENY always first; topic names are such that only one prefix fits."""
    denied = entry(acl(f"t{number:03}-x", permission_type=PermissionType.DENY))
    allowed = entry(acl(f"t{number:03}", pattern_type=PatternType.PREFIXED))
    if number % 2:
        return (await log.append([denied, allowed], None)).last_offset
    await log.append([denied], None)
    return (await log.append([allowed], None)).last_offset


@pytest.mark.spec("S2", "S3")
async def test_a_deny_before_an_allow_is_not_missed_in_ten_thousand_decisions(
    kafka: Broker, topic_name: str
) -> None:
    loader = Loader(lambda _image, _changed: None)
    feed = TopicFeed(plaintext(kafka), topic_name, loader)
    log = MetadataLog(plaintext(kafka), topic_name, f"{topic_name}-writer")
    broker = BrokerRequests(plaintext(kafka))
    await broker.ensure_topic(topic_name)
    await broker.close()
    await log.claim()
    authorizer, written = StandardAuthorizer(), asyncio.Event()
    seen: Counter[str] = Counter()
    offsets: set[int] = set()

    def decided(name: str, image: MetadataImage) -> Decision:
        context = RequestContext(Principal("User", "alice"), "10.0.0.1", "PLAINTEXT", "app", image=image)
        return authorizer.authorize(context, [Action(Operation.READ, ResourceType.TOPIC, name)])[0]

    async def decide(random: Random) -> None:
        """At least so many, and on until everything is written."""
        for number in count():
            image = loader.image
            # Rather of the topics about which something is being said now.
            latest = image.acls.count // 2
            name = f"t{max(0, latest - random.randrange(-2, 4)):03}-x"
            decision = decided(name, image)
            assert not decision.allowed, (name, image.offset)
            seen[decision.rule] += 1
            offsets.add(image.offset)
            if number >= DECISIONS and written.is_set():
                return
            await asyncio.sleep(0)

    async with asyncio.timeout(TIMEOUT_S), asyncio.TaskGroup() as tasks:
        following = tasks.create_task(feed.run())
        await feed.loaded.wait()
        readers = [tasks.create_task(decide(Random(seed))) for seed in range(READERS)]
        last = max([await _write(log, number) for number in range(TOPICS)])
        await feed.wait_for(last, TIMEOUT_S * 1_000)
        written.set()
        await asyncio.wait(readers)
        following.cancel()
    await log.resign()

    assert decided("t000-y", loader.image).allowed, "but for the DENY"
    assert seen.total() >= READERS * DECISIONS
    assert seen.keys() == {"acl", "default.deny"}
    assert len(offsets) > TOPICS / 2, "decided at many images"
