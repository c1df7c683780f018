"""A conversation in which alice asks after missing topics, at a proxy whose controller makes them."""

from typing import Any

from proxy.session.requests.queries import CORRELATION_ID
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import CLUSTER_RIGHT
from tests.session.conversation import Conversation

METADATA, CREATE_TOPICS = ApiKey.METADATA, ApiKey.CREATE_TOPICS
ASKED_V = 13
"""Of our own questions: the newest."""

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
CREATOR = ("DESCRIBE TOPIC *", f"CREATE {CLUSTER_RIGHT}")


def talking(*rights: str, creates: bool = True) -> Conversation:
    """`creates`: whether the broker is known to make topics."""
    talk = Conversation(*(rights or CREATOR))
    talk.gate.auto_creates_topics = creates
    talk.gate.creates_topics_at_controller = True
    return talk


def wanted(*names: str, create: bool = True) -> Any:
    topics = [t.MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return t.MetadataRequest(topics=topics, allow_auto_topic_creation=create)


def metadata(version: int, **topics: int) -> Any:
    topic = t.MetadataResponse.MetadataResponseTopic
    broker = t.MetadataResponse.MetadataResponseBroker(node_id=1, host="broker-1", port=9092)
    return t.MetadataResponse(
        brokers=[broker],
        controller_id=1,
        topics=[
            topic(
                name=name, error_code=code, topic_id=id_of(name) if version >= 10 and not code else bytes(16)
            )
            for name, code in topics.items()
        ],
    )


def id_of(name: str) -> bytes:
    return name.encode().ljust(16, b"-")[:16]


def made(**topics: int) -> Any:
    result = t.CreateTopicsResponse.CreatableTopicResult
    return t.CreateTopicsResponse(
        topics=[result(name=name, error_code=code) for name, code in topics.items()]
    )


def question(talk: Conversation) -> tuple[list[str], bool]:
    """The names that the broker is asked about on our own account, and whether it may make them."""
    (request,) = talk.forwarded()
    assert request.header.correlation_id == CORRELATION_ID
    return [topic.name for topic in request.message.topics], request.message.allow_auto_topic_creation


def passed_on(talk: Conversation) -> tuple[list[str] | None, bool]:
    """The same of the client's request, as it goes on."""
    (request,) = talk.forwarded()
    assert request.header.correlation_id == talk.correlation_id
    topics = request.message.topics
    names = None if topics is None else [topic.name for topic in topics]
    return names, request.message.allow_auto_topic_creation


def answered(talk: Conversation, **topics: int) -> None:
    """The broker's answer to a question of ours."""
    talk.answers(METADATA, ASKED_V, metadata(ASKED_V, **topics), CORRELATION_ID)


def finds_missing(talk: Conversation, version: int, *names: str) -> None:
    """alice asks after topics that are all missing; the controller is asked to make them."""
    talk.asks(METADATA, version, wanted(*names))
    assert question(talk) == (list(names), False)
    answered(talk, **dict.fromkeys(names, UNKNOWN))
    assert to_be_made(talk) == list(names)


def to_be_made(talk: Conversation) -> list[str]:
    asked = talk.controller[-1]
    message = decoded(asked)
    assert asked.api_key == CREATE_TOPICS
    assert {(topic.num_partitions, topic.replication_factor) for topic in message.topics} == {(-1, -1)}
    assert not message.validate_only
    assert {(config.name, config.value) for topic in message.topics for config in topic.configs} == {
        ("owner", "")
    }
    return [topic.name for topic in message.topics]


def decoded(asked: Any) -> Any:
    return codecs.request(asked.api_key, asked.api_version).decode_exactly(asked.body)


def heard(talk: Conversation, version: int) -> dict[str, int]:
    return {topic.name: topic.error_code for topic in talk.heard(METADATA, version).topics}
