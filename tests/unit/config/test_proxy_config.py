"""The configuration file: what is wrong with it is named, key by key, before anything is started."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from prometheus_client import CollectorRegistry

from proxy.commands.check import check
from proxy.config import ConfigError, ProxyConfig, WatchedUsers, load
from proxy.net.files.watched_file import FileReloads

pytestmark = pytest.mark.spec("O5")

PLAIN_LISTENER: dict[str, Any] = {
    "name": "SASL_PLAINTEXT",
    "bind": "127.0.0.1:19092",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": ["PLAIN"],
}


def document(**changes: Any) -> dict[str, Any]:
    """A file that is right, with changes: None takes a key away, __ in a name is a dot."""
    whole: dict[str, Any] = {
        "proxy.id": "proxy-1",
        "listeners": [PLAIN_LISTENER],
        "users.file": "users.yaml",
        "upstream": {"bootstrap": "127.0.0.1:9092"},
        "controller": {"endpoints": ["127.0.0.1:19093"]},
        "authorizer": {
            "class.name": "proxy.security.standard.StandardAuthorizer",
            "super.users": "User:admin",
        },
        "audit": {"spool.dir": "spool"},
    }
    whole |= {name.replace("__", "."): value for name, value in changes.items()}
    return {name: value for name, value in whole.items() if value is not None}


def written(directory: Path, content: Any) -> Path:
    (directory / "users.yaml").write_text(yaml.safe_dump({"users": {"admin": {"password.file": "secret"}}}))
    (directory / "secret").write_text("admin-secret\n")
    path = directory / "proxy.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def listener(**changes: Any) -> dict[str, Any]:
    changed = PLAIN_LISTENER | {name.replace("__", "."): value for name, value in changes.items()}
    return {name: value for name, value in changed.items() if value is not None}


def upstream(**changes: Any) -> dict[str, Any]:
    return {"bootstrap": "127.0.0.1:9092"} | {
        name.replace("__", "."): value for name, value in changes.items()
    }


def test_a_file_that_is_right_is_read_with_kafkas_defaults(tmp_path: Path) -> None:
    config = load(written(tmp_path, document()), ProxyConfig)

    assert (config.proxy_id, config.metadata.topic) == ("proxy-1", "__penstock_metadata")
    assert config.limits.socket_request_max_bytes == 100 * 1024 * 1024
    assert (config.quota.quota_window_num, config.quota.quota_window_size_seconds) == (11, 1)
    assert config.connections_max_reauth_ms == 0
    assert config.listeners[0].connections_max_reauth_ms is None
    # Paths are relative to the file.
    assert config.audit.spool_dir == tmp_path / "spool"
    users = WatchedUsers(config.users_file, FileReloads(CollectorRegistry())).known
    assert users.verify("admin", "admin-secret") is not None


WRONG: dict[str, Any] = {
    "lisseners: unknown key; did you mean listeners?": document(lisseners=[]),
    "limits > max.conections: unknown key; did you mean max.conn": document(limits={"max.conections": 5}),
    "proxy.id: is missing": document(proxy__id=None),
    "proxy.id: expected letters, digits": document(proxy__id="a b"),
    "limits > max.connections: expected a whole number, found 'many'": document(
        limits={"max.connections": "many"}
    ),
    "upstream > bootstrap: expected host:port, found 'localhost'": document(
        upstream={"bootstrap": "localhost"}
    ),
    "audit > spool.dir: ~ is not replaced; write the whole path, or": document(
        audit={"spool.dir": "~/spool"}
    ),
    "audit > spool.dir: $HOME is not replaced": document(audit={"spool.dir": "$HOME/spool"}),
    "users.file: ~x is not replaced": document(users__file="~x/users.yaml"),
    "metadata > topic: no topic can have the name 'a b'": document(metadata={"topic": "a b"}),
    "audit > topic: no topic can have the name ''": document(audit={"spool.dir": "spool", "topic": ""}),
    "quota > cluster.topic: no topic can have the name '..'": document(quota={"cluster.topic": ".."}),
    "users.file: no such file": document(users__file="missing.yaml"),
    "a listener enables PLAIN, which needs users.file": document(users__file=None),
    "more than one listener has the name SASL_PLAINTEXT": document(
        listeners=[listener(), listener(bind="127.0.0.1:2")]
    ),
    "listeners[1] > bind: 127.0.0.1:19092: listeners[0] > bind (127.0.0.1:19092) has the same port": document(
        listeners=[listener(), listener(name="B")]
    ),
    "listeners: the list is empty": document(listeners=[]),
    "sasl.enabled.mechanisms: unknown: DIGEST-MD5; write one of PLAIN": document(
        listeners=[listener(sasl__enabled__mechanisms=["DIGEST-MD5"])]
    ),
    "security.protocol SASL_PLAINTEXT needs sasl.enabled.mechanisms": document(
        listeners=[listener(sasl__enabled__mechanisms=None)]
    ),
    "sasl.enabled.mechanisms is set, but security.protocol is PLAINTEXT": document(
        listeners=[listener(security__protocol="PLAINTEXT")]
    ),
    "security.protocol SASL_SSL needs a certificate": document(
        listeners=[listener(security__protocol="SASL_SSL")]
    ),
    "early.start.listeners: no listener has the name OTHER": document(
        authorizer={
            "class.name": "proxy.security.standard.StandardAuthorizer",
            "early.start.listeners": ["OTHER"],
        }
    ),
    "controller: security.protocol SASL_PLAINTEXT needs a login": document(
        controller={"endpoints": ["127.0.0.1:1"], "security.protocol": "SASL_PLAINTEXT"}
    ),
    "quota > producer.default: must be more than 0, found 0": document(quota={"producer.default": 0}),
    "upstream > addresses: expected rewrite or passthrough, found 'hidden'": document(
        upstream=upstream(addresses="hidden")
    ),
    "upstream: addresses: passthrough needs internal.bootstrap": document(
        upstream=upstream(addresses="passthrough")
    ),
    "addresses: passthrough needs internal.bootstrap; write the address of another listener": document(
        upstream=upstream(addresses="passthrough", internal__bootstrap="127.0.0.1:9092")
    ),
    "upstream: addresses: passthrough does not use advertised.brokers and node.id": document(
        upstream=upstream(
            addresses="passthrough",
            internal__bootstrap="127.0.0.1:9091",
            advertised__brokers={2: {"SASL_PLAINTEXT": "p2:1"}},
        )
    ),
    "upstream: addresses: passthrough supports only one listener": document(
        listeners=[PLAIN_LISTENER, listener(name="OTHER", bind="127.0.0.1:19093")],
        upstream=upstream(addresses="passthrough", internal__bootstrap="127.0.0.1:9091"),
    ),
    "addresses: passthrough does not use advertised of a listener": document(
        listeners=[listener(advertised="proxy:1")],
        upstream=upstream(addresses="passthrough", internal__bootstrap="127.0.0.1:9091"),
    ),
    "advertised.brokers: node 2: no listener has the name SASL": document(
        upstream=upstream(advertised__brokers={2: {"SASL": "p2:1"}})
    ),
    "advertised.brokers: node 2 has no address for SASL_PLAINTEXT": document(
        upstream=upstream(advertised__brokers={2: {}})
    ),
    "advertised.brokers: nodes 2 and 3 have the same address for SASL_PLAINTEXT": document(
        upstream=upstream(advertised__brokers={2: {"SASL_PLAINTEXT": "p:1"}, 3: {"SASL_PLAINTEXT": "p:1"}})
    ),
    "node 2 has the address of this proxy's listener SASL_PLAINTEXT, but node.id is 1": document(
        upstream=upstream(node__id=1, advertised__brokers={2: {"SASL_PLAINTEXT": "127.0.0.1:19092"}})
    ),
    "must be at least 0, found -1": document(
        upstream=upstream(advertised__brokers={-1: {"SASL_PLAINTEXT": "p:1"}})
    ),
    "expected keys with values, found a list": "- a list",
    "not valid YAML": "a: b: c",
}


@pytest.mark.parametrize(("problem", "content"), WRONG.items(), ids=WRONG)
def test_what_is_wrong_is_named_at_the_start_and_by_penstock_check(
    tmp_path: Path, problem: str, content: Any
) -> None:
    path = written(tmp_path, content)

    with pytest.raises(ConfigError) as caught:
        load(path, ProxyConfig)

    assert problem in str(caught.value)
    assert str(caught.value).startswith(f"{path}:")
    assert problem in "\n".join(check(path))


def test_all_that_is_wrong_is_named_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, document(proxy__id=None, limits={"max.connections": 0}, lisseners=[]))

    with pytest.raises(ConfigError) as caught:
        load(path, ProxyConfig)

    assert len(str(caught.value).splitlines()) == 3


def penstock(*words: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: the command line sets logging up for good."""
    command = [sys.executable, "-m", "proxy", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.slow
def test_the_exit_code_of_penstock_check_tells_right_from_wrong(tmp_path: Path) -> None:
    right = written(tmp_path, document())
    passed = penstock("check", "-c", str(right))
    assert (passed.returncode, passed.stdout) == (0, f"{right}: ok\n")

    missing = penstock("check", "-c", str(tmp_path / "none.yaml"))
    assert missing.returncode == 2
    assert "none.yaml: No such file or directory" in missing.stderr

    wrong = written(tmp_path, document(lisseners=[]))
    for command in ("check", "proxy"):
        failed = penstock(command, "-c", str(wrong))
        assert failed.returncode == 2
        assert "lisseners: unknown key; did you mean listeners?" in failed.stderr


@pytest.mark.parametrize(
    ("authorizer", "problem"),
    [
        (
            {"class.name": "no.such.Class"},
            "authorizer.class.name: cannot load 'no.such.Class': there is no Python module 'no'; install it",
        ),
        (
            {"class.name": "proxy.security.standard.StandardAuthorizer", "super.users": "admin"},
            "super.users: expected a principal in the form type:name, got 'admin'",
        ),
    ],
)
def test_penstock_check_tries_the_authorizer(
    tmp_path: Path, authorizer: dict[str, Any], problem: str
) -> None:
    path = written(tmp_path, document(authorizer=authorizer))

    assert problem in "\n".join(check(path))


def tls_listener(directory: Path, protocol: str, **ssl: str) -> dict[str, Any]:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    certificate.private_key_pem.write_to_path(directory / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(directory / "certificate.pem")
    authority.cert_pem.write_to_path(directory / "ca.pem")
    mechanisms = ["PLAIN"] if protocol == "SASL_SSL" else None
    files = {"certificate": "certificate.pem", "key": "key.pem"}
    return listener(security__protocol=protocol, sasl__enabled__mechanisms=mechanisms, ssl=files | ssl)


SAN_AND_UNIT = {
    "client.auth": "required",
    "ca": "ca.pem",
    "principal.from": "SAN:URI, SUBJECT",
    "principal.san.mapping.rules": "RULE:^SAN:URI:(.*)$/$1/",
    "principal.groups.from": "OU",
    "principal.groups.mapping.rules": "RULE:^OU=(.*)$/$1/",
}


@pytest.mark.parametrize(
    ("protocol", "ssl", "problem"),
    [
        ("SASL_SSL", {}, None),
        ("SASL_SSL", {"client.auth": "required", "ca": "ca.pem"}, None),
        ("SASL_SSL", {"client.auth": "required"}, "client.auth needs the CAs"),
        ("SASL_SSL", {"key": "ca.pem"}, "ca.pem"),
        ("SSL", {}, None),
        ("SSL", {"client.auth": "required", "ca": "ca.pem"}, None),
        (
            "SSL",
            {"client.auth": "requested", "ca": "ca.pem", "principal.mapping.rules": "RULE:("},
            "invalid rule",
        ),
        ("SSL", {"ciphers": "NONE-SUCH"}, "ciphers NONE-SUCH"),
        ("SSL", SAN_AND_UNIT, None),
        ("SSL", SAN_AND_UNIT | {"principal.from": "SAN:URN"}, "ssl > principal.from"),
        ("SSL", SAN_AND_UNIT | {"principal.from": ""}, "principal.from: the list is empty"),
        ("SSL", SAN_AND_UNIT | {"principal.groups.from": "SUBJECT"}, "ssl > principal.groups.from"),
        ("SSL", SAN_AND_UNIT | {"principal.san.mapping.rules": "RULE:("}, "invalid rule"),
        ("SSL", SAN_AND_UNIT | {"principal.groups.mapping.rules": "OU"}, "invalid rule"),
        ("SSL", SAN_AND_UNIT | {"principal.from": "SUBJECT"}, "principal.san.mapping.rules has no effect"),
        ("SSL", SAN_AND_UNIT | {"principal.groups.from": ""}, "groups.mapping.rules has no effect"),
        ("SSL", {"principal.groups.from": "OU"}, "clients of this listener do not log in with certificates"),
        ("SASL_SSL", SAN_AND_UNIT, "clients of this listener do not log in with certificates"),
    ],
)
def test_penstock_check_tries_the_certificates(
    tmp_path: Path, protocol: str, ssl: dict[str, str], problem: str | None
) -> None:
    path = written(tmp_path, document(listeners=[tls_listener(tmp_path, protocol, **ssl)]))

    problems = "\n".join(check(path))

    assert (problems == "") is (problem is None)
    assert (problem or "") in problems


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        ({}, "users > admin: write either password.hash or password.file"),
        ({"password.file": "none"}, "users > admin > password.file: no such file"),
        ({"password": "plain"}, "users > admin > password: unknown key; write password.file: FILE"),
    ],
)
def test_a_user_without_a_usable_password_is_named(
    tmp_path: Path, user: dict[str, str], problem: str
) -> None:
    path = written(tmp_path, document())
    (tmp_path / "users.yaml").write_text(yaml.safe_dump({"users": {"admin": user}}))

    assert problem in "\n".join(check(path))


@pytest.mark.spec("O5")
@pytest.mark.parametrize("workers", [0, -1, 129, 1.5, "many"])
def test_a_number_of_workers_that_means_nothing_is_refused(tmp_path: Path, workers: object) -> None:
    path = written(tmp_path, document(workers=workers))

    with pytest.raises(ConfigError, match="workers"):
        load(path, ProxyConfig)


@pytest.mark.spec("A2", "O5")
def test_without_an_authorizer_a_proxy_that_authenticates_does_not_start(tmp_path: Path) -> None:
    path = written(tmp_path, document(authorizer={}))

    with pytest.raises(ConfigError, match=r"authorizer\.class\.name is not set, but a listener"):
        load(path, ProxyConfig)

    assert "authorizer.class.name is not set, but a listener" in "\n".join(check(path))


@pytest.mark.spec("A2")
def test_left_empty_on_purpose_the_authorizer_keeps_no_proxy_from_starting(tmp_path: Path) -> None:
    config = load(written(tmp_path, document(authorizer={"class.name": ""})), ProxyConfig)

    assert config.authorizer.authorizer_class_name == ""


@pytest.mark.spec("O7")
def test_the_broker_sees_the_proxy_unless_the_file_asks_for_the_users_identity(tmp_path: Path) -> None:
    config = load(written(tmp_path, document()), ProxyConfig)

    assert config.upstream.identity == "proxy"
