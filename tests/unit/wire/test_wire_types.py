"""Message classes: names, defaults, equality, what they show."""

import copy
import pickle

import pytest

from proxy.wire import types as t
from proxy.wire.message import Request

pytestmark = pytest.mark.tooling


def test_fields_start_with_kafkas_defaults() -> None:
    creation = t.CreateAclsRequest.AclCreation()
    fetch = t.FetchRequest()
    metadata = t.MetadataRequest()

    assert (creation.resource_type, creation.resource_name, creation.resource_pattern_type) == (0, "", 3)
    assert (fetch.replica_id, fetch.max_bytes, fetch.cluster_id) == (-1, 0x7FFFFFFF, None)
    assert (metadata.topics, metadata.allow_auto_topic_creation) == ([], True)
    assert t.FetchResponse.PartitionData().diverging_epoch.end_offset == -1


def test_lists_and_structs_are_not_shared_between_messages() -> None:
    one, other = t.FetchResponse.PartitionData(), t.FetchResponse.PartitionData()

    one.diverging_epoch.epoch = 4
    one.aborted_transactions = [t.FetchResponse.AbortedTransaction()]

    assert other == t.FetchResponse.PartitionData()
    assert one != other


def test_fields_are_given_by_name_only_and_must_exist() -> None:
    with pytest.raises(TypeError):
        t.MetadataRequest([])  # type: ignore[call-arg, arg-type]
    with pytest.raises(TypeError):
        t.MetadataRequest(topic=[])  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        t.MetadataRequest().topic = []  # type: ignore[attr-defined]


def test_there_is_no_class_for_what_kafka_has_no_message_for() -> None:
    with pytest.raises(AttributeError, match="Kafka has no message named LeaderAndIsrRequest"):
        t.LeaderAndIsrRequest  # type: ignore[attr-defined] # noqa: B018 - the access is what is tested


def test_messages_of_different_kinds_are_never_equal() -> None:
    assert t.FenceBrokerRecord() != t.UnfenceBrokerRecord()
    assert t.FenceBrokerRecord(id=1) != t.FenceBrokerRecord(id=1, unknown_tags={7: b""})
    assert t.FenceBrokerRecord() != 0


def test_a_message_shows_its_fields_but_no_secrets() -> None:
    message = t.UserScramCredentialRecord(name="alice", salt=b"salt", stored_key=memoryview(b"secret"))

    shown = repr(message)

    assert shown.startswith("UserScramCredentialRecord(name='alice', mechanism=0, salt=<4 bytes>")
    assert "secret" not in shown


def test_a_message_shows_uuids_and_nested_structs_as_kafka_does() -> None:
    topic = t.MetadataRequest.MetadataRequestTopic(topic_id=bytes(range(16)))

    assert "MetadataRequest.MetadataRequestTopic(topic_id=AAECAwQFBgcICQoLDA0ODw, name=''" in repr(
        t.MetadataRequest(topics=[topic])
    )


def test_a_message_can_be_copied_and_sent_to_another_process() -> None:
    message = t.MetadataRequest(topics=[t.MetadataRequest.MetadataRequestTopic(name="a")])

    deep = copy.deepcopy(message)
    assert deep.topics is not None
    deep.topics[0].name = "b"

    assert pickle.loads(pickle.dumps(message)) == message
    assert copy.copy(message) == message != deep


def test_a_class_knows_its_api_key() -> None:
    assert t.CreateAclsRequest.api_key == t.CreateAclsResponse.api_key == 30
    assert t.CreateAclsRequest.AclCreation.api_key is None
    assert t.DefaultPrincipalData().api_key is None
    assert t.ApiVersionsResponse.ApiVersion(api_key=5).api_key == 5


def test_names_of_messages_are_offered_to_whoever_lists_the_module() -> None:
    assert "CreateAclsRequest" in dir(t)


def test_requests_are_a_kind_of_message_of_their_own() -> None:
    assert isinstance(t.CreateAclsRequest(), Request)
    assert not isinstance(t.CreateAclsResponse(), Request)
    assert not isinstance(t.CreateAclsRequest.AclCreation(), Request)
    assert not isinstance(t.TopicRecord(), Request)
