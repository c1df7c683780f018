"""`penstock hash-password`: where the password comes from, and the line that comes out."""

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from proxy.__main__ import main
from proxy.config.reading import parse
from proxy.config.users import UsersFile
from proxy.security.passwords import verify_password

pytestmark = pytest.mark.spec("O5", "R9")

CHECKOUT = Path(__file__).resolve().parents[2]


def hashed(monkeypatch: pytest.MonkeyPatch, data: bytes, *words: str) -> int:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
    return main(["hash-password", *words])


@pytest.mark.parametrize("name", ["alice", "CN=a, O=b: c", "no", "7", "ünïcode", "#x", "'\"", "-"])
def test_the_line_of_a_user_is_one_of_a_users_file(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--", name] if name.startswith("-") else [name]
    assert hashed(monkeypatch, b"sesame\r\nignored\n", *words) == 0

    (line,) = capsys.readouterr().out.splitlines()
    users = parse(Path("users.yaml"), f"users:\n  {line}\n".encode(), UsersFile).users
    assert list(users) == [name]
    assert verify_password("sesame", str(users[name].password_hash))


def test_without_a_name_it_is_what_follows_the_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [hashed(monkeypatch, " sésame ".encode()) for _ in range(2)] == [0, 0]

    lines = capsys.readouterr().out.splitlines()
    hashes = [yaml.safe_load(line)["password.hash"] for line in lines]
    assert len(set(hashes)) == 2
    assert all(verify_password(" sésame ", each) for each in hashes)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no password"),
        (b"\n", "no password"),
        (b"\r\nsecond\n", "no password"),
        (b"\xff\n", "not UTF-8"),
    ],
)
def test_without_a_usable_password_it_fails(
    data: bytes, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hashed(monkeypatch, data) == 2

    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("penstock hash-password: ")
    assert says in told.err


def at_a_terminal(*typed: bytes) -> tuple[int, bytes, str]:
    """Exit code, what the terminal shows, and standard output."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "proxy", "hash-password"],
        cwd=CHECKOUT,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(theirs), os.O_RDWR)),  # Its controlling terminal.
    )
    os.close(theirs)
    shown = b""
    for line in typed:
        # getpass switches the echo off, and drops what was typed before, when it prompts.
        while not shown.endswith(b"assword: "):
            shown += os.read(ours, 1_000)
        shown += b"|"
        os.write(ours, line)
    output, _ = process.communicate(timeout=60)
    while True:
        try:
            shown += os.read(ours, 1_000)
        except OSError:  # No process has the terminal open any more.
            os.close(ours)
            return process.returncode, shown, output.decode()


def test_at_a_terminal_it_prompts_twice_without_an_echo() -> None:
    code, shown, output = at_a_terminal(b"sesame\n", b"sesame\n")

    assert (code, shown.split()) == (0, b"Password: | Repeat the password: |".split())
    assert verify_password("sesame", yaml.safe_load(output)["password.hash"])


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ((b"sesame\n", b"sesam\n"), b"the passwords differ"),
        ((b"\n", b"\n"), b"no password"),
        ((b"\x04",), b"no password"),
    ],
)
def test_at_a_terminal_it_fails_without_a_password_or_with_two(typed: tuple[bytes, ...], says: bytes) -> None:
    code, shown, output = at_a_terminal(*typed)

    assert (code, output) == (2, "")
    assert says in shown
