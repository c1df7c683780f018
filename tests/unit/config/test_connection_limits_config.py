"""How many may connect: of the process, a listener, an address; what is no address, what lets nobody in."""

from pathlib import Path
from typing import Any

import pytest

from proxy.config import ConfigError, ProxyConfig, load
from tests.unit.config.test_proxy_config import document, listener, written

pytestmark = pytest.mark.spec("O5", "O6", "Q12")


def limits(directory: Path, **changes: Any) -> Any:
    named = {name.replace("_", "."): value for name, value in changes.items()}
    return load(written(directory, document(limits=named)), ProxyConfig).limits


def test_without_a_word_addresses_and_listeners_have_kafkas_limits(tmp_path: Path) -> None:
    config = load(written(tmp_path, document()), ProxyConfig)

    assert (config.limits.max_connections_per_ip, config.limits.max_connections_per_ip_overrides) == (
        2**31 - 1,
        {},
    )
    assert config.listeners[0].max_connections is None


def test_an_override_is_for_an_address_however_it_is_written(tmp_path: Path) -> None:
    overrides = {"10.0.0.7": 500, "2001:DB8:0::7": 3, "::ffff:10.0.0.8": 0}

    read = limits(tmp_path, max_connections_per_ip=0, max_connections_per_ip_overrides=overrides)

    assert read.max_connections_per_ip_overrides == {"10.0.0.7": 500, "2001:db8::7": 3, "10.0.0.8": 0}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"max_connections_per_ip": -1}, "max.connections.per.ip"),
        ({"max_connections_per_ip": 0}, "no client can connect"),
        (
            {"max_connections_per_ip_overrides": {"db.acme.org": 5}},
            "expected an IP address, found 'db.acme.org'",
        ),
        ({"max_connections_per_ip_overrides": {"10.0.0.7": -5}}, "max.connections.per.ip.overrides"),
    ],
)
def test_what_cannot_be_meant_is_named(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        limits(tmp_path, **changes)


def test_a_listener_has_a_limit_of_its_own_and_it_is_not_none(tmp_path: Path) -> None:
    config = load(written(tmp_path, document(listeners=[listener(max__connections=7)])), ProxyConfig)

    assert config.listeners[0].max_connections == 7
    with pytest.raises(ConfigError, match=r"max\.connections"):
        load(written(tmp_path, document(listeners=[listener(max__connections=0)])), ProxyConfig)


def test_a_rate_of_connections_is_for_all_and_for_a_listener(tmp_path: Path) -> None:
    settings = document(
        limits={"max.connection.creation.rate": 50}, listeners=[listener(max__connection__creation__rate=0)]
    )
    config = load(written(tmp_path, settings), ProxyConfig)

    assert config.limits.max_connection_creation_rate == 50
    assert config.listeners[0].max_connection_creation_rate == 0
    assert load(written(tmp_path, document()), ProxyConfig).limits.max_connection_creation_rate is None
    with pytest.raises(ConfigError, match=r"max\.connection\.creation\.rate"):
        limits(tmp_path, max_connection_creation_rate=-1)
