"""Files of another kind, given by mistake: one error says what the file is, instead of one about each key."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from forwarding.config import ControllerConfig
from proxy.commands.check import check, checked_users
from proxy.config import ConfigError, ProxyConfig, load
from proxy.config.parts import Part
from tests.unit.config.test_ten_mistakes import FILE, written

pytestmark = pytest.mark.spec("O5")

CHECKOUT = Path(__file__).resolve().parents[3]
CONTROLLER = (CHECKOUT / "proxy/examples/controller.yaml").read_text()
PROXY_HINT = "this is the file of a proxy; to start a proxy with it, write: penstock proxy -c {path}"
CONTROLLER_HINT = (
    "this is the file of a controller; to start a controller with it, write: penstock controller -c {path}"
)

OTHERS = {
    "users: {alice: {password.file: secret}}": "this is a users file; write: penstock check --users {path}",
    '{"version": 1, "acls": [], "topics": {}}': (
        "this is a file of ACLs; write its name at authorizer: {{broker.acl.file.path: {path}}}"
    ),
    (CHECKOUT / "deploy/helm/penstock/values.yaml").read_text(): (
        "this is a file of values for the Helm chart; check the files that helm template renders from it"
    ),
    "controller: {replicas: 2}\nimage: {tag: x}": (
        "this is a file of values for the Helm chart; check the files that helm template renders from it"
    ),
    (CHECKOUT / "deploy/compose.yaml").read_text(): "this is a compose file; check the files that it mounts",
    "apiVersion: v1\nkind: ConfigMap\ndata: {}": "this is a Kubernetes manifest; check the files in its data",
    "# a broker\nlisteners=PLAINTEXT://:9092\nbroker.id=1\n": (
        "this is a .properties file; write the keys in YAML, key: value, as docs/configuration.md describes"
        " them"
    ),
    "listeners=PLAINTEXT://:9092\nx: y: z\n": (
        "this is a .properties file; write the keys in YAML, key: value, as docs/configuration.md describes"
        " them"
    ),
    "kafka-acls.sh --bootstrap-server x --add --allow-principal User:a --topic t": (
        "this is a list of commands; write: penstock check --proposal {path}"
    ),
    "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n": (
        "this is a PEM file; write its name at ssl in a configuration"
    ),
}


@pytest.mark.parametrize(("text", "hint"), OTHERS.items(), ids=range(len(OTHERS)))
def test_check_says_which_other_file_it_has_read(tmp_path: Path, text: str, hint: str) -> None:
    path = tmp_path / "file"
    path.write_text(text)

    assert check(path) == [f"{path}: {hint.format(path=path)}"]


@pytest.mark.parametrize(
    ("text", "part", "hint"),
    [
        (FILE, ControllerConfig, PROXY_HINT),
        (CONTROLLER, ProxyConfig, CONTROLLER_HINT),
        ("users: {}", ControllerConfig, "this is a users file; write: penstock check --users {path}"),
    ],
)
def test_a_process_says_that_it_has_the_file_of_another(
    tmp_path: Path, text: str, part: type[Part], hint: str
) -> None:
    path = written(tmp_path, text)

    with pytest.raises(ConfigError) as raised:
        load(path, part)

    assert str(raised.value) == f"{path}: {hint.format(path=path)}"


def test_a_users_file_that_is_none_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, FILE)

    assert checked_users(path).problems == [f"{path}: {PROXY_HINT.format(path=path)}"]


@pytest.mark.parametrize("text", ["proxy.id: p\ncontroller.id: c\n", "listener: {}\nproxy.id: p\n", "x: y\n"])
def test_a_file_with_keys_of_the_expected_kind_or_of_none_gets_an_error_for_each_key(
    tmp_path: Path, text: str
) -> None:
    path = written(tmp_path, text)

    assert len(check(path)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("command", ["proxy", "controller"])
def test_a_command_with_the_other_file_ends_with_one_line(tmp_path: Path, command: str) -> None:
    path = written(tmp_path, CONTROLLER if command == "proxy" else FILE)

    ended = subprocess.run(
        [sys.executable, "-m", "proxy", command, "-c", str(path)],
        cwd=CHECKOUT,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    (line,) = (ended.stdout + ended.stderr).splitlines()
    hint = (CONTROLLER_HINT if command == "proxy" else PROXY_HINT).format(path=path)
    assert (ended.returncode, f"{path}: {hint}" in line) == (2, True)
