"""ACLs with something that decisions cannot read: a DENY that may apply applies, an ALLOW does not (S13)."""

from dataclasses import replace
from typing import Any

import pytest

from proxy.metadata.acl import (
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    address_text,
    host_fault,
)
from proxy.metadata.image import MetadataImage
from proxy.metadata.topic_acls import topic_acls
from proxy.security.authorizer import Action, RequestContext, host_address
from proxy.security.principal import parse_principal
from proxy.security.standard import StandardAuthorizer
from proxy.wire import types
from tests.support.images import acl_record, image_of

pytestmark = pytest.mark.spec("S13")

ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
ANYTHING = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, PermissionType.ANY)
NO_ADDRESSES = (
    "10.0.0.0-10.9.9.9",
    "127.0.0.0/33",
    "2001:db8::/129",
    "10.0.0.1-10.0.0.9",
    "10.0.0.*",
    "10.0.0",
    "010.0.0.1",
    "10.0.0.1 ",
    " ",
    "",
    "nonsense",
    "localhost",
    "client.example.com",
    "/10.0.0.1",
    "[0:0:0:0:0:0:0:1]",
    "10.0.0.1%eth0",
    "1٠.0.0.1",
    "User:*",
)
OTHER_FORMS = {
    "::1": "0:0:0:0:0:0:0:1",
    "0:0:0:0:0:0:0:01": "0:0:0:0:0:0:0:1",
    "2001:DB8::A": "2001:db8:0:0:0:0:0:a",
    "::ffff:10.0.0.1": "10.0.0.1",
    "::FFFF:A00:1": "10.0.0.1",
    "0:0:0:0:0:ffff:a00:1": "10.0.0.1",
    "::10.0.0.1": "0:0:0:0:0:0:a00:1",
    "fe80::1%eth0": "fe80:0:0:0:0:0:0:1",
}


def decides(
    image: MetadataImage,
    host: str = "10.0.0.1",
    principal: str = "User:alice",
    name: str = "orders",
    resource_type: ResourceType = ResourceType.TOPIC,
    operation: Operation = Operation.READ,
) -> tuple[bool, bool]:
    """Whether the client is allowed, and whether it is on some resource of the type."""
    authorizer = StandardAuthorizer()
    authorizer.configure({})
    context = RequestContext(parse_principal(principal), host, "L", "c", image=image)
    (decision,) = authorizer.authorize(context, [Action(operation, resource_type, name)])
    return decision.allowed, authorizer.authorize_by_resource_type(context, operation, resource_type).allowed


def image_with(allow: dict[str, Any], deny: dict[str, Any] | None) -> MetadataImage:
    records = [acl_record(1, permission_type=ALLOW, **allow)]
    if deny is not None:
        records.append(acl_record(2, **{"permission_type": DENY} | deny))
    return image_of(*records)


@pytest.mark.parametrize("host", NO_ADDRESSES)
def test_a_deny_for_what_is_no_address_is_for_every_host_and_an_allow_for_none(host: str) -> None:
    assert host_fault(host) is not None

    for client in ("10.0.0.1", "0:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:0:1%eth0"):
        assert decides(image_with({}, None), client) == (True, True)
        assert decides(image_with({}, {"host": host}), client) == (False, False)
        assert decides(image_with({"host": host}, None), client) == (False, False)
    assert decides(image_with({}, {"host": host, "principal": "User:bob"})) == (True, True)
    assert decides(image_with({}, {"host": host, "resource_name": "other"})) == (True, True)


@pytest.mark.parametrize(("form", "address"), OTHER_FORMS.items())
def test_a_deny_in_another_form_of_an_address_is_for_that_address(form: str, address: str) -> None:
    assert host_fault(form) == f"Host {form!r} has to be written as {address}."

    assert decides(image_with({}, {"host": form}), address) == (False, False)
    assert decides(image_with({}, {"host": form}), "192.168.0.1") == (True, True)
    assert decides(image_with({"host": form}, None), address) == (False, False)


def test_a_deny_for_an_address_is_for_it_in_every_zone() -> None:
    link_local = "fe80:0:0:0:0:0:0:1"

    for host in (link_local, f"{link_local}%2", f"{link_local}%eth0"):
        for client in (link_local, f"{link_local}%2", f"{link_local}%3"):
            assert decides(image_with({}, {"host": host}), client) == (False, False)
    assert decides(image_with({}, {"host": link_local}), "fe80:0:0:0:0:0:0:2%2") == (True, True)


def test_an_allow_for_an_address_is_for_it_in_its_own_zone() -> None:
    """As in Kafka: another link may have another host with this address."""
    link_local = "fe80:0:0:0:0:0:0:1"
    clients = link_local, f"{link_local}%2", f"{link_local}%3"

    for host in clients:
        allowed = {client: decides(image_with({"host": host}, None), client) for client in clients}
        assert allowed == {client: (client == host, client == host) for client in clients}
    assert [host_fault(host) for host in clients] == [None, None, None]
    for malformed in (
        f"{link_local}%",
        f"{link_local}%*",
        f"{link_local}%02",
        "10.0.0.1%2",
        "2001:db8:0:0:0:0:0:1%2",
    ):
        assert host_fault(malformed) is not None
        for client in clients:
            assert decides(image_with({"host": malformed}, None), client) == (False, False)


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "255.255.255.255", "0:0:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:a", "*"]
)
def test_what_a_client_has_is_understood(address: str) -> None:
    assert host_fault(address) is None
    if address != "*":
        assert address_text(address) == host_address(address) == address


@pytest.mark.parametrize(
    "unknown",
    [{"operation": 99}, {"operation": 1}, {"operation": 0}, {"pattern_type": 9}, {"pattern_type": 2}],
)
def test_a_deny_with_an_unknown_operation_or_pattern_is_for_all_of_them(unknown: dict[str, Any]) -> None:
    wide = {"resource_name": "*"}

    assert not decides(image_with(wide, unknown))[0]
    assert not decides(image_with(unknown, None))[0]
    assert not decides(image_with(unknown, None))[1]
    assert decides(image_with(wide, unknown), principal="User:bob") == (False, False)


def test_a_deny_with_an_unknown_pattern_covers_every_name_of_its_type() -> None:
    image = image_with({"resource_name": "*"}, {"pattern_type": 9, "resource_name": "x"})

    assert decides(image) == (False, False)
    assert decides(
        image_with({"resource_type": ResourceType.GROUP}, {"pattern_type": 9}),
        resource_type=ResourceType.GROUP,
    ) == (True, True)


@pytest.mark.parametrize("number", [0, 1, 8, 100])
@pytest.mark.parametrize("kind", [ResourceType.TOPIC, ResourceType.GROUP, ResourceType.USER])
def test_a_deny_on_an_unknown_type_of_resource_is_on_all_types(number: int, kind: ResourceType) -> None:
    deny = {"resource_type": number}

    assert decides(image_with({"resource_type": kind}, deny), resource_type=kind) == (False, False)
    assert decides(image_with({"resource_type": kind}, deny), resource_type=kind, name="other") == (
        False,
        False,
    )
    wide = {"resource_type": kind, "resource_name": "*"}
    assert decides(image_with(wide, deny), resource_type=kind, name="other") == (True, True)
    assert decides(image_with(deny, None), resource_type=kind) == (False, False)


@pytest.mark.parametrize("number", [0, 1, 4, 100])
def test_an_unknown_permission_is_a_denial(number: int) -> None:
    assert decides(image_with({}, {"permission_type": number})) == (False, False)


def test_a_principal_without_a_type_is_denied_to_all_and_allowed_to_none() -> None:
    assert decides(image_with({}, {"principal": "alice"})) == (False, False)
    assert decides(image_with({"principal": "alice"}, None)) == (False, False)


FAULTY = (
    {"host": "10.0.0.0-10.9.9.9"},
    {"operation": 99},
    {"pattern_type": 9},
    {"resource_type": 100},
    {"permission_type": 4},
    {"principal": "alice"},
)


@pytest.mark.parametrize("fault", FAULTY)
@pytest.mark.parametrize("permission", [ALLOW, DENY])
def test_such_an_acl_is_listed_as_it_is_and_removed_like_any_other(
    fault: dict[str, Any], permission: PermissionType
) -> None:
    record = acl_record(7, **{"permission_type": permission} | fault)
    image = image_of(record, acl_record(8, "bystander"))
    (stored,) = [acl for acl in image.acls.by_id.values() if acl.resource_name == "orders"]

    assert (stored.host, stored.principal) == (record.host, record.principal)
    assert stored.faults()
    named = replace(ANYTHING, resource_name="orders")
    assert list(image.acls.select(named)) == [stored]
    assert sorted(image.acls.select(ANYTHING), key=lambda acl: acl.id)[0] == stored
    assert list(image.acls.select(replace(ANYTHING, host=record.host, principal=record.principal))) == (
        [stored]
        if record.host != "*" or record.principal != "User:alice"
        else sorted(image.acls.select(ANYTHING), key=lambda acl: acl.id)
    )
    assert image.acls.existing(stored) == stored

    removed = image_of(types.RemoveAccessControlEntryRecord(id=bytes(record.id)), base=image)
    assert removed.acls == image_of(acl_record(8, "bystander")).acls
    assert topic_acls(removed, "orders") == []


def test_the_config_acls_of_a_topic_has_only_acls_on_exactly_that_topic() -> None:
    image = image_of(
        acl_record(1),
        acl_record(2, resource_type=100, permission_type=DENY),  # type: ignore[arg-type]
        acl_record(3, host="10.0.0.0-10.9.9.9", permission_type=DENY),
    )

    assert [(acl.host, acl.resource_type) for acl in topic_acls(image, "orders")] == [
        ("10.0.0.0-10.9.9.9", ResourceType.TOPIC),
        ("*", ResourceType.TOPIC),
    ]


def test_an_acl_that_is_understood_is_decided_on_as_it_is() -> None:
    image = image_of(
        acl_record(1), acl_record(2, host="10.0.0.1", permission_type=DENY, pattern_type=PatternType.PREFIXED)
    )

    assert [acl.faults() for acl in image.acls.by_id.values()] == [[], []]
    assert all(acl.enforced() is acl for acl in image.acls.by_id.values())
