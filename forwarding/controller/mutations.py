"""How many partitions a request creates or deletes, and which of its topics the client's quota admits.

KIP-599, in the order of KRaft's controller: topics that are denied or fail are not charged, a dry run is
charged like a real request, and each topic is admitted or rejected by itself. forwarding.net.mutations looks
up at a broker what has to be known first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from proxy.admin.topics import (
    ID_NOT_HOSTED,
    NO_TOPIC_ID,
    NOT_HOSTED,
    TopicKey,
    deletion_of,
    topics_to_delete,
    with_topics,
)
from proxy.quota.mutation import MutationQuota
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode


class ErrorFields(TypedDict):
    """The error fields in the results of all these responses."""

    error_code: int
    error_message: str


EXCEEDED = ErrorFields(
    error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED, error_message="The throttling quota has been exceeded."
)
UNKNOWN = ErrorFields(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=NOT_HOSTED)
UNKNOWN_ID = ErrorFields(error_code=ErrorCode.UNKNOWN_TOPIC_ID, error_message=ID_NOT_HOSTED)


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """A topic that a broker knows."""

    name: str
    topic_id: bytes
    partitions: int


Topics = Mapping[TopicKey, ExistingTopic]
"""The topics of a request that exist, by the keys that the request uses."""


@dataclass(frozen=True, slots=True)
class ChargedMutations:
    """A request after it was charged."""

    remaining: Any
    """The part that is to be carried out; None: no part."""
    failed: list[Any]
    """The results of the topics that are not carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """How one API is charged."""

    strict_since: int
    """The first version whose clients know THROTTLING_QUOTA_EXCEEDED; older clients are only throttled."""
    response: str
    """The struct of its response, and the attribute of the results in it."""
    results: str
    charge: Callable[[Any, Any, MutationQuota, int], ChargedMutations]
    """Takes the request, the topics or the dry run, the quota and the time in ms."""
    topics: Callable[[Any], Sequence[TopicKey]] | None
    """Returns the topics to look up at a broker first; None: the broker makes a dry run of the request."""


def charge_creation(
    request: types.CreateTopicsRequest,
    dry_run_results: types.CreateTopicsResponse,
    quota: MutationQuota,
    now_ms: int,
) -> ChargedMutations:
    """Charge CreateTopics. `dry_run_results`: the response to the same request with validate_only."""
    result = types.CreateTopicsResponse.CreatableTopicResult
    outcomes = {topic.name: topic for topic in dry_run_results.topics}
    failed, remaining = [], []
    for topic in request.topics:
        outcome = outcomes.get(topic.name)
        if outcome is not None and outcome.error_code != ErrorCode.NONE:
            failed.append(outcome)
        elif quota.record(_created(topic, outcome), now_ms):
            remaining.append(topic)
        else:
            failed.append(result(name=topic.name, **EXCEEDED))
    return ChargedMutations(with_topics(request, remaining) if remaining else None, failed)


def charge_deletion(
    request: types.DeleteTopicsRequest, topics: Topics, quota: MutationQuota, now_ms: int
) -> ChargedMutations:
    """Charge DeleteTopics. A topic that the broker does not know is not deleted: Kafka's controller may know
    it already, and how many partitions to charge is unknown."""
    result = types.DeleteTopicsResponse.DeletableTopicResult
    failed, remaining = [], []
    for key in topics_to_delete(request):
        topic = topics.get(key)
        if topic is None:
            error = UNKNOWN if key[0] is not None else UNKNOWN_ID
            failed.append(result(name=key[0], topic_id=key[1], **error))
        elif quota.record(topic.partitions, now_ms):
            remaining.append(key)
        else:
            failed.append(result(name=topic.name, topic_id=topic.topic_id, **EXCEEDED))
    return ChargedMutations(deletion_of(request, remaining) if remaining else None, failed)


def charge_partitions(
    request: types.CreatePartitionsRequest, topics: Topics, quota: MutationQuota, now_ms: int
) -> ChargedMutations:
    """Charge CreatePartitions. A topic whose count does not grow is free: the broker reports the error. One
    that the broker does not know stays as it is, as with `charge_deletion`."""
    result = types.CreatePartitionsResponse.CreatePartitionsTopicResult
    failed, remaining = [], []
    for topic in request.topics:
        existing = topics.get((topic.name, NO_TOPIC_ID))
        if existing is None:
            failed.append(result(name=topic.name, **UNKNOWN))
        elif (added := _added(topic, existing)) is None or quota.record(added, now_ms):
            remaining.append(topic)
        else:
            failed.append(result(name=topic.name, **EXCEEDED))
    return ChargedMutations(with_topics(request, remaining) if remaining else None, failed)


def _created(
    topic: types.CreateTopicsRequest.CreatableTopic,
    outcome: types.CreateTopicsResponse.CreatableTopicResult | None,
) -> int:
    """Return the partitions of a new topic. The broker reports its default if none are given (KIP-464)."""
    reported = -1 if outcome is None else outcome.num_partitions
    return reported if reported > 0 else max(1, topic.num_partitions, len(topic.assignments))


def _added(topic: types.CreatePartitionsRequest.CreatePartitionsTopic, existing: ExistingTopic) -> int | None:
    if topic.count <= existing.partitions:
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
