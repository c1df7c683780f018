"""The man page is what the parsers say, and groff can read it."""

import shutil
import subprocess

import pytest

from tests.support.man_page import PAGE, man_page

pytestmark = pytest.mark.spec("O15")


def test_the_page_is_that_of_the_parsers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_CONFIG", raising=False)

    assert PAGE.read_text(encoding="utf-8") == man_page(), "run python -m tests.support.man_page"
    for heading in (".SS penstock apply\n", ".SS penstock policy diff\n", ".SS penstock acl\n"):
        assert heading in man_page()


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_groff_reads_it_without_a_warning() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww", "-P-cbou", str(PAGE)], capture_output=True, text=True, check=True
    )

    assert done.stderr == ""
    assert "--expect-state STATE" in done.stdout
