"""Topics that the broker has, asked before a verdict that depends on it; and missing ones, created first.

Used by APIs where a broker looks into its list of topics before it asks for a right, or after; what it
responds goes no further than the verdict. Nothing is created but by `have_created` (by the broker) and
`have_made` (by our controller, so that an operator's policies, the quota on mutations and the owner of a
topic are the same as for CreateTopics). Topic names that a response has named are not asked about again.
Kafka's own topics are left to the broker, which knows how they are created; no policy may hinder them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from proxy.admin.topics import INTERNAL_TOPICS, is_valid_name
from proxy.session.call import Call, NameTopics, QueryBroker, QueryController, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.work import paced

_FIRST_WITHOUT_CREATION = 4
"""Of Metadata: from here on a request can say that a missing topic is not to be made."""

TIMEOUT_MS = 5_000
"""For the controller: its client waits for Metadata meanwhile, and asks again when a topic is unknown."""

_FIRST_WITH_DEFAULTS = 4
"""Of CreateTopics: from here on -1 partitions and replicas are the broker's defaults (KIP-464)."""

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_THERE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
_TOLD = (ErrorCode.POLICY_VIOLATION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

Then = Callable[[Mapping[str, int]], Verdict]
"""Gets the names that could not be made, with the error of each."""

_MISSING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


def ask_which_exist(call: Call, names: Iterable[str], then: Callable[[set[str]], Verdict]) -> Verdict:
    """`then` gets those of the names that are topics; a broker that cannot be asked has none of them."""
    version = _version(call, _FIRST_WITHOUT_CREATION)
    if version is None:
        return then(set())

    def answered(reply: types.MetadataResponse) -> Verdict:
        _learn(call, reply)
        found = [topic.name for topic in reply.topics if topic.error_code not in _MISSING]
        return then({name for name in found if name is not None})

    asked = types.MetadataRequest.MetadataRequestTopic
    return _asks(version, [asked(name=name) for name in names], answered)


def with_names(call: Call, topic_ids: Iterable[bytes], then: Callable[[], Verdict]) -> Verdict:
    """`then`, once the names of these ids are known as far as the broker knows them."""
    unknown = call.gate.unnamed_topics(topic_ids, call.now_ms)
    return NameTopics(unknown, then) if unknown else then()


def have_created(call: Call, names: Iterable[str], then: Callable[[Mapping[str, int]], Verdict]) -> Verdict:
    """Have the broker make those that are missing; `then` gets what it said of those that it had not."""
    version = _version(call, _FIRST_WITHOUT_CREATION)
    if version is None:
        return then({})

    def answered(reply: types.MetadataResponse) -> Verdict:
        failed = {topic.name: topic.error_code for topic in reply.topics if topic.error_code}
        return then({name: error_code for name, error_code in failed.items() if name is not None})

    asked = types.MetadataRequest.MetadataRequestTopic
    question = types.MetadataRequest(
        topics=[asked(name=name) for name in names], allow_auto_topic_creation=True
    )
    return QueryBroker(int(ApiKey.METADATA), version, question, answered)


def _version(call: Call, least: int) -> int | None:
    low, high = call.gate.versions.get(ApiKey.METADATA, (0, -1))
    return high if high >= max(low, least) else None


def _asks(
    version: int, topics: list[types.MetadataRequest.MetadataRequestTopic], answered: Callable[[Any], Verdict]
) -> QueryBroker:
    question = types.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    return QueryBroker(int(ApiKey.METADATA), version, question, answered)


def _learn(call: Call, reply: types.MetadataResponse) -> None:
    for topic in paced(reply.topics):
        if topic.name:
            call.gate.topic_names.learn(bytes(topic.topic_id), topic.name)


def have_made(call: Call, names: Iterable[str], then: Then) -> Verdict:
    """`then`, once those of the names that are missing are made as far as that can be."""
    known = call.gate.topic_names.topic_id
    unknown = [name for name in names if is_valid_name(name) and known(name) is None]
    kafkas_own = [name for name in unknown if name in INTERNAL_TOPICS]
    others = [name for name in unknown if name not in INTERNAL_TOPICS]
    if not kafkas_own:
        return _have_others_made(call, others, {}, then)
    return have_created(call, kafkas_own, lambda failed: _have_others_made(call, others, failed, then))


def _have_others_made(call: Call, names: list[str], failed: Mapping[str, int], then: Then) -> Verdict:
    if not names:
        return then(failed)

    def asked(existing: set[str]) -> Verdict:
        missing = [name for name in names if name not in existing]
        return _have_controller_make(call, missing, failed, then) if missing else then(failed)

    return ask_which_exist(call, names, asked)


def _have_controller_make(call: Call, missing: list[str], failed: Mapping[str, int], then: Then) -> Verdict:
    none_made = {**failed, **dict.fromkeys(missing, _UNKNOWN)}
    _, version = call.gate.versions.get(ApiKey.CREATE_TOPICS, (0, -1))
    if version < _FIRST_WITH_DEFAULTS:
        return then(none_made)

    def answered(reply: types.CreateTopicsResponse | None, _error_code: int) -> Verdict:
        return then(none_made if reply is None else {**failed, **_not_made(reply)})

    topic = types.CreateTopicsRequest.CreatableTopic
    topics = [topic(name=name, num_partitions=-1, replication_factor=-1) for name in missing]
    question = types.CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
    return QueryController(int(ApiKey.CREATE_TOPICS), version, question, answered, TIMEOUT_MS)


def _not_made(reply: types.CreateTopicsResponse) -> dict[str, int]:
    """A quota that is used up, and all else that may pass, is told as KRaft's brokers tell it: ask again."""
    return {
        topic.name: topic.error_code if topic.error_code in _TOLD else _UNKNOWN
        for topic in reply.topics
        if topic.error_code not in _THERE
    }
