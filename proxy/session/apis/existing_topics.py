"""Which topics exist, asked of the broker before a verdict that depends on it.

Used by APIs where a broker looks into its list of topics before, or after, it asks for a right. Nothing is
made by the question, and what it tells of topics goes no further than the verdict.
"""

from collections.abc import Callable, Iterable
from typing import Any

from proxy.session.call import Ask, Call, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

_FIRST_WITHOUT_CREATION = 4
"""Of Metadata: from here on a request can say that a missing topic is not to be made."""


def ask_which_exist(call: Call, names: Iterable[str], then: Callable[[set[str]], Verdict]) -> Verdict:
    """`then` gets those of the names that are topics; a broker that cannot be asked has none of them."""
    low, high = call.gate.versions.get(ApiKey.METADATA, (0, -1))
    if high < max(low, _FIRST_WITHOUT_CREATION):
        return then(set())
    topic = types.MetadataRequest.MetadataRequestTopic
    question = types.MetadataRequest(
        topics=[topic(name=name) for name in names], allow_auto_topic_creation=False
    )

    def answered(reply: Any) -> Verdict:
        for part in reply.topics:
            call.gate.topic_names.learn(bytes(part.topic_id), part.name or "")
        return then({part.name for part in reply.topics if part.error_code not in _MISSING})

    return Ask(int(ApiKey.METADATA), high, question, answered)


_MISSING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)
