"""Replaces addresses of brokers in responses with those of their proxies (SPEC O1).

Every API whose response names brokers calls it, with the client's listener. A broker without an address on
that listener is removed from the response: with the broker's own address the client would bypass the proxy.
If brokers advertise their proxies themselves, their addresses are passed on, except the one by which the
proxy reaches its own broker.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Protocol, TypeVar

from proxy.session.gate import ListenerPolicy
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode

NO_NODE = -1
NO_HOST = ""
NO_PORT = -1

COORDINATOR_NOT_AVAILABLE_MESSAGE = "The coordinator is not available."


class HasAddress(Protocol):
    """A struct of a response that names a broker."""

    host: str
    port: int


class Node(HasAddress, Protocol):
    node_id: int


class NodeOfCluster(HasAddress, Protocol):
    broker_id: int


class HasReplicas(Protocol):
    """A partition in a response."""

    replica_nodes: list[int]
    offline_replicas: list[int]


Endpoint = TypeVar("Endpoint", bound=Node)
Broker = TypeVar("Broker", bound=NodeOfCluster)


def rewrite_endpoints(listener: ListenerPolicy, endpoints: Iterable[Endpoint]) -> list[Endpoint]:
    """Return the structs that have an address on the listener, with that address."""
    return [endpoint for endpoint in endpoints if _rewrite(listener, endpoint.node_id, endpoint)]


def rewrite_brokers(listener: ListenerPolicy, brokers: Iterable[Broker]) -> list[Broker]:
    """Do the same for structs with a broker_id instead of a node_id (DescribeCluster)."""
    return [broker for broker in brokers if _rewrite(listener, broker.broker_id, broker)]


def rewrite_coordinator(
    listener: ListenerPolicy,
    coordinator: types.FindCoordinatorResponse | types.FindCoordinatorResponse.Coordinator,
) -> None:
    """Rewrite the address of a coordinator; without an address it is COORDINATOR_NOT_AVAILABLE."""
    if coordinator.error_code != ErrorCode.NONE or _rewrite(listener, coordinator.node_id, coordinator):
        return
    coordinator.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.error_message = COORDINATOR_NOT_AVAILABLE_MESSAGE
    coordinator.node_id, coordinator.host, coordinator.port = NO_NODE, NO_HOST, NO_PORT


def controller_id(reported: int, live_nodes: Iterable[int]) -> int:
    """Return a live broker that clients can reach (KIP-590): the reported one if it is among them."""
    reachable = list(live_nodes)
    return reported if reported in reachable else next(iter(reachable), NO_NODE)


def offline_replicas(partition: HasReplicas, hidden: Container[int]) -> list[int]:
    """Return the offline replicas of a partition, the hidden brokers among them, as a broker reports them."""
    offline = set(partition.offline_replicas)
    return [node for node in partition.replica_nodes if node in offline or node in hidden]


def _rewrite(listener: ListenerPolicy, node_id: int, node: HasAddress) -> bool:
    if listener.advertised_except is not None:
        return (node.host, node.port) != listener.advertised_except
    address = listener.addresses.get(node_id)
    if address is None:
        return False
    node.host, node.port = address
    return True
