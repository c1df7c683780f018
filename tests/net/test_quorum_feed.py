"""Kafka's own metadata log followed at controllers that do what a real quorum seldom does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from proxy.metadata.delta import MetadataError
from proxy.net.kafka.channel import ChannelError
from proxy.net.metadata.feed import FeedTimeout
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from tests.support.controllers import acl_names, endpoint_of
from tests.support.fake_quorum import LEADER_CHANGE, FakeNode, batch
from tests.support.metadata_log import acl, acl_record, removed_acl_record, values
from tests.support.quorum import Follower, following

A_TOPIC_OF_THE_FUTURE = b"\x01\x02\x63whatever"
"""Frame version 1, TopicRecord, version 99."""


def allowed(*names: str) -> list[Any]:
    return [acl_record(acl(name)) for name in names]


def leader(*names: str, **settings: Any) -> FakeNode:
    """A leader that has committed one batch for each name."""
    node = FakeNode(**settings)
    node.append(control=LEADER_CHANGE)
    for name in names:
        node.append(*allowed(name))
    node.commit()
    return node


@asynccontextmanager
async def followed(*nodes: FakeNode) -> AsyncIterator[Follower]:
    async with asyncio.timeout(60), following(*(endpoint_of(node.address) for node in nodes)) as follower:
        yield follower


def shown(follower: Follower) -> list[list[str]]:
    return [list(acl_names(image)) for image in follower.images]


@pytest.mark.spec("S3")
async def test_everything_up_to_the_high_watermark_is_loaded_in_one_piece() -> None:
    node = leader("a", "b", "c")
    async with node.listening(), followed(node) as follower:
        await follower.loaded()

    assert shown(follower) == [["a", "b", "c"]]


@pytest.mark.spec("S3", "O9")
async def test_a_quorum_is_looked_for_at_the_addresses_of_another_configuration() -> None:
    node, nobody = leader("a"), endpoint_of("127.0.0.1:1")
    async with node.listening(), asyncio.timeout(60), following(nobody) as follower:
        follower.feed.reconfigure([endpoint_of(node.address)])
        await follower.loaded()

    assert shown(follower) == [["a"]]


@pytest.mark.spec("S3")
async def test_a_new_leader_that_has_committed_nothing_yet_is_waited_for() -> None:
    node = leader("a")
    node.high_watermark = -1
    async with node.listening(), followed(node) as follower:
        await node.broker.wait_for(ApiKey.FETCH, 3)
        before = (follower.feed.loaded.is_set(), follower.feed.connected)
        node.commit()
        await follower.loaded()

    assert (before, shown(follower)) == ((False, False), [["a"]])


@pytest.mark.spec("S2")
@pytest.mark.parametrize("versions", [(12, 12), (12, 17), (12, 18)], ids=["v12", "v17", "v18"])
async def test_what_is_not_committed_is_not_shown(versions: tuple[int, int]) -> None:
    node = leader("a", versions=versions)
    async with node.listening(), followed(node) as follower:
        await follower.loaded()
        node.append(*allowed("b"))
        fetches = len(node.broker.received(ApiKey.FETCH))
        await node.broker.wait_for(ApiKey.FETCH, fetches + 2)
        before = shown(follower)
        node.commit()
        await follower.until(lambda image: image.acls.count == 2)

    assert (before, shown(follower)) == ([["a"]], [["a"], ["a", "b"]])


@pytest.mark.spec("S2")
async def test_a_batch_appears_whole() -> None:
    node = leader()
    async with node.listening(), followed(node) as follower:
        await follower.loaded()
        node.append(*allowed("a", "b", "c"))
        node.append(*allowed("d"))
        node.commit()
        await follower.until(lambda image: image.acls.count == 4)

    assert shown(follower) == [[], ["a", "b", "c"], ["a", "b", "c", "d"]]


@pytest.mark.spec("S2")
async def test_what_was_not_committed_is_taken_back_when_the_next_leader_does_not_have_it() -> None:
    first, second = leader("a"), leader("a")
    async with first.listening(), second.listening(), followed(first, second) as follower:
        await follower.loaded()
        lost = first.append(*allowed("lost"))
        fetches = len(first.broker.received(ApiKey.FETCH))
        await first.broker.wait_for(ApiKey.FETCH, fetches + 2)
        second.epoch, second.leader = 2, (2, None)
        second.append(*allowed("kept"))
        second.commit()
        first.resign(2, leader=2, address=second.address)
        await follower.until(lambda image: image.acls.count == 2)

    assert lost.base_offset == second.log[-1].base_offset, "at the same offset, of another epoch"
    assert shown(follower) == [["a"], ["a", "kept"]]


@pytest.mark.spec("S5")
async def test_another_quorum_is_read_from_its_beginning_and_the_old_image_serves_until_then() -> None:
    node = leader("a", "b", "c")
    async with node.listening(), followed(node) as follower:
        await follower.loaded()
        node.log, node.high_watermark, node.epoch = [], -1, 5
        node.append(*allowed("x"))
        node.append(*allowed("y"))
        node.commit()
        await follower.until(lambda image: set(acl_names(image)) == {"x", "y"})

    assert shown(follower) == [["a", "b", "c"], ["x", "y"]]


@pytest.mark.spec("E5")
@pytest.mark.parametrize("tells", [True, False], ids=["told where", "left to search"])
async def test_the_leader_is_found_from_any_controller(tells: bool) -> None:
    first, second, third = FakeNode(epoch=7), FakeNode(epoch=7), leader("a", epoch=7)
    async with first.listening(), second.listening(), third.listening():
        for other in (first, second):
            other.resign(7, leader=3, address=third.address if tells else None)
        async with followed(first, second, third) as follower:
            await follower.loaded()
            found = follower.feed.leader
            assert (found.epoch, found.endpoint and found.endpoint.address) == (7, third.address)

    assert shown(follower) == [["a"]]
    assert len(second.broker.received(ApiKey.FETCH)) == (0 if tells else 1)


@pytest.mark.spec("E5")
async def test_a_leader_that_is_gone_is_looked_for_among_the_others() -> None:
    first, second = leader("a"), leader("a")
    second.epoch, second.leader = 2, (2, None)
    async with second.listening(), first.listening(), followed(first, second) as follower:
        await follower.loaded()
        first.broker.hang_up()
        first.resign(2, leader=2, address=None)
        second.append(*allowed("b"))
        second.commit()
        await follower.until(lambda image: image.acls.count == 2)
        connected = follower.feed.connected

    assert (shown(follower), connected) == ([["a"], ["a", "b"]], True)


@pytest.mark.spec("E5")
async def test_a_leader_that_is_frozen_is_left_for_the_next() -> None:
    first, second = leader("a"), leader("a")
    second.epoch, second.leader = 2, (2, None)
    async with first.listening(), second.listening():
        endpoints = [endpoint_of(node.address, request_timeout_ms=500) for node in (first, second)]
        async with asyncio.timeout(60), following(*endpoints) as follower:
            await follower.loaded()
            first.frozen = True
            second.append(*allowed("b"))
            second.commit()
            await follower.until(lambda image: image.acls.count == 2)

    assert shown(follower) == [["a"], ["a", "b"]]


@pytest.mark.spec("S5")
async def test_a_snapshot_is_fetched_in_chunks_and_appears_with_what_was_committed_since() -> None:
    node = leader("a", "b", "c")
    node.compact(*allowed("a", "c"))
    node.append(*allowed("d"))
    node.commit()
    node.chunk_bytes = 50
    async with node.listening(), followed(node) as follower:
        image = await follower.loaded()

    assert shown(follower) == [["a", "c", "d"]]
    assert image.offset == node.end - 1
    assert len(node.broker.received(ApiKey.FETCH_SNAPSHOT)) > 5


@pytest.mark.spec("S5")
async def test_a_feed_that_fell_behind_takes_the_snapshot_while_the_old_image_serves() -> None:
    node = leader("a", "b")
    async with node.listening(), followed(node) as follower:
        await follower.loaded()
        gone = acl("c")
        node.append(acl_record(gone))
        node.append(removed_acl_record(gone))
        node.compact(*allowed("b"))
        node.append(*allowed("d"))
        node.commit()
        await follower.until(lambda image: "d" in acl_names(image))

    assert shown(follower) == [["a", "b"], ["b", "d"]]


@pytest.mark.spec("S5")
async def test_a_snapshot_that_is_replaced_while_it_is_read_is_read_anew() -> None:
    node = leader("a")
    node.compact(*allowed("a"))
    node.commit()
    node.chunk_bytes = 50
    async with node.listening(), followed(node) as follower:
        await node.broker.wait_for(ApiKey.FETCH_SNAPSHOT, 2)
        node.append(*allowed("b"))
        node.compact(*allowed("a", "b"))
        node.commit()
        await follower.loaded()

    assert shown(follower) == [["a", "b"]]


@pytest.mark.spec("S1", "S3")
async def test_a_record_of_an_unknown_kind_ends_the_feed_with_its_offset() -> None:
    node = leader("a")
    node.append(raw=[b"\x01\x7f\x00"])
    node.commit()
    with pytest.raises(ExceptionGroup) as failure:
        async with node.listening(), followed(node) as follower:
            await follower.loaded()

    assert failure.group_contains(MetadataError, match="in the batch that ends at offset 2: .*127")
    assert follower.images == []


@pytest.mark.spec("S1")
async def test_a_kind_without_meaning_to_us_is_passed_over_in_whatever_version() -> None:
    node = leader("a")
    node.append(*allowed("b"), raw=[A_TOPIC_OF_THE_FUTURE])
    node.append(types.NoOpRecord())
    node.commit()
    async with node.listening(), followed(node) as follower:
        await follower.loaded()
        node.append(raw=[A_TOPIC_OF_THE_FUTURE])
        node.commit()
        await follower.feed.wait_for(node.end - 1, 30_000)

    assert shown(follower) == [["a", "b"]]


@pytest.mark.spec("S1")
async def test_bytes_that_do_not_match_their_checksum_are_never_applied() -> None:
    node = leader("a")
    good = node.append(*allowed("b"))
    broken = bytearray(good.raw)
    broken[-10] ^= 1
    node.log[-1] = type(good)(good.base_offset, good.next_offset, good.epoch, bytes(broken))
    node.commit()
    async with node.listening(), followed(node) as follower:
        await node.broker.wait_for(ApiKey.FETCH, 4)
        before = list(follower.images)
        node.log[-1] = good
        await follower.loaded()

    assert (before, shown(follower)) == ([], [["a", "b"]])


@pytest.mark.spec("E13")
async def test_the_high_watermark_is_told_by_the_leader_and_waited_for() -> None:
    node = leader("a")
    async with node.listening(), followed(node) as follower:
        await follower.loaded()
        node.append(*allowed("b"))
        node.commit()
        told = await follower.feed.stable_offset()
        await follower.feed.wait_for_end(30_000)

    assert (told, shown(follower)[-1]) == (node.end, ["a", "b"])


@pytest.mark.spec("E13")
async def test_who_acknowledged_a_change_is_asked_and_not_one_that_led_before() -> None:
    old, new = leader("a"), leader("a", "b")
    new.epoch, new.leader = 2, (2, None)
    new.log[-1] = batch(new.log[-1].base_offset, 2, values(*allowed("b")))
    async with old.listening(), new.listening(), followed(old, new) as follower:
        await follower.loaded()
        # The old one still takes itself for the leader: nobody has told it.
        await follower.feed.wait_for_end(30_000, endpoint_of(new.address))
        names = acl_names(follower.loader.image)

    assert names == ["a", "b"]


@pytest.mark.spec("E5")
async def test_a_controller_that_is_behind_in_epochs_is_not_where_the_feed_stays() -> None:
    behind, ahead = FakeNode(epoch=3), leader("a", epoch=9)
    async with behind.listening(), ahead.listening(), followed(ahead, behind) as follower:
        await follower.loaded()
        ahead.resign(9, leader=4, address=behind.address)
        await behind.broker.wait_for(ApiKey.FETCH, 1)
        ahead.leads, ahead.leader = True, (1, None)
        ahead.append(*allowed("b"))
        ahead.commit()
        await follower.until(lambda image: image.acls.count == 2)

    assert shown(follower) == [["a"], ["a", "b"]]


@pytest.mark.spec("E13")
async def test_without_a_leader_waiting_ends_in_time() -> None:
    node = FakeNode()
    node.resign(1, leader=-1, address=None)
    async with node.listening(), followed(node) as follower:
        with pytest.raises(ChannelError, match="leader is not known"):
            await follower.feed.stable_offset()
        with pytest.raises(FeedTimeout, match="within 50 ms"):
            await follower.feed.wait_for_end(50)


@pytest.mark.spec("S1")
async def test_the_quorum_never_learns_of_a_replica() -> None:
    node = leader("a")
    node.compact(*allowed("a"))
    node.commit()
    async with node.listening(), followed(node) as follower:
        await follower.loaded()
        await follower.feed.stable_offset()

    asked = {ApiKey.name_of(request.header.api_key) for request in node.broker.requests}
    assert asked == {"ApiVersions", "Fetch", "FetchSnapshot"}
    fetches = [request.message for request in node.broker.received(ApiKey.FETCH)]
    assert {fetch.replica_state.replica_id for fetch in fetches} == {-1}
    partitions = [fetch.topics[0].partitions[0] for fetch in fetches]
    assert {bytes(partition.replica_directory_id) for partition in partitions} == {bytes(16)}
    assert {s.message.replica_id for s in node.broker.received(ApiKey.FETCH_SNAPSHOT)} == {-1}
