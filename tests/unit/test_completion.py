"""`penstock completion`: scripts that shells can read, and that know every command and option."""

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.lab.cluster.node import CHECKOUT

pytestmark = pytest.mark.spec("O2")

COMPLETE = """
source "$1"
COMP_WORDS=({words}) COMP_CWORD={last}
_shtab_penstock
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@cache
def script(shell: str) -> str:
    command = (sys.executable, "-m", "proxy", "completion", shell)
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("penstock rel", ["reload"]),
        ("penstock audit recon", ["reconcile"]),
        ("penstock check --conn", ["--connect"]),
        ("penstock completion f", ["fish"]),
    ],
)
def test_bash_completes_commands_and_options(words: str, found: list[str], tmp_path: Path) -> None:
    file = tmp_path / "penstock.bash"
    file.write_text(script("bash"))
    commands = COMPLETE.format(words=words, last=len(words.split()) - 1)

    done = subprocess.run(
        ["bash", "-c", commands, "bash", str(file)], capture_output=True, text=True, check=True
    )

    assert done.stderr == ""
    assert [word.strip() for word in done.stdout.splitlines()] == found


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_command_and_can_read_the_script(shell: str, tmp_path: Path) -> None:
    text = script(shell)

    assert all(word in text for word in ("reload", "hash-password", "reconcile", "least-privilege"))
    if shutil.which(shell) is not None:
        file = tmp_path / "penstock"
        file.write_text(text)
        subprocess.run([shell, "-n", file], check=True)
