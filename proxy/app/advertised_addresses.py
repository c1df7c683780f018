"""The address at which clients of a listener reach each broker: that of the proxy in front of it (SPEC O1).

Node id -> address, from the configuration and the nodes that the broker reports. Used at the start and when
the nodes change, if addresses are rewritten; see docs/addresses.md.
"""

from collections.abc import Mapping

Address = tuple[str, int]
ByListener = Mapping[str, Address]


def own_node_id(
    nodes: Mapping[int, Address],
    bootstrap: Address,
    proxies: Mapping[int, ByListener],
    advertised: ByListener,
) -> int | None:
    """Return the node behind this proxy; None if it cannot be determined.

    `nodes`: as brokers advertise themselves; `proxies`: upstream.advertised.brokers; `advertised`: this
    proxy's listeners. It is the node with the bootstrap address, or the one that is advertised at this
    proxy's addresses, or the only one without another proxy. A wrong guess would send clients to the wrong
    broker, so the surest sign comes first.
    """
    at_bootstrap = [node_id for node_id, address in nodes.items() if address == bootstrap]
    if len(at_bootstrap) == 1:
        return at_bootstrap[0]
    here = [node_id for node_id, by_name in proxies.items() if by_name.items() & advertised.items()]
    if here:
        return here[0] if len(here) == 1 else None
    left = [node_id for node_id in nodes if node_id not in proxies]
    return left[0] if len(left) == 1 else None


def of_listener(
    listener: str, advertised: Address, own: int | None, proxies: Mapping[int, ByListener]
) -> dict[int, Address]:
    """Return the address of each node's proxy, for clients of one listener."""
    addresses = {node_id: by_name[listener] for node_id, by_name in proxies.items() if listener in by_name}
    if own is not None:
        addresses[own] = advertised
    return addresses


def nodes_at(advertised: Address, addresses: Mapping[int, Address]) -> frozenset[int] | None:
    """Return the nodes whose clients connect to this address; None if the node behind it is not known."""
    return frozenset(node_id for node_id, address in addresses.items() if address == advertised) or None


def unreachable(nodes: Mapping[int, Address], addresses: Mapping[int, Address]) -> tuple[int, ...]:
    """Return the brokers whose proxies have no known address; clients do not see them."""
    return tuple(sorted(nodes.keys() - addresses.keys()))


def bypassing(nodes: Mapping[int, Address], bootstrap: Address) -> tuple[int, ...]:
    """With addresses passed through, return the brokers whose advertised address leads past their proxy."""
    return tuple(sorted(node_id for node_id, address in nodes.items() if address == bootstrap))
