"""With audit.policy.<class>: refuse, what could not be recorded is not served, and says why."""

from random import Random

import pytest

from proxy.metadata.acl import ResourceType
from proxy.session.apis.table import TABLE
from proxy.session.call import UNRECORDED
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.catalog import request as request_schema
from proxy.wire.error_codes import ErrorCode
from tests.session.conversation import Conversation, plain_token, produce, produced, sasl
from tests.support.acl_filters import describe_acls
from tests.support.topic_requests import create_topics
from tests.support.wire_messages import MessageFiller

pytestmark = pytest.mark.spec("D3")

PRODUCE = ApiKey.PRODUCE


def out_of_order(talk: Conversation, *classes: str) -> None:
    """As proxy.app tells it: decisions that were remembered are made again."""
    talk.gate.unrecorded = frozenset(classes)
    talk.gate.forget_decisions()


@pytest.mark.parametrize("event_class", ["summary", "denial"])
def test_a_producer_that_streamed_is_refused_in_words_and_served_again_afterwards(event_class: str) -> None:
    talk = Conversation("WRITE TOPIC orders")
    for _ in range(2):
        talk.asks(PRODUCE, 9, produce("orders"))
        talk.answers(PRODUCE, 9, produced("orders"))
    talk.heard_bytes()
    assert len(talk.forwarded()) == 2

    out_of_order(talk, event_class)
    talk.asks(PRODUCE, 9, produce("orders"))

    (topic,) = talk.heard(PRODUCE, 9).responses
    (partition,) = topic.partition_responses
    assert (partition.error_code, partition.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, UNRECORDED)
    assert talk.forwarded() == []
    out_of_order(talk)
    talk.asks(PRODUCE, 9, produce("orders"))
    assert len(talk.forwarded()) == 1


def test_administrative_requests_follow_their_own_policy() -> None:
    talk = Conversation("CREATE TOPIC new")
    out_of_order(talk, "summary")

    talk.asks(ApiKey.CREATE_TOPICS, 7, create_topics("new"))

    assert len(talk.controller) == 1


def test_nobody_logs_in_whose_login_could_not_be_recorded() -> None:
    talk = Conversation(sasl_listener=sasl())
    out_of_order(talk, "authentication")
    assert talk.shakes_hands().error_code == ErrorCode.NONE

    answer = talk.authenticates(plain_token("alice"))

    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == UNRECORDED
    assert talk.close_reason == "audit_unavailable"
    assert talk.events == []


CHANGES = [ApiKey(key) for key, api in TABLE.items() if api.admin == "broker"]


@pytest.mark.parametrize("api_key", CHANGES, ids=lambda key: key.name)
def test_no_change_goes_to_the_broker_whose_record_could_not_be_kept(api_key: ApiKey) -> None:
    talk = Conversation(*(f"ALL {kind.name} *" for kind in ResourceType if kind >= ResourceType.TOPIC))
    talk.gate.rejects_changes = True
    version = max(codecs.request_versions(api_key))
    filler = MessageFiller(Random(7), tame=True)

    talk.asks(api_key, version, filler.message(request_schema(api_key).name, version))

    assert talk.forwarded() == []
    assert talk.events == []
    assert len(talk.heard_bytes()) > 0


def test_questions_of_administrators_and_data_go_on_without_room_for_records_of_changes() -> None:
    talk = Conversation("WRITE TOPIC orders", "DESCRIBE CLUSTER kafka-cluster")
    talk.gate.rejects_changes = True

    talk.asks(PRODUCE, 9, produce("orders"))
    assert len(talk.forwarded()) == 1
    talk.answers(PRODUCE, 9, produced("orders"))
    talk.heard_bytes()
    talk.asks(ApiKey.DESCRIBE_ACLS, 3, describe_acls())

    assert talk.heard(ApiKey.DESCRIBE_ACLS, 3).error_code == ErrorCode.NONE
