"""Values that YAML or pydantic would accept as something else than is meant, and rare ones."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic.fields import FieldInfo
from structlog.testing import capture_logs

from forwarding.config import ControllerConfig
from proxy.commands.check import check
from proxy.config import ProxyConfig, load, read
from proxy.config.doubts import report_rules, warns_of_rules
from proxy.config.machine import warns_of_workers
from proxy.config.parts import MAX_INT32, MAX_INT64, Part, parts_in
from tests.unit.config.test_plain_words import places, with_value
from tests.unit.config.test_ten_mistakes import FILE, written
from tests.unit.config.test_warnings import changed, closed, warned

pytestmark = pytest.mark.spec("O5")


def field_at(part: type[Part], place: tuple[str, ...]) -> FieldInfo:
    *above, key = [step for step in place if step not in ("[]", "{}")]
    for step in above:
        part = next(parts_in(next(f for f in part.model_fields.values() if f.alias == step).annotation))
    return next(field for field in part.model_fields.values() if field.alias == key)


def numeric(part: type[Part]) -> list[tuple[str, ...]]:
    """The keys whose value is a number."""
    kinds = ("int", "float", "int | None", "float | None")
    found = []
    for place in places(part):
        annotation = field_at(part, place).annotation
        if (annotation.__name__ if isinstance(annotation, type) else str(annotation)) in kinds or (
            "Annotated[int" in str(annotation) and "dict" not in str(annotation)
        ):
            found.append(place)
    return found


def problems(part: type[Part], place: tuple[str, ...], value: Any, directory: Path) -> list[str]:
    """The errors about this key."""
    content = yaml.safe_dump(with_value(place, value)).encode()
    key = " > ".join(step for step in place if step not in ("[]", "{}"))
    told = read(directory / "file.yaml", content, part).problems
    return [line for line in told if f"{key.rpartition(' > ')[2]}: " in line and "missing" not in line]


@pytest.mark.parametrize("part", [ProxyConfig, ControllerConfig])
@pytest.mark.parametrize(
    ("value", "told"),
    [
        (True, "expected a number, found true; YAML reads yes, no, on and off as true or false"),
        (False, "expected a number, found false; YAML reads yes, no, on and off as true or false"),
        (10**20, "must be at most "),
        (float("inf"), "expected a "),
        (float("nan"), "expected a "),
        ("30s", "expected a "),
        (-1, "must be "),
    ],
)
def test_no_key_with_a_number_accepts_anything_else(
    part: type[Part], value: Any, told: str, tmp_path: Path
) -> None:
    keys = numeric(part)
    assert len(keys) > 20

    silent = [
        place for place in keys if not any(told in line for line in problems(part, place, value, tmp_path))
    ]

    decimal = {"producer.default", "consumer.default"}
    assert [place for place in silent if place[-1] not in decimal or value != 10**20] == []


@pytest.mark.parametrize(
    ("written_value", "told"),
    [
        ("yes", "expected a number, found true; YAML reads yes, no, on and off as true or false"),
        ("1:30", "expected a whole number, found '1:30'"),
        ("30s", "expected a whole number without a unit: it is in ms, found '30s'"),
        ("1.5", "expected a whole number, found 1.5"),
        ("-1", "must be at least 0, found -1"),
        ("9223372036854775808", "must be at most 9223372036854775807, found 9.22337e+18"),
    ],
)
def test_a_duration_is_what_stands_in_the_file(tmp_path: Path, written_value: str, told: str) -> None:
    path = written(tmp_path, f"{FILE}connections.max.reauth.ms: {written_value}\n")

    assert check(path) == [f"{path}:14: connections.max.reauth.ms: {told}"]


@pytest.mark.parametrize(("text", "value"), [("010", 10), ("1_000", 1000), ("'20'", 20), ("0x1F", 31)])
def test_a_number_with_a_zero_before_it_is_not_octal(tmp_path: Path, text: str, value: int) -> None:
    content = f"{FILE}connections.max.reauth.ms: {text}\n".encode()
    written(tmp_path, FILE)

    settings = read(tmp_path / "proxy.yaml", content, ProxyConfig).settings

    assert settings is not None
    assert settings.connections_max_reauth_ms == value


def test_numbers_in_mappings_are_checked_too(tmp_path: Path) -> None:
    overrides = "limits: {max.connections.per.ip.overrides: {127.0.0.1: yes, 10.0.0.1: 3000000000}}\n"
    path = written(tmp_path, FILE + overrides)

    (line,) = check(path)

    assert line.startswith(
        f"{path}:14: limits > max.connections.per.ip.overrides > 127.0.0.1: expected a number"
    )


def test_whole_numbers_have_kafkas_ranges(tmp_path: Path) -> None:
    assert problems(ProxyConfig, ("limits", "max.connections"), MAX_INT32 + 1, tmp_path)
    assert not problems(ProxyConfig, ("limits", "max.connections"), MAX_INT32, tmp_path)
    assert not problems(ProxyConfig, ("limits", "connections.max.idle.ms"), MAX_INT64, tmp_path)


@pytest.mark.parametrize("key", ["connections.max.idle.ms", "login.timeout.ms"])
def test_a_time_in_which_nothing_can_work_is_refused(tmp_path: Path, key: str) -> None:
    path = written(tmp_path, f"{FILE}limits: {{{key}: 0}}\n")

    assert check(path) == [f"{path}:14: limits > {key}: must be at least 1, found 0"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("connections.max.reauth.ms: 3600", "3600 ms is very short. If it is in seconds, write 3600000"),
        ("connections.max.reauth.ms: 1", "1 ms is very short. If it is in seconds, write 1000"),
        ("connections.max.reauth.ms: 3600000", None),
        (
            "limits: {connections.max.idle.ms: 600}",
            "600 ms is very short; the default is 600000. If it is in seconds, write 600000",
        ),
        ("limits: {connections.max.idle.ms: 60000}", None),
        ("limits: {drain.timeout.ms: 0}", None),
    ],
)
def test_durations_that_are_probably_in_seconds_are_warned_of(
    tmp_path: Path, line: str, told: str | None
) -> None:
    path = closed(tmp_path)
    path.write_text(f"{path.read_text()}{line}\n")

    assert [found.rpartition(".ms: ")[2] for found in warned(path, "very short")] == ([told] if told else [])


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("kafka://127.0.0.1:9092", "remove kafka://"),
        ("SASL_SSL://127.0.0.1:9092", "remove SASL_SSL://"),
        ("https://127.0.0.1:9092/x", "remove https:// and /x"),
        ("user@host:9092", "'user@host' is not the name of a host"),
        ("a host:9092", "'a host' is not the name of a host"),
        ("300.1.1.1:9092", "300.1.1.1 is not an IP address"),
        ("::1:9092", "write an IPv6 address in [brackets]"),
        ("[broker]:9092", "broker is not an IP address"),
        ("broker:99999", "ports end at 65535"),
        ("broker:0", "nothing can connect to port 0"),
        ("broker", "expected host:port, found 'broker'"),
    ],
)
def test_an_address_with_more_or_less_than_host_and_port_is_refused(
    tmp_path: Path, address: str, told: str
) -> None:
    path = written(tmp_path, FILE.replace('bootstrap: "127.0.0.1:9092"', f'bootstrap: "{address}"'))

    (problem,) = check(path)

    assert problem.startswith(f"{path}:9: upstream > bootstrap: expected host:port, found '{address}'")
    assert problem.endswith(told)


@pytest.mark.parametrize(
    "address", ["broker-1.example.com.:9092", "[::1]:9092", "10.0.0.1:1", "under_score:9092"]
)
def test_names_and_addresses_of_hosts_are_right(tmp_path: Path, address: str) -> None:
    assert (
        check(written(tmp_path, FILE.replace('bootstrap: "127.0.0.1:9092"', f'bootstrap: "{address}"'))) == []
    )


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            'bootstrap: "127.0.0.1:9092"',
            'bootstrap: "localhost:19092"',
            ":9: upstream > bootstrap: localhost:19092",
        ),
        ('["127.0.0.1:9094"]', '["a:1", "127.0.0.1:19092"]', ":10: controller > endpoints: 127.0.0.1:19092"),
        (
            'bootstrap: "127.0.0.1:9092"',
            'bootstrap: "127.0.0.1:9190"',
            ":9: upstream > bootstrap: 127.0.0.1:9190",
        ),
        (
            "bind: 127.0.0.1:19092",
            "bind: 0.0.0.0:9092\n    advertised: here:9",
            ":10: upstream > bootstrap: 127.0.0.1:9092",
        ),
        (
            'bootstrap: "127.0.0.1:9092"',
            'bootstrap: "b:1", internal.bootstrap: "127.0.0.1:19092"',
            ":9: upstream > internal.bootstrap: 127.0.0.1:19092",
        ),
    ],
)
def test_an_address_of_the_process_itself_is_no_broker(tmp_path: Path, old: str, new: str, line: str) -> None:
    assert FILE.count(old) == 1
    path = written(tmp_path, FILE.replace(old, new))

    (problem,) = check(path)

    assert problem.startswith(f"{path}{line} is the address of this process itself: ")


def test_a_controller_does_not_bootstrap_from_itself(tmp_path: Path) -> None:
    listener = {"name": "A", "bind": "[::]:9094", "security.protocol": "PLAINTEXT"}
    document = {
        "controller.id": "c",
        "listener": listener,
        "broker": {"bootstrap": "[::1]:9094"},
        "audit": {"spool.dir": "spool"},
    }
    path = tmp_path / "controller.yaml"
    path.write_text(yaml.safe_dump(document))

    (problem,) = check(path)

    assert "broker > bootstrap: [::1]:9094 is the address of this process itself: listener > bind" in problem


def test_an_advertised_address_that_is_a_brokers_is_warned_of(tmp_path: Path) -> None:
    path = changed(
        closed(tmp_path), "    security.protocol", "    advertised: LOCALHOST:9092\n    security.protocol"
    )

    (line,) = warned(path, "pass the proxy by")

    assert line.startswith(":5: listeners[0] > advertised: LOCALHOST:9092 is also in upstream > bootstrap")


@pytest.mark.spec("O6")
def test_a_controller_at_the_address_of_a_broker_is_warned_of(tmp_path: Path) -> None:
    path = changed(closed(tmp_path), '["127.0.0.1:9094"]', '["a:1", "localhost:9092"]')

    (line,) = warned(path, "write the address of a controller")

    assert "controller > endpoints: localhost:9092 is also in upstream > bootstrap" in line


@pytest.mark.spec("O6")
@pytest.mark.parametrize(("advertised", "count"), [("localhost:19092", 1), ("one:1", 2), ("two:1", 0)])
def test_two_listeners_with_one_advertised_address_are_warned_of(
    tmp_path: Path, advertised: str, count: int
) -> None:
    first = "    advertised: one:1\n" if advertised == "one:1" else ""
    second = (
        f"  - name: B\n    bind: 127.0.0.1:19093\n    advertised: {advertised}\n"
        "    security.protocol: PLAINTEXT\n"
    )
    path = changed(closed(tmp_path), "    security.protocol", f"{first}    security.protocol")
    changed(path, "users.file:", f"{second}users.file:")
    changed(path, "bind: 127.0.0.1:0\n", "bind: 127.0.0.1:19092\n")

    assert len(warned(path, "come to the same listener")) == count


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("user:admin", "no client has the principal 'user:admin': case and spaces count; write User:admin"),
        ("USER:admin", "no client has the principal 'USER:admin': case and spaces count; write User:admin"),
        (
            "'User: admin'",
            "no client has the principal 'User: admin': case and spaces count; write User:admin",
        ),
        ("User:*", "'User:*': this list has no wildcards; write the principals one by one"),
        ("admin", "expected a principal in the form type:name, got 'admin'"),
    ],
)
@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("{class.name: '', super.users: NAME}", "authorizer > super.users"),
        ("{class.name: ''}\nquota: {excluded.principals: [NAME]}", "quota > excluded.principals"),
        ("{class.name: ''}\nproxy.principals: [NAME]", "proxy.principals"),
    ],
)
def test_a_principal_that_no_client_can_have_is_refused_in_every_list(
    tmp_path: Path, line: str, key: str, name: str, told: str
) -> None:
    text = [row for row in FILE.splitlines() if not row.startswith("authorizer:")]
    path = written(tmp_path, "\n".join([*text, f"authorizer: {line.replace('NAME', name)}"]) + "\n")

    (problem,) = check(path)

    assert key in problem
    assert problem.endswith(told)


@pytest.mark.parametrize("builder", [False, True])
def test_a_type_that_no_listener_makes_is_warned_of(tmp_path: Path, builder: bool) -> None:
    path = changed(closed(tmp_path), "super.users: User:admin", "super.users: 'User:admin;Role:ops;Group:x'")
    if builder:
        made = "proxy.security.principal_builder.DefaultPrincipalBuilder"
        changed(path, "    security.protocol", f"    principal.builder.class: {made}\n    security.protocol")

    assert len(warned(path, "no client has the principal")) == (not builder)
    assert len(warned(path, "no client has the principal Role:ops")) == (not builder)


@pytest.mark.spec("A8")
def test_groups_are_no_principals_of_a_proxy(tmp_path: Path) -> None:
    path = changed(
        closed(tmp_path), "proxy.id: proxy-1", "proxy.id: proxy-1\nproxy.principals: ['Group:ops']"
    )

    assert len(warned(path, "no client has the principal Group:ops")) == 1


def test_more_workers_than_cores_are_warned_of() -> None:
    assert list(warns_of_workers(2, 2)) == []
    assert list(warns_of_workers(64, 2)) == [
        (("workers",), "64 workers for 2 cores only take turns; write workers: 2")
    ]


def test_check_compares_the_workers_with_the_cores_of_the_machine(tmp_path: Path) -> None:
    path = changed(closed(tmp_path), "proxy.id: proxy-1", "proxy.id: proxy-1\nworkers: 128")

    assert len(warned(path, "only take turns")) == (len(os.sched_getaffinity(0)) < 128)


@contextmanager
def without_rights() -> Iterator[None]:
    """As a user who may not read every file."""
    user = os.geteuid()
    os.seteuid(65534 if user == 0 else user)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_file_that_cannot_be_read_is_named() -> None:
    # Not in pytest's own directory, which is closed for other users.
    with tempfile.TemporaryDirectory() as made:
        path = closed(Path(made))
        Path(made).chmod(0o755)
        (Path(made) / "proxy.key").chmod(0o644)
        (Path(made) / "secret").chmod(0)
        with without_rights():
            problems = check(path)

    assert [line.rpartition(": this user cannot read ")[2] for line in problems] == [
        f"{made}/secret: Permission denied; run chown or chmod, or check as the user of the process"
    ]


COPIED = r"RULE:^CN=(\\w+).*$/$1/"


@pytest.mark.parametrize(
    ("written_rule", "warns"), [(COPIED, True), (f"'{COPIED}'", True), (f'"{COPIED}"', False)]
)
def test_a_rule_copied_from_a_properties_file_is_warned_of(
    tmp_path: Path, written_rule: str, warns: bool
) -> None:
    path = closed(tmp_path)
    changed(path, "key: proxy.key}", f"key: proxy.key, principal.mapping.rules: {written_rule}}}")

    lines = warned(path, "if the rule is copied from server.properties")

    assert [line[:51] for line in lines] == [":7: listeners[0] > ssl > principal.mapping.rules: R"] * warns
    assert all(line.endswith(r"where \\ means \, write RULE:^CN=(\w+).*$/$1/") for line in lines)
    with capture_logs() as logged:
        report_rules(load(path, ProxyConfig))
    assert [line["log_level"] for line in logged] == ["warning"] * warns


def test_a_kerberos_rule_copied_from_a_properties_file_is_warned_of(tmp_path: Path) -> None:
    path = closed(tmp_path)
    (tmp_path / "keytab").write_bytes(b"")
    rule = r"sasl.kerberos.principal.to.local.rules: ['RULE:[1:$1](\\w+)s/x/y/']"
    changed(path, "[PLAIN]", f"[PLAIN, GSSAPI]\n    sasl.kerberos.keytab: keytab\n    {rule}")

    reasons = [reason for _, reason in warns_of_rules(load(path, ProxyConfig))]

    assert [reason.rpartition("write ")[2] for reason in reasons] == [r"RULE:[1:$1](\w+)s/x/y/"]
