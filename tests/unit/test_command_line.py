"""The command line: what it is, where its documentation is, and what to install for the rest of it."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import cast

import pytest

from proxy.__main__ import _RUN, main
from proxy.commands.check import checked, checked_users, compared
from proxy.commands.init import Wanted, write_examples

CHECKOUT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.spec("O5")


def test_it_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert (ended.value.code, capsys.readouterr().out) == (0, f"penstock {version('penstock')}\n")


def test_help_names_a_documentation_that_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    words = " ".join(capsys.readouterr().out.split())
    place = Path(words.partition("The documentation is in ")[2].removesuffix("."))
    assert place.is_absolute()
    assert (place / "docs" / "configuration.md").is_file()


@pytest.mark.parametrize(
    ("words", "package", "module", "extra"),
    [
        (["audit", "report"], "py4j", "spark_audit.__main__", "spark"),
        (["audit", "--help"], "pyspark", "spark_audit.__main__", "spark"),
    ],
)
def test_a_missing_extra_is_named(
    words: list[str],
    package: str,
    module: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = module.partition(".__main__")[0]
    for name in [name for name in sys.modules if f"{name}.".startswith((f"{root}.", f"{package}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)

    assert main(words) == 2

    told = capsys.readouterr().err
    assert told.endswith(f"pip install '.[{extra}]' in a checkout\n")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("environment", "what_to_do"),
    [
        ({}, "run pip install '.[spark]' in a checkout"),
        (
            {"PYSPARK_GATEWAY_PORT": "1"},
            "pass --packages as deploy/spark/README.md says, and run pip install",
        ),
    ],
    ids=["alone", "under spark-submit"],
)
def test_a_job_without_its_packages_ends_with_code_2(environment: dict[str, str], what_to_do: str) -> None:
    """Code 1 would say that there are findings."""
    file = CHECKOUT / "spark_audit" / "__main__.py"
    program = f"import runpy, sys; sys.modules['delta'] = None; runpy.run_path('{file}', run_name='__main__')"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )

    [line] = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout) == (2, "")
    assert line.startswith("penstock audit: No module named 'delta")
    assert what_to_do in line


def run_with_output(output: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    with open(output, "w", encoding="utf-8") as file:
        return subprocess.run(
            [sys.executable, "-m", "proxy", *words],
            env=os.environ | environment,
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )


@pytest.mark.parametrize("words", [["completion", "bash"], ["--help"], ["check", "--help"]])
def test_a_full_disk_is_one_sentence_and_an_exit_code_of_its_own(words: list[str]) -> None:
    ended = run_with_output("/dev/full", *words)

    assert (ended.returncode, ended.stderr) == (
        120,
        f"penstock {words[0]}: not all was printed: standard output: No space left on device\n",
    )


def test_a_reader_that_has_enough_gets_no_complaint() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = run_with_output(f"/proc/self/fd/{writer}", "completion", "bash")
    os.close(writer)

    assert (ended.returncode, ended.stderr) == (120, "")


def test_an_encoding_without_a_character_is_said(tmp_path: Path) -> None:
    path = tmp_path / "ü.yaml"
    write_examples(Wanted(tmp_path, "sidecar"))
    (tmp_path / "proxy.yaml").rename(path)

    ended = run_with_output(str(tmp_path / "out"), "check", "-c", str(path), PYTHONIOENCODING="ascii")

    assert ended.returncode == 120
    assert ended.stderr.splitlines()[-1] == (
        "penstock check: not all was printed: standard output: its encoding is ascii, which lacks '\\xfc';"
        " set LC_ALL=C.UTF-8"
    )


@pytest.mark.parametrize(
    ("error", "exit_code", "said"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (RecursionError("too deep\nby far"), 2, "unexpected RecursionError: too deep by far"),
    ],
)
def test_whatever_ends_a_command_is_one_sentence_and_no_outcome(
    error: BaseException,
    exit_code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 1 would say that two policies differ."""

    def fail(_: object) -> int:
        raise error

    monkeypatch.setitem(cast("dict[str, object]", _RUN), "policy", fail)

    assert main(["policy", "useless", "topic"]) == exit_code
    assert capsys.readouterr().err == f"penstock policy: {said}\n"


@pytest.mark.parametrize("words", [["--log", "topic"], ["--listener", "SASL_SSL"], ["--questions", "FILE"]])
def test_a_check_that_would_not_be_made_is_an_error(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_examples(Wanted(tmp_path, "sidecar"))

    assert main(["check", "-c", str(tmp_path / "proxy.yaml"), *words]) == 2
    assert capsys.readouterr().err.startswith(f"penstock check: {words[0]} goes with --")


@pytest.mark.parametrize("host", ["", "kafka 1", "a/b", "http://a", "a:b", "ünï.example", "a\nb"])
def test_init_writes_nothing_for_a_host_that_has_no_such_name(
    host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--dir", str(tmp_path / "new"), "--host", host]) == 2
    assert capsys.readouterr().err.startswith(f"penstock init: --host {host}: ")
    assert not (tmp_path / "new").exists()


def test_files_of_one_machine_are_compared(tmp_path: Path) -> None:
    write_examples(Wanted(tmp_path, "sidecar"))
    one, two = tmp_path / "proxy.yaml", tmp_path / "two.yaml"
    # Copied, and only the id was changed.
    two.write_text(one.read_text().replace("proxy.id: proxy-1", "proxy.id: proxy-2"))

    assert compared([checked(one), checked(two)]) == [
        f"{two}: audit > spool.dir: {tmp_path / 'spool' / 'proxy'} is also in {one}; each process needs"
        " its own",
        f"{two}: listeners: 0.0.0.0:9093: {one} > listeners[0] > bind (0.0.0.0:9093) has the same port; use"
        " another one",
        f"{two}: http: 127.0.0.1:9190: {one} > http > bind (127.0.0.1:9190) has the same port; use"
        " another one",
    ]


def test_a_users_file_is_checked_by_itself(tmp_path: Path) -> None:
    users, secret = tmp_path / "users.yaml", tmp_path / "alice.password"
    users.write_text("users:\n  alice: {password.file: alice.password}\n", encoding="utf-8")

    (missing,) = checked_users(users).problems
    assert missing.startswith(f"{users}:2: users > alice > password.file: ")

    secret.write_text("", encoding="utf-8")
    secret.chmod(0o600)
    assert checked_users(users).problems == [f"{secret}: the file is empty; write a password into it"]

    secret.write_text("long enough", encoding="utf-8")
    assert checked_users(users).problems == []


@pytest.mark.parametrize("text", ["users: {}\n", "users:\n  alice: {password.file: alice.password}\n"])
def test_a_users_file_given_as_a_configuration_is_known_as_one(tmp_path: Path, text: str) -> None:
    users = tmp_path / "users.yaml"
    users.write_text(text, encoding="utf-8")

    hint = f"{users}: this is a users file; write: penstock check --users {users}"
    assert checked(users).problems == [hint]

    users.write_text(text + "proxy.id: proxy-1\n", encoding="utf-8")
    assert hint not in checked(users).problems


@pytest.mark.slow
def test_init_and_check_lead_from_nothing_to_two_files_that_are_right(tmp_path: Path) -> None:
    began = penstock("init", "--dir", str(tmp_path))
    files = [str(tmp_path / name) for name in ("proxy.yaml", "controller.yaml")]
    told = next(line for line in began.stdout.splitlines() if "penstock check" in line)
    done = penstock(*told.partition("penstock ")[2].split())

    assert (began.returncode, done.returncode) == (0, 0), began.stderr + done.stderr
    assert done.stdout.splitlines() == [f"{path}: ok" for path in files]

    users = str(tmp_path / "users.yaml")
    as_json = json.loads(penstock("check", "--users", users, "--json").stdout)
    assert (as_json["ok"], as_json["errors"], as_json["results"]) == (True, [], [f"{users}: ok"])
    alone, nothing = penstock("check", "--users", users), penstock("check")
    assert (alone.returncode, alone.stdout) == (0, f"{users}: ok\n")
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert "-c" in nothing.stderr

    (tmp_path / "users.yaml").write_text("users: {}\n")
    refused = penstock("init", "--dir", str(tmp_path))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("penstock init: these files exist with other content: ")


def penstock(*words: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: the command line sets logging up for good."""
    command = [sys.executable, "-m", "proxy", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=CHECKOUT)
