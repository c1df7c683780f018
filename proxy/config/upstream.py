"""The `upstream:` section: the broker behind a proxy, and the addresses of all brokers' proxies (SPEC O1)."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, model_validator

from proxy.config.addresses import Bootstrap, HostPort, is_wildcard, split_host_port
from proxy.config.listener import ListenerConfig
from proxy.config.parts import (
    LIVE,
    RESTART,
    KeyProblem,
    Unset,
)
from proxy.config.peer import PeerConfig

NodeId = Annotated[int, Field(ge=0)]


class UpstreamConfig(PeerConfig):
    """The broker behind a proxy. With `addresses: passthrough` its listener advertises the proxies itself."""

    bootstrap: Annotated[
        Bootstrap | None, RESTART, Unset("required, except with node.id and internal.bootstrap")
    ] = None
    """`host:port` of that broker. The proxy sends clients' requests there. With `rewrite`, a listener whose
    advertised addresses this process can reach. The first of [several](#several-addresses) addresses is that
    broker. Without it the proxy [asks the cluster](addresses.md#by-node-id) for the address of `node.id`."""
    internal_bootstrap: Annotated[Bootstrap | None, RESTART, Unset("as bootstrap")] = None
    """`host:port`, or [several](#several-addresses), of a listener that advertises the brokers themselves,
    for the proxy's own metadata feed and audit producer, with the same login; required with `passthrough`."""
    addresses: Annotated[Literal["rewrite", "passthrough"], RESTART] = "rewrite"
    """`rewrite`: responses to clients contain the addresses of proxies instead of brokers; `passthrough`: the
    listener at `bootstrap` advertises the proxies itself. See [addresses](addresses.md)."""
    node_id: Annotated[NodeId | None, RESTART, Unset("found out")] = None
    """With `rewrite`: the node id of the broker behind this proxy, without `bootstrap` or if the proxy cannot
    find it by `bootstrap`."""
    advertised_brokers: Annotated[dict[NodeId, dict[str, HostPort]], LIVE] = Field(default_factory=dict)
    """With `rewrite`: the addresses of the other brokers' proxies for each listener, by node id and listener
    name: `{"2": {SASL_SSL: "host:port"}}`."""
    identity: Annotated[Literal["proxy", "user"], RESTART] = "proxy"
    """`user`: the proxy logs in each connection to the broker as the client's user, with a delegation token
    that it creates; see [upstream identity](logins.md#the-broker-sees-the-user)."""
    identity_sasl_mechanism: Annotated[Literal["SCRAM-SHA-256", "SCRAM-SHA-512"], RESTART] = "SCRAM-SHA-512"
    """The mechanism of these logins; the broker's listener has to enable it."""
    identity_token_idle_ms: Annotated[int, Field(ge=1_000), RESTART] = 600_000
    """The proxy expires a user's token after this time without use."""
    client_software_announced: Annotated[bool, RESTART] = True
    """Whether the broker gets the name and version of the client's software (KIP-511) on the connection that
    serves it, for its metrics by `clientSoftwareName`. Without it, and for clients that do not say it, these
    are Penstock's. See [the broker](commands.md#the-broker)."""

    @property
    def passes_addresses(self) -> bool:
        return self.addresses == "passthrough"

    @property
    def own_bootstrap(self) -> tuple[str, ...]:
        """Addresses for the proxy's own connections (metadata feed, audit), which must lead to brokers."""
        return self.internal_bootstrap or self.bootstrap or ()

    @property
    def note(self) -> str | None:
        """A warning that explains a list of addresses; None without a list."""
        if self.bootstrap is None or len(self.bootstrap) == 1:
            return None
        return (
            f"upstream > bootstrap: clients' requests go only to {self.bootstrap[0]}; the other addresses"
            " are for the proxy's own connections (metadata log, audit topic)"
        )

    @model_validator(mode="after")
    def _leads_to_one_broker(self) -> "UpstreamConfig":
        asks = not self.passes_addresses and None not in (self.node_id, self.internal_bootstrap)
        if self.bootstrap is None and not asks:
            raise KeyProblem(
                ("bootstrap",),
                "is missing; write the address of the broker behind this proxy, or with addresses: rewrite"
                " both node.id and internal.bootstrap, where the proxy then asks for that address",
            )
        if self.internal_bootstrap is not None and len(self.bootstrap or ()) > 1:
            raise ValueError(
                "bootstrap: with internal.bootstrap it has a single address, that of the broker behind this"
                " proxy; move the others to internal.bootstrap"
            )
        return self

    @model_validator(mode="after")
    def _users_need_a_login_of_ours(self) -> "UpstreamConfig":
        if self.identity == "user" and self.sasl is None:
            raise ValueError(
                "identity: user needs sasl, because a broker creates tokens only for authenticated"
                " clients; write sasl"
            )
        if self.identity == "user" and self.sasl is not None and not self.sasl.username:
            # The requester of a token renews it, and the broker knows it by name.
            raise ValueError(
                "identity: user needs sasl.username; write the principal of the proxy's token at the broker"
            )
        return self

    @model_validator(mode="after")
    def _keys_fit_the_mode(self) -> "UpstreamConfig":
        if not self.passes_addresses:
            return self
        if self.internal_bootstrap in (None, self.bootstrap):
            raise ValueError(
                "addresses: passthrough needs internal.bootstrap; write the address of another"
                " listener of the broker,"
                " which advertises the brokers themselves"
            )
        if self.advertised_brokers or self.node_id is not None:
            raise ValueError(
                "addresses: passthrough does not use advertised.brokers and node.id, because the"
                " broker's listener"
                " advertises the proxies; remove them"
            )
        return self


def require_addresses(listeners: tuple[ListenerConfig, ...], upstream: UpstreamConfig) -> None:
    """ValueError unless responses to every client can contain addresses of proxies, and only those."""
    if upstream.passes_addresses:
        _require_one_listener(listeners)
        return
    names = {listener.name for listener in listeners}
    _require_routable(listeners)
    for node_id, by_name in upstream.advertised_brokers.items():
        _require_names(node_id, by_name, names)
    for listener in listeners:
        _require_different_addresses(listener, upstream)


def _require_routable(listeners: tuple[ListenerConfig, ...]) -> None:
    """As in Kafka: an advertised address cannot be 0.0.0.0, because clients cannot connect to it."""
    for place, listener in enumerate(listeners):
        key = "bind" if listener.advertised is None else "advertised"
        address = listener.advertised or listener.bind
        if not is_wildcard(address):
            continue
        port = split_host_port(address)[1]
        raise KeyProblem(
            ("listeners", place, key),
            f"clients cannot connect to {address}; write advertised: HOST:{port} with a name or an"
            " address that"
            " they can reach",
        )


def _require_one_listener(listeners: tuple[ListenerConfig, ...]) -> None:
    if len(listeners) > 1:
        raise ValueError(
            "upstream: addresses: passthrough supports only one listener, because the broker's"
            " listener advertises"
            " one address; remove the others, or write addresses: rewrite"
        )
    if listeners[0].advertised is not None:
        raise ValueError(
            "upstream: addresses: passthrough does not use advertised of a listener, because the"
            " broker advertises"
            " the address; remove advertised"
        )


def _require_names(node_id: int, by_name: Iterable[str], names: set[str]) -> None:
    unknown = sorted(set(by_name) - names)
    if unknown:
        raise ValueError(
            f"advertised.brokers: node {node_id}: no listener has the name {', '.join(unknown)}; correct it"
        )
    missing = sorted(names.difference(by_name))
    if missing:
        # Without it the listener's clients could not use partitions that this node leads.
        raise ValueError(
            f"advertised.brokers: node {node_id} has no address for {', '.join(missing)}; add it"
        )


def _require_different_addresses(listener: ListenerConfig, upstream: UpstreamConfig) -> None:
    nodes: dict[str, int] = {}
    for node_id, by_name in upstream.advertised_brokers.items():
        other = nodes.setdefault(by_name[listener.name], node_id)
        if other != node_id:
            raise ValueError(
                f"advertised.brokers: nodes {other} and {node_id} have the same address for"
                f" {listener.name}; each proxy"
                " needs its own"
            )
    own = nodes.get(listener.advertised or listener.bind)
    if own is not None and upstream.node_id not in (None, own):
        raise ValueError(
            f"advertised.brokers: node {own} has the address of this proxy's listener {listener.name},"
            f" but node.id is {upstream.node_id}; correct one of them"
        )
