"""Where clients of a listener reach each broker: the proxy that stands in front of it (SPEC O1).

Configuration and what the broker told of its nodes in, node id -> address out. Used when a proxy is put
together and whenever the nodes change.
"""

from collections.abc import Mapping

Address = tuple[str, int]


def own_node_id(
    nodes: Mapping[int, Address], bootstrap: Address, other_node_ids: frozenset[int]
) -> int | None:
    """The node that the proxy stands in front of; None when that cannot be told.

    It is the one that is not among the others' node ids (upstream.advertised.brokers), or, where several
    are not, the one that advertises the address we reach it by.
    """
    candidates = [node_id for node_id in nodes if node_id not in other_node_ids]
    if len(candidates) == 1:
        return candidates[0]
    at_bootstrap = [node_id for node_id in candidates if nodes[node_id] == bootstrap]
    return at_bootstrap[0] if len(at_bootstrap) == 1 else None


def of_listener(
    listener: str,
    advertised: Address,
    own: int | None,
    others: Mapping[int, Mapping[str, Address]],
) -> dict[int, Address]:
    """Node id -> the address of its proxy, for clients of one listener."""
    addresses = {node_id: by_name[listener] for node_id, by_name in others.items() if listener in by_name}
    if own is not None:
        addresses[own] = advertised
    return addresses
