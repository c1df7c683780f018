"""Which topics exist and what they are called, asked of the broker before a verdict that depends on it.

Used by APIs where a broker looks into its list of topics before it asks for a right, or after, and what
is answered goes no further than the verdict. But for `have_created` nothing is made by a question.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from proxy.session import topic_lookup
from proxy.session.call import Ask, Call, LookUp, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.work import paced

_FIRST_WITHOUT_CREATION = 4
"""Of Metadata: from here on a request can say that a missing topic is not to be made."""

_MISSING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


def ask_which_exist(call: Call, names: Iterable[str], then: Callable[[set[str]], Verdict]) -> Verdict:
    """`then` gets those of the names that are topics; a broker that cannot be asked has none of them."""
    version = _version(call, _FIRST_WITHOUT_CREATION)
    if version is None:
        return then(set())

    def answered(reply: Any) -> Verdict:
        _learn(call, reply)
        return then({topic.name for topic in reply.topics if topic.error_code not in _MISSING})

    asked = types.MetadataRequest.MetadataRequestTopic
    return _asks(version, [asked(name=name) for name in names], answered)


def with_names(call: Call, topic_ids: Iterable[bytes], then: Callable[[], Verdict]) -> Verdict:
    """`then`, once the names of these ids are known as far as the broker knows them."""
    unknown = topic_lookup.unnamed(call.gate, topic_ids, call.now_ms)
    return LookUp(unknown, then) if unknown else then()


def have_created(call: Call, names: Iterable[str], then: Callable[[Mapping[str, int]], Verdict]) -> Verdict:
    """Have the broker make those that are missing; `then` gets what it said of those that it had not."""
    version = _version(call, _FIRST_WITHOUT_CREATION)
    if version is None:
        return then({})

    def answered(reply: Any) -> Verdict:
        return then({topic.name: topic.error_code for topic in reply.topics if topic.error_code})

    asked = types.MetadataRequest.MetadataRequestTopic
    question = types.MetadataRequest(
        topics=[asked(name=name) for name in names], allow_auto_topic_creation=True
    )
    return Ask(int(ApiKey.METADATA), version, question, answered)


def _version(call: Call, least: int) -> int | None:
    low, high = call.gate.versions.get(ApiKey.METADATA, (0, -1))
    return high if high >= max(low, least) else None


def _asks(version: int, topics: list[Any], answered: Callable[[Any], Verdict]) -> Ask:
    question = types.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    return Ask(int(ApiKey.METADATA), version, question, answered)


def _learn(call: Call, reply: Any) -> None:
    for topic in paced(reply.topics):
        if topic.name:
            call.gate.topic_names.learn(bytes(topic.topic_id), topic.name)
