"""The JSON ACL file: what it may say, and that whatever is wrong in it is refused with its place."""

import json
import re
from typing import Any

import pytest

from proxy.metadata.acl import Operation, PermissionType, ResourceType
from proxy.security.simple import FileAcl, ResourceRules, SimpleAcls, parse_acl_file

pytestmark = pytest.mark.spec("A4")

READ = {"principal": "alice", "permissionType": "ALLOW", "operations": ["READ"], "hosts": ["*"]}


def parsed(document: Any) -> SimpleAcls:
    return parse_acl_file(json.dumps(document).encode())


def topic(**entry: Any) -> Any:
    return {"version": 1, "acls": [], "topics": {"orders": entry}}


# The example of the text, with addresses for its host1 and host2.
EXAMPLE = """
{"version": 1,
"acls": [
  {"principal": "alice", "permissionType": "ALLOW", "operations": ["READ", "WRITE"],
   "hosts": ["10.0.0.1", "10.0.0.2"]},
  {"principal": "bob", "permissionType": "ALLOW", "operations": ["READ"], "hosts": ["*"]},
  {"principal": "bob", "permissionType": "DENY", "operations": ["READ"], "hosts": ["10.0.0.1", "10.0.0.2"]}
]}
"""


def test_the_example_of_the_text_is_a_file() -> None:
    read, both = frozenset({Operation.READ}), frozenset({"10.0.0.1", "10.0.0.2"})
    alice, bob = "User:alice", "User:bob"

    assert parse_acl_file(EXAMPLE.encode()) == SimpleAcls(
        cluster=ResourceRules(
            {
                alice: (FileAcl("acls[0]", alice, PermissionType.ALLOW, read | {Operation.WRITE}, both),),
                bob: (
                    FileAcl("acls[1]", bob, PermissionType.ALLOW, read, frozenset({"*"})),
                    FileAcl("acls[2]", bob, PermissionType.DENY, read, both),
                ),
            }
        ),
        count=3,
    )


def test_topics_groups_and_transactional_ids_have_documents_of_their_own() -> None:
    acls = parsed(
        {
            "version": 1,
            "acls": [READ],
            "topics": {"orders": {"version": 1, "owner": "bob", "acls": [READ]}},
            "groups": {"billing": {"acls": [READ, READ]}},
            "transactional.ids": {"tx": {"acls": [READ]}},
        }
    )

    assert acls.count == 5
    assert acls.named(ResourceType.TOPIC)["orders"].owner == "User:bob"
    assert [acl.place for acl in acls.named(ResourceType.GROUP)["billing"].acls] == [
        "groups > billing > acls[0]",
        "groups > billing > acls[1]",
    ]
    assert list(acls.named(ResourceType.TRANSACTIONAL_ID)) == ["tx"]
    assert acls.named(ResourceType.CLUSTER) == {}


@pytest.mark.parametrize(
    ("written", "principal"),
    [
        ("alice", "User:alice"),
        ("User:alice", "User:alice"),
        ("Group:staff", "Group:staff"),
        ("Anonymous", "User:*"),
        ("*", "User:*"),
        ("User:*", "User:*"),
        ("ANONYMOUS", "User:ANONYMOUS"),
    ],
)
def test_a_principal_without_a_type_is_a_user_and_anonymous_is_everybody(
    written: str, principal: str
) -> None:
    acls = parsed({"version": 1, "acls": [READ | {"principal": written}]})

    assert list(acls.cluster.by_principal) == [principal]


@pytest.mark.parametrize(
    ("written", "operations"),
    [
        ("ALL", {Operation.ALL}),
        ("CREATE", {Operation.CREATE}),
        ("CONFIGURE", {Operation.ALTER, Operation.ALTER_CONFIGS}),
        ("EDIT", {Operation.ALTER, Operation.ALTER_CONFIGS}),
        ("DESCRIBE", {Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS}),
        ("REPLICATE", {Operation.CLUSTER_ACTION}),
        ("SEND_CONTROL_MESSAGE", {Operation.CLUSTER_ACTION}),
        ("IDEMPOTENT_WRITE", {Operation.IDEMPOTENT_WRITE}),
    ],
)
def test_operations_are_the_texts_and_kafkas(written: str, operations: set[Operation]) -> None:
    (acl,) = parsed({"version": 1, "acls": [READ | {"operations": [written]}]}).cluster.acls

    assert acl.operations == operations


@pytest.mark.spec("S13")
@pytest.mark.parametrize(
    "host",
    ["10.0.0.0-10.9.9.9", "10.0.0.0/33", "fe80::%eth0/64", "nonsense", " ", "010.0.0.1", "fe80::1%eth0"],
)
def test_a_host_that_is_no_address_is_an_error(host: str) -> None:
    with pytest.raises(
        ValueError, match=r"hosts\[0\]: .* is neither an address without a zone, nor a network, nor"
    ):
        parsed({"version": 1, "acls": [READ | {"hosts": [host]}]})


@pytest.mark.spec("S12")
def test_a_network_matches_the_addresses_in_it() -> None:
    (acl,) = parsed(
        {"version": 1, "acls": [READ | {"hosts": ["10.1.2.3/8", "fe80::/10", "1.2.3.4"]}]}
    ).cluster.acls

    assert all(
        acl.concerns(host) for host in ("10.0.0.1", "10.255.255.255", "fe80:0:0:0:0:0:0:1%eth0", "1.2.3.4")
    )
    assert not any(acl.concerns(host) for host in ("11.0.0.1", "0:0:0:0:0:0:0:1", "1.2.3.5"))


@pytest.mark.spec("S13")
def test_an_address_of_a_deny_and_a_network_match_in_every_zone() -> None:
    hosts = {"hosts": ["fe80::1"]}
    deny, allow, network = parsed(
        {
            "version": 1,
            "acls": [
                READ | hosts | {"permissionType": "DENY"},
                READ | hosts,
                READ | {"hosts": ["fe80::1/128"]},
            ],
        }
    ).cluster.acls

    zoned, other = "fe80:0:0:0:0:0:0:1%2", "fe80:0:0:0:0:0:0:2%2"
    assert [acl.concerns(zoned) for acl in (deny, allow, network)] == [True, False, True]
    assert [acl.concerns(zoned.partition("%")[0]) for acl in (deny, allow, network)] == [True, True, True]
    assert not any(acl.concerns(other) for acl in (deny, allow, network))


def test_hosts_are_compared_as_kafka_writes_addresses() -> None:
    (acl,) = parsed({"version": 1, "acls": [READ | {"hosts": ["::1", "::ffff:10.0.0.1"]}]}).cluster.acls

    assert acl.hosts == {"0:0:0:0:0:0:0:1", "10.0.0.1"}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "line 1, column 1: Expecting value"),
        (b'{"version": 1,\n "acls": [}', "line 2, column 11: "),
        (b'{"version": 1, "acls": \xff}', "not UTF-8: byte 23"),
        (b'{"version": 1, "acls": [], "acls": []}', "key given twice: 'acls'"),
        (b"[" * 200_000, "too deeply nested"),
        (b"[]", "the file: expected an object, found list"),
        (b'{"acls": []}', "the file: 'version' is missing"),
        (b'{"version": 1}', "the file: 'acls' is missing"),
    ],
)
def test_what_is_no_such_document_is_refused(content: bytes, told: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(told)):
        parse_acl_file(content)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"version": 2, "acls": []}, "the file: version 2, supported: 1"),
        ({"version": True, "acls": []}, "the file: version True, supported: 1"),
        ({"version": 1, "acls": [], "topcs": {}}, "the file: unknown key 'topcs'"),
        ({"version": 1, "acls": {}}, "acls: expected a list of ACLs"),
        ({"version": 1, "acls": ["alice"]}, "acls[0]: expected an object, found str"),
        ({"version": 1, "acls": [READ, READ | {"host": "x"}]}, "acls[1]: unknown key 'host'"),
        ({"version": 1, "acls": [{}]}, "acls[0]: 'hosts' is missing, 'operations' is missing, "),
        (
            {"version": 1, "acls": [READ | {"principal": ""}]},
            "acls[0] > principal: expected a text, found ''",
        ),
        (
            {"version": 1, "acls": [READ | {"permissionType": "Deny"}]},
            "acls[0] > permissionType: expected ALLOW",
        ),
        (
            {"version": 1, "acls": [READ | {"operations": []}]},
            "acls[0] > operations: expected a list that is not",
        ),
        (
            {"version": 1, "acls": [READ | {"operations": ["READ", 3]}]},
            "acls[0] > operations[1]: expected a text",
        ),
        (
            {"version": 1, "acls": [READ | {"operations": ["ANY"]}]},
            "acls[0] > operations[0]: 'ANY' is no operat",
        ),
        (
            {"version": 1, "acls": [READ | {"hosts": ["*", "host1"]}]},
            "acls[0] > hosts[1]: 'host1' is neither an ",
        ),
        ({"version": 1, "acls": [READ | {"hosts": "*"}]}, "acls[0] > hosts: expected a list"),
        ({"version": 1, "acls": [], "topics": []}, "topics: expected an object, a name for each resource"),
        ({"version": 1, "acls": [], "topics": {"": {"acls": []}}}, "topics: a resource without a name"),
        (
            {"version": 1, "acls": [], "groups": {"g": {"owner": "a", "acls": []}}},
            "groups > g: unknown key 'own",
        ),
        (topic(), "topics > orders: 'acls' is missing"),
        (topic(version=3, acls=[]), "topics > orders: version 3, supported: 1"),
        (topic(owner="*", acls=[]), "topics > orders > owner: everybody cannot be the owner"),
        (topic(acls=[READ | {"hosts": ["1"]}]), "topics > orders > acls[0] > hosts[0]: '1' is neither"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(document: Any, told: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(told)):
        parsed(document)
