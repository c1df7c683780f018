"""No API lets a client through to the controllers' group or transactional id, whatever its rights are.

Walks the table of APIs and the schemas of their requests, so that a new API, or a new field of an old one,
cannot be forgotten: a text field that nobody has classified here fails the first test.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from proxy.admin.configs import GROUP as GROUP_CONFIGS
from proxy.metadata.acl import ResourceType
from proxy.security.principal import Principal
from proxy.session.apis.table import TABLE
from proxy.session.call import Respond
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.catalog import request as request_schema
from proxy.wire.catalog import response as response_schema
from proxy.wire.schema import Struct
from tests.session.apis.asking import Asked, Asking
from tests.session.conversation import Conversation, produce
from tests.support.topic_requests import record_batch
from tests.support.wire_messages import MessageFiller

pytestmark = pytest.mark.spec("A7", "E12")

GROUP, TRANSACTIONAL_ID = "GROUP", "TRANSACTIONAL_ID"
OWN = {GROUP: "penstock-controller-election", TRANSACTIONAL_ID: "penstock-controller"}
RULE = {GROUP: "protected.group", TRANSACTIONAL_ID: "protected.transactional.id"}

FIELDS = {
    "group_id": GROUP,
    "group_ids": GROUP,
    "groups": GROUP,
    "groups_names": GROUP,
    "transactional_id": TRANSACTIONAL_ID,
    "transactional_ids": TRANSACTIONAL_ID,
    "v3_and_below_transactional_id": TRANSACTIONAL_ID,
}
"""What a text field of this name is about, in every request."""

BY_TYPE = {
    (ApiKey.FIND_COORDINATOR, "key"): ("key_type", {0: GROUP, 1: TRANSACTIONAL_ID}),
    (ApiKey.FIND_COORDINATOR, "coordinator_keys"): ("key_type", {0: GROUP, 1: TRANSACTIONAL_ID}),
    (ApiKey.DESCRIBE_CONFIGS, "resource_name"): ("resource_type", {GROUP_CONFIGS: GROUP}),
    (ApiKey.ALTER_CONFIGS, "resource_name"): ("resource_type", {GROUP_CONFIGS: GROUP}),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "resource_name"): ("resource_type", {GROUP_CONFIGS: GROUP}),
}
"""What another field beside it says that a text field is about."""

NEITHER = set(
    """
    cluster_id committed_metadata configuration_keys entity_name entity_type feature group_instance_id host
    host_filter instance_id key match member_id name owner_principal_name owner_principal_type path principal
    principal_filter principal_name principal_type process_id protocol_name protocol_type rack_id reason
    repartition_sink_topics resource_name resource_name_filter server_assignor sink_topic source_topic_regex
    source_topics state_filters states_filter stores subscribed_topic_names subscribed_topic_regex
    subtopology_id successors topic topic_name topic_names transactional_id_pattern types_filter value
    """.split()  # noqa: SIM905 - a list of quoted names would be as long as the file
)
"""Topics, addresses, settings, members, topologies; patterns with filtered responses; resources of ACLs."""

DESCRIBES = {
    ApiKey.FIND_COORDINATOR,
    ApiKey.OFFSET_FETCH,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.STREAMS_GROUP_DESCRIBE,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.DESCRIBE_CONFIGS,
}
"""What a super user may ask of them."""

EVERYTHING = [f"ALL {kind.name} *" for kind in ResourceType if kind >= ResourceType.TOPIC]
EVERYTHING += [f"ALL GROUP {OWN[GROUP]}", f"ALL TRANSACTIONAL_ID {OWN[TRANSACTIONAL_ID]}"]
ATTEMPTS = 24


def text_fields(struct: Struct) -> Iterator[str]:
    for field in struct.fields:
        if field.struct is not None:
            yield from text_fields(field.struct)
        elif field.type == "string":
            yield field.attribute


def kinds_of(key: int) -> set[str]:
    found = set()
    for attribute in text_fields(request_schema(key).root):
        if attribute in FIELDS:
            found.add(FIELDS[attribute])
        elif (ApiKey(key), attribute) in BY_TYPE:
            found |= set(BY_TYPE[ApiKey(key), attribute][1].values())
    return found


CASES = [
    pytest.param(key, version, kind, id=f"{ApiKey.name_of(key)}-v{version}-{kind}")
    for key in sorted(TABLE)
    for kind in sorted(kinds_of(key))
    for version in codecs.request_versions(key)
    if not (key == ApiKey.FIND_COORDINATOR and version == 0 and kind == TRANSACTIONAL_ID)
]


def name(key: int, version: int, message: Any, struct: Struct, kind: str) -> int:
    """Put the protected name wherever the request names a resource of that kind; in how many places."""
    count = 0
    for field in struct.fields:
        if version not in field.versions:
            continue
        value = getattr(message, field.attribute)
        kind_here = FIELDS.get(field.attribute)
        if (ApiKey(key), field.attribute) in BY_TYPE:
            selector, kinds = BY_TYPE[ApiKey(key), field.attribute]
            if version > 0 or key != ApiKey.FIND_COORDINATOR:
                setattr(message, selector, next(number for number, each in kinds.items() if each == kind))
            kind_here = kind
        if field.struct is not None:
            parts = value if isinstance(value, list) else [value]
            count += sum(name(key, version, part, field.struct, kind) for part in parts if part is not None)
        elif kind_here == kind and value:
            own = OWN[kind]
            setattr(message, field.attribute, [own] * len(value) if field.is_array else own)
            count += 1
    return count


def mentions(message: Any, wanted: str) -> bool:
    for attribute in type(message).__slots__:
        value = getattr(message, attribute)
        parts = value if isinstance(value, list) else [value]
        if any(
            part == wanted or (hasattr(type(part), "__slots__") and mentions(part, wanted)) for part in parts
        ):
            return True
    return False


def asked_for(key: int, version: int, kind: str, principal: str) -> Iterator[Asked]:
    """Requests filled at random that name the protected resource, as they were decided."""
    filler = MessageFiller(Random(f"{key}/{version}/{kind}"), tame=True)
    asking = Asking(key, version, *EVERYTHING).where_it_can_ask()
    asking.principal = Principal("User", principal)
    for _ in range(ATTEMPTS):
        message = filler.message(request_schema(key).name, version)
        codec = codecs.request(key, version)
        message = codec.decode_exactly(codec.encode(message))
        if not name(key, version, message, request_schema(key).root, kind):
            continue
        asked = asking.for_(message)
        asked = asked.settled(lambda key, version: filler.message(response_schema(key).name, version))
        yield asked


def test_every_text_field_of_every_request_is_classified() -> None:
    for key in (*TABLE, ApiKey.PRODUCE, ApiKey.FETCH):
        unknown = set(text_fields(request_schema(key).root)) - FIELDS.keys() - NEITHER
        assert not unknown - {field for api, field in BY_TYPE if api == key}, ApiKey.name_of(key)


@pytest.mark.parametrize(("key", "version", "kind"), CASES)
def test_whoever_has_every_right_does_not_get_through_to_them(key: int, version: int, kind: str) -> None:
    rules = set()
    for asked in asked_for(key, version, kind, "alice"):
        if not isinstance(asked.verdict, Respond):
            assert not mentions(asked.forwarded, OWN[kind])
        rules |= {event.rule for event in asked.call.events if event.granted is False}

    assert RULE[kind] in rules


@pytest.mark.parametrize(("key", "version", "kind"), CASES)
def test_a_super_user_gets_through_to_describe_them_and_no_further(key: int, version: int, kind: str) -> None:
    got_through = [
        not isinstance(asked.verdict, Respond) and mentions(asked.forwarded, OWN[kind])
        for asked in asked_for(key, version, kind, "root")
    ]

    assert got_through, "no request was made"
    assert any(got_through) is (key in DESCRIBES)


@pytest.mark.parametrize("principal", ["alice", "root"])
@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.PRODUCE))
def test_nobody_produces_with_the_transactional_id(version: int, principal: str) -> None:
    talk = Conversation(*EVERYTHING, principal=principal)
    topic = "orders" if version < 13 else b"o" * 16

    records = record_batch(10, transactional=True)
    own = OWN[TRANSACTIONAL_ID]
    talk.asks(ApiKey.PRODUCE, version, produce(topic, acks=-1, records=records, transactional_id=own))

    assert talk.forwarded_bytes() == b""
    assert [event.rule for event in talk.told("authorization")] == [RULE[TRANSACTIONAL_ID]]
