"""Lists of addresses: Kafka's comma lists and YAML's, and what each address of a list is for."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from forwarding.config import ControllerConfig
from forwarding.net.process import ProcessSettings
from proxy.commands.check import check, checked
from proxy.config import ConfigError, ProxyConfig, effects, endpoint, load

pytestmark = pytest.mark.spec("O1", "O5")

PROXY: dict[str, Any] = {
    "proxy.id": "proxy-1",
    "listeners": [{"name": "PLAINTEXT", "bind": "127.0.0.1:19092", "security.protocol": "PLAINTEXT"}],
    "upstream": {"bootstrap": "a:9092"},
    "controller": {"endpoints": ["c:9094"]},
    "audit": {"spool.dir": "spool"},
}
CONTROLLER: dict[str, Any] = {
    "controller.id": "controller-1",
    "listener": {"name": "CONTROLLER", "bind": "127.0.0.1:19094", "security.protocol": "PLAINTEXT"},
    "broker": {"bootstrap": "a:9092"},
    "audit": {"spool.dir": "spool"},
}


def written(directory: Path, document: dict[str, Any], **changes: Any) -> Path:
    path = directory / "file.yaml"
    path.write_text(yaml.safe_dump(document | changes), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("bootstrap", "expected"),
    [
        ("a:9092", ("a:9092",)),
        ("a:9092,b:9092", ("a:9092", "b:9092")),
        (" a:9092 , [::1]:9092 ", ("a:9092", "[::1]:9092")),
        (["a:9092", "b:9092"], ("a:9092", "b:9092")),
    ],
)
def test_addresses_are_a_comma_list_or_a_yaml_list(
    tmp_path: Path, bootstrap: Any, expected: tuple[str, ...]
) -> None:
    broker, controller = {"bootstrap": bootstrap}, {"endpoints": bootstrap}
    proxy = load(written(tmp_path, PROXY, upstream=broker, controller=controller), ProxyConfig)
    assert (proxy.upstream.bootstrap, proxy.controller.endpoints) == (expected, expected)

    settings = ProcessSettings.of(load(written(tmp_path, CONTROLLER, broker=broker), ControllerConfig))
    assert settings.broker.addresses == tuple(each.replace("[", "").replace("]", "") for each in expected)


@pytest.mark.parametrize(
    ("upstream", "problem"),
    [
        ({"bootstrap": "a:9092,"}, "upstream > bootstrap: expected host:port, found ''"),
        ({"bootstrap": "a:9092,b"}, "upstream > bootstrap: expected host:port, found 'b'"),
        ({"bootstrap": []}, "upstream > bootstrap: expected host:port, or several separated by commas"),
        ({"bootstrap": "a:9092,a:9092"}, "upstream > bootstrap: the list contains a:9092 more than once"),
        (
            {"bootstrap": "a:9092,b:9092", "internal.bootstrap": "a:9093"},
            "move the others to internal.bootstrap",
        ),
        ({}, "upstream > bootstrap: is missing; write the address of the broker behind this proxy"),
        ({"node.id": 2}, "upstream > bootstrap: is missing; write the address of the broker behind this"),
        ({"internal.bootstrap": "a:9093"}, "upstream > bootstrap: is missing; write the address of the"),
        (
            {"node.id": 2, "internal.bootstrap": "a:9093", "addresses": "passthrough"},
            "or with addresses: rewrite both node.id and internal.bootstrap",
        ),
        ({"node.id": -1, "internal.bootstrap": "a:9093"}, "upstream > node.id: must be at least 0"),
        (
            {"node.id": 2, "internal.bootstrap": "127.0.0.1:19092"},
            "upstream > internal.bootstrap: 127.0.0.1:19092",
        ),
    ],
)
def test_a_list_that_cannot_be_meant_is_an_error(tmp_path: Path, upstream: Any, problem: str) -> None:
    path = written(tmp_path, PROXY, upstream=upstream)
    with pytest.raises(ConfigError) as error:
        load(path, ProxyConfig)
    assert problem in str(error.value)


def test_of_a_proxys_list_clients_get_the_first_address_and_its_own_connections_all(tmp_path: Path) -> None:
    path = written(tmp_path, PROXY, upstream={"bootstrap": "a:9092,b:9092"})
    upstream = load(path, ProxyConfig).upstream

    assert endpoint(upstream, upstream.own_bootstrap, "proxy-1").addresses == ("a:9092", "b:9092")
    assert upstream.bootstrap is not None
    assert endpoint(upstream, upstream.bootstrap[:1], "proxy-1").addresses == ("a:9092",)
    assert check(path) == []
    assert [text for text in checked(path).warnings if "bootstrap" in text] == [
        f"{path}: upstream > bootstrap: clients' requests go only to a:9092; the other addresses are for"
        " the proxy's own connections (metadata log, audit topic)"
    ]


def test_without_the_address_of_its_broker_a_proxy_looks_for_it_by_node_id(tmp_path: Path) -> None:
    path = written(tmp_path, PROXY, upstream={"internal.bootstrap": "a:9092,b:9092", "node.id": 2})
    upstream = load(path, ProxyConfig).upstream

    assert (upstream.bootstrap, upstream.node_id) == (None, 2)
    assert upstream.own_bootstrap == ("a:9092", "b:9092")
    assert check(path) == []
    assert [text for text in checked(path).warnings if "bootstrap" in text] == []


def test_another_node_id_takes_effect_at_a_restart(tmp_path: Path) -> None:
    """Otherwise a proxy would name itself as one broker, and send requests to another."""
    of_node = {"internal.bootstrap": "a:9092", "node.id": 2}
    before = load(written(tmp_path, PROXY, upstream=of_node), ProxyConfig)
    after = load(written(tmp_path, PROXY, upstream=of_node | {"node.id": 3}), ProxyConfig)
    found = effects.of(ProxyConfig)

    assert [change.in_words() for change in effects.changes(before, after, found)] == [
        "upstream > node.id needs a restart; 2 stays in effect"
    ]
    assert effects.in_effect(before, after, found) == before


def test_an_http_port_that_others_can_read_is_a_warning_of_check(tmp_path: Path) -> None:
    for document in (PROXY, CONTROLLER):
        open_to_all = written(tmp_path, document, http={"bind": "0.0.0.0:9190"})
        assert "everyone who can reach this port can read /metrics" in "\n".join(
            checked(open_to_all).warnings
        )
        closed = written(tmp_path, document, http={})
        assert "everyone who can reach" not in "\n".join(checked(closed).warnings)
