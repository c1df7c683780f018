"""Topics and their owners out of the records of the log, compacted or not."""

from typing import Any

import pytest

from proxy.metadata.acl import uuid_text
from proxy.metadata.image import MetadataImage, Topic
from proxy.metadata.loader import Loader
from proxy.wire import types
from tests.support.images import image_of
from tests.support.metadata_log import (
    owned,
    owner_record,
    removed_topic_record,
    topic_record,
    values,
)

ID_1, ID_2 = (uuid_text(number.to_bytes(16, "big")) for number in (1, 2))
ALICE, BOB = "User:alice", "User:bob"


@pytest.mark.spec("A6")
def test_a_topic_and_its_owner_are_found_by_name_by_id_and_by_owner() -> None:
    topics = image_of(*owned("orders", ALICE)).topics

    assert dict(topics.by_name) == {"orders": Topic("orders", ID_1, 0, {"owner": ALICE})}
    assert topics.owner("orders") == ALICE
    assert dict(topics.names_by_id) == {ID_1: "orders"}
    assert dict(topics.owned_by(ALICE)) == {"orders": ID_1}
    assert topics.owner("payments") is None
    assert not topics.owned_by(BOB)


@pytest.mark.spec("A6")
def test_an_owner_without_a_topic_owns_nothing() -> None:
    image = image_of(owner_record("orders", ALICE))

    assert image.topics.owner("orders") is None
    assert not image.topics.owned_by(ALICE)


@pytest.mark.spec("A6")
def test_a_topic_of_another_id_has_no_owner_from_the_one_before() -> None:
    before = image_of(*owned("orders", ALICE))

    after = image_of(topic_record("orders", ID_2), base=before)

    assert dict(after.topics.by_name) == {"orders": Topic("orders", ID_2)}
    assert dict(after.topics.names_by_id) == {ID_2: "orders"}
    assert not after.topics.owned_by(ALICE)


@pytest.mark.spec("A6")
def test_who_is_owner_changes_and_ends() -> None:
    alices = image_of(*owned("orders", ALICE))
    bobs = image_of(owner_record("orders", BOB), base=alices)
    nobodys = image_of(owner_record("orders", None), base=bobs)

    assert (bobs.topics.owner("orders"), list(bobs.topics.owned)) == (BOB, [BOB])
    assert (nobodys.topics.owner("orders"), list(nobodys.topics.owned)) == (None, [])


@pytest.mark.spec("A6", "S1")
@pytest.mark.parametrize(
    "left",
    [
        pytest.param([owner_record("orders", None), removed_topic_record(ID_1)], id="all compacted"),
        pytest.param(
            [owner_record("orders", ALICE), removed_topic_record(ID_1), owner_record("orders", None)],
            id="the topic's record compacted",
        ),
        pytest.param([*owned("orders", ALICE), removed_topic_record(ID_1)], id="as KRaft removes it"),
    ],
)
def test_what_compaction_leaves_of_a_removed_topic_owns_nothing(left: list[Any]) -> None:
    assert image_of(*left).topics == MetadataImage.EMPTY.topics


@pytest.mark.spec("S10")
def test_kafkas_own_records_tell_partitions_and_configs_of_topics_only() -> None:
    partition, config = types.PartitionRecord, types.ConfigRecord
    image = image_of(
        topic_record("orders", ID_1),
        *(partition(partition_id=number, topic_id=(1).to_bytes(16, "big")) for number in (1, 0)),
        config(resource_type=2, resource_name="orders", name="retention.ms", value="1"),
        config(resource_type=4, resource_name="1", name="log.cleaner.threads", value="2"),
        partition(partition_id=0, topic_id=(9).to_bytes(16, "big")),
    )

    assert dict(image.topics.by_name) == {"orders": Topic("orders", ID_1, 2, {"retention.ms": "1"})}


@pytest.mark.spec("S10")
@pytest.mark.parametrize(("topics", "names"), [(None, []), (True, ["orders"])])
def test_who_follows_kafkas_log_for_decisions_is_not_disturbed_by_topics(
    topics: bool | None, names: list[str]
) -> None:
    shown: list[MetadataImage] = []
    loader = Loader(lambda image, _: shown.append(image), every_offset=False, topics=topics)
    loader.load_until(0)

    loader.batch(0, values(topic_record("orders", ID_1)))

    assert [list(image.topics.by_name) for image in shown[1:]] == ([names] if names else [])
