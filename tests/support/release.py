"""Makes the files of a release: `make release VERSION=0.9.0` writes them to dist/.

wheel and sdist, the chart as a package, the context of the image, a bill of materials of what the image
installs (CycloneDX), the notes from CHANGELOG.md, and the checksums of all of these. The version stands in
pyproject.toml and in the chart; a release of anything else than what is committed is rejected.
"""

import hashlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from tests.lab.cluster.node import CHECKOUT
from tests.support.helm import helm

SBOM_TOOL = "cyclonedx-bom==7.5.0"
"""Run by uv in an environment of its own, since nothing else needs it."""
IMAGE_CONTEXT = (
    "Dockerfile",
    "pyproject.toml",
    "setup.py",
    "README.md",
    "LICENSE",
    "deploy/requirements.lock",
)
PACKAGES = ("proxy", "forwarding", "spark_audit")


class ReleaseError(Exception):
    """The release cannot be made; the message says what to do."""


def main(version: str, directory: Path) -> None:
    """Write all files of the release into the directory, which is made."""
    _require_release(version)
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise ReleaseError(f"{directory} is not empty; remove what is in it")
    notes = notes_of(version, (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8"))
    (directory / "RELEASE.md").write_text(notes, encoding="utf-8")
    commit_s = _output("git", "log", "-1", "--format=%ct").strip()
    uv = str(Path(sys.executable).with_name("uv"))
    # The times in the archives are that of the commit, so that two releases of it are equal.
    _run(uv, "build", "--quiet", "--out-dir", str(directory), SOURCE_DATE_EPOCH=commit_s)
    (directory / ".gitignore").unlink(missing_ok=True)
    _run(str(helm()), "package", str(CHECKOUT / "deploy/helm/penstock"), "--destination", str(directory))
    context = directory / f"penstock-image-{version}.tar.gz"
    _run("git", "archive", f"--output={context}", "HEAD", *IMAGE_CONTEXT, *PACKAGES)
    bill = directory / f"penstock-{version}.cdx.json"
    tool = ("tool", "run", "--quiet", "--from", SBOM_TOOL, "cyclonedx-py")
    options = ("--output-reproducible", "--pyproject", "pyproject.toml", "--output-file", str(bill))
    _run(uv, *tool, "requirements", *options, "deploy/requirements.lock")
    sums = [f"{_sha256(file)}  {file.name}\n" for file in sorted(directory.iterdir())]
    (directory / "SHA256SUMS").write_text("".join(sums))


def notes_of(version: str, changelog: str) -> str:
    """Return the section of the changelog about this version. ReleaseError without one."""
    found = re.search(rf"^## \[{re.escape(version)}\].*?(?=^## \[|\Z)", changelog, re.M | re.S)
    if found is None:
        raise ReleaseError(
            f"CHANGELOG.md has no section for {version};"
            f" write `## [{version}] - DATE` below `## [Unreleased]`"
        )
    return found[0].rstrip() + "\n"


def _require_release(version: str) -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    chart = yaml.safe_load((CHECKOUT / "deploy/helm/penstock/Chart.yaml").read_text(encoding="utf-8"))
    for where, named in (
        ("version in pyproject.toml", project),
        ("version in Chart.yaml", chart["version"]),
        ("appVersion in Chart.yaml", chart["appVersion"]),
    ):
        if named != version:
            raise ReleaseError(f"{where} is {named}; write {version}, and commit it")
    if changed := _output("git", "status", "--porcelain").strip():
        raise ReleaseError(f"the work tree differs from its commit; commit or remove:\n{changed}")


def _run(*command: str, **environment: str) -> None:
    subprocess.run(command, cwd=CHECKOUT, check=True, env={**os.environ, **environment})


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]))
    except ReleaseError as error:
        sys.exit(f"make release: {error}")
