"""ACLs of a topic as one line of text, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.metadata.acl import OPERATIONS_ON, Operation, PatternType, PermissionType, ResourceType
from proxy.metadata.topic_acls import (
    TopicAcl,
    parse_topic_acls,
    stripped,
    topic_acls,
    topic_acls_text,
)
from tests.support.images import acl_record, image_of

pytestmark = pytest.mark.spec("A6")

ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
acls = st.builds(
    TopicAcl,
    st.builds("{}:{}".format, st.sampled_from(["User", "Group"]), texts),
    st.sampled_from(["*", "10.0.0.1", "2001:db8:0:0:0:0:0:1"]),
    st.sampled_from([Operation.ALL, *OPERATIONS_ON[ResourceType.TOPIC]]),
    st.sampled_from([ALLOW, DENY]),
)


def test_an_entry_is_principal_operations_permission_and_host() -> None:
    text = (
        "User:bob:READ+describe:allow:*; User:eve:ALL:DENY:2001:db8:0:0:0:0:0:1 ;Group:CN=a b,O=c:WRITE:allow"
    )

    assert parse_topic_acls(text) == [
        TopicAcl("User:bob", "*", Operation.READ, ALLOW),
        TopicAcl("User:bob", "*", Operation.DESCRIBE, ALLOW),
        TopicAcl("User:eve", "2001:db8:0:0:0:0:0:1", Operation.ALL, DENY),
        TopicAcl("Group:CN=a b,O=c", "*", Operation.WRITE, ALLOW),
    ]


def test_the_text_has_denials_first_and_one_entry_for_each_principal_and_host() -> None:
    found = parse_topic_acls(
        "User:b:WRITE:allow;User:a:READ:allow;User:b:READ:allow;User:z:READ:deny:10.0.0.1"
    )

    assert topic_acls_text(found) == (
        "User:z:READ:deny:10.0.0.1;User:a:READ:allow:*;User:b:READ+WRITE:allow:*"
    )


@given(st.sets(acls, min_size=1, max_size=8))
def test_what_is_written_is_read_again(some: set[TopicAcl]) -> None:
    text = topic_acls_text(some)

    assert set(parse_topic_acls(text)) == some
    assert topic_acls_text(parse_topic_acls(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no entry"),
        (" ; ", "no entry"),
        ("User:bob:READ", "is not type:name"),
        ("alice:READ:allow", "is not type:name"),
        (":bob:READ:allow", "Its type is empty."),
        ("User:bob:READ:allow:", "Host '' is neither an address nor"),
        ("User:bob:READ:deny:10.0.0.0-10.9.9.9", "Host '10.0.0.0-10.9.9.9' is neither an address nor"),
        ("User:bob:READ:deny:2001:db8::1", "has to be written as 2001:db8:0:0:0:0:0:1"),
        ("User:bob:READ:maybe", "neither allow nor deny"),
        ("User:bob:READ|WRITE:allow", "no operation on a topic"),
        ("User:bob::allow", "no operation on a topic"),
        ("User:bob:CLUSTER_ACTION:allow", "no operation on a topic"),
        ("User:bob:READ:allow;User:eve:ANY:deny", "'User:eve:ANY:deny'"),
    ],
)
def test_what_is_no_entry_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("|", r"\|")):
        parse_topic_acls(text)


def test_the_acls_of_a_topic_are_those_on_exactly_its_name() -> None:
    image = image_of(
        acl_record(1, "orders"),
        acl_record(2, "ord", pattern_type=PatternType.PREFIXED),
        acl_record(3, "*"),
        acl_record(4, "orders", principal="User:eve", permission_type=DENY),
    )

    assert {stripped(acl).principal for acl in topic_acls(image, "orders")} == {"User:alice", "User:eve"}
    assert topic_acls(image, "order") == []
