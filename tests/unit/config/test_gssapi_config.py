"""The keys of GSSAPI: what they stand for, and what is wrong with them, named."""

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.commands.check import check
from proxy.config import ConfigError, load
from proxy.config.listener import ListenerConfig
from proxy.net.logins.kerberos import GssapiMechanism, GssapiSettings
from tests.unit.config.test_proxy_config import document, written
from tests.unit.config.test_proxy_config import listener as entry

pytestmark = pytest.mark.spec("O5", "R9")

PREFIX = "sasl.kerberos."


def listener(directory: Path, mechanism: str = "GSSAPI", **changes: Any) -> ListenerConfig:
    """A listener with GSSAPI; changes without the keys' prefix, None takes a key away, __ is a dot."""
    (directory / "kafka.keytab").touch()
    kerberos = {"keytab": "kafka.keytab"} | {name.replace("__", "."): changes[name] for name in changes}
    document = {
        "name": "SASL",
        "bind": "127.0.0.1:9092",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": [mechanism],
    }
    document |= {PREFIX + name: value for name, value in kerberos.items() if value is not None}
    path = directory / "listener.yaml"
    path.write_text(yaml.safe_dump(document))
    return load(path, ListenerConfig)


def test_a_keytab_is_enough(tmp_path: Path) -> None:
    assert listener(tmp_path).gssapi() == GssapiSettings("kafka", tmp_path / "kafka.keytab", ("DEFAULT",))


@pytest.mark.parametrize(
    ("rules", "read"),
    [
        ("RULE:[1:$1]/L, DEFAULT", ("RULE:[1:$1]/L", "DEFAULT")),
        (["RULE:[1:$1](a{1,3})", "DEFAULT"], ("RULE:[1:$1](a{1,3})", "DEFAULT")),
    ],
)
def test_rules_are_a_list_or_written_as_for_a_broker(
    tmp_path: Path, rules: Any, read: tuple[str, ...]
) -> None:
    settings = listener(tmp_path, service__name="streams", principal__to__local__rules=rules).gssapi()

    assert settings == GssapiSettings("streams", tmp_path / "kafka.keytab", read)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"keytab": None}, "GSSAPI needs sasl.kerberos.keytab"),
        ({"keytab": "none.keytab"}, "sasl.kerberos.keytab: no such file"),
        ({"service__name": "kafka/localhost"}, "sasl.kerberos.service.name: expected a name without"),
        (
            {"principal__to__local__rules": []},
            "sasl.kerberos.principal.to.local.rules: the list is empty",
        ),
        (
            {"principal__to__local__rules": "DEFAULT,"},
            "sasl.kerberos.principal.to.local.rules: invalid rule: ''",
        ),
        (
            {"principal__to__local__rules": ["RULE:[1:$1](a"]},
            "sasl.kerberos.principal.to.local.rules: invalid rule: 'RULE:[1:$1](a'",
        ),
        ({"mechanism": "PLAIN"}, "sasl.kerberos.keytab: no effect without GSSAPI"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, changes: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        listener(tmp_path, **changes)

    assert error in str(raised.value)


def test_without_the_extra_the_start_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.import_module

    def without_gssapi(name: str, package: str | None = None) -> Any:
        if name == "gssapi":
            raise ModuleNotFoundError("No module named 'gssapi'")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", without_gssapi)
    with pytest.raises(ValueError, match=r"pip install '\.\[gssapi\]'") as refused:
        GssapiMechanism(listener(tmp_path).gssapi())

    assert str(refused.value).startswith("sasl.enabled.mechanisms: GSSAPI needs an extra")
    kerberos = entry(sasl__enabled__mechanisms=["GSSAPI"], sasl__kerberos__keytab="kafka.keytab")
    assert check(written(tmp_path, document(listeners=[kerberos]))) == [
        f"{tmp_path / 'proxy.yaml'}:10: listeners[0]: {refused.value}"
    ]
