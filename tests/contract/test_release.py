"""`make cut` and `make release`: what is refused, and the files of a release of a clone."""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from tests.lab.cluster.node import CHECKOUT
from tests.support.release import ReleaseError, notes_of, other_versions, semantic

pytestmark = pytest.mark.spec("O16")

VERSION = "9.8.7"
IDENTITY = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "x"), ("EMAIL", "x@acme.org"))
}


def test_the_version_is_the_same_in_all_places() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert other_versions(project["version"]) == []
    assert len(other_versions(VERSION)) == 5


@pytest.mark.parametrize(
    ("version", "written"), [("0.9.0", "0.9.0"), ("0.10.0.dev0", "0.10.0-dev.0"), ("1.0.0rc1", "1.0.0-rc.1")]
)
def test_chart_and_images_have_semantic_versions(version: str, written: str) -> None:
    assert semantic(version) == written


def test_the_notes_are_the_section_of_the_version() -> None:
    changelog = (
        "# Changelog\n\n## [Unreleased]\n\n## [1.1.0] - 2026-12-01\n\n- b\n\n## [1.0.0] - 2026-11-01\n\n- a\n"
    )

    assert notes_of("1.1.0", changelog) == "## [1.1.0] - 2026-12-01\n\n- b\n"
    assert notes_of("1.0.0", changelog) == "## [1.0.0] - 2026-11-01\n\n- a\n"
    with pytest.raises(ReleaseError, match=r"no section for 1\.0"):
        notes_of("1.0", changelog)


def made(clone: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.support.release", *words],
        cwd=clone,
        env={**os.environ, **IDENTITY, "PYTHONPATH": str(clone)},
        capture_output=True,
        text=True,
        check=False,
    )


def git(clone: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=clone, check=True, capture_output=True, text=True).stdout


@pytest.mark.long
def test_a_release_that_was_cut_has_all_its_files(tmp_path: Path) -> None:
    clone, files = tmp_path / "clone", tmp_path / "dist"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(CHECKOUT), str(clone)], check=True)
    refused = made(clone, "release", VERSION, str(files))
    assert refused.returncode == 1
    assert "pyproject.toml has" in refused.stderr
    (clone / "stray").touch()
    refused = made(clone, "cut", VERSION)
    assert "the work tree differs from its commit" in refused.stderr
    (clone / "stray").unlink()
    unreleased = notes_of("Unreleased", (clone / "CHANGELOG.md").read_text()).partition("\n")[2]

    was_cut = made(clone, "cut", VERSION)

    assert was_cut.returncode == 0, was_cut.stderr
    assert git(clone, "log", "-2", "--format=%s").splitlines() == ["Open 9.9.0.dev0", f"Release {VERSION}"]
    assert git(clone, "status", "--porcelain") == ""
    assert notes_of("Unreleased", (clone / "CHANGELOG.md").read_text()) == "## [Unreleased]\n"
    assert 'version = "9.9.0.dev0"' in (clone / "pyproject.toml").read_text()
    assert "penstock:9.9.0-dev.0" in (clone / "deploy/kubernetes/proxies.yaml").read_text()
    git(clone, "checkout", "--quiet", "HEAD~1")

    done = made(clone, "release", VERSION, str(files))

    assert done.returncode == 0, done.stderr
    wheel = files / f"penstock-{VERSION}-py3-none-any.whl"
    sdist = files / f"penstock-{VERSION}.tar.gz"
    named = sorted(file.name for file in files.iterdir())
    assert named == sorted(
        [
            wheel.name,
            sdist.name,
            f"penstock-{VERSION}.tgz",
            f"penstock-image-{VERSION}.tar.gz",
            f"penstock-{VERSION}.cdx.json",
            f"penstock-docs-{VERSION}.tar.gz",
            "RELEASE.md",
            "SHA256SUMS",
        ]
    )
    assert (files / "RELEASE.md").read_text().partition("\n")[2] == unreleased
    lines = (files / "SHA256SUMS").read_text().splitlines()
    sums = {name: value for value, name in (line.split("  ") for line in lines)}
    assert sums == {
        name: hashlib.sha256((files / name).read_bytes()).hexdigest()
        for name in named
        if name != "SHA256SUMS"
    }
    bill = json.loads((files / f"penstock-{VERSION}.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["version"] == VERSION
    assert {"aiokafka", "cryptography", "uvloop"} <= {each["name"] for each in bill["components"]}
    with tarfile.open(files / f"penstock-image-{VERSION}.tar.gz") as context:
        assert {"Dockerfile", "proxy/__main__.py", "deploy/requirements.lock"} <= set(context.getnames())
    with tarfile.open(files / f"penstock-docs-{VERSION}.tar.gz") as pages:
        assert {"./index.html", "./docs/guide/index.html", "./search/search_index.json"} <= set(
            pages.getnames()
        )
    installed = tmp_path / "installed"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(installed))
    subprocess.run([*pip, str(wheel)], check=True)
    said = subprocess.run(
        [sys.executable, "-m", "proxy", "--version"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == f"penstock {VERSION}"
    assert (installed / "proxy" / "py.typed").exists()
