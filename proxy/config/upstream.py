"""The broker that a proxy stands in front of, and where clients reach all brokers' proxies (SPEC O1)."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, model_validator

from proxy.config.binds import is_wildcard
from proxy.config.bootstrap import Bootstrap
from proxy.config.listener import Listener
from proxy.config.parts import HostPort, KeyProblem, split_host_port
from proxy.config.peer import Peer

NodeId = Annotated[int, Field(ge=0)]


class Upstream(Peer):
    """With `addresses: passthrough` the listener at `bootstrap` advertises the proxies itself."""

    bootstrap: Bootstrap
    """The first is the broker that clients' bytes go to; the others are for our own connections alone."""
    internal_bootstrap: Bootstrap | None = None
    addresses: Literal["rewrite", "passthrough"] = "rewrite"
    node_id: NodeId | None = None
    advertised_brokers: dict[NodeId, dict[str, HostPort]] = Field(default_factory=dict)
    identity: Literal["proxy", "user"] = "proxy"
    identity_sasl_mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    identity_token_idle_ms: Annotated[int, Field(ge=1_000)] = 600_000

    @property
    def passes_addresses(self) -> bool:
        return self.addresses == "passthrough"

    @property
    def own_bootstrap(self) -> tuple[str, ...]:
        """Where the proxy's own clients (metadata feed, audit) find brokers and not proxies."""
        return self.internal_bootstrap or self.bootstrap

    @property
    def note(self) -> str | None:
        """What a list means here, for who has written one."""
        if len(self.bootstrap) == 1:
            return None
        return (
            f"upstream > bootstrap: clients are connected to {self.bootstrap[0]} alone; the other addresses"
            " are for the proxy's own connections (metadata log, audit topic)"
        )

    @model_validator(mode="after")
    def _one_list(self) -> "Upstream":
        if self.internal_bootstrap is not None and len(self.bootstrap) > 1:
            raise ValueError(
                "bootstrap: with internal.bootstrap only the broker that clients are connected to stands"
                " here; give the other addresses to internal.bootstrap"
            )
        return self

    @model_validator(mode="after")
    def _users_need_a_login_of_ours(self) -> "Upstream":
        if self.identity == "user" and self.sasl is None:
            raise ValueError("identity: user needs sasl: a broker makes tokens only for those who log in")
        if self.identity == "user" and self.sasl is not None and not self.sasl.username:
            # It renews the users' tokens, so the broker is told of it by name.
            raise ValueError("identity: user needs sasl.username: whom the broker takes our token for")
        return self

    @model_validator(mode="after")
    def _keys_fit_the_mode(self) -> "Upstream":
        if not self.passes_addresses:
            return self
        if self.internal_bootstrap in (None, self.bootstrap):
            raise ValueError(
                "addresses: passthrough needs internal.bootstrap: another listener of the broker, one that"
                " advertises the brokers; by bootstrap the proxy's own clients would come back to proxies"
            )
        if self.advertised_brokers or self.node_id is not None:
            raise ValueError(
                "addresses: passthrough takes no advertised.brokers and no node.id: the broker's listener"
                " advertises the proxies"
            )
        return self


def require_addresses(listeners: tuple[Listener, ...], upstream: Upstream) -> None:
    """Every client must be told of proxies it can reach, and of nothing else."""
    if upstream.passes_addresses:
        _require_one_listener(listeners)
        return
    names = {listener.name for listener in listeners}
    _require_routable(listeners)
    for node_id, by_name in upstream.advertised_brokers.items():
        _require_names(node_id, by_name, names)
    for listener in listeners:
        _require_different_addresses(listener, upstream)


def _require_routable(listeners: tuple[Listener, ...]) -> None:
    """As Kafka: clients cannot connect to 0.0.0.0, and would be told to."""
    for place, listener in enumerate(listeners):
        key = "bind" if listener.advertised is None else "advertised"
        address = listener.advertised or listener.bind
        if not is_wildcard(address):
            continue
        port = split_host_port(address)[1]
        raise KeyProblem(
            ("listeners", place, key),
            f"clients would be told to connect to {address}; write advertised: HOST:{port} with a name or"
            " an address that they can reach",
        )


def _require_one_listener(listeners: tuple[Listener, ...]) -> None:
    if len(listeners) > 1:
        raise ValueError(
            "upstream: addresses: passthrough serves one listener: what the broker's listener advertises"
            " can be right for the clients of one only"
        )
    if listeners[0].advertised is not None:
        raise ValueError(
            "upstream: addresses: passthrough takes no advertised at a listener: the broker advertises it"
        )


def _require_names(node_id: int, by_name: Iterable[str], names: set[str]) -> None:
    unknown = sorted(set(by_name) - names)
    if unknown:
        raise ValueError(f"advertised.brokers: node {node_id} names no listener: {', '.join(unknown)}")
    missing = sorted(names.difference(by_name))
    if missing:
        # Without it the listener's clients would not find what this node leads.
        raise ValueError(f"advertised.brokers: node {node_id} has no address for {', '.join(missing)}")


def _require_different_addresses(listener: Listener, upstream: Upstream) -> None:
    nodes: dict[str, int] = {}
    for node_id, by_name in upstream.advertised_brokers.items():
        other = nodes.setdefault(by_name[listener.name], node_id)
        if other != node_id:
            raise ValueError(
                f"advertised.brokers: nodes {other} and {node_id} have the same address for {listener.name}"
            )
    own = nodes.get(listener.advertised or listener.bind)
    if own is not None and upstream.node_id not in (None, own):
        raise ValueError(
            f"advertised.brokers: node {own} has the address of listener {listener.name} itself,"
            f" but node.id is {upstream.node_id}"
        )
