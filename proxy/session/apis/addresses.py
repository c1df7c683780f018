"""Addresses of brokers in answers to the addresses of their proxies (SPEC O1).

Fed by every API whose answer names nodes, with the listener the client came in by. A node that has no
address there is never told with the broker's own: the client would go past the gate. Where brokers
advertise their proxies themselves, what they tell is kept, but for the address by which we reach ours.
"""

from __future__ import annotations

from collections.abc import Iterable
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


Endpoint = TypeVar("Endpoint", bound=Node)
Broker = TypeVar("Broker", bound=NodeOfCluster)


def rewrite_endpoints(listener: ListenerPolicy, endpoints: Iterable[Endpoint]) -> list[Endpoint]:
    """Structs with node_id, host and port: those we have an address for, with that address."""
    return [endpoint for endpoint in endpoints if _rewrite(listener, endpoint.node_id, endpoint)]


def rewrite_brokers(listener: ListenerPolicy, brokers: Iterable[Broker]) -> list[Broker]:
    """The same for structs that call it broker_id (DescribeCluster)."""
    return [broker for broker in brokers if _rewrite(listener, broker.broker_id, broker)]


def rewrite_coordinator(
    listener: ListenerPolicy,
    coordinator: types.FindCoordinatorResponse | types.FindCoordinatorResponse.Coordinator,
) -> None:
    """A struct with error_code, error_message, node_id, host, port: not available without an address."""
    if coordinator.error_code != ErrorCode.NONE or _rewrite(listener, coordinator.node_id, coordinator):
        return
    coordinator.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.error_message = COORDINATOR_NOT_AVAILABLE_MESSAGE
    coordinator.node_id, coordinator.host, coordinator.port = NO_NODE, NO_HOST, NO_PORT


def controller_id(told: int, live_nodes: Iterable[int]) -> int:
    """Some live broker that clients of the listener can reach (KIP-590): the one told if it is one."""
    reachable = list(live_nodes)
    return told if told in reachable else next(iter(reachable), NO_NODE)


def _rewrite(listener: ListenerPolicy, node_id: int, node: HasAddress) -> bool:
    if listener.advertised_except is not None:
        return (node.host, node.port) != listener.advertised_except
    address = listener.addresses.get(node_id)
    if address is None:
        return False
    node.host, node.port = address
    return True
