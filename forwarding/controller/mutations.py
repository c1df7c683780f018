"""How many partitions a request about topics creates or deletes, and what the client's quota lets through.

KIP-599, in the order of KRaft's controller: what is denied or cannot be done is not paid for, a dry run is
paid for like the real thing, and each topic is taken or refused by itself. forwarding.net.mutations asks a
broker for what has to be known first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from proxy.admin.topics import NO_TOPIC_ID, TopicKey, deletion_of, topics_to_delete, with_topics
from proxy.quota.mutation import MutationQuota
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode


class ErrorFields(TypedDict):
    """What the results of all these responses say of a topic that has failed."""

    error_code: int
    error_message: str


EXCEEDED = ErrorFields(
    error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED, error_message="The throttling quota has been exceeded."
)


@dataclass(frozen=True, slots=True)
class Existing:
    """A topic that a broker knows."""

    name: str
    topic_id: bytes
    partitions: int


Topics = Mapping[TopicKey, Existing]
"""Those of a request that exist, as it names them."""


@dataclass(frozen=True, slots=True)
class Charged:
    """What became of a request."""

    left: Any
    """The part of it that is to be carried out; None: no part."""
    answered: list[Any]
    """Results of the topics that are not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """How one API is charged."""

    strict_since: int
    """From this version on a client knows THROTTLING_QUOTA_EXCEEDED; older ones are slowed down."""
    response: str
    """The struct of its response, and the attribute of the results in it."""
    results: str
    charge: Callable[[Any, Any, MutationQuota, int], Charged]
    """Gets the request, what was asked for before, the quota and the time in ms."""
    topics: Callable[[Any], Sequence[TopicKey]] | None
    """The topics that a broker is asked about before; None: it makes a dry run of the request."""

    def is_strict(self, version: int) -> bool:
        """Whether a request of that version may be rejected because the quota is used up."""
        return version >= self.strict_since


def charge_creation(
    request: types.CreateTopicsRequest, tried: types.CreateTopicsResponse, quota: MutationQuota, now_ms: int
) -> Charged:
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


def charge_deletion(
    request: types.DeleteTopicsRequest, topics: Topics, quota: MutationQuota, now_ms: int
) -> Charged:
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


def charge_partitions(
    request: types.CreatePartitionsRequest, topics: Topics, quota: MutationQuota, now_ms: int
) -> Charged:
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


def _created(
    topic: types.CreateTopicsRequest.CreatableTopic,
    outcome: types.CreateTopicsResponse.CreatableTopicResult | None,
) -> int:
    """Of a new topic; the broker tells how many it makes where none were asked for (KIP-464)."""
    told = -1 if outcome is None else outcome.num_partitions
    return told if told > 0 else max(1, topic.num_partitions, len(topic.assignments))


def _added(
    topic: types.CreatePartitionsRequest.CreatePartitionsTopic, existing: Existing | None
) -> int | None:
    if existing is None or topic.count <= existing.partitions:
        return None
    added = int(topic.count) - existing.partitions
    if topic.assignments is not None and len(topic.assignments) != added:
        return None
    return added


CREATION = Charge(
    strict_since=6,
    response="CreateTopicsResponse",
    results="topics",
    charge=charge_creation,
    topics=None,
)
DELETION = Charge(
    strict_since=5,
    response="DeleteTopicsResponse",
    results="responses",
    charge=charge_deletion,
    topics=topics_to_delete,
)
NEW_PARTITIONS = Charge(
    strict_since=3,
    response="CreatePartitionsResponse",
    results="results",
    charge=charge_partitions,
    topics=lambda request: [(topic.name, NO_TOPIC_ID) for topic in request.topics],
)
