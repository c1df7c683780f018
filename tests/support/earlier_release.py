"""Code of earlier commits beside the tree's, for tests of upgrades: from git, without a download."""

import io
import os
import re
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.cluster.node import CHECKOUT

_PACKAGED = (
    "pyproject.toml",
    "setup.py",
    "README.md",
    "LICENSE",
    "docs",
    "proxy",
    "forwarding",
    "spark_audit",
)


@dataclass(frozen=True, slots=True)
class Release:
    version: str
    commit: str


def last_release() -> Release:
    """Return the last release before this commit, which `make cut` made. Skips the test if there is none."""
    words = ("log", "-1", "--extended-regexp", "--grep=^Release [0-9.]+$", "--format=%H %s", "HEAD^")
    found = re.fullmatch(r"(\w+) Release ([0-9.]+)\n", _git(*words).decode())
    if found is None:
        pytest.skip("no commit `Release X.Y.Z` before this one: the first release, or a shallow clone")
    return Release(found[2], found[1])


def extracted(commit: str, directory: Path, *paths: str) -> Path:
    """Write these paths of the commit into the directory."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit, *paths))) as files:
        files.extractall(directory, filter="data")
    return directory


def installed(release: Release, directory: Path) -> Path:
    """Build the release's wheel, and install it into a directory for PYTHONPATH.

    Its dependencies are those of this interpreter, so nothing is downloaded.
    """
    source = extracted(release.commit, directory / "source", *_PACKAGED)
    target = directory / "installed"
    install(source, target)
    return target


def install(source: Path, target: Path) -> None:
    """Build the wheel of a source tree, and install it into a directory, without its dependencies."""
    pip = (
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    )
    subprocess.run([*pip, "--target", str(target), str(source)], check=True)


def code_of(directory: Path) -> dict[str, str]:
    """Return the variables with which a process runs the code in that directory."""
    return {"PYTHONPATH": str(directory), "PYTHONSAFEPATH": "1"}


def audit_with(code: Path, *arguments: str) -> str:
    """Run `penstock audit` with the code in that directory, and return all it printed."""
    ran = subprocess.run(
        [sys.executable, "-m", "spark_audit", *arguments],
        env={**os.environ, **code_of(code)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=CHECKOUT, check=True, capture_output=True).stdout
