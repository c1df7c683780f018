"""Which keys of two configurations differ, when each takes effect, and what of a new one can be in effect."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from forwarding.config import ControllerConfig
from proxy.config import ConfigError, ProxyConfig
from proxy.config.effects import HELD_PORTS, Effects, changes, in_effect, of
from proxy.config.parts import Effect
from proxy.config.reading import parse
from proxy.workers.seat import Seat, give
from proxy.workers.segment import anonymous_file

pytestmark = pytest.mark.spec("O9")

HERE = Path(__file__)
PROXY, CONTROLLER = of(ProxyConfig), of(ControllerConfig)
WORKERS = {**PROXY, **HELD_PORTS}


def a_document(**changed: Any) -> dict[str, Any]:
    return {
        "proxy.id": "proxy-1",
        "listeners": [a_listener("PLAIN", "127.0.0.1:1"), a_listener("OTHER", "127.0.0.1:2")],
        "upstream": {"bootstrap": "127.0.0.1:9092"},
        "controller": {"endpoints": ["127.0.0.1:9093"]},
        "audit": {"spool.dir": "spool"},
        **changed,
    }


def a_listener(name: str, bind: str, **changed: Any) -> dict[str, Any]:
    return {"name": name, "bind": bind, "security.protocol": "PLAINTEXT", **changed}


def config(document: Mapping[str, Any]) -> ProxyConfig:
    return parse(HERE, yaml.safe_dump(dict(document)).encode(), ProxyConfig)


BEFORE = config(a_document())


def test_a_key_has_the_effect_of_its_field_unless_its_process_has_another() -> None:
    key = "sasl_oauthbearer_jwks_endpoint_refresh_ms"

    assert (PROXY[f"listeners.{key}"], CONTROLLER[f"listener.{key}"]) == (Effect.LIVE, Effect.RESTART)
    assert PROXY["listeners.max_connections"] is CONTROLLER["listener.max_connections"] is Effect.LIVE
    assert PROXY["listeners.ssl.server_names"] is Effect.NEW_CONNECTIONS
    assert PROXY["authorizer.early_start_listeners"] is Effect.LIVE
    assert CONTROLLER["authorizer.early_start_listeners"] is Effect.RESTART
    assert set(HELD_PORTS) < set(PROXY)


@pytest.mark.spec("A9")
def test_another_provider_takes_effect_at_once() -> None:
    def with_providers(*names: str) -> ProxyConfig:
        providers = {
            name: {
                "jwks.endpoint.url": f"https://{name}.example",
                "expected.issuer": name,
                "expected.audience": "kafka",
            }
            for name in names
        }
        sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.enabled.mechanisms": "OAUTHBEARER"}
        listener = a_listener("PLAIN", "127.0.0.1:1", **sasl, **{"sasl.oauthbearer.providers": providers})
        return config(a_document(listeners=[listener], authorizer={"class.name": ""}))

    before, after = with_providers("a"), with_providers("a", "b")
    (change,) = changes(before, after, PROXY)
    assert (change.key, change.effect) == ("listeners > PLAIN > sasl.oauthbearer.providers", Effect.LIVE)
    assert len(in_effect(before, after, PROXY).listeners[0].oauthbearer()) == 2


@pytest.mark.parametrize("effects", [PROXY, CONTROLLER], ids=["proxy", "controller"])
@pytest.mark.parametrize(
    "part", ["listeners.ssl", "upstream.sasl", "upstream.ssl", "controller.sasl", "http"]
)
def test_a_part_that_may_be_left_out_has_one_effect(effects: Effects, part: str) -> None:
    assert len({effect for at, effect in effects.items() if at.startswith(f"{part}.")}) <= 1


def test_the_same_file_has_no_changes() -> None:
    assert changes(BEFORE, config(a_document()), PROXY) == []
    assert in_effect(BEFORE, config(a_document()), PROXY) == BEFORE


def test_every_key_that_differs_is_named_with_its_effect() -> None:
    new = config(
        a_document(
            **{"proxy.id": "proxy-2", "http": {"bind": "127.0.0.1:3"}, "log": {"level": "DEBUG"}},
            listeners=[
                a_listener("PLAIN", "127.0.0.1:1", **{"max.connections": 7}),
                a_listener("THIRD", "127.0.0.1:2"),
            ],
        )
    )

    assert [(change.key, change.effect, change.still) for change in changes(BEFORE, new, PROXY)] == [
        ("proxy.id", Effect.RESTART, "proxy-1"),
        ("listeners > PLAIN > max.connections", Effect.LIVE, "not set"),
        ("listeners > OTHER", Effect.LIVE, "open"),
        ("listeners > THIRD", Effect.LIVE, "not open"),
        ("http > bind", Effect.LIVE, "not set"),
        ("log > level", Effect.LIVE, "INFO"),
    ]


def test_settings_of_plug_ins_are_named_without_their_values() -> None:
    before = config(a_document(authorizer={"settings": {"token": "s3cret"}}))
    after = config(a_document(authorizer={"settings": {"token": "0ther"}}))

    (change,) = changes(before, after, PROXY)
    assert (change.key, change.effect, change.still) == ("authorizer > settings", Effect.LIVE, None)


def test_what_needs_a_restart_stays_and_the_rest_is_in_effect() -> None:
    new = config(
        a_document(
            **{
                "proxy.id": "proxy-2",
                "quota": {"window.num": 5, "producer.default": 5},
                "limits": {"max.connections": 7},
            },
            listeners=[a_listener("THIRD", "127.0.0.1:2")],
        )
    )

    expected = config(
        a_document(
            quota={"producer.default": 5},
            limits={"max.connections": 7},
            listeners=[a_listener("THIRD", "127.0.0.1:2")],
        )
    )
    assert in_effect(BEFORE, new, PROXY) == expected
    # Read once more, the same keys still need a restart, and no others are left.
    left = [change.in_words() for change in changes(expected, new, PROXY)]
    assert left == [
        "proxy.id needs a restart; proxy-1 stays in effect",
        "quota > window.num needs a restart; 11 stays in effect",
    ]


def test_with_workers_listeners_stay_as_they_are_but_for_their_settings() -> None:
    new = config(
        a_document(
            listeners=[
                a_listener("PLAIN", "127.0.0.1:5", **{"max.connections": 7}),
                a_listener("THIRD", "127.0.0.1:2"),
            ]
        )
    )

    effective = in_effect(BEFORE, new, WORKERS)
    assert [(each.name, each.bind, each.max_connections) for each in effective.listeners] == [
        ("PLAIN", "127.0.0.1:1", 7),
        ("OTHER", "127.0.0.1:2", None),
    ]


def test_a_file_whose_values_do_not_fit_with_those_that_stay_is_rejected_as_a_whole() -> None:
    passing = {
        "bootstrap": "127.0.0.1:9092",
        "internal.bootstrap": "127.0.0.1:9094",
        "addresses": "passthrough",
    }
    before = config(a_document(upstream=passing, listeners=[a_listener("PLAIN", "127.0.0.1:1")]))

    with pytest.raises(ConfigError) as raised:
        in_effect(before, BEFORE, PROXY)
    assert str(raised.value).startswith(
        "the file needs a restart as a whole:"
        " upstream > internal.bootstrap needs a restart; 127.0.0.1:9094 stays in effect,"
        " upstream > addresses needs a restart; passthrough stays in effect;"
    )


def test_the_log_of_kraft_is_no_obstacle() -> None:
    kraft = {"endpoints": ["127.0.0.1:9093"], "mode": "kraft"}
    before = config(a_document(controller=kraft))
    after = config(a_document(controller=kraft, log={"level": "ERROR"}))

    assert in_effect(before, after, PROXY) == after


@pytest.mark.parametrize("example", ["proxy.yaml", "kraft"])
def test_workers_read_the_configuration_in_effect_as_it_is(example: str, tmp_path: Path) -> None:
    changed: dict[str, Any] = {"limits": {"max.connections.per.ip.overrides": {"10.0.0.7": 5}}}
    if example == "kraft":
        changed["controller"] = {"endpoints": ["127.0.0.1:9093"], "mode": "kraft"}
    wanted = config(a_document(**changed))
    seat = Seat(0, anonymous_file("test"), -1, -1, {"PLAIN": 1, "OTHER": 2})
    give(seat.config, BEFORE)
    give(seat.config, wanted)

    assert seat.configuration(tmp_path / "proxy.yaml") == seat.own(wanted)
