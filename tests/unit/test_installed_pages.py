"""The documentation of a wheel: its pages lead only to files that are installed with them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[[^]]*\]\((?!\w+:)(?P<path>[^)#]*)(#(?P<anchor>[^)]*))?\)")
BUILD = "from setuptools.build_meta import build_wheel; print(build_wheel('.'))"

pytestmark = pytest.mark.spec("O5")


@pytest.fixture(scope="module")
def documentation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """share/doc/penstock of a wheel, which is built without the packages."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    for name in ("pyproject.toml", "setup.py", "LICENSE", *(page.name for page in ROOT.glob("*.md"))):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "docs", source / "docs")
    subprocess.run([sys.executable, "-W", "ignore", "-c", BUILD], cwd=source, check=True, capture_output=True)
    (wheel,) = source.glob("*.whl")
    with ZipFile(wheel) as files:
        files.extractall(target)
    (found,) = target.glob("penstock-*.data/data/share/doc/penstock")
    return found


def pages(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.md"))


def test_every_page_is_installed(documentation: Path) -> None:
    ours = {page.relative_to(ROOT) for page in [*ROOT.glob("*.md"), *pages(ROOT / "docs")]}

    assert {page.relative_to(documentation) for page in pages(documentation)} == ours
    assert (documentation / "docs" / "pictures" / "overview.svg").is_file()
    assert (documentation.parents[1] / "man" / "man1" / "penstock.1").is_file()


def test_every_link_of_an_installed_page_leads_to_an_installed_file(documentation: Path) -> None:
    links = [
        (page, link["path"])
        for page in pages(documentation)
        for link in LINK.finditer(page.read_text(encoding="utf-8"))
        if link["path"]
    ]
    targets = [(page, path, Path(os.path.normpath(page.parent / path))) for page, path in links]

    assert [
        f"{page.relative_to(documentation)}: {path}"
        for page, path, target in targets
        if not (target.exists() and target.is_relative_to(documentation))
    ] == []


def test_a_link_that_is_cut_leaves_its_text_and_the_others_stay(documentation: Path) -> None:
    before, after = ((place / "docs" / "configuration.md").read_text() for place in (ROOT, documentation))

    assert "[commented example files](../proxy/examples/)" in before
    assert "[commented example files]" not in after
    assert "commented example files" in after
    assert "[the chain](audit.md#the-chain)" in after
    assert [LINK.sub("", line) for line in before.splitlines() if "](../" not in line] == [
        LINK.sub("", line)
        for line, old in zip(after.splitlines(), before.splitlines(), strict=True)
        if "](../" not in old
    ]
