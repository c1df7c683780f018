"""The `delegation.token` part of both files."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from forwarding.config import ControllerConfig, token_settings
from proxy.config import ConfigError, ProxyConfig, load
from proxy.security.delegation_tokens import TokenSecret

pytestmark = [pytest.mark.spec("O5"), pytest.mark.spec("R9")]

AUTHORIZER = {"class.name": "proxy.security.standard.StandardAuthorizer"}


def file(directory: Path, token: dict[str, Any] | None, **changes: Any) -> Path:
    """A file of both kinds in one: each takes what is its own."""
    (directory / "token.key").write_text("of the cluster\n")
    (directory / "empty.key").write_text("\n")
    (directory / "odd.key").write_bytes(b"\xff\xfe\n")
    document = {"audit": {"spool.dir": "spool"}, "authorizer": AUTHORIZER} | changes
    path = directory / "file.yaml"
    path.write_text(yaml.safe_dump(document | ({} if token is None else {"delegation.token": token})))
    return path


def proxy(directory: Path, token: dict[str, Any] | None) -> ProxyConfig:
    peers = {"upstream": {"bootstrap": "h:1"}, "controller": {"endpoints": ["h:2"]}}
    listener = {"name": "L", "bind": "h:3", "security.protocol": "PLAINTEXT"}
    changes: dict[str, Any] = {"proxy.id": "p", "listeners": [listener], **peers}
    return load(file(directory, token, **changes), ProxyConfig)


def controller(
    directory: Path, token: dict[str, Any] | None, protocol: str = "PLAINTEXT"
) -> ControllerConfig:
    listener: dict[str, Any] = {"name": "C", "bind": "h:3", "security.protocol": protocol}
    if protocol != "PLAINTEXT":
        listener["sasl.enabled.mechanisms"] = ["SCRAM-SHA-256"]
    changes: dict[str, Any] = {"controller.id": "c", "listener": listener, "broker": {"bootstrap": "h:1"}}
    return load(file(directory, token, **changes), ControllerConfig)


def test_without_a_key_there_are_no_tokens(tmp_path: Path) -> None:
    assert proxy(tmp_path, None).delegation_token.secret() is None
    assert token_settings(controller(tmp_path, None)).secret is None


def test_proxy_and_controller_make_the_same_of_a_key(tmp_path: Path) -> None:
    token = {"secret.key.file": "token.key"}
    secrets = [
        proxy(tmp_path, token).delegation_token.secret(),
        token_settings(controller(tmp_path, token)).secret,
    ]

    expected = TokenSecret(b"of the cluster").hmac("t-1")
    assert [secret.hmac("t-1") for secret in secrets if secret is not None] == [expected, expected]


def test_the_controller_has_kafkas_defaults(tmp_path: Path) -> None:
    config = controller(tmp_path, {"secret.key.file": "token.key"})
    tokens = token_settings(config)

    assert (tokens.max_lifetime_ms, tokens.expiry_time_ms) == (604_800_000, 86_400_000)
    assert config.delegation_token.expiry_check_interval_ms == 3_600_000
    assert tokens.plaintext_listener


def test_the_controller_is_told_how_long_tokens_last(tmp_path: Path) -> None:
    token = {
        "secret.key.file": "token.key",
        "max.lifetime.ms": 9_000,
        "expiry.time.ms": 3_000,
    }

    tokens = token_settings(controller(tmp_path, token, "SASL_PLAINTEXT"))

    assert (tokens.max_lifetime_ms, tokens.expiry_time_ms) == (9_000, 3_000)
    assert tokens.plaintext_listener is False


@pytest.mark.parametrize(
    ("token", "complaint"),
    [
        ({"secret.key.file": "missing.key"}, "delegation.token > secret.key.file"),
        ({"secret.key.file": "empty.key"}, "the secret key of delegation tokens is empty"),
        ({"secret.key.file": "odd.key"}, "odd.key"),
        ({"secret.key": "in the file itself"}, "delegation.token > secret.key"),
        ({"max.lifetime.ms": 1_000}, "delegation.token > max.lifetime.ms"),
    ],
)
def test_a_key_that_cannot_be_used_is_named(tmp_path: Path, token: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        proxy(tmp_path, token)


@pytest.mark.parametrize("name", ["max.lifetime.ms", "expiry.time.ms", "expiry.check.interval.ms"])
def test_durations_are_at_least_a_ms(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        controller(tmp_path, {name: 0})
