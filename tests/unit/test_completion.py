"""`penstock completion`: scripts that shells can read, and that know every command and option."""

import shutil
import subprocess
from pathlib import Path

import pytest

from proxy.__main__ import main

pytestmark = pytest.mark.spec("O2")

COMPLETE = """
source "$1"
COMP_WORDS=({words}) COMP_CWORD={last}
_shtab_penstock
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("penstock rel", ["reload"]),
        ("penstock audit recon", ["reconcile"]),
        ("penstock check --conn", ["--connect"]),
        ("penstock completion f", ["fish"]),
    ],
)
def test_bash_completes_commands_and_options(
    words: str, found: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "penstock.bash"
    file.write_text(script("bash", capsys))
    commands = COMPLETE.format(words=words, last=len(words.split()) - 1)

    done = subprocess.run(
        ["bash", "-c", commands, "bash", str(file)], capture_output=True, text=True, check=True
    )

    assert done.stderr == ""
    assert [word.strip() for word in done.stdout.splitlines()] == found


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_command_and_can_read_the_script(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = script(shell, capsys)

    assert all(word in text for word in ("reload", "hash-password", "reconcile", "least-privilege"))
    if shutil.which(shell) is not None:
        file = tmp_path / "penstock"
        file.write_text(text)
        subprocess.run([shell, "-n", file], check=True)
