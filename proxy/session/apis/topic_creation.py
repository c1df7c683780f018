"""Missing topics that a client asks after, made through our controller before the request is answered.

Used by metadata where the controller is ours: so an operator's policies, the quota on mutations and the
owner of a topic are the same as for CreateTopics. Names that an answer has told are not asked about again.
Kafka's own topics are left to the broker, which knows how they are made; no policy may hinder them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from proxy.admin.topics import INTERNAL_TOPICS, is_valid_name
from proxy.session.apis.existing_topics import ask_which_exist, have_created
from proxy.session.call import AskController, Call, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

TIMEOUT_MS = 5_000
"""For the controller: its client waits for Metadata meanwhile, and asks again when a topic is unknown."""

_FIRST_WITH_DEFAULTS = 4
"""Of CreateTopics: from here on -1 partitions and replicas are the broker's defaults (KIP-464)."""

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_THERE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
_TOLD = (ErrorCode.POLICY_VIOLATION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

Then = Callable[[Mapping[str, int]], Verdict]
"""Gets the names that could not be made, with the error of each."""


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

    def answered(reply: Any, _error_code: int) -> Verdict:
        return then(none_made if reply is None else {**failed, **_not_made(reply)})

    topic = types.CreateTopicsRequest.CreatableTopic
    topics = [topic(name=name, num_partitions=-1, replication_factor=-1) for name in missing]
    question = types.CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
    return AskController(int(ApiKey.CREATE_TOPICS), version, question, answered, TIMEOUT_MS)


def _not_made(reply: Any) -> dict[str, int]:
    """A quota that is used up, and all else that may pass, is told as KRaft's brokers tell it: ask again."""
    return {
        topic.name: topic.error_code if topic.error_code in _TOLD else _UNKNOWN
        for topic in reply.topics
        if topic.error_code not in _THERE
    }
