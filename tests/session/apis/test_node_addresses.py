"""Every address in every answer there is: a broker's becomes its proxy's, whatever it stands in (SPEC O1).

The tables below name each struct of Kafka's responses that has a host or a port. A new one fails the first
test until somebody has said what becomes of it.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from proxy.session.apis.addresses import rewrite_brokers, rewrite_coordinator, rewrite_endpoints
from proxy.session.apis.table import TABLE
from proxy.session.data.fetch import LAST_WITHOUT_ENDPOINTS
from proxy.session.data.produce import finished_response
from proxy.session.gate import ListenerPolicy
from proxy.wire import catalog, codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import classes_of
from proxy.wire.schema import Field, Struct, structs_of
from tests.session.apis.asking import ADDRESSES, CLUSTER_RIGHT, Asking

pytestmark = pytest.mark.spec("O1")

BROKERS = {
    "ProduceResponse.NodeEndpoint",
    "FetchResponse.NodeEndpoint",
    "MetadataResponse.MetadataResponseBroker",
    "FindCoordinatorResponse.FindCoordinatorResponse",
    "FindCoordinatorResponse.Coordinator",
    "DescribeClusterResponse.DescribeClusterBroker",
    "ShareFetchResponse.NodeEndpoint",
    "ShareAcknowledgeResponse.NodeEndpoint",
}
"""Told by the addresses of their proxies, or not at all."""

CONTROLLERS = {
    "VoteResponse.NodeEndpoint",
    "BeginQuorumEpochResponse.NodeEndpoint",
    "EndQuorumEpochResponse.NodeEndpoint",
    "DescribeQuorumResponse.Listener",
    "FetchSnapshotResponse.NodeEndpoint",
    "UpdateRaftVoterResponse.CurrentLeader",
}
"""Of controllers: only DescribeQuorum has them for clients, which print them and do not connect."""

CLIENTS = {
    "DescribeGroupsResponse.DescribedGroupMember",
    "ConsumerGroupDescribeResponse.Member",
    "ShareGroupDescribeResponse.Member",
    "StreamsGroupDescribeResponse.Member",
    "StreamsGroupDescribeResponse.Endpoint",
    "StreamsGroupHeartbeatResponse.Endpoint",
}
"""A client's own address, or what it said it was; that of a member is the proxy's as the broker saw it."""

ACLS = {"DescribeAclsResponse.AclDescription", "DeleteAclsResponse.DeleteAclsMatchingAcl"}
"""The host that an ACL names."""

EVERYTHING = ("TOPIC *", "GROUP *", "TRANSACTIONAL_ID *", CLUSTER_RIGHT)
SERVED = [
    pytest.param(key, version, id=f"{ApiKey.name_of(key)}-v{version}")
    for key in TABLE
    if any(name.startswith(f"{catalog.response(key).name}.") for name in BROKERS | CONTROLLERS)
    for version in codecs.request_versions(key)
]


def is_address(field: Field) -> bool:
    return any(word in field.attribute.split("_") for word in ("host", "port"))


def told_addresses() -> Iterator[str]:
    for key in catalog.live_api_keys():
        schema = catalog.response(key)
        for name, struct in structs_of(schema.root).items():
            if any(is_address(field) for field in struct.fields):
                yield f"{schema.name}.{name}"


def filled(message: str, struct: Struct, version: int, node: int) -> Any:
    """A struct in which every address is that of a broker or a controller: node 1, or 3 that has no proxy."""
    values: dict[str, Any] = {}
    for field in struct.fields:
        if version not in field.versions:
            continue
        if field.struct is not None and field.is_array:
            values[field.attribute] = [filled(message, field.struct, version, node) for node in (1, 3)]
        elif field.struct is not None:
            values[field.attribute] = filled(message, field.struct, version, node)
        elif field.attribute in ("node_id", "broker_id"):
            values[field.attribute] = node
        elif field.attribute == "host":
            values[field.attribute] = f"inside-{node}"
        elif field.attribute == "port":
            values[field.attribute] = 9092
        elif field.type == "records":
            values[field.attribute] = b""
    return classes_of(message)[struct.name](**values)


def request_of(key: int, version: int) -> Any:
    if key == ApiKey.FIND_COORDINATOR and version >= 4:
        return t.FindCoordinatorRequest(coordinator_keys=[""])
    if key in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE):
        return getattr(t, catalog.request(key).name)(group_id="team", member_id="m")
    return getattr(t, catalog.request(key).name)()


def answer_of(key: int, version: int) -> Any:
    schema = catalog.response(key)
    return filled(schema.name, schema.root, version, 1)


def test_it_is_said_of_every_address_in_an_answer_what_becomes_of_it() -> None:
    assert sorted(told_addresses()) == sorted(BROKERS | CONTROLLERS | CLIENTS | ACLS)


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_no_answer_tells_where_a_broker_is(key: int, version: int) -> None:
    schema = catalog.response(key)
    rights = (f"ALL {resource}" for resource in EVERYTHING)
    asked = Asking(key, version, *rights).for_(request_of(key, version))
    answer = answer_of(key, version)
    assert b"inside-" in codecs.response(key, version).encode(answer) or not tells_addresses(key, version)

    told = codecs.response(key, version).encode(asked.told(answer))

    of_controllers = key == ApiKey.DESCRIBE_QUORUM and tells_addresses(key, version)
    assert (b"inside-" in told) == of_controllers
    if any(name.startswith(f"{schema.name}.") for name in BROKERS):
        assert b"proxy-one" in told


def tells_addresses(key: int, version: int) -> bool:
    structs = structs_of(catalog.response(key).root).values()
    return any(
        field.attribute == "host" and version in field.versions
        for struct in structs
        for field in struct.fields
    )


def test_what_only_controllers_say_to_one_another_is_not_served() -> None:
    names = {catalog.response(key).name for key in TABLE}

    assert {name.partition(".")[0] for name in CONTROLLERS} & names <= {"DescribeQuorumResponse"}


@pytest.mark.parametrize("version", [10, 12, 13])
def test_leaders_in_an_answer_to_produce_are_told_by_their_proxies(version: int) -> None:
    # Header: length, correlation id, and the tagged fields that flexible versions have there.
    body = codecs.response(ApiKey.PRODUCE, version).encode(answer_of(ApiKey.PRODUCE, version))
    frame = memoryview(bytearray((len(body) + 5).to_bytes(4, "big") + bytes(4) + b"\x00" + body))

    told = bytes(finished_response(frame, version, 0, ListenerPolicy("SASL", None, addresses=ADDRESSES)))

    assert b"inside-" in body
    assert (b"inside-" in told, b"proxy-one" in told) == (False, True)


def test_a_broker_is_asked_for_fetch_in_versions_that_tell_no_leaders() -> None:
    assert not tells_addresses(ApiKey.FETCH, LAST_WITHOUT_ENDPOINTS)
    assert tells_addresses(ApiKey.FETCH, LAST_WITHOUT_ENDPOINTS + 1)


def kept() -> ListenerPolicy:
    """A listener whose broker advertises the proxies, and is reached by us at inside-1:9092."""
    return ListenerPolicy("SASL", None, advertised_except=("inside-1", 9092))


def test_addresses_that_the_broker_tells_are_kept_where_it_advertises_the_proxies() -> None:
    broker = t.MetadataResponse.MetadataResponseBroker
    brokers = [broker(node_id=node, host=f"proxy-{node}", port=9092) for node in (1, 2)]

    assert rewrite_endpoints(kept(), brokers) == brokers


def test_the_address_by_which_we_reach_the_broker_is_not_told_even_then() -> None:
    node, cluster = t.MetadataResponse.MetadataResponseBroker, t.DescribeClusterResponse.DescribeClusterBroker
    coordinator = t.FindCoordinatorResponse.Coordinator(key="g", node_id=1, host="inside-1", port=9092)

    rewrite_coordinator(kept(), coordinator)

    assert rewrite_endpoints(kept(), [node(node_id=1, host="inside-1", port=9092)]) == []
    assert rewrite_brokers(kept(), [cluster(broker_id=1, host="inside-1", port=9092)]) == []
    assert (coordinator.error_code, coordinator.host) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
