"""How many partitions a request about topics creates or deletes, and what the client's quota lets through.

KIP-599, in the order of KRaft's controller: what is denied or cannot be done is not paid for, a dry run is
paid for like the real thing, and each topic is taken or refused by itself. forwarding.net.mutations asks a
broker for what has to be known first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forwarding.controller.topics import NO_TOPIC_ID, Key, deletion_of, topics_to_delete, with_topics
from proxy.quota.mutation import MutationQuota
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode

EXCEEDED = {
    "error_code": ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    "error_message": "The throttling quota has been exceeded.",
}


@dataclass(frozen=True, slots=True)
class Existing:
    """A topic that a broker knows."""

    name: str
    topic_id: bytes
    partitions: int


Topics = Mapping[Key, Existing]
"""Those of a request that exist, as it names them."""


@dataclass(frozen=True, slots=True)
class Charged:
    """What became of a request."""

    left: Any
    """The part of it that is to be carried out; None: no part."""
    answered: list[Any]
    """Results of the topics that are not in it."""


def charge_creation(request: Any, tried: Any, quota: MutationQuota, now_ms: int) -> Charged:
    """CreateTopics; `tried`: what the broker answered when it only had to validate the same request."""
    result = types.CreateTopicsResponse.CreatableTopicResult
    outcomes = {topic.name: topic for topic in tried.topics}
    answered, left = [], []
    for topic in request.topics:
        outcome = outcomes.get(topic.name)
        if outcome is not None and outcome.error_code != ErrorCode.NONE:
            answered.append(outcome)
        elif quota.record(_created(topic, outcome), now_ms):
            left.append(topic)
        else:
            answered.append(result(name=topic.name, **EXCEEDED))
    return Charged(with_topics(request, left) if left else None, answered)


def charge_deletion(request: Any, topics: Topics, quota: MutationQuota, now_ms: int) -> Charged:
    """DeleteTopics; of one that does not exist the broker is left to say so."""
    result = types.DeleteTopicsResponse.DeletableTopicResult
    answered, left = [], []
    for key in topics_to_delete(request):
        topic = topics.get(key)
        if topic is None or quota.record(topic.partitions, now_ms):
            left.append(key)
        else:
            answered.append(result(name=topic.name, topic_id=topic.topic_id, **EXCEEDED))
    return Charged(deletion_of(request, left) if left else None, answered)


def charge_partitions(request: Any, topics: Topics, quota: MutationQuota, now_ms: int) -> Charged:
    """CreatePartitions; what is no increase, or assigns another number, the broker is left to refuse."""
    result = types.CreatePartitionsResponse.CreatePartitionsTopicResult
    answered, left = [], []
    for topic in request.topics:
        added = _added(topic, topics.get((topic.name, NO_TOPIC_ID)))
        if added is None or quota.record(added, now_ms):
            left.append(topic)
        else:
            answered.append(result(name=topic.name, **EXCEEDED))
    return Charged(with_topics(request, left) if left else None, answered)


def _created(topic: Any, outcome: Any) -> int:
    """Of a new topic; the broker tells how many it makes where none were asked for (KIP-464)."""
    told = -1 if outcome is None else outcome.num_partitions
    return told if told > 0 else max(1, topic.num_partitions, len(topic.assignments))


def _added(topic: Any, existing: Existing | None) -> int | None:
    if existing is None or topic.count <= existing.partitions:
        return None
    added = int(topic.count) - existing.partitions
    if topic.assignments is not None and len(topic.assignments) != added:
        return None
    return added
