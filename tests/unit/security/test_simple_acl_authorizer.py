"""SimpleAclAuthorizer: decisions of a JSON ACL file, as the first draft of KIP-11 has them."""

import json
from pathlib import Path
from typing import Any

import pytest

from proxy.metadata.acl import Operation, PermissionType, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import (
    Action,
    Authorizer,
    DecidesByFiles,
    Decision,
    RequestContext,
    load_authorizer,
)
from proxy.security.principal import parse_principal
from proxy.security.protected import acls_in_log, underlying
from proxy.security.simple import SimpleAclAuthorizer
from tests.support.metadata_log import acl, image_of

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
OPEN = Decision(True, "allow.everyone.if.no.acl.found")
CLOSED = Decision(False, "default.deny")
PATH = Path("acls.json")


def entry(principal: str, permission: str, *operations: str, hosts: tuple[str, ...] = ("*",)) -> Any:
    return {
        "principal": principal,
        "permissionType": permission,
        "operations": list(operations),
        "hosts": list(hosts),
    }


def deciding_by(document: Any, **settings: str) -> SimpleAclAuthorizer:
    authorizer = SimpleAclAuthorizer()
    authorizer.configure({key.replace("_", "."): value for key, value in settings.items()})
    authorizer.load_file(PATH, json.dumps({"version": 1, "acls": []} | document).encode())
    return authorizer


def asked(
    authorizer: Authorizer,
    who: str,
    operation: Operation,
    resource_type: ResourceType = TOPIC,
    name: str = "orders",
    host: str = "10.0.0.1",
    image: MetadataImage | None = MetadataImage.EMPTY,
) -> Decision:
    context = RequestContext(parse_principal(f"User:{who}"), host, "SASL_SSL", "client", image=image)
    (decision,) = authorizer.authorize(context, [Action(operation, resource_type, name)])
    return decision


def asked_by_type(authorizer: Authorizer, who: str, operation: Operation) -> Decision:
    context = RequestContext(parse_principal(f"User:{who}"), "10.0.0.1", "L", "c", image=MetadataImage.EMPTY)
    return authorizer.authorize_by_resource_type(context, operation, TOPIC)


ORDERS = deciding_by(
    {
        "topics": {
            "orders": {
                "owner": "olga",
                "acls": [
                    entry("alice", "ALLOW", "READ", "WRITE", hosts=("10.0.0.1", "10.0.0.2")),
                    entry("bob", "ALLOW", "READ"),
                    entry("bob", "DENY", "READ", hosts=("10.0.0.1", "10.0.0.2")),
                    entry("olga", "DENY", "ALL"),
                ],
            }
        }
    }
)


def by_acl(allowed: bool, index: int) -> Decision:
    return Decision(allowed, "acl.file", f"topics > orders > acls[{index}]")


@pytest.mark.spec("A4", "A5")
@pytest.mark.parametrize(
    ("who", "operation", "host", "decision"),
    [
        ("alice", Operation.WRITE, "10.0.0.1", by_acl(True, 0)),
        ("alice", Operation.WRITE, "10.0.0.3", CLOSED),
        ("alice", Operation.DESCRIBE, "10.0.0.1", by_acl(True, 0)),
        ("alice", Operation.DELETE, "10.0.0.1", CLOSED),
        ("bob", Operation.READ, "10.0.0.3", by_acl(True, 1)),
        ("bob", Operation.READ, "10.0.0.1", by_acl(False, 2)),
        ("bob", Operation.WRITE, "10.0.0.3", CLOSED),
        ("carol", Operation.READ, "10.0.0.1", CLOSED),
        ("ANONYMOUS", Operation.READ, "10.0.0.1", CLOSED),
        ("olga", Operation.DELETE, "10.0.0.1", Decision(True, "topic.owner")),
        ("alice", Operation.ANY, "10.0.0.1", CLOSED),
    ],
)
def test_a_topic_with_acls_is_open_to_its_owner_and_to_whom_they_say_deny_over_allow(
    who: str, operation: Operation, host: str, decision: Decision
) -> None:
    assert asked(ORDERS, who, operation, host=host) == decision


@pytest.mark.spec("A5")
@pytest.mark.parametrize("who", ["carol", "ANONYMOUS"])
@pytest.mark.parametrize("document", [{}, {"topics": {"orders": {"acls": []}}}])
def test_what_has_no_acl_is_open_to_everybody_unless_configured_not_to_be(document: Any, who: str) -> None:
    open_, closed = deciding_by(document), deciding_by(document, allow_everyone_if_no_acl_found="false")

    for resource_type in ResourceType:
        assert asked(open_, who, Operation.READ, resource_type) == OPEN
        assert asked(closed, who, Operation.READ, resource_type) == CLOSED


@pytest.mark.spec("A5")
def test_anonymous_in_an_acl_is_everybody_also_who_has_not_logged_in() -> None:
    authorizer = deciding_by(
        {
            "topics": {
                "orders": {"acls": [entry("Anonymous", "ALLOW", "ALL"), entry("mallory", "DENY", "WRITE")]}
            }
        }
    )

    assert asked(authorizer, "ANONYMOUS", Operation.READ) == by_acl(True, 0)
    assert asked(authorizer, "carol", Operation.WRITE) == by_acl(True, 0)
    assert asked(authorizer, "mallory", Operation.WRITE) == by_acl(False, 1)


@pytest.mark.spec("A4")
def test_the_cluster_acls_say_who_may_create_topics_and_nothing_of_other_topic_operations() -> None:
    authorizer = deciding_by({"acls": [entry("admin", "ALLOW", "CREATE", "EDIT")]})
    allowed = Decision(True, "acl.file", "acls[0]")

    assert asked(authorizer, "admin", Operation.CREATE) == allowed
    assert asked(authorizer, "admin", Operation.CREATE, CLUSTER, "kafka-cluster") == allowed
    assert asked(authorizer, "admin", Operation.ALTER_CONFIGS, CLUSTER, "kafka-cluster") == allowed
    assert asked(authorizer, "carol", Operation.CREATE) == CLOSED
    assert asked(authorizer, "carol", Operation.CREATE_TOKENS, ResourceType.USER, "User:admin") == CLOSED
    assert asked(authorizer, "carol", Operation.WRITE) == OPEN
    assert asked(authorizer, "carol", Operation.READ, GROUP, "billing") == OPEN


@pytest.mark.spec("A4")
def test_groups_and_transactional_ids_have_acls_of_their_own() -> None:
    acls = {"acls": [entry("alice", "ALLOW", "ALL")]}
    authorizer = deciding_by({"groups": {"billing": acls}, "transactional.ids": {"billing": acls}})

    for resource_type in (GROUP, ResourceType.TRANSACTIONAL_ID):
        assert asked(authorizer, "alice", Operation.READ, resource_type, "billing").allowed
        assert asked(authorizer, "bob", Operation.READ, resource_type, "billing") == CLOSED
    assert asked(authorizer, "bob", Operation.READ, TOPIC, "billing") == OPEN


@pytest.mark.spec("A4", "S6")
def test_super_users_may_do_everything_also_before_the_log_is_loaded() -> None:
    authorizer = deciding_by({"acls": [entry("root", "DENY", "ALL")]}, super_users="User:root; User:other")

    assert asked(authorizer, "root", Operation.ALTER, CLUSTER) == Decision(True, "super.users")
    assert asked(authorizer, "root", Operation.ALTER, CLUSTER, image=None) == Decision(True, "super.users")


@pytest.mark.spec("S4")
def test_before_the_log_is_loaded_nobody_else_is_served() -> None:
    assert asked(deciding_by({}), "alice", Operation.READ, image=None) == Decision(
        False, "authorizer.not.ready"
    )


@pytest.mark.spec("A4")
def test_acls_of_the_metadata_log_do_not_count() -> None:
    denied = acl("orders", Operation.ALL, principal="User:*", permission_type=PermissionType.DENY)
    loaded = load_authorizer("proxy.security.simple.SimpleAclAuthorizer", {})

    assert asked(loaded, "carol", Operation.READ, image=image_of(denied)) == OPEN
    assert not acls_in_log(loaded)


@pytest.mark.spec("A4", "S7")
@pytest.mark.parametrize(
    ("who", "everyone", "decision"),
    [
        ("alice", "true", OPEN),
        ("alice", "false", by_acl(True, 0)),
        ("olga", "false", Decision(True, "topic.owner")),
        ("carol", "false", CLOSED),
    ],
)
def test_by_resource_type_one_open_resource_is_enough(who: str, everyone: str, decision: Decision) -> None:
    authorizer = deciding_by(
        {"topics": {"orders": {"owner": "olga", "acls": [entry("alice", "ALLOW", "WRITE")]}}},
        allow_everyone_if_no_acl_found=everyone,
    )

    assert asked_by_type(authorizer, who, Operation.WRITE) == decision


@pytest.mark.spec("A4")
def test_by_resource_type_what_the_cluster_decides_is_decided_there() -> None:
    authorizer = deciding_by({"acls": [entry("admin", "ALLOW", "CREATE")]})

    assert asked_by_type(authorizer, "admin", Operation.CREATE).allowed
    assert not asked_by_type(authorizer, "carol", Operation.CREATE).allowed
    assert asked_by_type(authorizer, "carol", Operation.READ).allowed


@pytest.mark.spec("A4", "S11")
def test_a_new_file_counts_at_once_and_a_broken_one_leaves_the_last() -> None:
    authorizer = deciding_by({"acls": [entry("admin", "ALLOW", "CREATE")]})
    assert authorizer.acl_count(MetadataImage.EMPTY) == 1

    with pytest.raises(ValueError, match="column"):
        authorizer.load_file(PATH, b'{"version": 1')
    assert asked(authorizer, "carol", Operation.CREATE) == CLOSED

    authorizer.load_file(PATH, b'{"version": 1, "acls": []}')
    assert asked(authorizer, "carol", Operation.CREATE) == OPEN
    assert authorizer.acl_count(MetadataImage.EMPTY) == 0


@pytest.mark.spec("A4")
def test_the_file_it_wants_is_the_one_that_is_configured() -> None:
    loaded = underlying(
        load_authorizer(
            "proxy.security.simple.SimpleAclAuthorizer", {"broker.acl.file.path": "/etc/acls.json"}
        )
    )

    assert isinstance(loaded, DecidesByFiles)
    assert loaded.files() == [Path("/etc/acls.json")]
    assert deciding_by({}).files() == []
