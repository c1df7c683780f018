"""Where clients of a listener reach each broker: the proxy that stands in front of it (SPEC O1).

Configuration and what the broker told of its nodes in, node id -> address out. Used when a proxy is put
together and whenever the nodes change. Only where addresses are rewritten; see docs/addresses.md.
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
    """The node that the proxy stands in front of; None when that cannot be told.

    `nodes`: as brokers advertise themselves; `proxies`: upstream.advertised.brokers; `advertised`: our own
    listeners'. It is the node that has the address we reach it by, or that is said to be reached where we
    are, or else the only one that no other proxy is said to stand in front of. A wrong guess would send
    clients to the wrong broker, so the surest sign counts first.
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
    """Node id -> the address of its proxy, for clients of one listener."""
    addresses = {node_id: by_name[listener] for node_id, by_name in proxies.items() if listener in by_name}
    if own is not None:
        addresses[own] = advertised
    return addresses


def unreachable(nodes: Mapping[int, Address], addresses: Mapping[int, Address]) -> tuple[int, ...]:
    """Brokers that no client is told of, as nobody has said where their proxies are."""
    return tuple(sorted(nodes.keys() - addresses.keys()))


def told_past_the_proxies(nodes: Mapping[int, Address], bootstrap: Address) -> tuple[int, ...]:
    """With addresses passed through: brokers whose advertised address is the one we reach ours by."""
    return tuple(sorted(node_id for node_id, address in nodes.items() if address == bootstrap))
