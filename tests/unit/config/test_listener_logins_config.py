"""A listener's logins: which mechanisms, whose, and how long they are good for."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from forwarding.config import ControllerConfig
from proxy.commands.check import check
from proxy.config import ConfigError, ProxyConfig, load
from proxy.metadata.image import MetadataImage, ScramImage
from proxy.metadata.scram import ScramMechanism, credential_from_password
from proxy.metadata.sharded_map import ShardedMap
from proxy.net.logins.credentials import Credentials, PlainUsers, sasl_listener
from proxy.security.sasl.exchange import Rejected
from tests.unit.config.test_bootstrap_config import CONTROLLER
from tests.unit.config.test_proxy_config import document, listener, written


@pytest.mark.spec("R1")
@pytest.mark.parametrize(
    ("of_file", "of_listener", "of_mechanism", "in_force"),
    [
        (None, None, None, 0),
        (1_000, None, None, 1_000),
        (1_000, 2_000, None, 2_000),
        (1_000, 0, None, 0),
        (1_000, 2_000, 3_000, 3_000),
        (1_000, 2_000, 0, 0),
        (None, None, 3_000, 3_000),
    ],
)
def test_the_nearest_limit_of_a_session_governs(
    tmp_path: Path, of_file: int | None, of_listener: int | None, of_mechanism: int | None, in_force: int
) -> None:
    by_mechanism = None if of_mechanism is None else {"PLAIN": of_mechanism}
    entry = listener(
        sasl__enabled__mechanisms=["PLAIN", "SCRAM-SHA-256"],
        connections__max__reauth__ms=of_listener,
        sasl__mechanism__connections__max__reauth__ms=by_mechanism,
    )
    file = written(tmp_path, document(listeners=[entry], connections__max__reauth__ms=of_file))
    config = load(file, ProxyConfig)

    (read,) = config.listeners
    assert read.max_reauth_ms("PLAIN", config.connections_max_reauth_ms) == in_force
    others = next(limit for limit in (of_listener, of_file, 0) if limit is not None)
    assert read.max_reauth_ms("SCRAM-SHA-256", config.connections_max_reauth_ms) == others


@pytest.mark.spec("O5", "R9")
@pytest.mark.parametrize(
    ("entry", "error"),
    [
        (
            listener(sasl__server__mechanism__classes={"GSSAPI": "a.b.C"}),
            "sasl.server.mechanism.classes: GSSAPI: not among sasl.enabled.mechanisms",
        ),
        (
            listener(sasl__server__mechanism__classes={"PLAIN": "a.b:C"}),
            "listeners[0] > sasl.server.mechanism.classes > PLAIN: expected package.module.Class",
        ),
        (
            listener(sasl__server__mechanism__classes={"plain": "a.b.C"}),
            "listeners[0] > sasl.server.mechanism.classes > plain: expected the name of a mechanism",
        ),
        (
            listener(sasl__mechanism__connections__max__reauth__ms={"GSSAPI": 1}),
            "sasl.mechanism.connections.max.reauth.ms: GSSAPI: not among sasl.enabled.mechanisms",
        ),
    ],
)
def test_mechanisms_that_do_not_fit_together_are_named(
    tmp_path: Path, entry: dict[str, Any], error: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        load(written(tmp_path, document(listeners=[entry])), ProxyConfig)

    assert error in str(raised.value)


@pytest.mark.spec("O5", "R9")
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"sasl__plain__verifier__class": "no.such.Class"}, "sasl.plain.verifier.class: cannot load"),
        (
            {"sasl__server__mechanism__classes": {"PLAIN": "pathlib.Path"}},
            "sasl.server.mechanism.classes[PLAIN]: 'pathlib.Path' is not a SASL mechanism",
        ),
    ],
)
def test_penstock_check_tries_the_classes_that_logins_name(
    tmp_path: Path, changes: dict[str, Any], error: str
) -> None:
    problems = check(written(tmp_path, document(listeners=[listener(**changes)], users__file=None)))

    assert [problem for problem in problems if error in problem]


@pytest.mark.spec("O5", "R9")
def test_a_listener_with_a_verifier_of_its_own_needs_no_users_file(tmp_path: Path) -> None:
    entry = listener(sasl__plain__verifier__class="tests.unit.security.test_password_check.Directory")

    assert check(written(tmp_path, document(listeners=[entry], users__file=None))) == []


@pytest.mark.spec("R9", "O2")
@pytest.mark.parametrize(
    ("chosen", "at_strict_broker", "at_lax_broker"),
    [(None, True, False), ("as-broker", True, False), ("strict", True, True), ("lax", False, False)],
)
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_nonce_of_scram_clients_is_checked_as_the_broker_does_unless_the_listener_says_otherwise(
    tmp_path: Path, mechanism: str, chosen: str | None, at_strict_broker: bool, at_lax_broker: bool
) -> None:
    entry = listener(sasl__enabled__mechanisms=[mechanism], sasl__scram__nonce__check=chosen)
    (settings,) = load(written(tmp_path, document(listeners=[entry])), ProxyConfig).listeners
    credential = credential_from_password(ScramMechanism.named(mechanism), "geheim", b"salt")
    users = ShardedMap({(ScramMechanism.named(mechanism), "alice"): credential})
    image = MetadataImage(scram=ScramImage(users))

    def passes(broker_checks: bool) -> bool:
        credentials = Credentials(
            PlainUsers({}), lambda: image, broker_checks_scram_nonce=lambda: broker_checks
        )
        exchange = sasl_listener(settings, credentials).new_exchange(mechanism)
        exchange.respond(b"n,,n=alice,r=nonce", 0)
        outcome = exchange.respond(b"c=biws,r=nonce,p=" + b64encode(bytes(32)), 0)
        assert isinstance(outcome, Rejected)
        return "nonce" not in outcome.reason

    assert [passes(True), passes(False)] == [not at_strict_broker, not at_lax_broker]


@pytest.mark.spec("O5", "R9")
def test_the_check_of_nonces_needs_scram_and_a_proxy(tmp_path: Path) -> None:
    without = listener(sasl__enabled__mechanisms=["PLAIN"], sasl__scram__nonce__check="lax")
    with pytest.raises(ConfigError, match=r"sasl\.scram\.nonce\.check: no effect without SCRAM-SHA-256"):
        load(written(tmp_path, document(listeners=[without])), ProxyConfig)

    at_controller = CONTROLLER["listener"] | {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ["SCRAM-SHA-512"],
        "sasl.scram.nonce.check": "lax",
    }
    with pytest.raises(ConfigError, match=r"sasl\.scram\.nonce\.check is for a proxy's listeners; remove it"):
        load(written(tmp_path, CONTROLLER | {"listener": at_controller}), ControllerConfig)
