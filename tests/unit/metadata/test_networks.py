"""Networks as hosts of ACLs are read and matched as Kafka 4.4 does (KIP-1276)."""

from collections.abc import Sequence
from typing import Any

import pytest

from proxy.metadata.acl import Operation, PermissionType, ResourceType, host_fault
from proxy.metadata.delta import FIRST_WITH_NETWORKS, MetadataDelta
from proxy.metadata.image import MetadataImage
from proxy.metadata.networks import network_text, networks_of
from proxy.security.authorizer import Action, RequestContext
from proxy.security.principal import parse_principal
from proxy.security.standard import StandardAuthorizer
from proxy.wire import types
from tests.support.images import acl_record, image_of

pytestmark = pytest.mark.spec("S12")

ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
CLIENTS = (
    *("10.0.0.0", "10.0.0.1", "10.255.255.255", "11.0.0.1", "0.0.0.0", "192.168.7.9"),
    *("0:0:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:1", "fe80:0:0:0:0:0:0:1", "0:0:0:0:0:0:a00:1"),
)
TEN = {"10.0.0.0", "10.0.0.1", "10.255.255.255"}
IPV4 = TEN | {"11.0.0.1", "192.168.7.9"}
IPV6 = {each for each in CLIENTS if ":" in each}
DOCUMENTED = {"2001:db8:0:0:0:0:0:1"}
AS_KAFKA: dict[str, set[str] | None] = {
    "10.0.0.0/8": TEN,
    "10.1.2.3/8": TEN,
    "010.0.0.0/8": TEN,
    "10.0.0.0/08": TEN,
    "0.0.0.0/0": IPV4,
    "10.0.0.1/32": {"10.0.0.1"},
    "10.0.0.0/31": {"10.0.0.0", "10.0.0.1"},
    "::/0": IPV6,
    "2001:db8::/32": DOCUMENTED,
    "[2001:db8::]/32": DOCUMENTED,
    "2001:DB8::1/128": DOCUMENTED,
    "2001:db8::/+32": DOCUMENTED,
    "2001:db8::/032": DOCUMENTED,
    "2001:db8::%eth0/32": DOCUMENTED,
    "fe80::/10": {"fe80:0:0:0:0:0:0:1"},
    "::10.0.0.0/104": {"0:0:0:0:0:0:a00:1"},
    "::00010.0.0.0/104": {"0:0:0:0:0:0:a00:1"},
    "02001:000db8::/32": DOCUMENTED,
    "[2001:db8::%1]/32": DOCUMENTED,
    "::ffff:10.0.0.0/104": None,
    "::ffff:0:0/96": None,
    "::0ffff:10.0.0.0/104": None,
    "2001:db8::%/32": None,
    "2001:db8::%eth0%eth0/32": None,
    "[2001:db8::]%eth0/32": None,
    "2001:db8::/32%eth0": None,
    "120001:db8::/32": None,
    "10.0.0.0/33": None,
    "10.0.0.256/8": None,
    "10.0.0/8": None,
    " 10.0.0.0/8": None,
    "10.0.0.0/8 ": None,
    "10.0.0.0/-0": None,
    "10.0.0.0/٨": None,
    "10.0.0.0/": None,
    "10.0.0.0/8/8": None,
    "2001:db8::/": None,
    "2001:db8::/129": None,
    "2001:db8::/-1": None,
    "::1/128/1": None,
    "/8": None,
    "a/8": None,
}
"""What CidrUtils of kafka-clients 4.4.0 says of each: the clients that it is for, None if it is rejected."""


def decides(image: MetadataImage, host: str, operation: Operation = Operation.READ) -> tuple[bool, bool]:
    """Whether alice may read orders from there, and some topic."""
    authorizer = StandardAuthorizer()
    authorizer.configure({})
    context = RequestContext(parse_principal("User:alice"), host, "L", "c", image=image)
    (decision,) = authorizer.authorize(context, [Action(operation, ResourceType.TOPIC, "orders")])
    by_type = authorizer.authorize_by_resource_type(context, operation, ResourceType.TOPIC)
    return decision.allowed, by_type.allowed


@pytest.mark.parametrize(("network", "clients"), AS_KAFKA.items())
def test_a_network_is_for_the_clients_that_it_is_for_at_a_broker(
    network: str, clients: set[str] | None
) -> None:
    assert (host_fault(network) is None) == (clients is not None)
    if clients is None:
        assert "is no network in CIDR notation" in (host_fault(network) or "")
        return
    allowing = image_of(acl_record(1, host=network, permission_type=ALLOW))
    denying = image_of(
        acl_record(1, permission_type=ALLOW), acl_record(2, host=network, permission_type=DENY)
    )

    assert {host for host in CLIENTS if decides(allowing, host) == (True, True)} == clients
    assert {host for host in CLIENTS if decides(denying, host) == (False, False)} == clients
    assert {decides(allowing, host) for host in CLIENTS} | {decides(denying, host) for host in CLIENTS} <= {
        (True, True),
        (False, False),
    }


def test_an_address_with_a_zone_is_in_the_networks_that_it_is_in_without() -> None:
    image = image_of(acl_record(1, host="fe80::/10", permission_type=ALLOW))

    assert decides(image, "fe80:0:0:0:0:0:0:1%eth0") == (True, True)


def test_two_forms_of_one_network_are_two_acls_and_each_is_removed_alone() -> None:
    records = [acl_record(number, host=host) for number, host in ((1, "10.0.0.0/8"), (2, "10.1.1.1/8"))]
    both = image_of(*records)

    assert sorted(acl.host for acl in both.acls.by_id.values()) == ["10.0.0.0/8", "10.1.1.1/8"]
    assert dict(both.acls.acls_of_network) == {"10.0.0.0/8": 2}
    removed = MetadataDelta(both)
    removed.replay(types.RemoveAccessControlEntryRecord(id=records[0].id))
    one = removed.apply(9)
    assert decides(one, "10.0.0.1") == (True, True)
    removed = MetadataDelta(one)
    removed.replay(types.RemoveAccessControlEntryRecord(id=records[1].id))
    none = removed.apply(10)
    assert decides(none, "10.0.0.1") == (False, False)
    assert (none.acls.network_lengths, dict(none.acls.acls_of_network)) == ((), {})


def test_a_search_by_type_begins_again_when_a_network_of_the_caller_appears() -> None:
    before = image_of(acl_record(1, permission_type=ALLOW))
    authorizer = StandardAuthorizer()
    authorizer.configure({})

    def by_type(image: MetadataImage) -> bool:
        context = RequestContext(parse_principal("User:alice"), "10.0.0.1", "L", "c", image=image)
        return authorizer.authorize_by_resource_type(context, Operation.READ, ResourceType.TOPIC).allowed

    assert by_type(before)
    delta = MetadataDelta(before)
    delta.replay(acl_record(2, host="10.0.0.0/8", resource_name="*", permission_type=DENY))
    assert not by_type(delta.apply(9))


def level(number: int) -> types.FeatureLevelRecord:
    return types.FeatureLevelRecord(name="metadata.version", feature_level=number)


ON_NETWORKS = (
    acl_record(1, permission_type=ALLOW),
    acl_record(2, host="10.0.0.0/8", permission_type=DENY),
    acl_record(3, resource_name="other", host="11.0.0.0/8", permission_type=ALLOW),
)


@pytest.mark.spec("S13")
@pytest.mark.parametrize("before", [ON_NETWORKS, ()], ids=["at the level", "of an earlier level"])
def test_in_kafkas_log_networks_are_in_effect_from_the_level_of_kafkas(before: Sequence[Any]) -> None:
    records = (*before, level(FIRST_WITH_NETWORKS - 1), *(() if before else ON_NETWORKS))
    earlier = image_of(*records)

    # A DENY that may apply applies, an ALLOW does not.
    assert not earlier.acls.networks
    for host in ("192.168.7.9", "11.0.0.1"):
        assert decides(earlier, host) == (False, False)
    assert (earlier.acls.network_lengths, dict(earlier.acls.acls_of_network)) == ((), {})
    assert sum("is a network" in str(each) for each in earlier.not_understood.values()) == 2

    delta = MetadataDelta(earlier)
    delta.replay(level(FIRST_WITH_NETWORKS))
    raised = delta.apply(earlier.offset + 1)
    assert decides(raised, "192.168.7.9") == (True, True)
    assert decides(raised, "10.0.0.1") == (False, False)
    assert not any("is a network" in str(each) for each in raised.not_understood.values())
    assert raised.acls == image_of(level(FIRST_WITH_NETWORKS), *ON_NETWORKS).acls

    delta = MetadataDelta(raised)
    delta.replay(level(FIRST_WITH_NETWORKS - 1))
    assert delta.apply(raised.offset + 1).acls == earlier.acls


def test_networks_are_looked_up_by_the_lengths_that_occur() -> None:
    assert networks_of("10.1.2.3", ((128, 0), (32, 24), (32, 8), (32, 0))) == (
        "10.1.2.0/24",
        "10.0.0.0/8",
        "0.0.0.0/0",
    )
    assert network_text("2001:db8::1/32") == "2001:db8:0:0:0:0:0:0/32"
