"""docs/policy.md, "Prove it": its commands are run as they stand, and print what the page says."""

import re
import shlex
from pathlib import Path

import pytest

from proxy.__main__ import main

pytestmark = pytest.mark.spec("D18")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "policy.md"
RUN = re.compile(r"^```sh\n(.*?)^```\n\n^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^cat > (\S+) <<'EOF'\n(.*?)^EOF\n", re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_page_print_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8").partition("\n## Prove it\n")[2].partition("\n## ")[0]
    runs = RUN.findall(text)
    assert len(runs) == text.count("```sh\n") == 6

    for commands, expected in runs:
        for name, content in FILE.findall(commands):
            Path(name).write_text(content, encoding="utf-8")
        (line,) = FILE.sub("", commands).splitlines()
        penstock, *words = shlex.split(line)
        assert penstock == "penstock"
        main(words)

        printed = capsys.readouterr()
        assert (printed.out, printed.err) == (expected, "")
