"""What `penstock check` warns of: what this machine cannot give a right file, and what is unwise."""

import grp
import os
import socket
import tempfile
from pathlib import Path

import pytest
import yaml

from proxy.commands.check import check, checked
from proxy.net.audit.spool_lock import Holder, lock_spool
from proxy.security.passwords import hash_password
from tests.unit.config.test_ten_mistakes import FILE, written

pytestmark = pytest.mark.spec("O5")


def closed(directory: Path) -> Path:
    """The file, with a key and a password that only their owner can read."""
    path = written(directory, FILE.replace("127.0.0.1:19092", "127.0.0.1:0").replace(":9190", ":0"))
    for name in ("proxy.key", "secret"):
        (directory / name).chmod(0o600)
    return path


def warned(path: Path, about: str) -> list[str]:
    """The warnings in which that stands, without the file."""
    found = checked(path)
    assert found.problems == []
    return [line.removeprefix(str(path)) for line in found.warnings if about in line]


def changed(path: Path, old: str, new: str) -> Path:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    return path


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_in_use_is_warned_of(tmp_path: Path, host: str) -> None:
    path = closed(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        changed(path, 'http: {bind: "127.0.0.1:0"}', f"http: {{bind: '{host}:{port}'}}")

        assert warned(path, "cannot listen") == [
            f":13: http > bind: cannot listen on {host}:{port}: the port is in use; choose another one, or"
            " stop the process that has it"
        ]


def test_an_address_of_another_machine_is_warned_of(tmp_path: Path) -> None:
    path = changed(closed(tmp_path), "bind: 127.0.0.1:0\n", "bind: 192.0.2.1:9093\n")

    assert warned(path, "cannot listen") == [
        ":4: listeners[0] > bind: cannot listen on 192.0.2.1:9093: no network interface of this machine has"
        " that address"
    ]


def test_a_name_that_workers_have_is_warned_of(tmp_path: Path) -> None:
    path = changed(closed(tmp_path), "proxy.id: proxy-1", "proxy.id: proxy-1.w0")

    assert warned(path, "proxy-1.w0") == [
        ":1: proxy.id: proxy-1.w0: names that end in .w and a number belong to workers; use another name"
    ]


@pytest.mark.parametrize(
    ("bind", "told"), [("0.0.0.0:0", True), ("10.0.0.1:0", True), ("127.0.0.1:0", False), ("[::1]:0", False)]
)
def test_logins_without_tls_where_others_can_listen_are_warned_of(
    tmp_path: Path, bind: str, told: bool
) -> None:
    path = changed(closed(tmp_path), "bind: 127.0.0.1:0\n", f'bind: "{bind}"\n    advertised: here:9\n')
    changed(path, "security.protocol: SASL_SSL", "security.protocol: SASL_PLAINTEXT")

    expected = (
        f":6: listeners[0] > security.protocol: logins (PLAIN) at {bind} are not encrypted; write SASL_SSL"
    )
    assert [line.startswith(expected) for line in warned(path, "not encrypted")] == [True] * told


@pytest.mark.parametrize("name", ["proxy.key", "secret"])
def test_a_secret_that_everybody_can_read_is_warned_of(name: str) -> None:
    # Not in pytest's own directory: it is closed, and so nobody would get as far as the file.
    with tempfile.TemporaryDirectory() as made:
        path = closed(Path(made))
        secret = Path(made) / name
        secret.chmod(0o644)
        assert warned(path, "every user") == [], "the directory is closed"

        Path(made).chmod(0o755)
        (line,) = warned(path, "every user")

        told = f"every user of this machine can read {secret}; run chmod go-rwx {secret}"
        assert line.endswith(told)


@pytest.mark.parametrize("name", ["proxy.key", "secret", "users.yaml"])
def test_a_secret_that_a_group_can_read_is_warned_of(name: str) -> None:
    with tempfile.TemporaryDirectory() as made:
        path = closed(Path(made))
        secret, group = Path(made) / name, grp.getgrgid(os.getegid()).gr_name
        if name == "users.yaml":
            Path(made).chmod(0o755)
            assert warned(path, "can read") == [], "it only names files"
            Path(made).chmod(0o700)
            hashed = hash_password("guessable", bytes(16))
            secret.write_text(f"users: {{admin: {{password.hash: '{hashed}'}}}}\n")
        secret.chmod(0o640)
        assert warned(path, "can read") == [], "the directory is closed"

        Path(made).chmod(0o750)
        (line,) = warned(path, "can read")
        assert line.endswith(f"the group {group} can read {secret}; run chmod go-rwx {secret}")

        secret.chmod(0o600)
        assert warned(path, "can read") == []


def test_a_file_of_another_user_is_read_through_its_group() -> None:
    """As Kubernetes mounts secrets with fsGroup, and as the unit for systemd wants it."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    with tempfile.TemporaryDirectory() as made:
        path = closed(Path(made))
        secret = Path(made) / "secret"
        Path(made).chmod(0o755)
        for owner, group, mode, told in (
            (65532, 65532, 0o640, []),
            (0, 10001, 0o440, []),
            (0, 10001, 0o444, ["chmod o-rwx"]),
            (0, 0, 0o640, ["chmod go-rwx"]),
        ):
            os.chown(secret, owner, group)
            secret.chmod(mode)
            advice = [line.rpartition("run ")[2] for line in warned(path, "can read")]
            assert advice == [f"{command} {secret}" for command in told]


def test_a_token_file_is_a_secret_too() -> None:
    with tempfile.TemporaryDirectory() as made:
        path = closed(Path(made))
        (token := Path(made) / "token").write_text("a.b.c")
        sasl = f"{{mechanism: OAUTHBEARER, oauthbearer.token.endpoint.url: 'file:{token}'}}"
        upstream = f"upstream: {{bootstrap: '127.0.0.1:9', security.protocol: SASL_PLAINTEXT, sasl: {sasl}}}"
        lines = [line for line in path.read_text().splitlines() if not line.startswith("upstream")]
        path.write_text("\n".join([*lines, upstream, ""]))
        Path(made).chmod(0o755)
        token.chmod(0o604)

        (line,) = warned(path, "can read")

        assert "upstream > sasl > oauthbearer.token.endpoint.url: every user of this machine can read" in line


def test_a_directory_that_cannot_be_made_is_warned_of(tmp_path: Path) -> None:
    path = changed(closed(tmp_path), "spool.dir: spool", "spool.dir: /proc/spool")

    assert warned(path, "spool") == [
        ":12: audit > spool.dir: this user cannot create /proc/spool: /proc: No such file or directory"
    ]


@pytest.mark.parametrize(
    ("role", "name", "told"),
    [
        ("proxy", "proxy-1", False),
        ("supervisor", "proxy-1", False),
        ("proxy", "proxy-2", True),
        ("controller", "proxy-1", True),
    ],
)
def test_a_spool_that_another_process_used_last_is_warned_of(
    tmp_path: Path, role: str, name: str, told: bool
) -> None:
    path, spool = closed(tmp_path), tmp_path / "spool"
    holder = Holder.this_process(role, name, None)
    lock = lock_spool(spool, holder)
    assert warned(path, "was last used") == [], "the lock says who uses it now"
    lock.close()

    expected = (
        f":12: audit > spool.dir: {spool} was last used by {holder.description()}; give each process a"
        " directory of its own, unless proxy-1 is its new name: records that are left there are delivered"
        " under the old one"
    )
    assert warned(path, "was last used") == [expected] * told


def test_a_directory_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    path = changed(closed(tmp_path), "spool.dir: spool", "spool.dir: secret/spool")

    assert check(path) == [f"{path}:12: audit > spool.dir: {tmp_path / 'secret'} is a file; name a directory"]


def test_looking_leaves_nothing_behind(tmp_path: Path) -> None:
    path = closed(tmp_path)
    before = sorted(os.listdir(tmp_path))

    assert warned(path, "spool") == []

    assert sorted(os.listdir(tmp_path)) == before


def test_an_older_spelling_is_warned_of(tmp_path: Path) -> None:
    path = changed(closed(tmp_path), "{class.name:", "{authorizer.class.name:")

    assert warned(path, "no longer repeat") == [
        ":11: authorizer > authorizer.class.name: write class.name: keys no longer repeat the name of their"
        " section"
    ]


def test_a_users_file_and_its_lines_are_named(tmp_path: Path) -> None:
    path = closed(tmp_path)
    (tmp_path / "users.yaml").write_text(yaml.safe_dump({"users": {"amy": {"pasword.file": "secret"}}}))

    assert check(path) == [
        f"{tmp_path / 'users.yaml'}:3: users > amy > pasword.file: unknown key; did you mean password.file?"
    ]
