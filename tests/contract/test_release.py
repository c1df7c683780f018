"""`make release`: what is refused, and the files of a release of a clone with a made-up version."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.lab.cluster.node import CHECKOUT
from tests.support.release import ReleaseError, notes_of

pytestmark = pytest.mark.spec("O16")

VERSION = "9.8.7"


def test_the_notes_are_the_section_of_the_version() -> None:
    changelog = (
        "# Changelog\n\n## [Unreleased]\n\n## [1.1.0] - 2026-12-01\n\n- b\n\n## [1.0.0] - 2026-11-01\n\n- a\n"
    )

    assert notes_of("1.1.0", changelog) == "## [1.1.0] - 2026-12-01\n\n- b\n"
    assert notes_of("1.0.0", changelog) == "## [1.0.0] - 2026-11-01\n\n- a\n"
    with pytest.raises(ReleaseError, match=r"no section for 1\.0"):
        notes_of("1.0", changelog)


def git(clone: Path, *words: str) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@acme.org")
    subprocess.run(["git", *identity, *words], cwd=clone, check=True, capture_output=True)


def release(clone: Path, version: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.support.release", version, str(clone.parent / "dist")],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": str(clone)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
def test_a_release_has_all_its_files(tmp_path: Path) -> None:
    clone, files = tmp_path / "clone", tmp_path / "dist"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(CHECKOUT), str(clone)], check=True)
    refused = release(clone, VERSION)
    assert refused.returncode == 1
    assert "version in pyproject.toml is" in refused.stderr
    versions = re.compile(r'^(version = "|(?:appV|v)ersion: )[0-9.]+', re.M)
    for name in ("pyproject.toml", "deploy/helm/penstock/Chart.yaml"):
        file = clone / name
        file.write_text(versions.sub(rf"\g<1>{VERSION}", file.read_text()))
    changelog = clone / "CHANGELOG.md"
    text = changelog.read_text()
    changelog.write_text(
        text.replace("## [Unreleased]\n", f"## [Unreleased]\n\n## [{VERSION}] - 2026-12-01\n", 1)
    )
    refused = release(clone, VERSION)
    assert "the work tree differs from its commit" in refused.stderr
    git(clone, "commit", "--quiet", "--all", "--message", "Release")

    done = release(clone, VERSION)

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
            "RELEASE.md",
            "SHA256SUMS",
        ]
    )
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
