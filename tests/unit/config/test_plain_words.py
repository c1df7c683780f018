"""Errors of a configuration file: in an operator's words, with the line of the file, all of them at once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from forwarding.config import ControllerConfig
from proxy.commands.check import check
from proxy.config import ConfigError, ProxyConfig, UsersFile, load, read
from proxy.config.parts import Part, parts_in
from tests.unit.config.test_ten_mistakes import FILE, written

pytestmark = pytest.mark.spec("O5")

WRONG: list[Any] = ["a b", "", -1, 1.5, 10**30, True, None, [], [1], {}, {"x": 1}, {1: 2}, [{"x": 1}], "x,y"]
PYDANTICS = ("Input should", "a valid ", "Value error", "Extra inputs", "tuple", "Field required", "pydantic")


def places(part: type[Part], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key of a file, those of the parts in lists and mappings with a step of their own."""
    for name, field in part.model_fields.items():
        key = (*above, field.alias or name)
        yield key
        for below in parts_in(field.annotation):
            container = str(field.annotation).partition("[")[0]
            step = {"tuple": "[]", "dict": "{}"}.get(container)
            yield from places(below, key if step is None else (*key, step))


def with_value(place: tuple[str, ...], value: Any) -> Any:
    for step in reversed(place):
        value = [value] if step == "[]" else {"some": value} if step == "{}" else {step: value}
    return value


@pytest.mark.parametrize("part", [ProxyConfig, ControllerConfig, UsersFile])
def test_no_error_of_any_key_is_in_the_words_of_a_library(part: type[Part], tmp_path: Path) -> None:
    told: list[str] = []
    for place in places(part):
        for value in WRONG:
            content = yaml.safe_dump(with_value(place, value)).encode()
            told += read(tmp_path / "file.yaml", content, part).problems

    assert len(told) > 40
    assert [line for line in told if any(word in line for word in PYDANTICS) or "\n" in line] == []
    assert [line for line in told if "invalid value:" in line] == [], "an error kind without words"


def test_errors_come_in_the_order_of_the_file_each_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "proxy.yaml"
    path.write_text(
        "workers: many\n"
        "listeners:\n"
        "  - name: A\n"
        "    bind: here\n"
        "  - {name: B, bind: '127.0.0.1:1', security.protocol: ssl}\n"
        "limits:\n"
        "  max.conections: 5\n"
        "log: {level: info}\n"
    )

    assert check(path) == [
        f"{path}:1: workers: expected a whole number, found 'many'",
        f"{path}:4: listeners[0] > bind: expected host:port, found 'here'",
        f"{path}:5: listeners[1] > security.protocol: expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL,"
        " found 'ssl'; did you mean SSL?",
        f"{path}:7: limits > max.conections: unknown key; did you mean max.connections?",
        f"{path}:8: log > level: expected DEBUG, INFO, WARNING or ERROR, found 'info'; did you mean INFO?",
        f"{path}: proxy.id: is missing; add it, because it has no default",
        f"{path}: upstream: is missing; add it, because it has no default",
        f"{path}: controller: is missing; add it, because it has no default",
        f"{path}: audit: is missing; add it, because it has no default",
    ]


def test_certificates_and_the_authorizer_are_tried_though_other_parts_are_wrong(tmp_path: Path) -> None:
    text = FILE.replace("key: proxy.key", "key: other.key").replace("http: {bind", "http: {bnd")
    path = written(
        tmp_path, text.replace("org.apache.kafka.metadata.authorizer.StandardAuthorizer", "no.Such")
    )

    problems = "\n".join(check(path))

    assert "the key is not that of the certificate" in problems
    assert "authorizer.class.name: cannot load 'no.Such'" in problems
    assert "http > bnd: unknown key; did you mean bind?" in problems
    assert len(problems.splitlines()) == 3


def test_a_controllers_certificate_is_named_once(tmp_path: Path) -> None:
    text = FILE.replace("proxy.id: proxy-1\n", "controller.id: controller-1\n").replace("listeners:\n", "")
    text = text.replace("  - name: CLIENTS", "listener:\n    name: CLIENTS").replace("upstream:", "broker:")
    text = text.replace('controller: {endpoints: ["127.0.0.1:9094"]}\n', "")
    path = written(tmp_path, text)
    assert check(path) == []

    path.write_text(text.replace("key: proxy.key", "key: other.key"))

    (problem,) = check(path)
    assert problem.startswith(f"{path}:7: listener > ssl: certificate ")


def test_parts_that_do_not_fit_together_are_all_named_at_once(tmp_path: Path) -> None:
    text = FILE.replace("users.file: users.yaml\n", "").replace("127.0.0.1:19092", "0.0.0.0:9190")
    path = written(tmp_path, text.replace("super.users:", "early.start.listeners: [OTHER], super.users:"))

    problems = check(path)

    assert [problem.partition(": ")[2][:40] for problem in problems] == [
        "listeners[0] > bind: clients cannot conn",
        "authorizer > early.start.listeners: no l",
        "http > bind: 127.0.0.1:9190: listeners[0",
        "a listener enables PLAIN, which needs us",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: b: c", ":1: the file is not valid YAML: there is a second `: ` in the line"),
        ("a: 1\n\tb: 2", ":2: the file is not valid YAML: the line contains a tab; indent with spaces"),
        ("a: [1, 2", ":1: the file is not valid YAML: expected ',' or ']'"),
        ("proxy.id: \xff", ":1: the file is not valid YAML: the file is not UTF-8 text"),
        ("a: 2026-99-99", ": the file is not valid YAML: month must be in 1..12"),
        ("a: 1\n---\nb: 2", ":2: the file is not valid YAML: but found another document"),
        ("? [a]\n: 1", ":1: the file is not valid YAML: found unhashable key"),
        ("", ": expected keys with values, found nothing"),
        ("proxy.id=x", ": this is a .properties file"),
        ("proxy", ": expected keys with values, found one value"),
    ],
)
def test_what_is_no_yaml_is_told_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "proxy.yaml"
    path.write_bytes(text.encode("latin-1"))

    (problem,) = check(path)

    assert problem.startswith(f"{path}{told}")


def test_every_key_that_stands_twice_is_found_at_any_depth(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    path.write_text(
        "users:\n"
        "  bob: {password.hash: a, password.hash: b}\n"
        "  'bob': &x {password.file: a}\n"
        "  <<: {bob: *x}\n"
        "  <<: {amy: *x}\n"
    )

    with pytest.raises(ConfigError) as raised:
        load(path, UsersFile)

    told = str(raised.value)
    assert f"{path}:2: users > bob > password.hash: appears twice in this line" in told
    assert f"{path}:3: users > bob: appears twice, in line 2 and in line 3" in told
    assert told.count("appears twice") == 2


def test_an_alias_that_leads_in_a_circle_or_multiplies_is_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "proxy.yaml"
    path.write_text("a: &a {b: *a}\nc: &c [*a, *a]\nd: [*c, *c, *c]\n")

    assert "a: unknown key" in "\n".join(check(path))


def document(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "proxy.id": "p",
        "listeners": [{"name": "A", "bind": "127.0.0.1:1", "security.protocol": "PLAINTEXT"}],
        "upstream": {"bootstrap": "127.0.0.1:9092"},
        "controller": {"endpoints": "127.0.0.1:4, 127.0.0.1:2"},
        "audit": {"spool.dir": "spool"},
    }
    return whole | {key.replace("__", "."): value for key, value in changes.items()}


def loaded(directory: Path, document: dict[str, Any]) -> tuple[ProxyConfig, list[str]]:
    path = directory / "proxy.yaml"
    reading = read(path, yaml.safe_dump(document, sort_keys=False).encode(), ProxyConfig)
    assert reading.problems == []
    assert reading.settings is not None
    return reading.settings, reading.hints


def test_lists_classes_and_values_may_be_written_as_kafka_writes_them(tmp_path: Path) -> None:
    (tmp_path / "users.yaml").write_text("users: {}\n")
    (tmp_path / "c").write_text("")
    listener = {
        "name": "A",
        "bind": "127.0.0.1:3",
        "sasl.enabled.mechanisms": "PLAIN, SCRAM-SHA-512",
        "connections.max.reauth.ms": "3600000",
        "ssl": {"certificate": "c", "key": "c", "enabled.protocols": "TLSv1.2,TLSv1.3"},
        "principal.builder.settings": {"depth": 3, "strict": True},
    }
    authorizer = {
        "class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ["User:CN=a,O=b", "User:c"],
        "allow.everyone.if.no.acl.found": "false",
        "early.start.listeners": "A",
    }

    config, hints = loaded(
        tmp_path,
        document(
            listeners=[listener],
            authorizer=authorizer,
            users__file="users.yaml",
            proxy__principals="User:x;User:y",
        ),
    )

    assert hints == []
    (entry,) = config.listeners
    assert entry.sasl_enabled_mechanisms == ("PLAIN", "SCRAM-SHA-512")
    assert entry.connections_max_reauth_ms == 3_600_000
    assert entry.ssl is not None
    assert entry.ssl.enabled_protocols == ("TLSv1.2", "TLSv1.3")
    assert entry.principal_builder_settings == {"depth": "3", "strict": "true"}
    assert config.controller.endpoints == ("127.0.0.1:4", "127.0.0.1:2")
    assert config.proxy_principals == ("User:x", "User:y")
    # What the audit trail tells is our own class: reconciliation decides again by it.
    assert config.authorizer.recorded_settings() == {
        "authorizer.class.name": "proxy.security.standard.StandardAuthorizer",
        "super.users": "User:CN=a,O=b;User:c",
        "allow.everyone.if.no.acl.found": "false",
        "broker.acl.file.path": "",
        "early.start.listeners": "A",
    }


def test_keys_that_repeat_the_name_of_their_part_are_still_read_with_a_hint(tmp_path: Path) -> None:
    old = document(quota={"quota.producer.default": 5}, authorizer={"authorizer.class.name": ""})
    new = document(quota={"producer.default": 5}, authorizer={"class.name": ""})

    (config, hints), (same, none) = loaded(tmp_path, old), loaded(tmp_path, new)

    assert (config, none) == (same, [])
    assert hints == [
        f"{tmp_path / 'proxy.yaml'}:13: quota > quota.producer.default: write producer.default: keys no"
        " longer repeat the name of their section",
        f"{tmp_path / 'proxy.yaml'}:15: authorizer > authorizer.class.name: write class.name: keys no longer"
        " repeat the name of their section",
    ]


def test_an_error_names_a_key_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "proxy.yaml"
    path.write_text(yaml.safe_dump(document(quota={"quota.mode": "maybe"})))

    (problem,) = check(path)

    assert problem.endswith("quota > quota.mode: expected enforce or observe, found 'maybe'")


def test_a_key_in_both_spellings_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "proxy.yaml"
    path.write_text(yaml.safe_dump(document(quota={"quota.mode": "observe", "mode": "enforce"})))

    (problem,) = check(path)

    assert problem.endswith("quota > quota.mode: unknown key; write mode: it is already below quota")
